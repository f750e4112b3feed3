// Logprobs that a trainer computed for the tokens of a run: JSON lines, one for each training row,
// named as every export names it. The viewer lays them over the sampled logprobs; the rows that our
// own functions make decide which tokens they belong to.

import { basename } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { type ForeignLimits, linesOf } from "../foreign/index.ts";
import { plainJson } from "../python-semantics/json/index.ts";
import {
  type Difference,
  noDifference,
  overlayOf,
  plus,
  type ShownSamples,
  type TrainerCheck,
  type TrainerLines,
} from "./wire/index.ts";

/** A line of the file; NaN if the trainer has no logprob. */
type TrainerRow = { readonly line: number; readonly branch: number; readonly logprobs: Float32Array };

export type TrainerLogprobs = {
  /** Name of the file without its folder, because exported pages leave this machine. */
  readonly file: string;
  /** Rows by the id of the episode, in the order of the lines. */
  readonly episodes: ReadonlyMap<string, readonly TrainerRow[]>;
};

/** Maximum number of logprobs of a file. They are kept in memory, four bytes each. */
const mostLogprobs = 200_000_000;

/** Rejects with a `ConfigurationError` that names the malformed line. `name` is for messages. */
export async function readTrainerLogprobs(
  path: string,
  name: string,
  { recordBytes = 128 << 20 }: Pick<ForeignLimits, "recordBytes"> = {},
): Promise<TrainerLogprobs> {
  const episodes = new Map<string, TrainerRow[]>();
  let count = 0;
  for await (const { text, number, isLast } of linesOf(path, name, { recordBytes })) {
    const parsed = parseLine(text);
    // The last line may be incomplete while it is being written.
    if (parsed === null && isLast) break;
    const row = rowOf(parsed?.value);
    if (typeof row === "string") {
      throw new ConfigurationError(
        `Cannot read the logprobs of "${name}", line ${number}: ${parsed === null ? "it is not JSON" : row}; ` +
          'expected {"episode_id": "…", "branch": 0, "logprobs": [-0.1, …]}.',
      );
    }
    count += row.logprobs.length;
    if (count > mostLogprobs) {
      throw new ConfigurationError(
        `Cannot read the logprobs of "${name}": there are more than ${mostLogprobs}; provide the lines of fewer episodes.`,
      );
    }
    const { episodeId, ...facts } = row;
    const others = episodes.get(episodeId) ?? [];
    others.push({ ...facts, line: number });
    episodes.set(episodeId, others);
  }
  if (episodes.size === 0) {
    throw new ConfigurationError(
      `Cannot read the logprobs of "${name}": it has no line; name the file that the trainer wrote.`,
    );
  }
  return { file: basename(path), episodes };
}

function parseLine(text: string): { readonly value: unknown } | null {
  try {
    return { value: plainJson(text) };
  } catch {
    return null;
  }
}

/** Reads a row; a string is the reason why the value is not one. */
function rowOf(value: unknown): (Omit<TrainerRow, "line"> & { readonly episodeId: string }) | string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "it is not an object";
  const { episode_id: episodeId, branch = 0, logprobs: list } = value as Readonly<Record<string, unknown>>;
  if (typeof episodeId !== "string" || episodeId === "") return "episode_id is not a string";
  if (!Number.isSafeInteger(branch) || (branch as number) < 0) return "branch is not a whole number of at least 0";
  if (!Array.isArray(list)) return "logprobs is not a list";
  const logprobs = new Float32Array(list.length);
  for (const [place, logprob] of (list as readonly unknown[]).entries()) {
    if (logprob !== null && typeof logprob !== "number")
      return `logprobs has what is neither a number nor null, at place ${place}`;
    logprobs[place] = logprob ?? NaN;
  }
  return { episodeId, branch: branch as number, logprobs };
}

/** The lines of an episode, in the form that is sent to the page. */
export function linesOfEpisode({ file, episodes }: TrainerLogprobs, episodeId: string): TrainerLines {
  const rows = (episodes.get(episodeId) ?? []).map(({ line, branch, logprobs }) => ({
    line,
    branch,
    logprobs: Buffer.from(logprobs.buffer).toString("base64"),
  }));
  return { file, rows };
}

const mostProblems = 20;

/** Counts over the episodes of a run, each of which is added once. */
export class TrainerComparison {
  readonly #given: TrainerLogprobs;
  #difference: Difference = noDifference;
  #largestIn: number | null = null;
  #missing = 0;
  #bare = 0;
  #known = 0;
  readonly #problems: number[] = [];

  constructor(given: TrainerLogprobs) {
    this.#given = given;
  }

  add(number: number, episodeId: string, samples: ShownSamples): void {
    if (this.#given.episodes.has(episodeId)) this.#known++;
    if (samples.samples.length === 0 && !this.#given.episodes.has(episodeId)) return;
    const { branches, problems } = overlayOf(samples, linesOfEpisode(this.#given, episodeId));
    for (const { difference, missing } of branches.values()) {
      if (difference.tokens > 0 && (this.#largestIn === null || difference.largest > this.#difference.largest))
        this.#largestIn = number;
      this.#difference = plus(this.#difference, difference);
      this.#missing += missing;
    }
    this.#bare += samples.samples.length - branches.size;
    if (problems.length > 0 && this.#problems.length < mostProblems) this.#problems.push(number);
  }

  check(isDone: boolean): TrainerCheck {
    return {
      file: this.#given.file,
      difference: this.#difference,
      largestIn: this.#largestIn,
      missing: this.#missing,
      bare: this.#bare,
      problems: [...this.#problems],
      unknown: isDone ? this.#given.episodes.size - this.#known : null,
    };
  }
}
