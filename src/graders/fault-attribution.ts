// Whose mistake made an episode fail: a label with the evidence in words. Rules first; a rule speaks only where it can show
// what it saw, and what no rule explains is the agent's. A diagnosis for people and for the choice of training data; it is
// never part of a reward.

import type { Failure, Outcome } from "../core/index.ts";
import type { Conversation } from "./conversation.ts";
import { findEnvironmentFault, findUndeterminedEnd } from "./fault-rules/environment-rules.ts";
import type { Finding } from "./fault-rules/finding.ts";
import { findUserFault } from "./fault-rules/user-rules.ts";
import type { TaskFacts } from "./task-facts.ts";

export type Fault = "agent" | "user" | "environment" | "infrastructure";

export const faults: readonly Fault[] = ["agent", "user", "environment", "infrastructure"];

export type FaultAttribution = Finding & { readonly fault: Fault; readonly by: "rules" | "judge" };

export type FailedEpisode = {
  readonly conversation: Conversation;
  readonly outcome: Outcome;
  readonly failure: Failure | null;
  readonly facts: TaskFacts;
};

/** Labels a failed episode. The caller decides what failed means; nothing here looks at a reward. */
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
    // A user model that answers, and answers without words, is a bad user; one that cannot be reached is no user at all.
    const isBadUser = failure.boundary === "user" && /^(empty|malformed)-reply$/.test(failure.code);
    const fault = isWorld ? "environment" : isBadUser ? "user" : "infrastructure";
    const evidence = `Fault at boundary "${failure.boundary}" (${failure.code}): ${failure.message}`;
    return { fault, rule: "recorded-fault", evidence, by: "rules" };
  }
  if (outcome !== "aborted") return null;
  const evidence = "The episode was cancelled before its end.";
  return { fault: "infrastructure", rule: "aborted", evidence, by: "rules" };
}
