// scoreRun(): a teacher scores the tokens of a run, beside it, while it runs or afterwards.

import { resolve } from "node:path";

import { AttributedError, type Engine, type Episode, type Sample } from "../core/index.ts";
import type { Scorer, ScoreResult } from "../core/scoring.ts";
import { systemClock } from "../lib/clock.ts";
import { createSemaphore } from "../lib/limits.ts";
import { episodeSamples, routingKeyOf } from "../rollout/loop.ts";
import {
  type EpisodeSummary,
  openRunFolder,
  openTeacherScores,
  type RunFolder,
  runFacts,
  type RunPosition,
  type SampleScores,
  type TeacherScoresFile,
  tokensChecksum,
} from "../store/index.ts";
import type { CallOptions } from "./options.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { openTeacher, scoreTokens, type TeacherOptions } from "./teacher.ts";

/** Options of {@link scoreRun}: the flags of the command `score` in camelCase. */
export type ScoreRunOptions = CallOptions &
  Partial<Pick<RolloutSettings, "concurrency" | "turnTimeout">> &
  TeacherOptions & {
    /** Run folder, finished or in progress. */
    readonly run: string;
    /** Waits for further episodes until the run ends. @default false */
    readonly follow?: boolean;
    /** Receives notices for people, synchronously. @default none */
    readonly onNotice?: (message: string) => void;
    /** Called after every episode, synchronously. @default none */
    readonly onProgress?: (progress: ScoreCounts) => void;
  };

/** Counts of episodes, rows and tokens. */
export type ScoreCounts = {
  /** Episodes of the run so far. */
  readonly episodes: number;
  /** Episodes that earlier calls had scored. */
  readonly known: number;
  /** Episodes that this call scored, those without rows included. */
  readonly scored: number;
  /** Their rows. */
  readonly samples: number;
  /** Rows that do not fit the teacher's context. */
  readonly tooLong: number;
  /** Sampled tokens of the scored rows. */
  readonly tokens: number;
  /**
   * Mean of the logprob under the policy minus the one under the teacher, over these tokens, in
   * nats: an estimate of KL(policy, teacher). `null` if the run has no logprobs.
   */
  readonly reverseKl: number | null;
};

/** Result of {@link scoreRun}. */
export type ScoreRunResult = ScoreCounts & {
  /** "interrupted": a signal stopped it; the next call continues. */
  readonly end: "done" | "interrupted";
};

/** The public function of this name: `functions.ts`. */
export async function scoreRun(options: ScoreRunOptions): Promise<ScoreRunResult> {
  const { run, cwd = process.cwd(), variables = process.env, follow = false, onNotice = () => undefined } = options;
  const folder = resolve(cwd, run);
  const reader = openRunFolder(folder);
  const { model } = runFacts(await reader.manifest());
  const teacher = await openTeacher(options, {
    cwd,
    variables,
    signal: options.signal,
    student: { folder: model?.folder ?? null, run: folder },
    onNotice,
  });
  try {
    const file = await openTeacherScores(folder, teacher.facts);
    try {
      return await scoreEpisodes(reader, { ...options, ...teacher, file, follow });
    } finally {
      await file.close();
    }
  } finally {
    await teacher.close();
  }
}

type Scoring = Pick<ScoreRunOptions, "signal" | "drain" | "onProgress"> & {
  readonly engine: Engine & Scorer;
  readonly file: TeacherScoresFile;
  readonly follow: boolean;
  readonly topTokens: number;
  /** Maximum number of concurrent calls. */
  readonly calls: number;
  readonly timeoutMs: number;
};

/** Interval in milliseconds of looks for further episodes. */
const lookMs = 500;

