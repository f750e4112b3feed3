// Runs of τ²-bench as a submission to upstream's leaderboard: a folder with submission.json and one
// file of simulations per domain. The figures are computed from these files by upstream's formulas,
// in its order of additions, because its validation compares them exactly.

import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { loadTau2Data } from "../environments/tau2-bench/index.ts";
import { openRunFolder, runFacts } from "../store/index.ts";
import type { ExportCounts } from "./export-counts.ts";

/** Domains of the leaderboard. */
const submissionDomains = ["retail", "airline", "telecom", "banking_knowledge"] as const;

/** Version of upstream's package whose grading these rewards equal. */
const tau2Version = "1.0.1";

/** Values of pass^k in a submission. */
const mostTrials = 4;

/** The parts of a file of simulations from which the figures are made. */
export type SubmittedFile = {
  readonly simulations: readonly {
    readonly task_id: string;
    readonly agent_cost: number | null;
    readonly reward_info: { readonly reward: number };
    readonly end_time: string;
  }[];
  readonly tasks: readonly {
    readonly id: string;
    readonly evaluation_criteria: {
      readonly actions: readonly { readonly name: string; readonly requestor?: string }[] | null;
    } | null;
  }[];
  readonly info: {
    readonly num_trials: number;
    readonly user_info: { readonly implementation: string; readonly llm: string | null };
    readonly agent_info: { readonly llm: string | null };
    readonly environment_info: { readonly domain_name: string };
    readonly retrieval_config?: string;
  };
};

/** Options of an export that concern its runs and its folder. */
export type SubmissionOptions = {
  readonly runs: string | readonly string[];
  /** The folder to write. */
  readonly output: string;
  readonly env?: string | { readonly name: string };
  readonly data?: string;
  /** @default the process's */
  readonly cwd?: string;
  readonly onNotice?: (message: string) => void;
};

type Written = ExportCounts & { readonly bytes: number; readonly expertBytes: number; readonly maskBytes: number };

/**
 * Writes a submission. `write` exports runs of one domain to a file. Resolves with `null` if `write`
 * does, without a folder. Throws a `ConfigurationError` for runs that upstream would not accept: of
 * another domain, without a user, with tasks or trials missing, or of different models.
 */
