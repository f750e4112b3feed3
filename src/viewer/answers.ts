// The viewer's answers by path, for its server and for exported pages. Answers only read; nothing
// can be changed.

import { ConfigurationError, type Tokenizer } from "../core/index.ts";
import { comparePage } from "./compare-page.ts";
import { packedText } from "./token-text.ts";
import { readTraining } from "./training.ts";
import type { RunView } from "./run-view.ts";
import { decodeEpisode } from "./wire/index.ts";
import type { Reason, StoredEpisode } from "./wire/index.ts";

export type ViewerParts = {
  readonly runs: readonly RunView[];
  /** Loads the tokenizer of a model folder that a run names; `null` if the folder is gone. */
  /** `run`: the folder of the run; the model may be in a folder above it. */
  readonly tokenizerOf: (folder: string | null, run: string) => Promise<Tokenizer | null>;
};

/** Maximum number of rows or tasks in one answer. */
const mostRows = 1000;

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
  runs: async (_, { runs }) => {
    await Promise.all(runs.map((run) => run.refresh()));
    return runs.map(({ facts }) => facts);
  },
  summary: async (query, parts) => {
    const summary = await runOf(query, parts).summary();
    return query.get("since") === summary.version ? { unchanged: true } : summary;
  },
  rows: async (query, parts) => {
    const [where, kind, label, task, sort, known] = ["where", "kind", "reason", "task", "sort", "known"].map((key) =>
      query.get(key),
    );
    return runOf(query, parts).rows({
      ...(where ? { where } : {}),
      ...(kind && label ? { reason: { kind: kind as Reason["kind"], label } } : {}),
      ...(task ? { task } : {}),
      ...(sort ? { sort } : {}),
      ...(known ? { after: { number: Number(query.get("after")), id: known } } : {}),
      ...pageOf(query),
    });
  },
  tasks: async (query, parts) => runOf(query, parts).tasks({ never: query.get("never") === "1", ...pageOf(query) }),
  episode: async (query, parts) => {
    const { episode, ...facts } = await runOf(query, parts).episode(query.get("id") ?? "");
    // The line unchanged: parsing and writing it again would cost more than reading it.
    return Buffer.concat([Buffer.from(`${JSON.stringify(facts).slice(0, -1)},"episode":`), episode, Buffer.from("}")]);
  },
  group: async (query, parts) => runOf(query, parts).group(query.get("id") ?? ""),
  text: async (query, parts) => {
    const run = runOf(query, parts);
    const { episode } = await run.episode(query.get("id") ?? "");
    const tokenizer = run.store.hasTokenizer
      ? await parts.tokenizerOf(run.store.modelFolder, run.facts.location)
      : null;
    if (tokenizer === null) return null;
    return packedText(decodeEpisode(JSON.parse(episode.toString("utf8")) as StoredEpisode), tokenizer);
  },
  training: async (query, parts) => {
    const run = runOf(query, parts);
    await run.refresh();
    const training = await readTraining(run.facts.location, run.facts);
    return query.get("since") === training.version ? { unchanged: true } : training;
  },
  compare: async (_, { runs }) => comparePage(runs),
  alive: () => Promise.resolve({ name: "trainable-agents view" }),
};

export function runOf(query: URLSearchParams, { runs }: ViewerParts): RunView {
  const run = runs[Number(query.get("run") ?? "0")];
  if (run !== undefined) return run;
  throw new ConfigurationError(
    `Cannot find run ${JSON.stringify(query.get("run"))}: ${runs.length} are open; use an index from 0.`,
  );
}

function pageOf(query: URLSearchParams): { readonly from: number; readonly count: number } {
  const read = (key: string, initial: number): number => {
    const value = Number(query.get(key) ?? initial);
    return Number.isSafeInteger(value) && value >= 0 ? value : initial;
  };
  return { from: read("from", 0), count: Math.min(read("count", 100), mostRows) };
}
