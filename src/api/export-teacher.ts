// The scores of exported runs, read for one group at a time and checked against the rows that they
// go into.

import { ConfigurationError, type Sample } from "../core/index.ts";
import type { ExportContext, ExportOrigin, GroupToExport, TeacherScores } from "../export/index.ts";
import { type EpisodeScores, readTeacherScores, type TeacherScoresReader, tokensChecksum } from "../store/index.ts";

export class ExportTeacher {
  readonly #readers: ReadonlyMap<string | null, TeacherScoresReader>;
  /** Scores of the current group, by episode. */
  #group = new Map<string, EpisodeScores | null>();
  /** Number of rows without scores so far. */
  missing = 0;

  private constructor(readers: ReadonlyMap<string | null, TeacherScoresReader>) {
    this.#readers = readers;
  }

  /**
   * `null` if none of the runs is scored. Rejects with a `ConfigurationError` for runs whose rows
   * would have lists of different widths, and for a corrupted file.
   */
  static async open(
    runs: readonly { readonly name: string | null; readonly folder: string }[],
  ): Promise<ExportTeacher | null> {
    const readers = new Map<string | null, TeacherScoresReader>();
    for (const { name, folder } of runs) {
      const reader = await readTeacherScores(folder);
      if (reader !== null) readers.set(name, reader);
    }
    const widths = new Set([...readers.values()].map(({ teacher: { topTokens } }) => topTokens));
    if (widths.size > 1) {
      throw new ConfigurationError(
        `Cannot export these runs together: their teachers listed ${[...widths].join(" and ")} tokens for each position; score them with the same --top-tokens.`,
      );
    }
    return readers.size === 0 ? null : new ExportTeacher(readers);
  }

  /** Reads the scores of a group's episodes; `of` then knows them. */
  async learn({ run, episodes }: GroupToExport): Promise<void> {
    this.#group = new Map();
    const reader = this.#readers.get(run);
    if (reader === undefined) return;
    for (const { episode } of episodes) this.#group.set(episode.id, await reader.read(episode.id));
  }

  /** Throws a `ConfigurationError` if the scores are of other tokens. */
  readonly of: NonNullable<ExportContext["teacherOf"]> = (sample: Sample, { episode }: ExportOrigin) => {
    const found = this.#group.get(episode.id)?.samples.find(({ branch }) => branch === sample.branch);
    const scores = found?.scores ?? null;
    if (found === undefined || scores === null) {
      this.missing++;
      return null;
    }
    const isOfSample =
      found.tokens === tokensChecksum(sample.tokens) && found.from + scores.logprobs.length === sample.tokens.length;
    if (isOfSample) return { from: found.from, scores } satisfies TeacherScores;
    throw new ConfigurationError(
      `Cannot export sample "${sample.id}": the teacher's scores are of other tokens; remove teacher-scores.jsonl of the run, and score it again.`,
    );
  };
}
