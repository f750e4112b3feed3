// A finished conversation for graders: utterances and actions of each side, in order. It has no
// tokens and no invalid actions: content that the other side never received is not part of it.
// Built here from an episode, and in `recorded-runs.ts` from files of other programs.

import {
  type CallDecision,
  callsOf,
  type Episode,
  type EnvironmentCall,
  type Tool,
  type UserCall,
} from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";

export type ConversationStep =
  | { readonly type: "user"; readonly text: string; readonly hangsUp: boolean }
  | { readonly type: "agent"; readonly text: string }
  | {
      readonly type: "call";
      readonly name: string;
      readonly arguments: JsonObject;
      /** Result that the agent read. */
      readonly result: string;
      readonly isError: boolean;
    }
  | {
      /** A call by the user, in a world in which users also act; the agent does not see it. */
      readonly type: "user-call";
      readonly name: string;
      readonly arguments: JsonObject;
      /** Result that the user read. */
      readonly result: string;
      readonly isError: boolean;
    };

export type Conversation = readonly ConversationStep[];

/** The conversation of an episode. */
export function conversationOf(episode: Pick<Episode, "events">): Conversation {
  const steps: ConversationStep[] = [];
  let calls: readonly CallDecision[] = [];
  let userCalls: readonly UserCall[] = [];
  for (const event of episode.events) {
    if (event.type === "user-line") {
      const { text, type } = event.line;
      userCalls = event.line.calls ?? [];
      // The agent does not receive the text of a line that has calls.
      if (type !== "calls") steps.push({ type: "user", text, hangsUp: type === "hang-up" });
    } else if (event.type === "user-outcome") {
      for (const [index, { text, isError }] of event.outcome.results.entries()) {
        const made = userCalls[index];
        if (made === undefined) continue;
        steps.push({ type: "user-call", name: made.name, arguments: made.arguments, result: text, isError });
      }
    } else if (event.type === "decision") {
      const { decision } = event;
      if (decision.type === "say") steps.push({ type: "agent", text: decision.content });
      calls = callsOf(decision);
    } else if (event.type === "tool-result") {
      const { call = null, arguments: given = null } = calls[event.call ?? 0] ?? {};
      const { text, isError } = event.result;
      if (call !== null && given !== null) {
        steps.push({ type: "call", name: call.name, arguments: given, result: text, isError });
      }
    }
  }
  return steps;
}

/** A fact that the user knows and the agent may ask for. */
export type KnownFact = {
  /** Name that people use when they ask for it, in lower case: "user id". */
  readonly name: string;
  readonly value: string;
};

export type TaskFacts = {
  /** Instruction of the simulated user; `null` if it is not a text. */
  readonly instruction: string | null;
  readonly tools: readonly Tool[];
  /** Tools of the user; empty if it only talks. */
  readonly userTools: readonly Tool[];
  /** Calls of the agent that lead to the expected end; `null` if they are not known. */
  readonly expectedCalls: readonly EnvironmentCall[] | null;
  /** Additional calls of the user. @default none */
  readonly expectedUserCalls?: readonly EnvironmentCall[];
  /** True if those calls earn the reward when they are executed; `null` if this was not tried. */
  readonly isReachable: boolean | null;
  /** Facts in addition to those that can be derived from the expected calls. */
  readonly knownFacts: readonly KnownFact[];
};

/**
 * Every fact in the instruction: the named ones, and strings of expected calls that look like an
 * identifier.
 */
export function instructionFacts({
  instruction,
  expectedCalls,
  expectedUserCalls = [],
  knownFacts,
}: TaskFacts): readonly KnownFact[] {
  if (instruction === null) return [];
  const facts = new Map<string, KnownFact>();
  const add = (fact: KnownFact): void => {
    if (instruction.includes(fact.value)) facts.set(fact.value, fact);
  };
  for (const { arguments: values } of [...(expectedCalls ?? []), ...expectedUserCalls]) {
    for (const [key, value] of values) {
      if (typeof value !== "string" || value.length < 5 || !isFact(value)) continue;
      add({ name: plain(key), value });
    }
  }
  for (const fact of knownFacts) add(fact);
  return [...facts.values()];
}

/** The text in lower case, with a single space for everything between words. */
export function plain(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/** Finding of a rule. */
export type Finding = {
  /** Stable name of the rule. */
  readonly rule: string;
  /** Evidence for people; quotes the conversation. */
  readonly evidence: string;
};

/** A line as evidence, shortened if it is long. */
export function quote(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ");
  return `"${line.length > 160 ? `${line.slice(0, 160)}…` : line}"`;
}

/**
 * True if a tool only reads, judged by the first word of its name; a wrong guess only makes a rule
 * report nothing.
 */
export function isRead(tool: string): boolean {
  return /^(get|find|search|list|look|read|check|calculate|think|run|can)(_|$)/.test(tool);
}

/**
 * True if a tool changes something for the user, as far as its name tells. Transferring to another
 * agent changes nothing.
 */
export function isChange(tool: string): boolean {
  return !isRead(tool) && !tool.startsWith("transfer");
}

/** True for a value that cannot be guessed: an address, or one word with a digit. */
function isFact(value: string): boolean {
  return value.includes("@") || (/\d/.test(value) && !/\s/.test(value));
}
