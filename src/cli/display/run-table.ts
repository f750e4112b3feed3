// The closing table of a run, and the line that reports its progress.

import type { Counts, EngineActivity } from "../../core/index.ts";
import { ratesOf, type RunTotals } from "../../rollout/loop.ts";
import {
  type Colours,
  countsText,
  formatCount,
  labelledRows,
  formatDuration,
  formatNumber,
  formatPercent,
} from "./terminal-text.ts";

/** Totals of a run, and what its engine does meanwhile; `null` if it does not say. */
export type RunProgress = { readonly totals: RunTotals; readonly activity: EngineActivity | null };

/** One line with progress, pass rate, speed and problems. */
export function progressLine({ totals, activity }: RunProgress): string {
  const { episodesFinished, episodesPlanned, outcomes, retries, groupsKept, groupsTarget } = totals;
  const finished = formatCount(episodesFinished);
  const parts = [
    groupsTarget === null
      ? `${finished}/${formatCount(episodesPlanned)} episodes`
      : `${formatCount(groupsKept)}/${formatCount(groupsTarget)} groups kept, ${finished} episodes`,
    `pass ${passText(totals)}`,
    speedText(totals, activity, ", "),
    `${outcomes.failed} failed`,
    retries > 0 ? `${formatCount(retries)} retries` : null,
    activityText(activity),
    elapsedText(totals),
    remainingText(totals),
  ];
  return parts.filter((part) => part !== null).join(", ");
}

/** The time since the run began, to the second, so that it moves where nothing else does. */
export function elapsedText({ elapsedMs }: RunTotals): string {
  const hasSeconds = elapsedMs < 3_600_000;
  return `${formatDuration(elapsedMs)}${hasSeconds ? "" : ` ${Math.floor(elapsedMs / 1000) % 60} s`}`;
}

/** Turns and tokens per second; tokens of unfinished turns count if the engine reports them. */
export function speedText(totals: RunTotals, activity: EngineActivity | null, separator: string): string {
  const { turnsPerSecond, sampledTokensPerSecond } = ratesOf(totals);
  const live = activity === null ? 0 : activity.sampledTokens / (Math.max(totals.elapsedMs, 1) / 1000);
  const tokens = formatNumber(Math.max(sampledTokensPerSecond, live));
  return `${formatNumber(turnsPerSecond)} turns/s${separator}${tokens} tokens/s`;
}

/** The present work of an engine in this process; `null` if it does not say. */
export function activityText(activity: EngineActivity | null): string | null {
  if (activity === null) return null;
  const computed = `${formatCount(activity.promptTokens)} prompt tokens computed`;
  const { newest } = activity;
  if (newest === null) return computed;
  const state =
    newest.sampledTokens > 0
      ? `answers, ${formatCount(newest.sampledTokens)} tokens so far`
      : `reads, ${formatCount(newest.promptTokens)} of ${formatCount(newest.ofPromptTokens)} prompt tokens`;
  return `${computed}, newest turn ${state}`;
}

/** The remaining time at the current rate; `null` before an episode of this process has ended. */
export function remainingText(totals: RunTotals): string | null {
  const { episodesFinished, episodesPlanned, recordedEpisodes, elapsedMs, groupsKept, groupsTarget } = totals;
  if (groupsTarget === null && episodesFinished >= episodesPlanned) return null;
  const done = groupsTarget === null ? episodesFinished / episodesPlanned : groupsKept / groupsTarget;
  // Episodes of earlier processes took no time of this process.
  const own = (done * (episodesFinished - recordedEpisodes)) / Math.max(1, episodesFinished);
  if (own <= 0 || done >= 1) return null;
  return `about ${formatDuration((elapsedMs / own) * (1 - done))} left`;
}

/** The pass rate; a dash if the policy took no turn in any graded episode. */
export function passText(totals: RunTotals): string {
  return formatPercent(hasBegun(totals) ? totals.passRate : null);
}

function hasBegun({ graded, gradedWithoutTurn }: RunTotals): boolean {
  return gradedWithoutTurn < graded;
}

/**
 * Notes under the table, one sentence a line: warnings that the rates above do not show, and the
 * first failure of each code. Empty when there is nothing to add.
 */
export function runNotes(totals: RunTotals): string[] {
  const { graded, gradedWithoutTurn, episodesFinished, stopReasons, failures, firstFailures, outcomes } = totals;
  const notes: string[] = [];
  if (gradedWithoutTurn > 0) {
    notes.push(
      `Warning: ${formatCount(gradedWithoutTurn)} of ${formatCount(graded)} graded episodes ended before their first turn; ` +
        "their rewards say nothing about the policy.",
    );
  }
  const outOfContext = stopReasons["context_length"] ?? 0;
  if (outOfContext * 10 >= episodesFinished && outOfContext > 0) {
    notes.push(
      `Warning: ${formatCount(outOfContext)} of ${formatCount(episodesFinished)} episodes ran out of context (context_length); serve ` +
        "the model with a longer one, raise --max-context-tokens, or lower --max-new-tokens.",
    );
  }
  if (episodesFinished > 0 && graded === 0 && outcomes.failed > 0) {
    notes.push("Warning: no episode was graded, so there is no pass rate.");
  }
  const ungraded = Object.entries(totals.ungradedTasks);
  if (ungraded.length > 0 && graded > 0) {
    const named = ungraded.slice(0, shownTasks).map(([task, groups]) => `${task} (${plural(groups, "group")})`);
    const more = ungraded.length > shownTasks ? `, and ${formatCount(ungraded.length - shownTasks)} more` : "";
    notes.push(
      `Warning: ${plural(ungraded.length, "task")} ${ungraded.length === 1 ? "was" : "were"} never graded: ${named.join(", ")}${more}; ` +
        "leave them out with --tasks, or fix what fails in them.",
    );
  }
  for (const [name, message] of Object.entries(firstFailures)) {
    const count = failures[name] ?? 1;
    notes.push(`${name}${count > 1 ? ` (first of ${formatCount(count)})` : ""}: ${firstSentence(message)}`);
  }
  return notes;
}