/** Scores every episode that is not in the file. Rejects with the first failure, after the calls in flight. */
export async function scoreEpisodes(reader: RunFolder, scoring: Scoring): Promise<ScoreRunResult> {
  const { file, drain, signal, follow, calls, onProgress } = scoring;
  const stopping = new AbortController();
  const stop = AbortSignal.any([stopping.signal, ...[drain, signal].filter((one) => one !== undefined)]);
  const semaphore = createSemaphore(calls);
  const counts = { episodes: 0, known: 0, scored: 0, samples: 0, tooLong: 0, tokens: 0, difference: 0, compared: 0 };
  const shown = (): ScoreCounts => {
    const { difference, compared, ...rest } = counts;
    return { ...rest, reverseKl: compared === 0 ? null : difference / compared };
  };
  const faults: unknown[] = [];
  const running = new Set<Promise<void>>();
  const begin = (summary: EpisodeSummary, release: () => void): void => {
    const score = async (): Promise<void> => {
      const { samples, ...more } = await scoreEpisode(reader, summary, scoring);
      await file.append({ id: summary.id, samples });
      counts.scored++;
      counts.samples += samples.length;
      for (const name of ["tooLong", "tokens", "difference", "compared"] as const) counts[name] += more[name];
      onProgress?.(shown());
    };
    const task = score()
      .catch((error: unknown) => {
        faults.push(error);
        stopping.abort();
      })
      .finally(() => {
        running.delete(task);
        release();
      });
    running.add(task);
  };
  try {
    for await (const summary of summariesOf(reader, { follow, signal: stop })) {
      counts.episodes++;
      if (file.scored.has(summary.id)) {
        counts.known++;
        continue;
      }
      const release = await semaphore.acquire(stop).catch(() => null);
      if (release === null) break;
      begin(summary, release);
    }
  } finally {
    await Promise.all(running);
  }
  const isStopped = drain?.aborted === true || signal?.aborted === true;
  const [fault] = isStopped ? faults.filter((error) => !isCancelled(error) && error !== signal?.reason) : faults;
  if (fault !== undefined) throw fault;
  return { ...shown(), end: isStopped ? "interrupted" : "done" };
}

function isCancelled(error: unknown): boolean {
  return error instanceof AttributedError && error.failure.code === "cancelled";
}

/** Episodes in stored order; with `follow`, until the run has ended. Ends when the signal aborts. */
async function* summariesOf(
  reader: RunFolder,
  { follow, signal }: { readonly follow: boolean; readonly signal: AbortSignal },
): AsyncGenerator<EpisodeSummary> {
  let position: RunPosition = { number: 0, id: null, groups: 0, lastGroup: "" };
  while (!signal.aborted) {
    // Read first: episodes that are stored before the run ends are in the rows that follow.
    const isOver = !follow || runFacts(await reader.manifest()).status !== "running";
    for (;;) {
      const changes = await reader.changesSince(position);
      position = changes.isReset ? { number: 0, id: null, groups: 0, lastGroup: "" } : changes.position;
      yield* changes.rows;
      if (changes.rows.length === 0 && !changes.isReset) break;
    }
    if (isOver) return;
    await systemClock.sleep(lookMs, signal).catch(() => undefined);
  }
}

type Scored = {
  readonly samples: readonly SampleScores[];
  readonly tooLong: number;
  readonly tokens: number;
  readonly difference: number;
  readonly compared: number;
};

async function scoreEpisode(reader: RunFolder, summary: EpisodeSummary, scoring: Scoring): Promise<Scored> {
  const episode = await reader.episode(summary);
  const rows = episode === null ? [] : episodeSamples(episode).samples;
  const samples: SampleScores[] = [];
  const sums = { tooLong: 0, tokens: 0, difference: 0, compared: 0 };
  for (const row of rows) {
    const scored = await scoreSample(row, episode!, scoring);
    samples.push(scored);
    if (scored.scores === null) sums.tooLong++;
    else addDifferences(sums, row, scored.from, scored.scores);
  }
  return { samples, ...sums };
}

function addDifferences(
  sums: { tokens: number; difference: number; compared: number },
  { sampledMask, logprobs }: Sample,
  from: number,
  scores: ScoreResult,
): void {
  for (const [index, logprob] of scores.logprobs.entries()) {
    if (sampledMask[from + index] !== 1) continue;
    sums.tokens++;
    const own = logprobs?.[from + index] ?? Number.NaN;
    if (Number.isNaN(own)) continue;
    sums.difference += own - logprob;
    sums.compared++;
  }
}

/** Scores of a row from its first sampled token on. */
async function scoreSample(
  { id, branch, tokens, sampledMask }: Sample,
  episode: Pick<Episode, "id">,
  scoring: Pick<Scoring, "engine" | "topTokens" | "timeoutMs" | "signal">,
): Promise<SampleScores> {
  const from = Math.max(1, sampledMask.indexOf(1));
  const place = { branch, tokens: tokensChecksum(tokens), from };
  // A lone token has nothing before it.
  if (tokens.length < 2) return { ...place, scores: null };
  try {
    const call = { tokens, from, topTokens: scoring.topTokens, requestId: id, routingKey: routingKeyOf(episode.id) };
    return { ...place, scores: await scoreTokens(scoring.engine, call, scoring) };
  } catch (error) {
    if (error instanceof AttributedError && error.failure.code === "context-length") return { ...place, scores: null };
    throw error;
  }
}
