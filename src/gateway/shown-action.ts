// The part of an action that a client receives: the text before a stop string, and only calls whose
// arguments every JSON reader parses as an object, at most as many as requested. The client's echo
// is compared with this; the record keeps all sampled tokens.

import type { Finish, ParsedAction, ParseProblem, Renderer, SampleResult, ToolCall } from "../core/index.ts";
import { findStop } from "./stop-strings.ts";

/**
 * Options for parsing an action, whole or partly sampled: the tools that may be called, and the
 * reply to calls of other tools.
 */
export type ReadingOptions = Omit<Parameters<Renderer["parseAction"]>[1], "textEnd">;

/** Options for the part of an action that a client receives. */
export type ShowOptions = {
  readonly reading: ReadingOptions;
  /** Strings before which the text ends. */
  readonly stop: readonly string[];
  /** Maximum number of calls; further calls are not shown. `null` to show all. */
  readonly maxCalls: number | null;
};

type Reading = Pick<Renderer, "parseAction" | "decode" | "stopTokenIds">;

/** Text of an action, the same as in `parseAction`. */
export function actionText(sampledTokens: Uint32Array, { decode, stopTokenIds }: Omit<Reading, "parseAction">): string {
  const last = sampledTokens.at(-1);
  const isEnded = last !== undefined && stopTokenIds.includes(last);
  return decode(isEnded ? sampledTokens.subarray(0, -1) : sampledTokens);
}

/**
 * Finish of a call: a stop string in the text ends it, even if the engine does not know the string,
 * and even if it was the last token.
 */
export function shownFinish(
  { sampledTokens, finish }: Pick<SampleResult, "sampledTokens" | "finish">,
  renderer: Reading,
  stop: readonly string[],
): Finish {
  const found = stop.length === 0 ? null : findStop(actionText(sampledTokens, renderer), stop);
  return found === null ? finish : { ...finish, reason: "stop", matched: found.string };
}

/** The action for the client. Never throws on model output. */
export function shownAction(
  sampledTokens: Uint32Array,
  renderer: Reading,
  { reading, stop, maxCalls }: ShowOptions,
): ParsedAction {
  const found = stop.length === 0 ? null : findStop(actionText(sampledTokens, renderer), stop);
  const end = found === null ? {} : { textEnd: found.start };
  const action = renderer.parseAction(sampledTokens, { ...reading, ...end });
  const toolCalls = action.toolCalls.map(withArguments);
  const unreadable = toolCalls.flatMap(problemsOf);
  if (unreadable.length === 0) return { ...action, toolCalls: toolCalls.slice(0, maxCalls ?? undefined) };
  // No call can be shown, so the whole output is text.
  const { toolCalls: still, content } = renderer.parseAction(sampledTokens, { tools: [], turn: reading.turn, ...end });
  return {
    ...action,
    content: still.length === 0 ? content : action.text,
    toolCalls: [],
    problems: [...action.problems, ...unreadable],
  };
}

/** Missing arguments of a call become an empty object. */
function withArguments(call: ToolCall): ToolCall {
  return call.argumentsText.trim() === "" ? { ...call, argumentsText: "{}" } : call;
}

function problemsOf({ name, argumentsText }: ToolCall): readonly ParseProblem[] {
  if (isObjectText(argumentsText)) return [];
  const detail = "The arguments are not an object of JSON.";
  return [{ code: "not-an-object", text: argumentsText, toolName: name, detail }];
}

/** True for an object in standard JSON: Python's NaN is not valid JSON, and clients throw on it. */
function isObjectText(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