const shownTasks = 5;

const plural = (count: number, noun: string): string => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;

/**
 * First sentence of a message that a server or the user's code may have written: one line of
 * bounded length.
 */
function firstSentence(message: string): string {
  const line = message.trim().split(/[\r\n]/)[0] ?? "";
  return line.length > 400 ? `${line.slice(0, 400)} …` : line;
}

/** The closing table as lines. */
export function runTable(totals: RunTotals, colours: Colours, columns = 80): string[] {
  const { episodesFinished, outcomes, turns, sampledTokens, elapsedMs } = totals;
  const { turnsPerSecond, sampledTokensPerSecond } = ratesOf(totals);
  const perEpisode = (count: number): string => formatNumber(count / Math.max(1, episodesFinished));
  const rows: [string, string][] = [
    [
      "episodes",
      totals.groupsTarget === null
        ? `${formatCount(episodesFinished)} of ${formatCount(totals.episodesPlanned)} in ${formatDuration(elapsedMs)}`
        : `${formatCount(episodesFinished)} in ${formatDuration(elapsedMs)}`,
    ],
    ["groups", groupsText(totals)],
    ["outcomes", countsText(outcomes)],
    ["stop reasons", mostFrequent(totals.stopReasons)],
    ...(Object.keys(totals.endings).length === 0
      ? []
      : [["ended as", mostFrequent(totals.endings)] satisfies [string, string]]),
    ["pass rate", `${passText(totals)} (${formatCount(totals.passed)} of ${formatCount(totals.graded)} graded)`],
    ["mean reward", totals.meanReward === null || !hasBegun(totals) ? "–" : totals.meanReward.toFixed(3)],
    ["turns", `${formatCount(turns)}, ${perEpisode(turns)} per episode, ${formatNumber(turnsPerSecond)} per second`],
    [
      "sampled tokens",
      `${formatCount(sampledTokens)}, ${perEpisode(sampledTokens)} per episode, ${formatNumber(sampledTokensPerSecond)} per second`,
    ],
    ["samples", `${formatCount(totals.samples)} with ${formatCount(totals.trainedTokens)} trained tokens`],
    ["dropped tokens", mostFrequent(totals.droppedTokens)],
    ["format errors", mostFrequent(totals.problems)],
    ["failures", mostFrequent(totals.failures)],
  ];
  if (totals.spelledTokens > 0) {
    rows.push([
      "spelled tokens",
      `${formatCount(totals.spelledTokens)} control tokens in what users and tools said: text`,
    ]);
  }
  if (totals.unlikelyTokens > 0) {
    rows.push([
      "unlikely tokens",
      `${formatCount(totals.unlikelyTokens)} sampled with a logprob below -100: a grammar, a bias, or a fault of the server`,
    ]);
  }
  if (Object.keys(totals.deviations).length > 0) rows.push(["deviations", mostFrequent(totals.deviations)]);
  if (totals.retries > 0) rows.push(["retried calls", formatCount(totals.retries)]);
  if (totals.closeFailures > 0) rows.push(["not closed", `${formatCount(totals.closeFailures)} environments`]);
  if (totals.cutResults > 0) rows.push(["cut results", `${formatCount(totals.cutResults)} of tools were too long`]);
  if (totals.agentModelCalls > 0) rows.push(["agent model", costText(totals.agentModelCalls, totals.agentCost)]);
  if (totals.judgeModelCalls > 0) rows.push(["judge", costText(totals.judgeModelCalls, totals.judgeCost)]);
  if (totals.userModelCalls > 0) rows.push(["user model", costText(totals.userModelCalls, totals.userCost)]);
  return labelledRows(rows, colours, columns - 2).map((line) => `  ${line}`);
}

/** Numbers of decided groups by decision: the kept groups are those that are trained. */
function groupsText(totals: RunTotals): string {
  const { groupsTarget, groupsPlanned, groupsFinished, groupsKept, groupsDropped, groupsWithoutSignal } = totals;
  const whole =
    groupsFinished === groupsPlanned
      ? formatCount(groupsPlanned)
      : `${formatCount(groupsFinished)} of ${formatCount(groupsPlanned)} whole`;
  const run = groupsTarget === null ? whole : `${formatCount(groupsFinished)} run`;
  const parts = [`${run}, ${formatCount(groupsWithoutSignal)} of them with equal rewards`];
  if (groupsTarget !== null) parts.push(`kept ${formatCount(groupsKept)} of ${formatCount(groupsTarget)} requested`);
  else if (groupsKept < groupsFinished) parts.push(`kept ${formatCount(groupsKept)}`);
  const dropped = groupsFinished - groupsKept;
  if (dropped > 0) parts.push(`dropped ${formatCount(dropped)} (${mostFrequent(groupsDropped)})`);
  return parts.join("; ");
}

function costText(calls: number, cost: number | null): string {
  return `${formatCount(calls)} calls, ${cost === null ? "price unknown" : `$${cost.toFixed(2)}`}`;
}

/** The most frequent first. */
function mostFrequent(counts: Counts): string {
  return countsText(Object.fromEntries(Object.entries(counts).sort(([, a], [, b]) => b - a)));
}
