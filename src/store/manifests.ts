// Facts that run.json and train.json record about a run and a training, and the list of all
// records. Episodes and groups are described in records.ts.

import type { JsonObject } from "../python-semantics/json/index.ts";
import { storedSummary } from "./episode-index.ts";
import { storedEpisode, storedGroup } from "./records.ts";
import {
  boolean,
  jsonObject,
  nullable,
  number,
  oneOf,
  record,
  type RecordOf,
  type RecordReference,
  type Schema,
  text,
} from "./schema.ts";

/**
 * Reads any value other than ours as absent: other programs also keep runs in such folders, and may
 * write any values.
 */
function ours<T>(schema: Schema<T>): Schema<T | null> {
  const own = nullable(schema);
  const read: (typeof own)["read"] = (...given) => {
    try {
      return own.read(...given);
    } catch {
      return null;
    }
  };
  return { ...own, title: schema.title, read };
}

const runModel = record("RunModel", {
  folder: [ours(nullable(text)), "null: the readable tokenizer of the demonstrations"],
  tokenizer: ours(text),
  vocabularySize: ours(number),
  renderer: [ours(text), "model family"],
  historyPolicy: ours(text),
  templateKwargs: [ours(jsonObject), "variables that the chat template is given"],
  parsers: ours(jsonObject),
});

/** `run.json` as commands write it. Readers of folders need only its `format`. */
export const runManifest = record("run.json", {
  format: [number, "4"],
  sharded: [ours(boolean), "true: several processes wrote it, and `index.jsonl` records which episodes count"],
  id: [ours(text), "the same after a resume and in a copy of the folder"],
  status: ours(oneOf(["running", "done", "interrupted", "failed"])),
  startedAt: ours(text),
  finishedAt: ours(nullable(text)),
  resumed: [ours(number), "how often it was resumed"],
  versions: [ours(jsonObject), "of this package and of Node"],
  seed: ours(number),
  environment: ours(
    record("RunEnvironment", {
      name: ours(text),
      split: ours(nullable(text)),
      tasks: [ours(number), "how many"],
      taskHashes: [ours(jsonObject), "hash of each split, for tasks of files and functions; a resume needs the same"],
    }),
  ),
  model: [ours(nullable(runModel)), "null: the agent is behind an API"],
  engine: ours(
    nullable(record("RunEngine", { name: ours(text), address: ours(text), weightVersion: ours(nullable(text)) })),
  ),
  agent: [ours(nullable(record("RunAgent", { name: ours(text), address: ours(text) }))), "behind an API"],
  user: ours(text),
  configuration: [ours(jsonObject), "every setting by its key in configuration files"],
  totals: [ours(nullable(jsonObject)), "counts, once it is finished"],
  error: [ours(nullable(text)), "why it failed"],
});

/**
 * Description and results of a run; a field is `null` also if another program did not write it.
 */
export type RunFacts = RecordOf<typeof runManifest>;

/** Reads the facts of a parsed `run.json`. */
export function runFacts(manifest: JsonObject): RunFacts {
  return runManifest.read(manifest, "run.json");
}

/** `train.json`: description of a training, whose folder holds no episodes. */
export const trainManifest = record("train.json", {
  format: ours(number),
  id: [ours(text), "the same after a resume"],
  versions: [ours(jsonObject), "of this package and of Node"],
  kernels: [ours(text), "the build of them that computed"],
  threads: ours(number),
  environment: ours(text),
  split: ours(text),
  model: [ours(text), "folder that it began with"],
  learning: [ours(jsonObject), "every setting of the training by its name"],
  configuration: [ours(jsonObject), "every setting of its rollouts by its key in configuration files"],
});

/** Description of a training, read like {@link RunFacts}. */
export type TrainFacts = RecordOf<typeof trainManifest>;

/**
 * The records in the order of docs/reference.md: `run.json`, a line of each file of results, and
 * `train.json`.
 */
export const recordReferences: readonly RecordReference[] = [
  runManifest,
  storedEpisode,
  storedSummary,
  storedGroup,
  trainManifest,
].flatMap(({ parts }) => parts);
