// Golden suite `tau2-bench`: results of the Python reference, compared with our worlds. The kind of
// a record is detected from the record itself, so files may have any name.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError } from "#src/core/index.ts";
import {
  type DomainData,
  loadTau2Data,
  type Tau2Task,
  type Tau2Prompts,
  tau2Domains,
} from "#src/environments/tau2-bench/index.ts";
import type { JsonObject, JsonValue } from "#src/python-semantics/json/index.ts";
import { findData } from "./find-data.ts";
import { GoldenTally, readGoldenFile } from "./golden-file.ts";
import type { GoldenFileReport, GoldenSuite, GoldenSuiteOptions } from "./suite.ts";
import { playConversation } from "./tau2-bench-conversations.ts";
import { playActionText, playGym } from "./tau2-bench-gym.ts";
import { playMetrics } from "./tau2-bench-metrics.ts";
import {
  bankToolDocs,
  playBankPolicy,
  playBriefUser,
  playJudgeRequest,
  playPrompt,
  playRequests,
  playValidTasks,
  textsIn,
} from "./tau2-bench-prompts.ts";
import { playEvaluations, playShortVerdict, playVerdict } from "./tau2-bench-evaluations.ts";
import {
  playBankCalls,
  playCalculation,
  playSearch,
  solutionSteps,
  playHash,
  playMerge,
  playResultText,
  playShortGold,
  playSteps,
  playTarget,
  type Played,
  playTelecomWorld,
} from "./tau2-bench-worlds.ts";

export const tau2BenchSuite: GoldenSuite = {
  name: "tau2-bench",
  run: async function* (folder, options) {
    const entries = await readdir(folder, { recursive: true });
    for (const file of entries.map((entry) => entry.replaceAll("\\", "/")).sort()) {
      if (file.endsWith(".jsonl")) yield await playFile(folder, file, options);
    }
  },
};

async function playFile(folder: string, file: string, options: GoldenSuiteOptions): Promise<GoldenFileReport> {
  const tally = new GoldenTally(file);
  const data = new DataFinder(folder, options);
  for (const [index, record] of (await readGoldenFile(join(folder, file))).entries()) {
    const named: JsonObject = new Map<string, JsonValue>([["id", `record ${index + 1}`], ...record]);
    let played: Played | string;
    try {
      played = await playRecord(record, data);
    } catch (error) {
      if (error instanceof ConfigurationError) throw error;
      tally.compare(named, null, () => {
        throw error;
      });
      continue;
    }
    if (typeof played === "string") tally.unsupported(played);
    else {
      const { expected, actual } = played;
      tally.compare(named, expected, () => actual);
    }
  }
  return tally.report();
}

/** Expected and actual value of a record; a string is the reason why it cannot be run. */
async function playRecord(record: JsonObject, finder: DataFinder): Promise<Played | string> {
  if (record.has("case")) return playResultText(record) ?? "results of Python types that no tool has";
  if (record.has("op")) return playActionText(record);
  if (record.has("trial_seeds") || record.has("trials") || record.has("simulations")) return playMetrics(record);
  const domain = domainOf(record);
  if (domain === null) return "records of an unknown kind";
  if (!tau2Domains.includes(domain)) return `domain "${domain}" is not in this batch`;
  const data = await finder.load(domain, record);
  if (record.has("expression")) return playCalculation(data, record);
  if (record.has("update")) return playMerge(data, record);
  if (record.has("side")) return playHash(data, record);
  if (record.has("assertions") && record.has("initialization_actions")) return playTelecomWorld(data, record);
  if (record.get("what") === "minimal_verbosity_prompt") return playBriefUser(data, record);
  if (record.has("checks")) return playJudgeRequest(record);
  const id = record.get("task_id");
  const task = typeof id === "string" ? await finder.task(data, id) : null;
  if (record.get("what") === "valid_tasks") return playValidTasks(data, await data.tasks("base"), record);
  if (record.has("what")) {
    return playPrompt(data, task, { record, texts: await finder.texts() }) ?? "prompts of personas at run time";
  }
  if (record.has("calls")) return playRequests(data, task!, { record, texts: await finder.texts() });
  if (record.has("reset")) return playGym(data, task!, record);
  if (record.has("agent_script")) return playConversation(data, task!, record);
  if (record.has("variant")) return playEvaluations(data, task!, record);
  if (record.has("observations_sha256")) return withTarget(playShortGold(data, task!, record), { data, task, record });
  if (record.has("retrieval")) return task === null ? playSearch(data, record) : playBankPolicy(data, task, record);
  if (record.has("read_log_allowlist") && !record.has("initial")) return playBankCalls(data, task!, record);
  if (record.has("initial") && record.has("steps"))
    return withTarget(playSteps(data, task, record), { data, task, record });
  return "records of a kind that is not built yet";
}

