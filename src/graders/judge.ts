// A judge: a chat model that is asked in the course of grading, and answers in a form that is checked. Structured output where the
// server has it; the answer is checked in any case, and asked for again when it cannot be used. Answers may come from a file of
// earlier ones, by the digest of the question: then nothing is paid twice, and without a model a run is played again.

import {
  type CallLimits,
  type ChatModel,
  type ChatModelOptions,
  type ChatReply,
  createChatModel,
  createModelCaller,
  modelFailure,
  UsageMeter,
} from "../chat-models/index.ts";
import {
  type Attempt,
  attribute,
  AttributedError,
  freeUsage,
  type Judge,
  messageOf,
  type Question,
} from "../core/index.ts";
import { digestOf } from "../rollout/index.ts";
import type { JudgeCache } from "./judge-cache.ts";

export type JudgeModelOptions = ChatModelOptions &
  CallLimits & {
    /** Answers of earlier calls; new ones are added. Default: every question is asked. */
    readonly cache?: JudgeCache;
    /** A model of your own, instead of `model`, `url` and `provider`. */
    readonly chat?: ChatModel;
  };

const longestExcerpt = 500;

/**
 * A judge by its model. Samples at temperature 0 unless `sampling` is given. An answer that cannot be used is asked for once
 * more (`maxReasks`), and then is a failure with code "malformed-reply". Throws a `ConfigurationError` for settings that cannot
 * work, before any call.
 *
 * @example
 * const judge = createJudge({ url: "http://127.0.0.1:8000/v1", model: "Qwen/Qwen3-32B" });
 */
export function createJudge({ cache, ...options }: JudgeModelOptions): Judge {
  const sampling = options.sampling ?? { temperature: 0 };
  const chat = options.chat ?? createChatModel({ part: "judge", title: "the judge" }, { ...options, sampling });
  const caller = createModelCaller(chat, "judge", { maxReasks: 1, ...options });
  /** Some servers refuse a request with a `response_format`. */
  let hasFormat: boolean | null = null;

  return {
    model: chat.name,
    ask: async (question, { signal }) => {
      const digest = digestOf(question);
      const facts = { grader: question.grader, model: chat.name, digest };
      const known = cache?.find(digest, chat.name) ?? null;
      if (known !== null && isReadable(question, known.answer)) {
        return { ...facts, answer: known.answer, usage: freeUsage, attempts: [], isCached: true, failure: null };
      }
      const meter = new UsageMeter();
      const attempts: Attempt[] = [];
      const ask = (format: { readonly name: string; readonly schema: object } | null): Promise<string> =>
        caller.ask(question.messages, (reply) => usableText(question, reply), {
          ...{ format, signal, meter: meter.add },
          onRetry: (attempt) => attempts.push(attempt),
        });
      const { schema } = question;
      const format = schema === null || hasFormat === false ? null : { name: "verdict", schema };
      try {
        let answer: string;
        try {
          answer = await ask(format);
          if (format !== null) hasFormat = true;
        } catch (error) {
          if (format === null || hasFormat !== null || !isBadRequest(error)) throw error;
          answer = await ask(null);
          hasFormat = false;
        }
        const usage = meter.total();
        await cache?.store({ ...facts, answer, usage });
        return { ...facts, answer, usage, attempts, isCached: false, failure: null };
      } catch (error) {
        signal.throwIfAborted();
        const { failure } = attribute(error, "grader");
        return { ...facts, answer: null, usage: meter.total(), attempts, isCached: false, failure };
      }
    },
  };
}

/** Answers from earlier calls alone, with what they cost then: a run with it is the run that made them. Another question fails. */
export function replayingJudge(cache: JudgeCache): Judge {
  return {
    model: "replay",
    ask: async (question, { signal }) => {
      signal.throwIfAborted();
      const digest = digestOf(question);
      const known = cache.find(digest, null);
      if (known !== null && isReadable(question, known.answer)) {
        const { model, answer, usage } = known;
        return { grader: question.grader, model, digest, answer, usage, attempts: [], isCached: false, failure: null };
      }
      const { failure } = modelFailure("judge", "malformed-reply", {
        message:
          `Cannot replay the judge for "${question.grader}": the file has ${known === null ? "no answer to" : "an unusable answer to"} question ` +
          `${digest.slice(0, 12)}; name a model with --judge-model, or run with the settings and the seed of the recording.`,
      });
      const facts = { grader: question.grader, model: "replay", digest, answer: null, usage: freeUsage };
      return { ...facts, attempts: [], isCached: false, failure: { ...failure, code: "replay-mismatch" } };
    },
  };
}

function isReadable(question: Question<unknown>, answer: string): boolean {
  try {
    question.read(answer);
    return true;
  } catch {
    return false;
  }
}

function isBadRequest(error: unknown): boolean {
  return error instanceof AttributedError && error.failure.code === "bad-request";
}

/** The text, when the question can be answered by it. */
function usableText(question: Question<unknown>, { text, isCutOff }: ChatReply): string {
  const refuse = (code: "empty-reply" | "malformed-reply", problem: string) =>
    modelFailure("judge", code, {
      message: `Cannot grade by "${question.grader}": ${problem}.`,
      cause: text.slice(0, longestExcerpt),
    });
  if (text.trim() === "") throw refuse("empty-reply", "the judge said nothing");
  try {
    question.read(text);
    return text;
  } catch (error) {
    throw refuse("malformed-reply", `${messageOf(error)}${isCutOff ? " (it was cut off)" : ""}`);
  }
}