export async function exportSubmission(
  options: SubmissionOptions,
  write: (file: { readonly runs: readonly string[]; readonly output: string }) => Promise<Written | null>,
): Promise<Written | null> {
  const cwd = options.cwd ?? process.cwd();
  const target = resolve(cwd, options.output);
  const partial = `${target}.partial`;
  await rm(partial, { recursive: true, force: true });
  await mkdir(join(partial, "trajectories"), { recursive: true });
  try {
    const files = new Map<string, SubmittedFile>();
    const results: Written[] = [];
    for (const [domain, { runs, data }] of await runsByDomain(options, cwd)) {
      const output = join(partial, "trajectories", `${domain}_results.json`);
      const result = await write({ runs, output });
      if (result === null) return null;
      results.push(result);
      const file = JSON.parse(await readFile(output, "utf8")) as SubmittedFile;
      const base = await (await loadTau2Data({ domain, folder: resolve(cwd, data) })).tasks("base");
      const ids = base.map(({ id }) => id);
      refuseIncomplete(domain, file, ids);
      files.set(domain, file);
    }
    const text = `${JSON.stringify(submissionOf(files), null, 2)}\n`;
    await writeFile(join(partial, "submission.json"), text);
    if (existsSync(target)) await rm(target, { recursive: true });
    await rename(partial, target);
    options.onNotice?.(
      `Note: complete model_organization, submitting_organization and contact_info in "${join(options.output, "submission.json")}" before you submit it.`,
    );
    const sum = (key: "rows" | "episodes" | "groups" | "bytes"): number =>
      results.reduce((total, result) => total + result[key], 0);
    return {
      rows: sum("rows"),
      episodes: sum("episodes"),
      groups: sum("groups"),
      trainedTokens: null,
      leftOut: results.flatMap(({ leftOut }) => leftOut),
      bytes: sum("bytes") + Buffer.byteLength(text),
      expertBytes: 0,
      maskBytes: 0,
    };
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

type DomainRuns = { readonly runs: string[]; readonly data: string };

/** The runs of each domain, without the kind of retrieval in its name. */
async function runsByDomain(options: SubmissionOptions, cwd: string): Promise<ReadonlyMap<string, DomainRuns>> {
  const domains = new Map<string, DomainRuns>();
  for (const folder of [options.runs].flat()) {
    const { configuration } = runFacts(await openRunFolder(resolve(cwd, folder)).manifest());
    const recorded = (key: string): string => {
      const value = configuration?.get(key);
      return typeof value === "string" ? value : "";
    };
    const env = typeof options.env === "string" ? options.env : (options.env?.name ?? recorded("env"));
    // The kind of retrieval is a suffix of the bank's name.
    const name = env.replace(/^tau2-bench\/(banking_knowledge-.*|)/, (_, bank: string) => bank.slice(0, 17));
    const domain = submissionDomains.find((known) => known === name);
    if (domain === undefined || configuration?.get("solo") === true) {
      throw new ConfigurationError(
        `Cannot export "${folder}" to tau2-submission: its environment is "${env}", and the leaderboard has ${submissionDomains.join(", ")}, each with a user; leave the run out, or use --format tau2.`,
      );
    }
    const known = domains.get(domain) ?? { runs: [], data: options.data ?? recorded("data") };
    known.runs.push(folder);
    domains.set(domain, known);
  }
  return domains;
}

/** Upstream requires every task of the split "base", each with the same number of trials. */
function refuseIncomplete(domain: string, { simulations, tasks, info }: SubmittedFile, base: readonly string[]): void {
  const counts = new Map(base.map((id) => [id, 0]));
  for (const { task_id: id } of simulations) counts.set(id, (counts.get(id) ?? 0) + 1);
  const refuse = (problem: string): ConfigurationError =>
    new ConfigurationError(
      `Cannot export ${domain} to tau2-submission: ${problem}; a submission has all ${base.length} tasks of split "base", each as often; run the missing ones, or use --format tau2.`,
    );
  const extra = tasks.find(({ id }) => !base.includes(id));
  if (extra !== undefined) throw refuse(`task "${extra.id}" is not in split "base"`);
  const trials = info.num_trials;
  const wrong = [...counts].filter(([, count]) => count !== trials);
  if (wrong.length === 0) return;
  const [id, count] = wrong[0]!;
  throw refuse(`${wrong.length} of its tasks do not have ${trials} episodes, such as "${id}" with ${count}`);
}

/** The content of submission.json. */
export function submissionOf(files: ReadonlyMap<string, SubmittedFile>): object {
  const infos = [...files.values()].map(({ info }) => info);
  const model = infos[0]!.agent_info.llm ?? "unknown";
  const user = infos[0]!.user_info.llm;
  for (const { agent_info: agent, user_info: other } of infos) {
    if ((agent.llm ?? "unknown") === model && other.llm === user) continue;
    throw new ConfigurationError(
      `Cannot export to tau2-submission: the runs have different models, "${model}" with user "${user}" and "${agent.llm}" with user "${other.llm}"; submit each model separately.`,
    );
  }
  const ends = [...files.values()].flatMap(({ simulations }) => simulations.map(({ end_time: end }) => end));
  const evaluated = ends.reduce((last, end) => (end > last ? end : last), "").slice(0, 10);
  // Another user than upstream's changes the benchmark.
  const isStandard = infos.every(({ user_info: { implementation } }) => implementation === "user_simulator");
  return {
    model_name: model,
    model_organization: "My-Organization",
    submitting_organization: "My-Organization",
    submission_date: new Date().toISOString().slice(0, 10),
    submission_type: isStandard ? "standard" : "custom",
    modality: "text",
    contact_info: {},
    results: Object.fromEntries(Array.from(files, ([domain, file]) => [domain, domainResults(file)])),
    is_new: true,
    trajectories_available: true,
    trajectory_files: Object.fromEntries(Array.from(files.keys(), (domain) => [domain, `${domain}_results.json`])),
    methodology: {
      evaluation_date: evaluated,
      tau2_bench_version: tau2Version,
      ...(user === null ? {} : { user_simulator: user }),
      notes: "Episodes were run by trainable-agents, whose worlds and rewards equal those of tau2-bench.",
      verification: { omitted_questions: false },
    },
  };
}

function domainResults({ simulations, tasks, info }: SubmittedFile): Readonly<Record<string, number | string>> {
  const successes = new Map(tasks.map(({ id }) => [id, 0]));
  for (const { task_id: id, reward_info: reward } of simulations) {
    if (Math.abs(reward.reward - 1) <= 1e-6) successes.set(id, (successes.get(id) ?? 0) + 1);
  }
  const ordered = tasks
    .toSorted((left, right) => (left.id < right.id ? -1 : 1))
    .map((task) => ({ actions: countActions(task), successes: successes.get(task.id) ?? 0 }))
    .toSorted((left, right) => left.actions - right.actions);
  const results: Record<string, number | string> = {};
  for (let k = 1; k <= Math.min(info.num_trials, mostTrials); k++) {
    const all = choose(info.num_trials, k);
    results[`pass_${k}`] = mean(ordered.map(({ successes: count }) => choose(count, k) / all)) * 100;
  }
  const costs = simulations.map(({ agent_cost: cost }) => cost);
  const known = costs.filter((cost) => cost !== null).length;
  if (known > 0) results["cost"] = pairwiseSum(costs.map((cost) => cost ?? 0)) / known;
  return info.retrieval_config === undefined ? results : { ...results, retrieval_config: info.retrieval_config };
}

/** The number by which upstream sorts tasks: of actions in the solution, -1 for a transfer only. */
function countActions({ evaluation_criteria: criteria }: SubmittedFile["tasks"][number]): number {
  const actions = criteria?.actions ?? [];
  return actions.length === 1 && /transfer/i.test(actions[0]!.name) ? -1 : actions.length;
}

function choose(n: number, k: number): number {
  let ways = 1;
  for (let i = 0; i < k; i++) ways = (ways * (n - i)) / (i + 1);
  return ways;
}

const mean = (values: readonly number[]): number => pairwiseSum(values) / values.length;

/** The sum as numpy adds: in eight columns, and long lists by halves. */
export function pairwiseSum(values: readonly number[]): number {
  const { length } = values;
  if (length < 8) return values.reduce((sum, value) => sum + value, 0);
  if (length > 128) {
    const half = Math.floor(length / 2);
    const cut = half - (half % 8);
    return pairwiseSum(values.slice(0, cut)) + pairwiseSum(values.slice(cut));
  }
  const whole = length - (length % 8);
  const columns = values.slice(0, 8);
  for (let at = 8; at < whole; at++) columns[at % 8]! += values[at]!;
  const [a, b, c, d, e, f, g, h] = columns as [number, number, number, number, number, number, number, number];
  return values.slice(whole).reduce((sum, value) => sum + value, a + b + (c + d) + (e + f + (g + h)));
}
