// The viewer's answers by path, for its server and for exported pages. Answers only read; nothing
// can be changed.

import { ConfigurationError, type Tokenizer } from "../core/index.ts";
import { comparePage } from "./compare-page.ts";
import { packedText } from "./token-text.ts";
import { readTraining } from "./training.ts";
import type { Home } from "./home.ts";
import type { RunView } from "./run-view.ts";
import { decodeEpisode } from "./wire/index.ts";
import type { Reason, StoredEpisode } from "./wire/index.ts";

export type ViewerParts = {
  /** The runs that were named; empty where a folder is listed. */
  readonly runs: readonly RunView[];
  /** The folder whose runs are listed; `null` if runs were named. */
  readonly home: Home | null;
  /** Loads the tokenizer of a model folder that a run names; `null` if the folder is gone. */
  /** `run`: the folder of the run; the model may be in a folder above it. */
  readonly tokenizerOf: (folder: string | null, run: string) => Promise<Tokenizer | null>;
};

/** Maximum number of rows or tasks in one answer. */
const mostRows = 1000;
const mostFilterCharacters = 1000;

export type Answer = { readonly status: number; readonly body: string | Buffer };

/**
 * Answers `/api/<name>?...`. Rejects with a `ConfigurationError` for faults that a client can
 * correct.
 */
export async function answer(path: string, parts: ViewerParts): Promise<Answer> {
  const url = new URL(path, "http://viewer");
  const name = url.pathname.replace(/^\/api\//, "");
  const query = url.searchParams;
  const handler = Object.hasOwn(handlers, name) ? handlers[name] : undefined;
  if (handler === undefined)
    return { status: 404, body: JSON.stringify({ error: `Cannot answer: there is no route "${name.slice(0, 40)}".` }) };
  const body = await handler(query, parts);
  return { status: 200, body: Buffer.isBuffer(body) || typeof body === "string" ? body : JSON.stringify(body) };
}

type Handler = (query: URLSearchParams, parts: ViewerParts) => Promise<unknown>;

const handlers: Readonly<Record<string, Handler>> = {
  /** Empty where a folder is listed. */
  runs: async (_, { runs }) => {
    await Promise.all(runs.map((run) => run.refresh()));
    return runs.map(({ facts }) => facts);
  },
  home: async (query, { home }) => {
    if (home === null) throw new ConfigurationError("Cannot list runs: runs were named; name the folder above them.");
    const [filter, sort] = ["filter", "sort"].map((key) => query.get(key));
    const page = await home.page({
      ...(filter ? { filter: filter.slice(0, mostFilterCharacters) } : {}),
      ...(sort ? { sort } : {}),
      count: pageOf(query).count,
    });
    return query.get("since") === page.version && !page.isReading ? { unchanged: true } : page;
  },
  facts: async (query, parts) => {
    const run = await runOf(query, parts);
    await run.refresh();
    return run.facts;
  },
  summary: async (query, parts) => {
    const summary = await (await runOf(query, parts)).summary();
    return query.get("since") === summary.version ? { unchanged: true } : summary;
  },
  rows: async (query, parts) => {
    const [where, kind, label, task, sort, known] = ["where", "kind", "reason", "task", "sort", "known"].map((key) =>
      query.get(key),
    );
    return (await runOf(query, parts)).rows({
      ...(where ? { where } : {}),
      ...(kind && label ? { reason: { kind: kind as Reason["kind"], label } } : {}),
      ...(task ? { task } : {}),
      ...(sort ? { sort } : {}),
      ...(known ? { after: { number: Number(query.get("after")), id: known } } : {}),
      ...pageOf(query),
    });
  },
  tasks: async (query, parts) =>
    (await runOf(query, parts)).tasks({ never: query.get("never") === "1", ...pageOf(query) }),
  episode: async (query, parts) => {
    const { episode, ...facts } = await (await runOf(query, parts)).episode(query.get("id") ?? "");
    // The line unchanged: parsing and writing it again would cost more than reading it.
    return Buffer.concat([Buffer.from(`${JSON.stringify(facts).slice(0, -1)},"episode":`), episode, Buffer.from("}")]);
  },
  extracts: async (query, parts) => {
    const numbers = (query.get("numbers") ?? "")
      .slice(0, 8 * mostRows)
      .split(",")
      .map(Number);
    return (await runOf(query, parts)).extracts(numbers.filter(Number.isSafeInteger).slice(0, mostRows));
  },
  group: async (query, parts) => (await runOf(query, parts)).group(query.get("id") ?? ""),
  text: async (query, parts) => {
    const run = await runOf(query, parts);
    const { episode } = await run.episode(query.get("id") ?? "");
    const tokenizer = run.store.hasTokenizer
      ? await parts.tokenizerOf(run.store.modelFolder, run.facts.location)
      : null;
    if (tokenizer === null) return null;
    return packedText(decodeEpisode(JSON.parse(episode.toString("utf8")) as StoredEpisode), tokenizer);
  },
  training: async (query, parts) => {
    const run = await runOf(query, parts);
    await run.refresh();
    const training = await readTraining(run.facts.location, run.facts);
    return query.get("since") === training.version ? { unchanged: true } : training;
  },
  compare: async (query, { runs, home }) => {
    if (home === null) return comparePage(runs);
    const keys = ["a", "b"].map((name) => query.get(name) ?? "");
    return comparePage(await Promise.all(keys.map((key) => home.open(key))));
  },
  alive: () => Promise.resolve({ name: "trainable-agents view" }),
};

/** The run that `run` names: by its place among those that were named, or by its path below the folder. */
export async function runOf(query: URLSearchParams, { runs, home }: ViewerParts): Promise<RunView> {
  const key = query.get("run") ?? "0";
  if (home !== null) return home.open(key);
  const run = runs.find((one) => one.key === key);
  if (run !== undefined) return run;
  throw new ConfigurationError(
    `Cannot find run ${JSON.stringify(key.slice(0, 200))}: ${runs.length} are open; use an index from 0.`,
  );
}

function pageOf(query: URLSearchParams): { readonly from: number; readonly count: number } {
  const read = (key: string, initial: number): number => {
    const value = Number(query.get(key) ?? initial);
    return Number.isSafeInteger(value) && value >= 0 ? value : initial;
  };
  return { from: read("from", 0), count: Math.min(read("count", 100), mostRows) };
}
