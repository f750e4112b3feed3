// The agent's actions against those that the task expects: the calls of an episode, and the first
// one that differs.

import type { ExpectedAction, PlainJson, PlainObject, ShownEpisode } from "../../src/viewer/wire/index.ts";

export type MadeCall = ExpectedAction & {
  readonly turn: number | null;
  /** False if the call was read and not carried out. */
  readonly isCarriedOut: boolean;
};

/** Calls of the episode in their order; a file without events gives those of its messages. */
export function madeCalls({ events, messages }: Pick<ShownEpisode, "events" | "messages">): readonly MadeCall[] {
  const calls: MadeCall[] = [];
  for (const event of events) {
    if (event.type === "decision") {
      const { decision, turn } = event;
      const made =
        decision.type === "call"
          ? [{ call: decision.call, arguments: decision.arguments }]
          : decision.type === "calls"
            ? decision.calls
            : [];
      for (const { call, arguments: given } of made) {
        if (call !== null) calls.push({ name: call.name, arguments: given ?? {}, turn, isCarriedOut: given !== null });
      }
    } else if (event.type === "exchange") {
      for (const { name, argumentsText } of event.action.toolCalls) {
        calls.push({ name, arguments: readArguments(argumentsText), turn: event.turn, isCarriedOut: true });
      }
    }
  }
  if (calls.length > 0 || events.length > 0) return calls;
  for (const message of messages) {
    if (message.role !== "assistant") continue;
    for (const { name, argumentsText } of message.toolCalls) {
      calls.push({ name, arguments: readArguments(argumentsText), turn: null, isCarriedOut: true });
    }
  }
  return calls;
}

/** Arguments as an object; text that is not a JSON object is kept under "". */
export function readArguments(text: string): PlainObject {
  try {
    const value = JSON.parse(text) as PlainJson;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as PlainObject;
  } catch {
    // Shown as it is.
  }
  return { "": text };
}

export type Difference =
  /**
   * `made`: the most similar call, with the names of arguments that differ; `null` if no such tool
   * was called from there on.
   */
  | {
      readonly type: "missing";
      readonly expected: ExpectedAction;
      readonly place: number;
      readonly made: MadeCall | null;
      readonly differing: readonly string[];
    }
  | { readonly type: "extra"; readonly made: MadeCall };

const looksUp = /^(?:get|find|list|look|search|calculate|think|check|read|view|show|fetch)/i;

/**
 * The first expected action that was not made, in order; or, where all were made, the first further
 * call that is not a look-up. `null` if there is neither.
 */
export function firstDifference(expected: readonly ExpectedAction[], made: readonly MadeCall[]): Difference | null {
  const used = new Set<MadeCall>();
  let from = 0;
  for (const [place, action] of expected.entries()) {
    const at = made.findIndex((call, index) => index >= from && call.isCarriedOut && isSame(action, call));
    if (at !== -1) {
      used.add(made[at]!);
      from = at + 1;
      continue;
    }
    // The same call earlier than expected is only another order, not a difference.
    const earlier = made.find((call) => !used.has(call) && call.isCarriedOut && isSame(action, call));
    if (earlier !== undefined) {
      used.add(earlier);
      continue;
    }
    const near =
      made.slice(from).find((call) => call.name === action.name) ??
      made.find((call) => !used.has(call) && call.name === action.name) ??
      null;
    return {
      type: "missing",
      expected: action,
      place,
      made: near,
      differing: near === null ? [] : differing(action, near),
    };
  }
  const extra = made.find((call) => !used.has(call) && call.isCarriedOut && !looksUp.test(call.name));
  return extra === undefined ? null : { type: "extra", made: extra };
}

function isSame(a: ExpectedAction, b: ExpectedAction): boolean {
  return a.name === b.name && differing(a, b).length === 0;
}

function differing(a: ExpectedAction, b: ExpectedAction): string[] {
  const names = new Set([...Object.keys(a.arguments), ...Object.keys(b.arguments)]);
  return [...names].filter(
    (name) => JSON.stringify(sorted(a.arguments[name])) !== JSON.stringify(sorted(b.arguments[name])),
  );
}

/** Sorts keys; numbers that were written as strings stay strings. */
function sorted(value: PlainJson | undefined): PlainJson | undefined {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((one: PlainJson) => sorted(one) ?? null);
  const object = value as PlainObject;
  return Object.fromEntries(
    Object.keys(object)
      .sort()
      .map((key) => [key, sorted(object[key]) ?? null]),
  );
}

/** A call in one line. */
export function callText({ name, arguments: given }: ExpectedAction): string {
  const parts = Object.entries(given).map(([key, value]) =>
    key === "" ? valueText(value) : `${key}: ${valueText(value)}`,
  );
  return `${name}(${parts.join(", ")})`;
}

export function valueText(value: PlainJson): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
