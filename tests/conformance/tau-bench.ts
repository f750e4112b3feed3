// Golden suite `tau-bench`: results of the Python reference, compared with our environment. The
// kind of a record is detected from the record itself, so files may have any name; the domain is
// the name of their folder.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError } from "#src/core/index.ts";
import { type DomainData, loadTauBench, tauBenchDomains } from "#src/environments/tau-bench/index.ts";
import type { JsonObject, JsonValue } from "#src/python-semantics/json/index.ts";
import { findData } from "./find-data.ts";
import { GoldenTally, readGoldenFile } from "./golden-file.ts";
import type { GoldenFileReport, GoldenSuite, GoldenSuiteOptions } from "./suite.ts";
import { playCalls, playMatrixCall } from "./tau-bench-calls.ts";
import { playEpisode } from "./tau-bench-episodes.ts";
import { playRecordedRun } from "./tau-bench-recorded-runs.ts";
import { expectedTask, playTask } from "./tau-bench-tasks.ts";
import { playCalculation, playValue } from "./tau-bench-values.ts";
import { playUserFlow, type UserFlow } from "./user-flows.ts";

export const tauBenchSuite: GoldenSuite = {
  name: "tau-bench",
  run: async function* (folder, options) {
    const entries = await readdir(folder, { recursive: true });
    const files = entries.map((entry) => entry.replaceAll("\\", "/")).sort();
    for (const file of files) {
      if (file.endsWith(".jsonl")) yield await playFile(folder, file, options);
      if (/(^|\/)user-flows[^/]*\.json$/.test(file)) yield await playUserFlows(folder, file);
    }
  },
};

/** Expected and actual value of a record; a string is the reason why it cannot be run. */
type Played = { readonly expected: JsonValue; readonly actual: JsonValue } | string;

async function playFile(folder: string, file: string, options: GoldenSuiteOptions): Promise<GoldenFileReport> {
  const tally = new GoldenTally(file);
  const records = await readGoldenFile(join(folder, file));
  const domain = file.split("/").at(-2) ?? null;
  for (const [index, record] of records.entries()) {
    const named: JsonObject = new Map<string, JsonValue>([["id", `record ${index + 1}`], ...record]);
    let play: () => JsonValue;
    let expected: JsonValue = null;
    try {
      const played = await playRecord(record, { domain, folder, options });
      if (typeof played === "string") {
        tally.unsupported(played);
        continue;
      }
      expected = played.expected;
      play = () => played.actual;
    } catch (error) {
      if (error instanceof ConfigurationError) throw error;
      play = () => {
        throw error;
      };
    }
    tally.compare(named, expected, play);
  }
  return tally.report();
}

type Place = { readonly domain: string | null; readonly folder: string; readonly options: GoldenSuiteOptions };

async function playRecord(record: JsonObject, place: Place): Promise<Played> {
  if (record.has("json") && record.has("dumps")) return playValue(record);
  if (record.has("expression")) return playCalculation(record);
  const isKnown = ["calls", "arguments", "gt_data_hash", "steps"].some((key) => record.has(key));
  if (!isKnown) return "records of an unknown kind";
  const data = await loadDomain(place);
  if (typeof data === "string") return data;
  if (record.has("calls")) return playCalls(data, record);
  if (record.has("arguments")) return playMatrixCall(data, record);
  if (record.has("gt_data_hash")) return { expected: expectedTask(record), actual: await playTask(data, record) };
  return record.has("task_id") ? playRecordedRun(data, record) : playEpisode(data, record);
}

async function loadDomain({ domain, folder, options }: Place): Promise<DomainData | string> {
  if (domain === null || !tauBenchDomains.includes(domain)) return `domain "${domain ?? ""}" is not built yet`;
  const mustContain = [join(domain, "wiki.md")];
  const found = findData("tau-bench", { data: options.data, goldens: folder, mustContain });
  return loadTauBench({ domain, folder: found });
}

async function playUserFlows(folder: string, file: string): Promise<GoldenFileReport> {
  const flows = JSON.parse(await readFile(join(folder, file), "utf8")) as readonly UserFlow[];
  const tally = new GoldenTally(file);
  for (const [index, flow] of flows.entries()) {
    const difference = await playUserFlow(flow);
    const named: JsonObject = new Map([["id", `${flow.strategy} ${index + 1}`]]);
    if (difference === undefined) tally.unsupported(`user "${flow.strategy}" is not built yet`);
    else tally.compare(named, null, () => difference);
  }
  return tally.report();
}
