// The table of formats, each a row; `row-format.ts` documents what it states. Also, the export of
// one group, with the check that every sampled token is either
// in a row or omitted with a reason. Pure; runs are read and files are written elsewhere.

import { ConfigurationError, type Episode, type EpisodeSamples, type GroupRecord } from "../core/index.ts";
import { countOnes } from "../trajectories/index.ts";
import type { AnyRow } from "./columns.ts";
import { preferenceColumns, toPreferenceRows, sftColumns, toSftRow } from "./conversations.ts";
import { atifColumns, inspectColumns, toAtifRow, toInspectRow } from "./logs.ts";
import { createInspectFile } from "./files.ts";
import {
  eachSample,
  type EpisodeToExport,
  type ExportContext,
  type ExportFormat,
  rowFormat,
  turnBytesFacts,
} from "./row-format.ts";
import { countLabels } from "./samples.ts";
import {
  addSlimeTeacher,
  addTinkerTeacher,
  addTrlTeacher,
  addVerlTeacher,
  slimeTeacherColumns,
  tinkerTeacherColumns,
  trlTeacherColumns,
} from "./teacher.ts";
import { slimeColumns, toSlimeRow } from "./slime.ts";
import {
  atroposColumns,
  sftTokensColumns,
  tinkerColumns,
  toAtroposRow,
  toSftTokensRow,
  toTinkerRow,
  toTrlRow,
  toVerlRow,
  trlColumns,
  verlColumns,
} from "./trainers.ts";
import { toVerifiersRow, verifiersColumns } from "./verifiers.ts";
import { summaryOf, type WhereFields, whereFields } from "../store/index.ts";

export const exportFormats = {
  slime: rowFormat(slimeColumns, {
    rowsOf: eachSample((sample, origin, context) => {
      const row = toSlimeRow(sample, origin, { decode: (tokens) => context.decode(tokens, origin) });
      return { ...row, metadata: { ...row.metadata, ...turnBytesFacts(sample, origin, context) } };
    }, addSlimeTeacher),
    teacherColumns: slimeTeacherColumns,
    trainedTokens: ({ loss_mask }) => countOnesIn(loss_mask),
    needsText: true,
    holdsTurnRewards: true,
    holdsTurnBytes: true,
  }),
  verl: rowFormat(verlColumns, {
    holdsTurnRewards: true,
    holdsTurnBytes: true,
    rowsOf: eachSample((sample, origin, context) => {
      const row = toVerlRow(sample, origin);
      return { ...row, extra_fields: { ...row.extra_fields, ...turnBytesFacts(sample, origin, context) } };
    }, addVerlTeacher),
    teacherColumns: [],
    trainedTokens: ({ response_mask }) => countOnesIn(response_mask),
  }),
  atropos: rowFormat(atroposColumns, {
    rowsOf: (all) => {
      const episodes = withSamples(all);
      const samples = episodes.flatMap(({ origin, result }) => result.samples.map((sample) => ({ sample, origin })));
      if (samples.length === 0) return [];
      return [{ row: toAtroposRow(samples), episodes: episodes.map(({ origin }) => origin) }];
    },
    trainedTokens: ({ masks }) => sum(masks.map(countLabels)),
  }),
  verifiers: rowFormat(verifiersColumns, {
    holdsTurnRewards: true,
    rowsOf: (episodes) =>
      withSamples(episodes).map(({ origin, result }) => ({
        row: toVerifiersRow(origin, result.dropped),
        episodes: [origin],
      })),
    trainedTokens: ({ traces }) => sum(traces[0].nodes.map(({ mask }) => mask.filter(Boolean).length)),
  }),
  tinker: rowFormat(tinkerColumns, {
    rowsOf: eachSample(toTinkerRow, addTinkerTeacher),
    teacherColumns: tinkerTeacherColumns,
    trainedTokens: ({ mask }) => countOnesIn(mask),
  }),
  trl: rowFormat(trlColumns, {
    rowsOf: eachSample(toTrlRow, addTrlTeacher),
    teacherColumns: trlTeacherColumns,
    trainedTokens: ({ env_mask }) => countOnesIn(env_mask),
    wholeGroups: true,
  }),
  sft: rowFormat(sftColumns, {
    takes: "all-groups",
    rowsOf: (episodes, { toolsOf }) =>
      episodes
        .filter(({ origin }) => origin.episode.messages.some(({ role }) => role === "assistant"))
        .map(({ origin }) => ({ row: toSftRow(origin, toolsOf(origin)), episodes: [origin] })),
    whyLeftOut: "it holds no action",
  }),
  "sft-tokens": rowFormat(sftTokensColumns, {
    takes: "all-groups",
    rowsOf: eachSample(toSftTokensRow),
    trainedTokens: ({ labels }) => countLabels(labels),
  }),
  atif: rowFormat(atifColumns, {
    takes: "everything",
    needsTools: true,
    file: "json-lines",
    holdsTurnRewards: true,
    rowsOf: (episodes, { toolsOf }) =>
      episodes.map(({ origin }) => ({ row: toAtifRow(origin, toolsOf(origin)), episodes: [origin] })),
  }),
  inspect: rowFormat(inspectColumns, {
    takes: "everything",
    file: createInspectFile,
    holdsTurnRewards: true,
    rowsOf: (episodes) => episodes.map(({ origin }) => ({ row: toInspectRow(origin), episodes: [origin] })),
  }),
  preferences: rowFormat(preferenceColumns, {
    takes: "all-groups",
    rowsOf: (episodes, { toolsOf }) => {
      const origins = episodes.map(({ origin }) => origin);
      return toPreferenceRows(origins, toolsOf).map((row) => {
        const { chosen_episode_id: chosen, rejected_episode_id: rejected } = row.metadata;
        return { row, episodes: origins.filter(({ episode: { id } }) => id === chosen || id === rejected) };
      });
    },
    whyLeftOut: "neither the best nor the worst of those that began alike",
  }),
} as const satisfies Readonly<Record<string, ExportFormat>>;

