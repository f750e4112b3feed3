// Summary of the rows of a run: its verdict, why episodes did not pass, its course, and its tasks.

import { commonTrials, isSuccess, passRates, rateInterval } from "../statistics/index.ts";
import type { Course, Domain, Reason, Row, RowFault, Summary, TaskRow } from "./wire/index.ts";
import { addCount } from "../lib/counts.ts";

/**
 * Maximum number of parts of a course, and minimum number of episodes per part: with fewer, means
 * fluctuate too much.
 */
const courseParts = 60;
const partEpisodes = 8;
const mostReasons = 12;

type Counted = Omit<Summary, "facts" | "version" | "read" | "episodes" | "masks" | "trainer" | "faults" | "marks">;

/** Most values of k whose rates are sent. */
const mostKs = 64;

export function summaryOf(rows: readonly Row[]): Counted {
  const outcomes: Record<string, number> = {};
  let [graded, passed, rewards] = [0, 0, 0];
  for (const { outcome, reward } of rows) {
    addCount(outcomes, outcome);
    if (reward === null) continue;
    graded++;
    rewards += reward;
    if (isSuccess(reward)) passed++;
  }
  const tasks = taskRows(rows).filter((task) => task.graded > 0);
  const shares = tasks.map((task) => task.passed / task.graded);
  return {
    graded,
    passed,
    outcomes,
    passRate: shares.length === 0 ? null : shares.reduce((sum, share) => sum + share, 0) / shares.length,
    interval: rateInterval(shares),
    meanReward: graded === 0 ? null : rewards / graded,
    tasks: tasks.length,
    neverPassed: tasks.filter((task) => task.passed === 0).length,
    alwaysPassed: tasks.filter((task) => task.passed === task.graded).length,
    reasons: reasonsOf(rows),
    courses: { plan: courseOf(rows.toSorted(byPlan)), ended: courseOf(rows) },
    unsuccessful: graded - passed,
    errored: outcomes["failed"] ?? 0,
    domains: domainsOf(rows),
  };
}

/** Task by task, in the order of their places; what has none stays in its order. */
function byPlan(a: Row, b: Row): number {
  if (a.taskIndex !== b.taskIndex) return (a.taskIndex ?? Infinity) - (b.taskIndex ?? Infinity);
  if (a.taskIndex === null) return a.number - b.number;
  return a.groupId === b.groupId ? a.sampleIndex - b.sampleIndex : a.groupId < b.groupId ? -1 : 1;
}

/** Rates by environment as `eval` prints them: tasks of several may have the same ids. */
function domainsOf(rows: readonly Row[]): Domain[] {
  const parts = new Map<string, Row[]>();
  for (const row of rows) {
    const part = parts.get(row.domain ?? "all");
    if (part === undefined) parts.set(row.domain ?? "all", [row]);
    else part.push(row);
  }
  const domains = [...parts].map(([title, own]) => ({ title, own, tasks: taskRows(own) }));
  domains.sort((a, b) => (a.title < b.title ? -1 : 1));
  const all = { title: "overall", own: rows, tasks: domains.flatMap(({ tasks }) => tasks) };
  return (domains.length > 1 ? [...domains, all] : domains).map(({ title, own, tasks }) => {
    const tallies = tasks.map(({ taskId, graded, passed }) => ({ taskId, trials: graded, successes: passed }));
    const ks = Array.from({ length: Math.min(mostKs, Math.max(1, commonTrials(tallies))) }, (_, at) => at + 1);
    const rewards = own.flatMap(({ reward }) => reward ?? []);
    return {
      title,
      tasks: tasks.length,
      episodes: own.length,
      graded: rewards.length,
      meanReward: rewards.length === 0 ? null : rewards.reduce((sum, one) => sum + one, 0) / rewards.length,
      passRates: passRates(tallies, ks),
    };
  });
}

/** True for an episode whose failure is to be attributed. */
export function isUnsuccessful(row: Row): boolean {
  return !hasPassed(row);
}

/** Unsuccessful episodes by whose fault they are. */
export function faultCounts(rows: readonly Row[]): Record<RowFault["fault"], number> {
  const counts = { agent: 0, user: 0, environment: 0, infrastructure: 0 };
  for (const { fault } of rows) if (fault !== null) counts[fault.fault]++;
  return counts;
}

/**
 * Reasons why episodes did not pass: an episode may have several. A sentence that the grader also
 * says of passing episodes is not a reason.
 */
