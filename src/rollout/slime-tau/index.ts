// Public entry of the preset "slime-tau": slime's tau-bench example unchanged, for comparison. Text
// prompts rendered with tools every turn, text-delta tokens, first call only, abort on any error.
// Not the loop of this project (`run-episode.ts`), and nothing here is shared with it. Everything
// arrives as values; the oracle is the set of records made by the Python original.

import type { Environment } from "../../core/environment.ts";
import type { Tokenizer } from "../../core/tokenizer.ts";
import type { Sample } from "../../core/turn.ts";
import type { UserLine, UserSimulator } from "../../core/user.ts";
import { PythonError, pythonStr } from "../../python-semantics/index.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/value.ts";

/** Tokens and mask that the last message adds to the conversation. */
function tokenDelta(
  messages: readonly JsonObject[],
  parts: Pick<SlimeTauParts, "renderText" | "tokenizer">,
): { readonly tokens: Uint32Array; readonly mask: number } {
  const isReply = messages.at(-1)?.get("role") === "assistant";
  const whole = parts.renderText({ messages: [...messages], tools: null, addGenerationPrompt: false });
  const before = parts.renderText({ messages: messages.slice(0, -1), tools: null, addGenerationPrompt: isReply });
  return { tokens: parts.tokenizer.encode(cut(whole, before)), mask: isReply ? 1 : 0 };
}

/** Python's `whole[len(before):]`, which counts code points and does not check whether `before` is a prefix. */
function cut(whole: string, before: string): string {
  return whole.startsWith(before)
    ? whole.slice(before.length)
    : Array.from(whole).slice(Array.from(before).length).join("");
}

/**
 * τ-bench's environment as in the reference, with the user inside. Errors that it throws end the
 * episode as aborted.
 */
export interface SlimeTauEnvironment {
  /** `null`: a random task, as in the reference. */
  reset(taskIndex: number | null): Promise<{ readonly observation: string; readonly info: JsonObject }>;
  step(action: SlimeTauAction): Promise<{
    readonly observation: string;
    readonly reward: number;
    readonly done: boolean;
    readonly info: JsonObject;
  }>;
}

export type SlimeTauParts = {
  /** The model's own chat template. `tools: null` renders none. */
  readonly renderText: (input: {
    readonly messages: JsonValue[];
    readonly tools: JsonValue[] | null;
    readonly addGenerationPrompt: boolean;
  }) => string;
  readonly tokenizer: Tokenizer;
  /** Sends a payload to SGLang and resolves with the parsed answer; never retries here. */
  readonly post: (url: string, payload: SlimeTauPayload) => Promise<unknown>;
  /**
   * SGLang's qwen25 detector. An error that it throws, or reports as raised, aborts the episode, as
   * in upstream's adapter.
   */
  readonly parse: (text: string) => SlimeTauParsed;
  readonly environment: SlimeTauEnvironment;
  /** OpenAI entries, in order. */
  readonly tools: JsonValue[];
  readonly wiki: string;
};

export type SlimeTauPayload = { readonly text: string; readonly sampling_params: Readonly<Record<string, unknown>> };

const endMark = "<|im_end|>";

/**
 * Upstream's reading of a server's answer: abort or text, with one trailing end mark removed. An
 * answer of another shape throws the errors of Python's subscripts, since upstream catches none of
 * them.
 */
function readReply(output: unknown): { readonly isAborted: boolean; readonly text: string } {
  const finish = subscript(subscript(output, "meta_info"), "finish_reason");
  if (subscript(finish, "type") === "abort") return { isAborted: true, text: "" };
  const text = subscript(output, "text");
  if (typeof text !== "string") {
    throw new PythonError("AttributeError", `'${pythonTypeName(text)}' object has no attribute 'endswith'`);
  }
  return { isAborted: false, text: text.endsWith(endMark) ? text.slice(0, -endMark.length) : text };
}

function subscript(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null) {
    throw new PythonError("TypeError", `'${pythonTypeName(value)}' object is not subscriptable`);
  }
  if (Array.isArray(value)) throw new PythonError("TypeError", "list indices must be integers or slices, not str");
  if (!Object.hasOwn(value, key)) throw new PythonError("KeyError", `'${key}'`);
  return (value as Record<string, unknown>)[key];
}

function pythonTypeName(value: unknown): string {
  if (value === null) return "NoneType";
  if (Array.isArray(value)) return "list";
  const names: Record<string, string> = { boolean: "bool", string: "str", object: "dict" };
  return names[typeof value] ?? (Number.isInteger(value) ? "int" : "float");
}

export type SlimeTauStatus = "completed" | "truncated" | "aborted";

/**
 * A message of the upstream history. Replies stay raw; only tool results have a `name`, which the
 * templates do not render.
 */
