// A teacher scores the episodes of a run while it runs, outside the loop: it reads each ended episode
// from the run folder, as `score --run --follow` does, into the same file. A fault of the teacher never
// stops the run; `score --run` then continues where it stopped.

import { ConfigurationError, messageOf } from "../core/index.ts";
import type { Opened } from "../lib/opened.ts";
import { keyOf } from "../parts/setting.ts";
import { openRunFolder, openTeacherScores } from "../store/index.ts";
import type { ChosenModel } from "./choose-model.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { scoreEpisodes, type ScoreRunResult } from "./score-run.ts";
import type { Surroundings } from "./surroundings.ts";
import { openTeacher } from "./teacher.ts";

/** A teacher that is open. */
export type TeacherBeside = {
  /**
   * Begins to score the run in a folder, which has begun. Rejects with a `ConfigurationError` if the
   * folder has scores of another teacher.
   */
  begin(folder: string): Promise<{
    /**
     * Resolves once every episode has scores, after the run has ended, or sooner when it is drained or
     * the teacher fails, which is a notice.
     */
    readonly finished: Promise<void>;
  }>;
};

/**
 * Opens the teacher of settings that name one, before the run begins. `opened` receives it; closing it
 * finishes the calls in flight. Rejects with a `ConfigurationError` if it cannot score these tokens.
 */
export async function openTeacherBeside(
  settings: RolloutSettings,
  run: {
    /** The policy's model; `null` for an agent behind an API. */
    readonly model: Pick<ChosenModel, "folder"> | null;
    readonly surroundings: Surroundings;
    readonly onNotice: (message: string) => void;
    readonly opened: Opened;
    readonly drain: AbortSignal;
    readonly signal: AbortSignal;
  },
): Promise<TeacherBeside> {
  const { teacher: engine, teacherModel: model, teacherUrl: url, teacherApiKeyEnv: apiKeyEnv, topTokens } = settings;
  if (engine === null) {
    const given = { teacherModel: model, teacherUrl: url, teacherApiKeyEnv: apiKeyEnv };
    const [other] = Object.entries(given).find(([, value]) => value !== null) ?? ["topTokens"];
    throw new ConfigurationError(
      `Cannot use --${keyOf(other)} without --teacher: it is about the teacher; name its engine.`,
    );
  }
  if (run.model === null) {
    throw new ConfigurationError(
      "Cannot use --teacher with an agent behind an API: it has no tokens that a teacher could score; remove --teacher.",
    );
  }
  const { surroundings, onNotice, opened, drain, signal } = run;
  const { cwd, env: variables } = surroundings;
  const weights = engine === "llama-cpp" ? { gguf: model } : { model };
  const options = { teacher: engine, ...weights, url, apiKeyEnv, topTokens };
  const teacher = await openTeacher(options, {
    cwd,
    variables,
    signal,
    student: { folder: run.model.folder },
    onNotice,
  });
  opened.add(() => teacher.close());
  const begin: TeacherBeside["begin"] = async (folder) => {
    const file = await openTeacherScores(folder, teacher.facts);
    const closing = new AbortController();
    const scoreAll = async (): Promise<void> => {
      const stopping = AbortSignal.any([drain, closing.signal]);
      try {
        const scoring = { ...teacher, file, follow: true, drain: stopping, signal };
        const result = await scoreEpisodes(openRunFolder(folder), scoring).catch(async (error: unknown) => {
          await file.close();
          throw error;
        });
        await file.close();
        onNotice(summary(result));
      } catch (error) {
        const rest = `the run is not affected; score the rest with "score --run ${settings.out ?? folder}"`;
        onNotice(`Notice: The teacher stopped: ${messageOf(error).replace(/\.$/, "")}; ${rest}.`);
      }
    };
    const finished = scoreAll();
    opened.add(() => {
      closing.abort();
      return finished;
    });
    return { finished };
  };
  return { begin };
}

function summary({ end, scored, known, reverseKl, tooLong }: ScoreRunResult): string {
  const before = known === 0 ? "" : ` (${known} were scored before)`;
  const distance = reverseKl === null ? "" : `, ${reverseKl.toFixed(4)} nats a token from the teacher`;
  const long = tooLong === 0 ? "" : `, ${tooLong} rows do not fit its context`;
  const rest = end === "done" ? "" : "; the others are scored when the run is resumed";
  return `Note: the teacher scored ${scored} episodes${before}${distance}${long}${rest}.`;
}
