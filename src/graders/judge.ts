// A judge: a chat model that answers questions during grading, in a checked format. Structured
// output is used if the server has it; the answer is checked in any case, and requested again if it
// is unusable. Answers may come from a file of earlier ones, by the digest of the question: then no
// question is paid for twice, and a run can be replayed without a model.

import { appendFile, truncate } from "node:fs/promises";

import { z } from "zod";
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
  ConfigurationError,
  faultAt,
  freeUsage,
  type Judge,
  type Judgement,
  messageOf,
  type Question,
} from "../core/index.ts";
import { digestOf } from "../rollout/index.ts";
import { readRegular } from "../system/regular-file.ts";

export type JudgeModelOptions = ChatModelOptions &
  CallLimits & {
    /**
     * Recorded answers of earlier calls; new ones are added. Default: every question is sent to the
     * model.
     */
    readonly cache?: JudgeCache;
    /** A chat model of your own, instead of `model`, `url` and `provider`. */
    readonly chat?: ChatModel;
  };

const longestExcerpt = 500;

/**
 * Creates a judge from a model. It samples at temperature 0 unless `sampling` is given. An unusable
 * answer is requested once more (`maxReasks`), and then is a failure with code "malformed-reply".
 * Throws a `ConfigurationError` for settings that cannot work, before any call.
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
          format,
          signal,
          meter: meter.add,
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

/**
 * A judge that only returns recorded answers, with their recorded cost: a run with it reproduces
 * the run that recorded them. A question without a recorded answer fails.
 */
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

/** The text of a reply if it answers the question. */
function usableText(question: Question<unknown>, { text, isTruncated }: ChatReply): string {
  const refuse = (code: "empty-reply" | "malformed-reply", problem: string) =>
    modelFailure("judge", code, {
      message: `Cannot grade by "${question.grader}": ${problem}.`,
      cause: text.slice(0, longestExcerpt),
    });
  if (text.trim() === "") throw refuse("empty-reply", "the judge's answer is empty");
  try {
    question.read(text);
    return text;
  } catch (error) {
    throw refuse("malformed-reply", `${messageOf(error)}${isTruncated ? " (it was cut off)" : ""}`);
  }
}

// Answers of judges in a file, by the digest of their question, one per line. The file is read
// completely at the start and then appended to: an answer is written to the file before it is used.

export type CachedAnswer = Pick<Judgement, "grader" | "model" | "digest" | "usage"> & { readonly answer: string };

/** Store of the answers of earlier calls. */
export interface JudgeCache {
  /**
   * A recorded answer; `null` if there is none. `model`: the model that answered; `null` for any.
   */
  find(digest: string, model: string | null): CachedAnswer | null;
  /** Resolves once the answer is stored. A rejection fails the grading that requested it. */
  store(answer: CachedAnswer): Promise<void>;
}

const count = z.number().min(0);
const usage = z.strictObject({
  modelCalls: count,
  inputTokens: count,
  outputTokens: count,
  cost: count.nullable(),
});
const line = z.strictObject({ grader: z.string(), model: z.string(), digest: z.string(), answer: z.string(), usage });

/**
 * Cache of the answers in a file, which need not exist. An incomplete last line is ignored; any
 * other invalid line throws a `ConfigurationError` that names it. `redact`: removes secrets from
 * written lines.
 */
export async function openJudgeCache(
  path: string,
  options: { readonly redact?: (text: string) => string } = {},
): Promise<JudgeCache> {
  const { redact = String } = options;
  const answers = new Map<string, CachedAnswer>();
  const keyOf = (digest: string, model: string): string => JSON.stringify([digest, model]);
  const keep = (answer: CachedAnswer): void => {
    answers.set(answer.digest, answer);
    answers.set(keyOf(answer.digest, answer.model), answer);
  };
  const bytes = await readRegular(path).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return Buffer.alloc(0);
    throw new ConfigurationError(
      `Cannot read the judge's answers in "${path}": ${messageOf(error)}; correct --judge-cache.`,
    );
  });
  const whole = bytes.lastIndexOf("\n") + 1;
  const lines = bytes.toString("utf8", 0, whole).split("\n");
  for (const [index, content] of lines.entries()) {
    if (content.trim() === "") continue;
    const { data } = z.preprocess(parseOrNull, line).safeParse(content);
    if (data === undefined) {
      throw new ConfigurationError(
        `Cannot read the judge's answers in "${path}": line ${index + 1} is not an answer of a judge; correct --judge-cache, or cut the line.`,
      );
    }
    keep(data);
  }
  // An incomplete line of a killed process must not run into the next one.
  let written: Promise<void> = whole === bytes.length ? Promise.resolve() : truncate(path, whole);
  return {
    find: (digest, model) => answers.get(model === null ? digest : keyOf(digest, model)) ?? null,
    store: async (answer) => {
      const content = `${redact(JSON.stringify(answer))}\n`;
      const writing = written.catch(() => undefined).then(() => appendFile(path, content));
      written = writing;
      try {
        await writing;
      } catch (error) {
        throw faultAt(
          "grader",
          "cache-not-written",
          `Cannot keep the judge's answer in "${path}": ${messageOf(error)}.`,
        );
      }
      keep(answer);
    },
  };
}

function parseOrNull(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return null;
  }
}