function reasonsOf(rows: readonly Row[]): Reason[] {
  const harmless = new Set(rows.filter(hasPassed).flatMap(({ phrases }) => phrases));
  const counts = new Map<string, { kind: Reason["kind"]; label: string; count: number }>();
  for (const row of rows) {
    for (const reason of rowReasons(row)) {
      if (reason.kind === "grade" && harmless.has(reason.label)) continue;
      const key = `${reason.kind}:${reason.label}`;
      const found = counts.get(key);
      if (found === undefined) counts.set(key, { ...reason, count: 1 });
      else found.count++;
    }
  }
  return [...counts.values()].sort((a, b) => b.count - a.count).slice(0, mostReasons);
}

const hasPassed = ({ reward }: Row): boolean => reward !== null && isSuccess(reward);

function rowReasons(row: Row): Pick<Reason, "kind" | "label">[] {
  const reasons: Pick<Reason, "kind" | "label">[] = Object.keys(row.formatErrors).map((label) => ({
    kind: "format error",
    label,
  }));
  if (hasPassed(row)) return reasons;
  if (row.failure !== null) reasons.push({ kind: "error", label: row.failure });
  else if (row.outcome !== "completed" || row.reward === null)
    reasons.push({ kind: "stop reason", label: row.stopReason });
  return [...reasons, ...row.phrases.map((label) => ({ kind: "grade" as const, label }))];
}

/** True if the reason counts this episode. */
export function hasReason(row: Row, { kind, label }: Pick<Reason, "kind" | "label">): boolean {
  if (kind === "fault") return row.fault?.fault === label;
  return rowReasons(row).some((reason) => reason.kind === kind && reason.label === label);
}

function courseOf(rows: readonly Row[]): Course {
  const parts = Math.min(courseParts, Math.max(1, Math.floor(rows.length / partEpisodes)));
  const course: { episodes: number[]; reward: (number | null)[]; turns: (number | null)[]; pass: (number | null)[] } = {
    episodes: [],
    reward: [],
    turns: [],
    pass: [],
  };
  for (let part = 0; part < parts; part++) {
    const members = rows.slice(
      Math.floor((part * rows.length) / parts),
      Math.floor(((part + 1) * rows.length) / parts),
    );
    const rewards = members.flatMap(({ reward }) => reward ?? []);
    const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;
    course.episodes.push(Math.floor(((part + 1) * rows.length) / parts));
    course.reward.push(rewards.length === 0 ? null : mean(rewards));
    course.pass.push(rewards.length === 0 ? null : mean(rewards.map((one) => (isSuccess(one) ? 1 : 0))));
    const turns = members.flatMap((row) => row.turns ?? []);
    course.turns.push(turns.length === 0 ? null : mean(turns));
  }
  return course;
}

/** The tasks in the order of their first episodes. */
export function taskRows(rows: readonly Row[]): TaskRow[] {
  const tasks = new Map<string, { row: Row; episodes: number; graded: number; passed: number; sum: number }>();
  for (const row of rows) {
    let task = tasks.get(row.taskId);
    if (task === undefined) {
      task = { row, episodes: 0, graded: 0, passed: 0, sum: 0 };
      tasks.set(row.taskId, task);
    }
    task.episodes++;
    if (row.reward === null) continue;
    task.graded++;
    task.sum += row.reward;
    if (isSuccess(row.reward)) task.passed++;
  }
  return [...tasks.values()].map(({ row: { taskId, groupId }, episodes, graded, passed, sum }) => ({
    taskId,
    groupId,
    episodes,
    graded,
    passed,
    meanReward: graded === 0 ? null : sum / graded,
  }));
}

/**
 * Sentences of the grader without the parts that differ between tasks: quoted names, ids, numbers,
 * lists.
 */
export function phrasesOf(log: string): readonly string[] {
  const phrases = log.split(/(?<=[.!?])\s+|\n+/).map((sentence) =>
    withoutList(sentence.replaceAll(/"[^"]*"/g, "…").replaceAll(/(?:[#$]|(?<!\w))\w*\d[\w.:%-]*/g, "…"))
      .replace(/….?$/, "…")
      .trim(),
  );
  return [...new Set(phrases.filter((phrase) => phrase !== "" && phrase !== "…"))];
}

/** A sentence up to its first colon, if it is followed by a list that varies. */
function withoutList(sentence: string): string {
  const colon = sentence.indexOf(": ");
  return colon === -1 || !sentence.includes("…", colon + 2) ? sentence : `${sentence.slice(0, colon)}: …`;
}