export type ExportFormatName = keyof typeof exportFormats;

// `Object.keys` loses the type of the keys.
export const exportFormatNames = Object.keys(exportFormats) as readonly ExportFormatName[];

function withSamples(episodes: readonly EpisodeToExport[]): EpisodeToExport[] {
  return episodes.filter(({ result }) => result.samples.length > 0);
}

function countOnesIn(mask: readonly number[]): number {
  let ones = 0;
  for (const entry of mask) if (entry === 1) ones++;
  return ones;
}

export type GroupToExport = {
  readonly run: string | null;
  /** Number of the group in the export. */
  readonly groupIndex: number;
  /** "undecided": the run was stopped or is in progress. */
  readonly decision: GroupRecord["decision"] | "undecided";
  /** Reason for dropping it; `null` when it was not dropped. */
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
  /** Number of episodes in rows. */
  readonly episodes: number;
  /** Trained tokens of these episodes, each counted once. `null` for formats without tokens. */
  readonly trainedTokens: number | null;
  readonly leftOut: readonly LeftOut[];
};

/**
 * Exports one group. Throws a plain error when a sample must not be exported, and when the rows do
 * not hold exactly the tokens of their episodes that are to be trained: an export that lost or
 * duplicated a token must not be finished.
 */
export function exportGroup(
  group: GroupToExport,
  format: ExportFormat,
  options: ExportContext & {
    readonly where: (fields: WhereFields) => boolean;
    /**
     * Option for formats of whole groups: rows per group so far, `null` before the first. Default:
     * groups of any size are accepted.
     */
    readonly groupSize?: number | null;
    /**
     * Treatment of grades that have turn rewards. "ignore": only the episode's reward is exported.
     * @default "keep"
     */
    readonly turnRewards?: TurnRewardsChoice;
  },
): ExportedGroup {
  const { run, groupIndex, decision } = group;
  const groupMean = meanReward(group);
  const leftOut = new Map<string, LeftOut>();
  const leaveOut = (reason: string, episode: Episode): void => {
    const { episodes, sampledTokens } = leftOut.get(reason) ?? { episodes: 0, sampledTokens: 0 };
    leftOut.set(reason, { reason, episodes: episodes + 1, sampledTokens: sampledTokens + countSampled(episode) });
  };
  const taken: EpisodeToExport[] = [];
  for (const { episode: graded, result, index } of group.episodes) {
    const episode = options.turnRewards === "ignore" ? withoutTurnRewards(graded) : graded;
    const templateKwargs = options.templateKwargsOf?.(run) ?? null;
    const origin = { episode, index, groupIndex, run, sampleCount: result.samples.length, groupMean, templateKwargs };
    const isChosen = (): boolean =>
      options.where(whereFields(summaryOfSamples(episode, result), { decision, groupMean, run }));
    const reason = whyNot(group, format, { origin, result }) ?? (isChosen() ? null : "--where");
    if (reason === null) taken.push({ origin, result });
    else leaveOut(reason, episode);
  }
  if (!format.holdsTurnRewards) refuseTurnRewards(taken, format);
  const exported = taken.length === 0 ? [] : format.rowsOf(taken, options);
  if (format.wholeGroups && options.groupSize !== undefined && exported.length > 0) {
    const reason = whyNotWhole(group, exported.length, options.groupSize);
    if (reason !== null) {
      for (const { origin } of taken) leaveOut(reason, origin.episode);
      return { rows: [], episodes: 0, trainedTokens: null, leftOut: [...leftOut.values()] };
    }
  }
  const inRows = new Set(exported.flatMap(({ episodes }) => episodes.map(({ index }) => index)));
  for (const { origin } of taken) if (!inRows.has(origin.index)) leaveOut(format.whyLeftOut, origin.episode);
  const rows = exported.map(({ row }) => row);
  const written = taken.filter(({ origin }) => inRows.has(origin.index));
  const trainedTokens = checkTokens(rows, written, format);
  return { rows, episodes: written.length, trainedTokens, leftOut: [...leftOut.values()] };
}

