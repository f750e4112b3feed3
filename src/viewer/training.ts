// A folder of `train --out`: its curves, and one sentence on whether the training is healthy, with
// the signs that support it.

import { stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { agreementLimits, type Interval, rateInterval } from "../statistics/index.ts";
import { type EpisodeStore, objectOf, readJsonFile, type StoreFacts, textOf } from "./episode-store.ts";
import type { readGroups } from "./training-groups.ts";
import type { PlainJson, PlainObject, RunFacts, Training, TrainingPoint, TrainingStep } from "./wire/index.ts";
import { readRegular } from "../system/regular-file.ts";

type Sign = Training["signs"][number];

/** A training whose file changed within this many milliseconds is in progress. */
const liveMs = 120_000;

/** A training has no lock: it is in progress while its files change. */
export async function trainingStatus(folder: string): Promise<Pick<RunFacts, "status" | "isLive">> {
  const isDone = await stat(join(folder, "result.json")).then(
    () => true,
    () => false,
  );
  const written = await stat(join(folder, "metrics.csv")).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  );
  const isLive = !isDone && Date.now() - written < liveMs;
  return { isLive, status: isDone ? "done" : isLive ? "running" : "stopped" };
}

/** A training as a store beside runs: it has no episodes. */
export async function openTrainingStore(folder: string): Promise<EpisodeStore> {
  const read = async (): Promise<StoreFacts> => {
    const facts = (await readJsonFile(join(folder, "train.json"))) ?? {};
    return {
      name: basename(folder),
      location: folder,
      kind: "training",
      ...(await trainingStatus(folder)),
      startedAt: null,
      environment: textOf(facts["environment"]),
      split: textOf(facts["split"]),
      model: textOf(facts["model"]) === null ? null : basename(textOf(facts["model"])!),
      engine: textOf(objectOf(facts["learning"])?.["algorithm"]),
      historyPolicy: null,
      planned: null,
      calls: null,
      hasEpisodes: false,
      hasTraining: true,
      missing: [],
    };
  };
  let facts = await read();
  return {
    get facts() {
      return facts;
    },
    count: 0,
    modelFolder: null,
    hasTokenizer: false,
    rows: () => Promise.resolve([]),
    close: () => Promise.resolve(),
    line: () => Promise.reject(new ConfigurationError("Cannot show an episode: a training run stores none.")),
    filter: async function* () {},
    search: async function* () {},
    refresh: async () => {
      facts = await read();
      return true;
    },
  };
}

export async function readTraining(folder: string, facts: RunFacts): Promise<Training> {
  const text = await readRegular(join(folder, "metrics.csv"), "utf8").catch(() => "");
  const train = await readJsonFile(join(folder, "train.json")).catch(() => null);
  const groups = await recordedGroups(folder);
  const tasks = objectOf(train?.["learning"])?.["evalTasks"];
  const steps = readMetrics(text).map((step) => ({
    ...withInterval(step, tasks),
    staleness: step["staleness"] ?? groups.get(step["step"]!)?.staleness ?? null,
  }));
  const result = await readJsonFile(join(folder, "result.json")).catch(() => null);
  const rowsOf = (name: string): PlainObject[] | null =>
    Array.isArray(result?.[name])
      ? (result[name] as readonly PlainJson[]).map(objectOf).filter((row) => row !== null)
      : null;
  const [comparison, greedy] = [rowsOf("comparison"), rowsOf("greedy")];
  const end = objectOf(result?.["end"]);
  const signs = signsOf(steps, { comparison, greedy, end });
  const stated = { comparison, greedy, end: textOf(end?.["reason"]), signs, steps, hasGroups: groups.size > 0 };
  return { facts, version: `${steps.length}-${facts.status}`, verdict: verdictOf(steps, signs), ...stated };
}

/**
 * Adds intervals of pass rates: on held-out tasks, sampled and greedy, of which `tasks` are run once
 * each; and of the tasks of the step, of which only the mean is known, so that each group counts as
 * passed or not: this is wider than necessary.
 */
export function withInterval(step: TrainingPoint, tasks: unknown): TrainingPoint {
  const bounds: Record<string, number> = {};
  for (const [rate, name, count] of [
    ["pass_rate", "pass_rate", step["groups"]],
    ["held_out_pass_rate", "held_out", tasks],
    ["held_out_greedy", "greedy", tasks],
  ] as const) {
    const interval = intervalOf(step[rate] ?? null, count);
    if (interval !== null) Object.assign(bounds, { [`${name}_low`]: interval.low, [`${name}_high`]: interval.high });
  }
  return { ...step, ...bounds };
}

function intervalOf(rate: number | null, tasks: unknown): Interval | null {
  if (rate === null || rate < 0 || rate > 1) return null;
  if (typeof tasks !== "number" || !(tasks >= 2 && tasks <= 100_000)) return null;
  const passed = Math.round(rate * tasks);
  return rateInterval(Array.from({ length: Math.floor(tasks) }, (_, task) => (task < passed ? 1 : 0)));
}

/** The groups of one step. */
export async function readTrainingStep(folder: string, step: number): Promise<TrainingStep> {
  return { step, groups: (await recordedGroups(folder)).get(step)?.groups ?? null };
}

const recordedGroups = async (folder: string): ReturnType<typeof readGroups> =>
  (await import("./training-groups.ts")).readGroups(folder);

/**
 * Steps in their order. A line that is being written is omitted; of a step that was made again, the
 * last line counts.
 */