export type SlimeTauMessage =
  | { readonly role: "system" | "user" | "assistant"; readonly content: string }
  | { readonly role: "tool"; readonly name: string; readonly content: string };

/** An action for the environment: a tool call, or speech when the name is "respond". */
export type SlimeTauAction = { readonly name: string; readonly kwargs: JsonObject };

/** Output of SGLang's tool-call parser for a reply. */
export type SlimeTauParsed = {
  readonly normalText: string;
  readonly calls: readonly {
    /** `null` when the call had no name and unknown tools are allowed. */
    readonly name: string | null;
    /** JSON text. */
    readonly parameters: string;
    readonly toolIndex: number;
  }[];
  /** The exception that the original parser raises; `null` if it raises none. */
  readonly raised: string | null;
};

/** Upstream's `InteractionResult`, every field. */
export type SlimeTauResult = {
  /** Text of the first request. */
  readonly prompt: string;
  /** Reward of the last step, never a sum. */
  readonly reward: number;
  readonly messages: readonly SlimeTauMessage[];
  /** Info of reset, overwritten by that of every step. */
  readonly info: JsonObject;
  /** The assistant contents, joined without a separator. */
  readonly response: string;
  /** Loss mask of the response only, one entry per token after the prompt. */
  readonly lossMask: readonly number[];
  /** Prompt and response. Text-delta accounting: re-encoded text, not the sampled tokens. */
  readonly tokens: Uint32Array;
  readonly responseLength: number;
  readonly status: SlimeTauStatus;
  /** Marks every sample made from it; exporters refuse them without a flag. */
  readonly tokenAccounting: "text-delta";
};

/** A message in the form that a chat template reads. */
function templateMessage(message: SlimeTauMessage): JsonObject {
  const entries: [string, JsonValue][] = [["role", message.role]];
  if (message.role === "tool") entries.push(["name", message.name]);
  entries.push(["content", message.content]);
  return new Map(entries);
}

/** Name of the action that τ-bench uses for speech. */
export const respondAction = "respond";

/**
 * Upstream's reading of a parsed reply: the first call is carried out; a reply without a call, or
 * with parameters that are not an object, is speech. Throws the errors that upstream lets escape: a
 * call without a name is a `ValidationError`.
 */
export function callToAction(parsed: SlimeTauParsed): SlimeTauAction {
  const speech: SlimeTauAction = { name: respondAction, kwargs: new Map([["content", parsed.normalText]]) };
  const call = parsed.calls[0];
  if (call === undefined) return speech;
  const parameters = parseJson(call.parameters);
  if (!(parameters instanceof Map)) return speech;
  if (call.name === null) throw new PythonError("ValidationError", "Action: name is None, a string is needed.");
  return { name: call.name, kwargs: parameters };
}

export type SlimeTauOptions = {
  /**
   * Address of slime's router; `null` fails like upstream's own default (which reads a dict by
   * attribute).
   */
  readonly rolloutArgs: { readonly sglangRouterIp: string; readonly sglangRouterPort: number } | null;
  /** Default: {@link slimeTauSampling} with the given temperature. */
  readonly samplingParams?: Readonly<Record<string, unknown>> | null;
  /** Temperature of the default sampling. Default: 0. */
  readonly temperature?: number;
  /** Default: `null`, drawn by the environment. */
  readonly taskIndex?: number | null;
  /** Default: 30. */
  readonly maxSteps?: number;
  /**
   * The sentence of the chat template and its replacement. Every occurrence is replaced, even in
   * messages.
   */
  readonly toolInstruction: { readonly replaces: string; readonly instruction: string };
};

/** Upstream's sampling parameters when none are given. */
export const slimeTauSampling = Object.freeze({ temperature: 0, max_new_tokens: 512, top_p: 0.9, top_k: 50 });

/**
 * Runs one episode like upstream. Rejects with a `PythonError` (or the error of `post`) where
 * upstream's `asolve` raises; every other case ends in a result.
 */
