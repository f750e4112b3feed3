// One group through a format: which of its episodes are taken, what becomes of the others, and the check that every sampled
// token is either in a row or left out with a reason. Pure; reading runs and writing files is done elsewhere.

import type { Episode, EpisodeSamples, GroupRecord } from "../core/index.ts";
import { countOnes } from "../trajectories/index.ts";
import type { EpisodeToExport, ExportContext, ExportFormat } from "./export-format.ts";
import type { ExportOrigin } from "./export-origin.ts";
import type { AnyRow } from "./row-columns.ts";
import { type WhereFields, whereFields } from "./where/where-fields.ts";

export type GroupToExport = {
  readonly run: string | null;
  /** Number of the group in the export. */
  readonly groupIndex: number;
  /** "undecided": the run was stopped, or goes on. */
  readonly decision: GroupRecord["decision"] | "undecided";
  /** Why it was dropped; `null` when it was not. */
  readonly reason: string | null;
  readonly episodes: readonly {
    readonly episode: Episode;
    readonly result: EpisodeSamples;
    /** Number of the episode in the export. */
    readonly index: number;
  }[];
};

export type LeftOut = { readonly reason: string; readonly episodes: number; readonly sampledTokens: number };

export type ExportedGroup = {
  readonly rows: readonly AnyRow[];
  /** Episodes that are in a row. */
  readonly episodes: number;
  /** Of these episodes; each is counted once. `null` for formats without tokens. */
  readonly trainedTokens: number | null;
  readonly leftOut: readonly LeftOut[];
};

/**
 * Throws a plain error when a sample must not be exported, and when the rows do not hold exactly the tokens of their
 * episodes that are to be trained: an export that lost or doubled a token must not be finished.
 */
export function exportGroup(
  group: GroupToExport,
  format: ExportFormat,
  options: ExportContext & {
    readonly where: (fields: WhereFields) => boolean;
    /** For formats of whole groups: rows of the groups so far, `null` before the first. Default: groups of any size are taken. */
    readonly groupSize?: number | null;
  },
): ExportedGroup {
  const groupMean = meanReward(group);
  const leftOut = new LeftOutCounter();
  const taken: EpisodeToExport[] = [];
  for (const { episode, result, index } of group.episodes) {
    const sampleCount = result.samples.length;
    const origin = { episode, index, groupIndex: group.groupIndex, run: group.run, sampleCount, groupMean };
    const reason = whyNot(group, { format, origin, result, where: options.where });
    if (reason === null) taken.push({ origin, result });
    else leftOut.add(reason, episode);
  }
  const exported = taken.length === 0 ? [] : format.rowsOf(taken, options);
  if (format.wholeGroups && options.groupSize !== undefined && exported.length > 0) {
    const problem = whyNotWhole(group, exported.length, options.groupSize);
    if (problem !== null) {
      for (const { origin } of taken) leftOut.add(problem, origin.episode);
      return { rows: [], episodes: 0, trainedTokens: null, leftOut: leftOut.list() };
    }
  }
  const inRows = new Set(exported.flatMap(({ episodes }) => episodes.map(({ index }) => index)));
  for (const { origin } of taken) if (!inRows.has(origin.index)) leftOut.add(format.whyLeftOut, origin.episode);
  const rows = exported.map(({ row }) => row);
  const written = taken.filter(({ origin }) => inRows.has(origin.index));
  return {
    rows,
    episodes: written.length,
    trainedTokens: checkTokens(rows, written, format),
    leftOut: leftOut.list(),
  };
}

function whyNot(
  group: GroupToExport,
  asked: {
    readonly format: ExportFormat;
    readonly origin: ExportOrigin;
    readonly result: EpisodeSamples;
    readonly where: (fields: WhereFields) => boolean;
  },
): string | null {
  const { format, origin, result, where } = asked;
  const { outcome, reward } = origin.episode;
  if (outcome === "failed" || outcome === "aborted") return `it was ${outcome}`;
  if (reward === null) return "it was not graded";
  if (isFilteredOut(result)) return "the run's fault policy took it out";
  if (format.takes === "kept-groups" && group.decision === "dropped") return `its group was dropped: ${group.reason}`;
  if (format.takes === "kept-groups" && group.decision === "undecided") return "its group is not decided yet";
  return where(whereFields(origin, { decision: group.decision, samples: result.samples })) ? null : "--where";
}

/** A trainer that finds groups by position needs one row for each episode, in groups of one size. */
function whyNotWhole({ episodes }: GroupToExport, rows: number, size: number | null): string | null {
  const name = `its group "${episodes[0]?.episode.groupId}"`;
  if (rows !== episodes.length) return `${name} is not whole: ${rows} rows of ${episodes.length} episodes`;
  return size === null || rows === size ? null : `${name} has ${rows} rows, the groups before it have ${size}`;
}

/** A run may take the rows of an episode out of its group: then its reward is not compared with the others either. */
function isFilteredOut({ samples, dropped }: EpisodeSamples): boolean {
  return samples.length === 0 && dropped.some(({ reason }) => reason === "filtered");
}

/** Trained tokens of the episodes, which must be those of the rows. */
function checkTokens(
  rows: readonly AnyRow[],
  written: readonly EpisodeToExport[],
  format: ExportFormat,
): number | null {
  let inRows: number | null = null;
  for (const row of rows) {
    const count = format.trainedTokens(row);
    if (count !== null) inRows = (inRows ?? 0) + count;
  }
  if (inRows === null) return null;
  let wanted = 0;
  for (const { origin, result } of written) {
    const trained = result.samples.reduce((sum, { lossMask }) => sum + countOnes(lossMask), 0);
    const dropped = result.dropped.reduce((sum, { count }) => sum + count, 0);
    const sampled = sampledTokens(origin.episode);
    if (trained + dropped !== sampled) throw lost(origin.episode.id, `${trained} + ${dropped}`, sampled);
    wanted += trained;
  }
  if (inRows !== wanted) throw lost(written.map(({ origin }) => origin.episode.id).join('", "'), `${inRows}`, wanted);
  return inRows;
}

function lost(episodes: string, found: string, wanted: number): Error {
  return new Error(
    `Cannot export episodes "${episodes}": ${found} tokens are trained or dropped, ${wanted} are to be. This is a bug of trainable-agents.`,
  );
}

function meanReward({ episodes }: GroupToExport): number | null {
  const rewards = episodes.flatMap(({ episode: { reward }, result }) => (isFilteredOut(result) ? [] : (reward ?? [])));
  return rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}

function sampledTokens({ trajectory }: Episode): number {
  return trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0);
}

class LeftOutCounter {
  readonly #byReason = new Map<string, LeftOut>();

  add(reason: string, episode: Episode): void {
    const before = this.#byReason.get(reason) ?? { reason, episodes: 0, sampledTokens: 0 };
    const sampled = before.sampledTokens + sampledTokens(episode);
    this.#byReason.set(reason, { reason, episodes: before.episodes + 1, sampledTokens: sampled });
  }

  list(): LeftOut[] {
    return [...this.#byReason.values()];
  }
}