/** Counts the samples of the run, whose fault policy may have removed some. */
function summaryOfSamples(episode: Episode, { samples }: EpisodeSamples) {
  const longestSample = samples.reduce((longest, { tokens }) => Math.max(longest, tokens.length), 0);
  return { ...summaryOf(episode), samples: samples.length, longestSample };
}

/** Treatment of turn rewards: written into rows, or omitted. */
export const turnRewardsChoices = ["keep", "ignore"] as const;
export type TurnRewardsChoice = (typeof turnRewardsChoices)[number];

function withoutTurnRewards(episode: Episode): Episode {
  return episode.grade === null ? episode : { ...episode, grade: { ...episode.grade, turnRewards: null } };
}

/**
 * Refuses turn rewards that the format cannot hold: a trainer would silently learn from their sum
 * only.
 */
function refuseTurnRewards(episodes: readonly EpisodeToExport[], format: ExportFormat): void {
  const graded = episodes.find(({ origin: { episode } }) => (episode.grade?.turnRewards ?? null) !== null);
  if (graded === undefined) return;
  const named = Object.entries<ExportFormat>(exportFormats);
  const name = named.find(([, other]) => other === format)?.[0] ?? "this format";
  const holders = named.flatMap(([holder, { holdsTurnRewards }]) => (holdsTurnRewards ? [holder] : []));
  throw new ConfigurationError(
    `Cannot export episode "${graded.origin.episode.id}" to ${name}: its turns have rewards of their own, and a row of ${name} has ` +
      `no place for them; pass --turn-rewards ignore (over HTTP: turn_rewards=ignore) to export only the episode's reward, or use ${holders.join(", ")}.`,
  );
}

function whyNot(
  { decision, reason }: GroupToExport,
  { takes }: ExportFormat,
  { origin, result }: EpisodeToExport,
): string | null {
  const { outcome, reward } = origin.episode;
  if (takes === "everything") return null;
  if (outcome === "failed" || outcome === "aborted") return `it was ${outcome}`;
  if (reward === null) return "it was not graded";
  if (isFilteredOut(result)) return "the run's fault policy took it out";
  if (takes === "all-groups" || decision === "kept") return null;
  return decision === "dropped" ? `its group was dropped: ${reason}` : "its group is not decided yet";
}

/**
 * Reason to reject a group, for a trainer that finds groups by position: it needs one row for each
 * episode, in groups of one size.
 */
function whyNotWhole({ episodes }: GroupToExport, rows: number, size: number | null): string | null {
  const name = `its group "${episodes[0]?.episode.groupId}"`;
  if (rows !== episodes.length) return `${name} is incomplete: ${rows} rows for ${episodes.length} episodes`;
  return size === null || rows === size ? null : `${name} has ${rows} rows, but the groups before it have ${size}`;
}

/**
 * True if the run removed the episode's rows from its group; its reward is then not compared with
 * the others either.
 */
function isFilteredOut({ samples, dropped }: EpisodeSamples): boolean {
  return samples.length === 0 && dropped.some(({ reason }) => reason === "filtered");
}

/**
 * Trained tokens of the episodes, which must equal those of the rows. `null` for formats without
 * tokens, and without rows.
 */
function checkTokens(
  rows: readonly AnyRow[],
  written: readonly EpisodeToExport[],
  format: ExportFormat,
): number | null {
  const counts = rows.map(format.trainedTokens).filter((count) => count !== null);
  if (counts.length === 0) return null;
  const inRows = sum(counts);
  let expected = 0;
  for (const { origin, result } of written) {
    const trained = sum(result.samples.map(({ lossMask }) => countOnes(lossMask)));
    const dropped = sum(result.dropped.map(({ count }) => count));
    const sampled = countSampled(origin.episode);
    if (trained + dropped !== sampled) throw lost(origin.episode.id, `${trained} + ${dropped}`, sampled);
    expected += trained;
  }
  if (inRows !== expected)
    throw lost(written.map(({ origin }) => origin.episode.id).join('", "'), `${inRows}`, expected);
  return inRows;
}

function lost(episodes: string, found: string, expected: number): Error {
  return new Error(
    `Cannot export episodes "${episodes}": ${found} tokens are trained or dropped, ${expected} are to be. This is a bug of trainable-agents.`,
  );
}

function meanReward({ episodes }: GroupToExport): number | null {
  const rewards = episodes.flatMap(({ episode: { reward }, result }) => (isFilteredOut(result) ? [] : (reward ?? [])));
  return rewards.length === 0 ? null : sum(rewards) / rewards.length;
}

function countSampled({ trajectory }: Episode): number {
  return sum(trajectory.turns.map(({ sampledTokens }) => sampledTokens.length));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