export async function runSlimeTau(parts: SlimeTauParts, options: SlimeTauOptions): Promise<SlimeTauResult> {
  if (options.rolloutArgs === null) {
    throw new PythonError("AttributeError", "'dict' object has no attribute 'sglang_router_ip'");
  }
  const { sglangRouterIp, sglangRouterPort } = options.rolloutArgs;
  const url = `http://${sglangRouterIp}:${sglangRouterPort}/generate`;
  const sampling = options.samplingParams ?? { ...slimeTauSampling, temperature: options.temperature ?? 0 };
  const { replaces, instruction } = options.toolInstruction;

  const start = await parts.environment.reset(options.taskIndex ?? null);
  let info = start.info;
  const messages: SlimeTauMessage[] = [
    { role: "system", content: parts.wiki },
    { role: "user", content: start.observation },
  ];
  const rendered = messages.map(templateMessage);
  const promptText = (): string =>
    parts
      .renderText({ messages: [...rendered], tools: parts.tools, addGenerationPrompt: true })
      .replaceAll(replaces, () => instruction);
  const prompt = promptText();
  const promptTokens = parts.tokenizer.encode(prompt);
  const deltas: Uint32Array[] = [];
  const lossMask: number[] = [];
  let reward = 0;
  let done: boolean | null = null;

  /** Adds a message to history, tokens and mask. */
  const add = (message: SlimeTauMessage): void => {
    messages.push(message);
    rendered.push(templateMessage(message));
    const { tokens, mask } = tokenDelta(rendered, parts);
    deltas.push(tokens);
    for (let place = 0; place < tokens.length; place++) lossMask.push(mask);
  };
  const finish = (status: SlimeTauStatus): SlimeTauResult => ({
    prompt,
    reward,
    messages,
    info,
    response: messages.flatMap(({ role, content }) => (role === "assistant" ? [content] : [])).join(""),
    lossMask,
    tokens: Uint32Array.from([promptTokens, ...deltas].flatMap((part) => [...part])),
    responseLength: lossMask.length,
    status,
    tokenAccounting: "text-delta",
  });

  for (let step = 0; step < (options.maxSteps ?? 30); step++) {
    const text = step === 0 ? prompt : promptText();
    const reply = readReply(await parts.post(url, { text, sampling_params: sampling }));
    if (reply.isAborted) return finish("aborted");
    let parsed: SlimeTauParsed;
    try {
      parsed = parts.parse(reply.text);
    } catch {
      return finish("aborted");
    }
    if (parsed.raised !== null) return finish("aborted");
    add({ role: "assistant", content: reply.text });
    const action = callToAction(parsed);
    let answer: Awaited<ReturnType<SlimeTauEnvironment["step"]>>;
    try {
      answer = await parts.environment.step(action);
    } catch {
      return finish("aborted");
    }
    const { observation } = answer;
    add(
      action.name === respondAction
        ? { role: "user", content: observation }
        : { role: "tool", name: action.name, content: observation },
    );
    reward = answer.reward;
    info = new Map([...info, ...answer.info]);
    done = answer.done;
    if (done) return finish("completed");
  }
  if (done === null) throw new PythonError("UnboundLocalError", "no step was permitted, so there is no last response.");
  return finish("truncated");
}

/** `reset` ignores the index: the environment already belongs to one task. */
export function slimeTauEnvironment(environment: Environment, user: UserSimulator): SlimeTauEnvironment {
  const grade = async (): Promise<{ reward: number; info: Environment["info"] }> =>
    environment.grade({ outcome: "completed" });
  return {
    reset: async () => ({ observation: (await user.open()).text, info: environment.info }),
    step: async ({ name, kwargs }) => {
      if (name === respondAction) {
        const content = kwargs.get("content");
        if (content === undefined) throw new PythonError("KeyError", "'content'");
        const utterance = typeof content === "string" ? content : pythonStr(content);
        await environment.receiveUtterance(utterance);
        const line: UserLine = await user.reply(utterance);
        if (line.type === "utterance") return { observation: line.text, reward: 0, done: false, info: new Map() };
        return { observation: line.text, done: true, ...(await grade()) };
      }
      const { text, endsEpisode, info } = await environment.call({ name, arguments: kwargs });
      if (!endsEpisode) return { observation: text, reward: 0, done: false, info };
      const graded = await grade();
      return { observation: text, done: true, reward: graded.reward, info: new Map([...info, ...graded.info]) };
    },
  };
}

/**
 * The training row of a `slime-tau` episode. Marked "text-delta": the tokens that its mask marks as
 * sampled are re-encoded text, closing newlines included, so exporters refuse it without a flag. It
 * has neither logprobs nor weight versions, like upstream.
 */
export function slimeTauSample(
  result: SlimeTauResult,
  origin: Pick<Sample, "episodeId" | "groupId" | "taskId">,
): Sample {
  const length = result.tokens.length;
  const lossMask = new Uint8Array(length);
  lossMask.set(result.lossMask, length - result.responseLength);
  const weightRanges: Sample["weightRanges"][number][] = [];
  for (let start = 0; start < length; start++) {
    if (lossMask[start] !== 1) continue;
    let end = start;
    while (lossMask[end] === 1) end++;
    weightRanges.push({ start, end, tokenCount: end - start, dispatch: null, reply: null });
    start = end;
  }
  return {
    ...origin,
    id: `${origin.episodeId}/0`,
    branch: 0,
    tokens: result.tokens,
    sampledMask: lossMask.slice(),
    lossMask,
    logprobs: null,
    weightRanges,
    reward: result.status === "aborted" ? null : result.reward,
    tokenAccounting: "text-delta",
    historyPolicy: "append-only",
    deviations: [],
  };
}