export function readMetrics(text: string): TrainingPoint[] {
  const [header = "", ...lines] = text.split(/\r?\n/);
  const names = header.split(",");
  const steps = new Map<number, TrainingPoint>();
  for (const line of lines) {
    const values = line.split(",");
    if (values.length !== names.length) continue;
    const point = Object.fromEntries(names.map((name, at) => [name, numberOf(values[at] ?? "")]));
    const step = point["step"];
    if (typeof step === "number") steps.set(step, point);
  }
  return [...steps.values()];
}

function numberOf(text: string): number | null {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  return Number.isFinite(value) ? value : null;
}

/** Means of the first and the last quarter. */
function ends(steps: readonly TrainingPoint[], name: string): readonly [first: number, last: number] | null {
  const values = steps.flatMap((step) => step[name] ?? []);
  if (values.length < 2) return null;
  const quarter = Math.max(1, Math.floor(values.length / 4));
  const mean = (part: readonly number[]): number => part.reduce((sum, one) => sum + one, 0) / part.length;
  return [mean(values.slice(0, quarter)), mean(values.slice(-quarter))];
}

const percent = (rate: number): string => `${(rate * 100).toFixed(0)} %`;

function signsOf(
  steps: readonly TrainingPoint[],
  { comparison, greedy, end }: Pick<Training, "comparison" | "greedy"> & { readonly end: PlainObject | null },
): Sign[] {
  const signs: Sign[] = [];
  const say = (level: Sign["level"], text: string): void => void signs.push({ level, text });
  if (end?.["type"] === "collapse") say("bad", `It collapsed: ${textOf(end["reason"]) ?? "no reason was recorded"}.`);
  for (const [rows, title] of [
    [comparison, "Held-out tasks"],
    [greedy, "Held-out tasks, greedy"],
  ] as const) {
    const all = rows?.find(({ kind }) => kind === "all");
    const gain = objectOf(all?.["gainInterval"]);
    if (typeof all?.["before"] !== "number" || typeof all["after"] !== "number") continue;
    const [low, high] = [gain?.["low"], gain?.["high"]].map((bound) => (typeof bound === "number" ? bound : null));
    const interval =
      low === null || high === null || low === undefined || high === undefined
        ? ""
        : `, gain ${points(low)} to ${points(high)}`;
    const level =
      typeof high === "number" && high < 0 ? "bad" : typeof low === "number" && low > 0 ? "good" : "warning";
    const open = level === "warning" ? "; the interval includes 0, so no change is shown yet" : "";
    say(level, `${title}: ${percent(all["before"])} before, ${percent(all["after"])} after${interval}${open}.`);
  }
  const pass = ends(steps, "pass_rate");
  if (pass !== null) {
    const change = pass[1] - pass[0];
    const [level, verb] =
      change > 0.02 ? ["good", "rose"] : change < -0.1 ? ["bad", "fell"] : ["warning", "stands still"];
    say(
      level as Sign["level"],
      `The pass rate of training ${verb}: ${percent(pass[0])} at first, ${percent(pass[1])} now.`,
    );
  }
  const mismatch = steps.flatMap((step) => step["logprob_difference_mean"] ?? []);
  if (mismatch.length > 0) {
    const worst = Math.max(...mismatch);
    const isFine = worst <= agreementLimits.mean;
    say(
      isFine ? "good" : "bad",
      `Logprobs of sampling and training ${isFine ? "agree" : "disagree"}: at most ${worst.toExponential(1)} apart in the mean of a step.`,
    );
  }
  const live = steps
    .slice(-10)
    .flatMap((step) => (step["groups"] ? [(step["live_groups"] ?? 0) / step["groups"]] : []));
  if (live.length > 0) {
    const share = live.reduce((sum, one) => sum + one, 0) / live.length;
    say(share >= 0.2 ? "good" : "warning", `${percent(share)} of the recent groups have signal: their rewards differ.`);
  }
  const entropy = ends(steps, "entropy");
  if (entropy !== null) {
    const share = entropy[1] / Math.max(entropy[0], Number.MIN_VALUE);
    const level = share < 0.05 ? "bad" : share < 0.3 ? "warning" : "good";
    say(level, `Entropy ${entropy[1].toPrecision(2)} now, ${percent(share)} of what it was at first.`);
  }
  const kl = steps.flatMap((step) => step["kl"] ?? []).at(-1);
  if (kl !== undefined)
    say(Math.abs(kl) > 0.5 ? "warning" : "good", `KL to the first policy ${kl.toPrecision(2)} at the last step.`);
  const failed = steps.reduce((sum, step) => sum + (step["failed_episodes"] ?? 0), 0);
  if (failed > 0) say("warning", `${failed} episodes failed, and trained nothing.`);
  return signs;
}

function points(difference: number): string {
  return `${difference >= 0 ? "+" : "−"}${Math.abs(difference * 100).toFixed(0)} points`;
}

function verdictOf(steps: readonly TrainingPoint[], signs: readonly Sign[]): Training["verdict"] {
  if (steps.length === 0) return { level: "open", text: "No step has ended yet: nothing can be said." };
  const bad = signs.find(({ level }) => level === "bad");
  const made = `${steps.length} steps`;
  if (bad !== undefined) return { level: "bad", text: `Not healthy after ${made}. ${bad.text}` };
  const warnings = signs.filter(({ level }) => level === "warning");
  const good = signs.find(({ level }) => level === "good");
  if (warnings.length > 0)
    return { level: "warning", text: `Healthy so far after ${made}, with one warning. ${warnings[0]!.text}` };
  return { level: "good", text: `Healthy after ${made}. ${good?.text ?? ""}` };
}
