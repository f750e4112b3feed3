// Attribution of failures: a label for the cause, with the evidence as prose. Rules come first; a
// rule applies only if it has evidence, and a failure that no rule explains is attributed to the
// agent. It is a diagnosis for people and for the choice of training data; it is never part of a
// reward.

import type { Failure, Outcome, DroppedTokens, EpisodeSamples, Trajectory } from "../core/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../python-semantics/json/index.ts";
import { type Conversation, type TaskFacts, type Finding, plain, isRead } from "./conversation.ts";
import { findUserFault } from "./user-rules.ts";

export type Fault = "agent" | "user" | "environment" | "infrastructure";

export const faults: readonly Fault[] = ["agent", "user", "environment", "infrastructure"];

export type FaultAttribution = Finding & { readonly fault: Fault; readonly by: "rules" | "judge" };

export type FailedEpisode = {
  readonly conversation: Conversation;
  readonly outcome: Outcome;
  readonly failure: Failure | null;
  readonly facts: TaskFacts;
};

/**
 * Labels a failed episode. The caller decides which episodes failed; this file never looks at a
 * reward.
 */
export function attributeFault(episode: FailedEpisode): FaultAttribution {
  const broken = findBrokenInfrastructure(episode);
  if (broken !== null) return broken;
  const label = (fault: Fault, finding: Finding | null): FaultAttribution | null =>
    finding === null ? null : { fault, ...finding, by: "rules" };
  return (
    label("environment", findEnvironmentFault(episode.facts)) ??
    label("user", findUserFault(episode.conversation, episode.facts)) ??
    label("environment", findUndeterminedEnd(episode.conversation, episode.facts)) ?? {
      fault: "agent",
      rule: episode.outcome === "truncated" ? "ran-into-limit" : "nothing-else-explains-it",
      evidence:
        episode.outcome === "truncated"
          ? "The episode ran into a limit, and nothing that the user or the environment did explains why."
          : "Nothing that the user or the environment did explains the failure.",
      by: "rules",
    }
  );
}

function findBrokenInfrastructure({ outcome, failure }: FailedEpisode): FaultAttribution | null {
  if (failure !== null) {
    const isWorld = failure.boundary === "environment" || failure.boundary === "tool" || failure.boundary === "grader";
    // A user model that replies without text is a faulty user; one that cannot be reached is an
    // infrastructure fault.
    const isBadUser = failure.boundary === "user" && /^(empty|malformed)-reply$/.test(failure.code);
    const fault = isWorld ? "environment" : isBadUser ? "user" : "infrastructure";
    const evidence = `Fault at boundary "${failure.boundary}" (${failure.code}): ${failure.message}`;
    return { fault, rule: "recorded-fault", evidence, by: "rules" };
  }
  if (outcome !== "aborted") return null;
  const evidence = "The episode was cancelled before its end.";
  return { fault: "infrastructure", rule: "aborted", evidence, by: "rules" };
}

/** The expected calls do not earn the reward when executed, or call tools that do not exist. */
function findEnvironmentFault({ expectedCalls, isReachable, tools }: TaskFacts): Finding | null {
  const unknown = (expectedCalls ?? []).find(({ name }) => tools.every((tool) => tool.name !== name));
  if (unknown !== undefined) {
    return { rule: "wanted-call-unknown", evidence: `The expected end calls "${unknown.name}", which is not a tool.` };
  }
  if (isReachable !== false) return null;
  return {
    rule: "wanted-end-unreachable",
    evidence: "The expected calls of the task, made as they are, do not earn its reward.",
  };
}

/**
 * The agent made the expected call, except for one argument that the instruction does not
 * determine: it contains neither the argument's name nor a word of the expected or the given value.
 */
function findUndeterminedEnd(conversation: Conversation, { instruction, expectedCalls }: TaskFacts): Finding | null {
  if (instruction === null || expectedCalls === null) return null;
  const instructed = ` ${plain(instruction)} `;
  const made = conversation.filter((step) => step.type === "call" && !step.isError);
  const found: string[] = [];
  for (const expected of expectedCalls) {
    let best: { readonly keys: readonly string[]; readonly made: JsonObject } | null = null;
    for (const call of made) {
      if (call.type !== "call" || call.name !== expected.name) continue;
      const keys = [...expected.arguments.keys()].filter(
        (key) => textOf(expected.arguments.get(key)) !== textOf(call.arguments.get(key)),
      );
      if (best === null || keys.length < best.keys.length) best = { keys, made: call.arguments };
    }
    // A missing expected call is another kind of difference; a missing read changes nothing.
    if (best === null && !isRead(expected.name)) return null;
    if (best === null || best.keys.length === 0 || isRead(expected.name)) continue;
    for (const key of best.keys) {
      const words = wordsOf(textOf(expected.arguments.get(key)));
      // A value without words is an identifier or a number, which the agent may be able to look up.
      if (words.length === 0) return null;
      const others = wordsOf(textOf(best.made.get(key)));
      if ([...wordsOf(key), ...words, ...others].some((word) => instructed.includes(` ${word}`))) return null;
      found.push(`"${key}" of ${expected.name}`);
    }
  }
  if (found.length === 0) return null;
  return {
    rule: "end-not-determined",
    evidence: `The expected end differs in ${found.join(", ")} alone, about which the instruction says nothing.`,
  };
}

function textOf(value: JsonValue | undefined): string {
  return value === undefined ? "" : dumpJson(value);
}

/** Longer words of a text, without plural endings; numbers and short words match by accident. */
function wordsOf(text: string): string[] {
  return plain(text)
    .split(" ")
    .filter((word) => /^\p{L}{4,}$/u.test(word))
    .map((word) => word.replace(/s$/, ""));
}

/**
 * "keep": the rows are trained unchanged. "mask": the rows stay in the group, with their rewards,
 * but none of their tokens enters the loss. "drop": the rows are removed from the group.
 */
export type FaultPolicy = "keep" | "mask" | "drop";

export const faultPolicies: readonly FaultPolicy[] = ["keep", "mask", "drop"];

/** True if a failure says nothing about the trained policy. */
export function isForeignFault(fault: Fault): boolean {
  return fault !== "agent";
}

/**
 * Rows of such an episode under a policy. Every token that would have been trained is dropped with
 * reason "filtered".
 */
export function applyFaultPolicy(
  { samples, dropped }: EpisodeSamples,
  options: { readonly policy: FaultPolicy; readonly trajectory: Trajectory },
): EpisodeSamples {
  const { policy, trajectory } = options;
  if (policy === "keep") return { samples, dropped };
  const filtered = trajectory.turns.flatMap(({ index, sampledTokens }): DroppedTokens[] => {
    const before = dropped.reduce((sum, { turn, count }) => sum + (turn === index ? count : 0), 0);
    const count = sampledTokens.length - before;
    return count === 0 ? [] : [{ turn: index, count, reason: "filtered" }];
  });
  const masked = samples.map((sample) => ({ ...sample, lossMask: new Uint8Array(sample.lossMask.length) }));
  return { samples: policy === "mask" ? masked : [], dropped: [...dropped, ...filtered] };
}
