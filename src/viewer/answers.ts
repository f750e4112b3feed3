// The viewer's answers by path, for its server and for exported pages. Answers only read: what can
// be changed is in `server.ts`.

import { ConfigurationError, type Tokenizer } from "../core/index.ts";
import { comparePage } from "./compare-page.ts";
import { packedText } from "./token-text.ts";
import { readTraining, readTrainingStep } from "./training.ts";
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
  facts: ofRun(async (run) => {
    await run.refresh();
    return run.facts;
  }),
  summary: ofRun(async (run, query) => {
    const summary = await run.summary();
    return query.get("since") === summary.version ? { unchanged: true } : summary;
  }),
  rows: ofRun((run, query) => {
    const [where, kind, label, task, sort, known] = ["where", "kind", "reason", "task", "sort", "known"].map((key) =>
      query.get(key),
    );
    return run.rows({
      ...(where ? { where } : {}),
      ...(kind && label ? { reason: { kind: kind as Reason["kind"], label } } : {}),
      ...(task ? { task } : {}),
      ...(sort ? { sort } : {}),
      ...(known ? { after: { number: Number(query.get("after")), id: known } } : {}),
      ...pageOf(query),
    });
  }),
  tasks: ofRun((run, query) => run.tasks({ never: query.get("never") === "1", ...pageOf(query) })),
  episode: ofRun(async (run, query) => {
    const { episode, ...facts } = await run.episode(query.get("id") ?? "");
    // The line unchanged: parsing and writing it again would cost more than reading it.
    return Buffer.concat([Buffer.from(`${JSON.stringify(facts).slice(0, -1)},"episode":`), episode, Buffer.from("}")]);
  }),
  extracts: ofRun((run, query) => {
    const numbers = (query.get("numbers") ?? "")
      .slice(0, 8 * mostRows)
      .split(",")
      .map(Number);
    return run.extracts(numbers.filter(Number.isSafeInteger).slice(0, mostRows));
  }),
  labels: ofRun((run) => run.labels()),
  group: ofRun((run, query) => run.group(query.get("id") ?? "")),
  text: ofRun(async (run, query, parts) => {
    const { episode } = await run.episode(query.get("id") ?? "");
    const tokenizer = run.store.hasTokenizer
      ? await parts.tokenizerOf(run.store.modelFolder, run.facts.location)
      : null;
    if (tokenizer === null) return null;
    return packedText(decodeEpisode(JSON.parse(episode.toString("utf8")) as StoredEpisode), tokenizer);
  }),
  training: ofRun(async (run, query) => {
    await run.refresh();
    const training = await readTraining(run.facts.location, run.facts);
    return query.get("since") === training.version ? { unchanged: true } : training;
  }),
  step: ofRun((run, query) => readTrainingStep(run.facts.location, Number(query.get("step") ?? Number.NaN))),
  compare: (query, { runs, home }) => {
    if (home === null) return comparePage(runs);
    const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
    return home.use(a, (first) => home.use(b, (second) => comparePage([first, second])));
  },
  alive: () => Promise.resolve({ name: "trainable-agents view" }),
};

/** Answers about one run, which stays open until the answer is made. */
function ofRun(make: (run: RunView, query: URLSearchParams, parts: ViewerParts) => Promise<unknown>): Handler {
  return (query, parts) => useRun(query, parts, (run) => make(run, query, parts));
}

/** Uses the run that `run` names: by its place among those that were named, or by its path below the folder. */
export async function useRun<T>(
  query: URLSearchParams,
  { runs, home }: ViewerParts,
  work: (run: RunView) => Promise<T>,
): Promise<T> {
  const key = query.get("run") ?? "0";
  if (home !== null) return home.use(key, work);
  const run = runs.find((one) => one.key === key);
  if (run !== undefined) return work(run);
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