/** The domain of a record; some kinds do not name it. */
function domainOf(record: JsonObject): string | null {
  const domain = record.get("domain");
  if (typeof domain === "string") return domain;
  if (record.has("read_log_allowlist") || record.has("retrieval")) return "banking_knowledge";
  if (record.has("expression")) return "retail";
  if (record.has("update") || record.get("what") === "minimal_verbosity_prompt") return "mock";
  return record.has("initialization_actions") ? "telecom" : null;
}

async function withTarget(
  played: Played,
  { data, task, record }: { readonly data: DomainData; readonly task: Tau2Task | null; readonly record: JsonObject },
): Promise<Played> {
  const target = record.get("evaluator_target");
  if (target === undefined || task === null) return played;
  const { expected, actual } = played as { expected: JsonObject; actual: JsonObject };
  expected.set("target", target);
  actual.set("target", playTarget(data, task));
  const steps = record.get("observations_sha256") === undefined ? null : solutionSteps(data, task);
  if (steps !== null) {
    for (const key of ["reward", "db_match", "env_assertions"]) expected.set(key, record.get(key)!);
    for (const [key, value] of await playShortVerdict(data, task, steps)) actual.set(key, value);
  }
  const verdict = record.get("evaluation_ALL");
  if (verdict !== undefined) {
    expected.set("verdict", verdict);
    actual.set("verdict", await playVerdict(data, task, record));
  }
  return { expected, actual };
}

/** Finds the data of a domain, and its tasks by id. */
class DataFinder {
  readonly #folder: string;
  readonly #options: GoldenSuiteOptions;
  readonly #tasks = new Map<string, Promise<ReadonlyMap<string, Tau2Task>>>();
  readonly #banks = new Map<string, Promise<DomainData>>();
  #texts: Promise<Tau2Prompts> | null = null;
  #toolDocs: Promise<ReadonlyMap<string, string>> | null = null;

  constructor(folder: string, options: GoldenSuiteOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  /** Upstream's sentences, if the golden files show them. */
  texts(): Promise<Tau2Prompts> {
    return (this.#texts ??= textsIn(this.#folder));
  }

  async load(domain: string, record: JsonObject): Promise<DomainData> {
    const mustContain = [join(domain.replace("-workflow", ""), "tools.json")];
    const found = findData("tau2-bench", { data: this.#options.data, goldens: this.#folder, mustContain });
    if (domain !== "banking_knowledge") return loadTau2Data({ domain, folder: found });
    const retrieval = (record.get("retrieval") as string | undefined) ?? "bm25_grep";
    let bank = this.#banks.get(retrieval);
    if (bank === undefined) {
      const added = (this.#toolDocs ??= bankToolDocs(this.#folder));
      bank = added.then((docs) => loadTau2Data({ domain: `${domain}-${retrieval}`, folder: found, added: docs }));
      this.#banks.set(retrieval, bank);
    }
    return bank;
  }

  /** Searched for in the split that most records use, then in the one that has all tasks. */
  async task(data: DomainData, id: string): Promise<Tau2Task> {
    for (const split of ["base", "full"].filter((name) => data.splits.includes(name))) {
      const key = `${data.domain.name}/${split}`;
      let reading = this.#tasks.get(key);
      if (reading === undefined) {
        reading = data.tasks(split).then((tasks) => new Map(tasks.map((task) => [task.id, task])));
        this.#tasks.set(key, reading);
      }
      const task = (await reading).get(id);
      if (task !== undefined) return task;
    }
    throw new ConfigurationError(`Cannot run task "${id}": tau2-bench/${data.domain.name} has none of that id.`);
  }
}
