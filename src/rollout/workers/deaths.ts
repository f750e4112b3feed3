// Finds episodes that kill their workers. A worker notes in its shard that it begins an episode
// that was delivered before, and that it is still alive when the episode ends in any way; a
// beginning without an end means that the worker died. Only deaths at the same place of an episode
// count together: an episode that got further since did not cause the earlier ones. Notes are
// written only for repeated deliveries, so a run without deaths writes none.

import { appendFile, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { EpisodeEvent, Failure } from "../../core/index.ts";
import type { Lease } from "../../queue/job-queue.ts";

const notesFile = "deliveries.txt";

/** Number of deaths at the same place after which an episode fails, and kills no further worker. */
const mostDeaths = 5;

/**
 * Number of deaths after which an episode is the only one in its worker: of many that died
 * together, only the cause dies again.
 */
const leastSuspect = 3;
/**
 * Required number of deaths of workers that ran nothing else, so that an episode is never blamed
 * for the cause of another.
 */
const mostAlone = 2;

/**
 * Suspicion that an episode kills its workers: none; run it without any others; or fail it without
 * running it.
 */
export type Suspicion = "none" | "alone" | "fatal";

type Noted = { readonly place: number; readonly location: string; readonly isAlone: boolean };

export class Deaths {
  /** Notes that could not be written yet: a full disk must not look like a death. */
  #pending = "";

  /** Suspicion from the notes about an episode before this delivery; `place` is that of `placeOf`. */
  async suspicion({ job, delivery }: Lease, place: number): Promise<Suspicion> {
    if (delivery <= leastSuspect || job.shards === null) return "none";
    // The first delivery has no note.
    let [together, alone] = [1, 0];
    for (const name of await readdir(job.shards).catch(() => [])) {
      const notes = await readFile(join(job.shards, name, notesFile), "utf8").catch(() => "");
      for (const line of notes.split("\n")) {
        if (line.slice(1) !== noteOf(job.episodeId, place)) continue;
        together += line.startsWith("+") ? 1 : line.startsWith("-") ? -1 : 0;
        alone += line.startsWith("!") ? 1 : line.startsWith("=") ? -1 : 0;
      }
    }
    if (alone >= mostAlone && together + alone >= mostDeaths) return "fatal";
    return together + alone >= leastSuspect ? "alone" : "none";
  }

  /** `location`: the folder of the worker's shard. `isAlone`: the worker runs nothing else. */
  async begin({ job, delivery }: Lease, { place, location, isAlone }: Noted): Promise<void> {
    if (delivery > 1) await this.#write(`${isAlone ? "!" : "+"}${noteOf(job.episodeId, place)}\n`, location);
  }

  /** `isDone`: the episode has a receipt, and is not delivered again. */
  async end({ job, delivery }: Lease, { place, location, isAlone }: Noted, isDone: boolean): Promise<void> {
    if (delivery === 1 && isDone) return;
    await this.#write(`${isAlone ? "=" : "-"}${noteOf(job.episodeId, place)}\n`, location);
  }

  async #write(note: string, location: string): Promise<void> {
    const notes = this.#pending + note;
    this.#pending = "";
    try {
      await appendFile(join(location, notesFile), notes);
    } catch {
      this.#pending = notes + this.#pending;
    }
  }
}

function noteOf(episodeId: string, place: number): string {
  return `${place} ${JSON.stringify(episodeId)}`;
}

/** Progress of an episode: number of events since it began, or began again in a new world. */
export function placeOf(recorded: readonly EpisodeEvent[]): number {
  return recorded.length - 1 - recorded.findLastIndex(({ type }) => type === "restart");
}

export function deadlyEpisode(episodeId: string): Failure {
  return {
    boundary: "queue",
    code: "worker-died",
    retryable: false,
    cause: null,
    message:
      `Cannot run episode "${episodeId}": ${mostDeaths} workers died at the same point of it; check what its task and its tools do to a ` +
      "process (memory, native code, process.exit).",
  };
}
