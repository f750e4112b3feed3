// The formats by name: what a row of each stands for, how it is made, and how many trained tokens it holds, counted in the
// row itself, so that an export can be checked against its episodes.

import type { EpisodeSamples } from "../core/index.ts";
import { type AtroposRow, atroposColumns, toAtroposRow } from "./atropos.ts";
import type { ExportOrigin } from "./export-origin.ts";
import { countLabels } from "./labels.ts";
import { preferenceColumns, toPreferenceRows } from "./preferences.ts";
import type { AnyRow, Columns } from "./row-columns.ts";
import { sftColumns, toSftRow } from "./sft.ts";
import { type SftTokensRow, sftTokensColumns, toSftTokensRow } from "./sft-tokens.ts";
import { slimeColumns, type SlimeRow, toSlimeRow } from "./slime.ts";
import { type TinkerRow, tinkerColumns, toTinkerRow } from "./tinker.ts";
import { toTrlRow, trlColumns, type TrlRow } from "./trl.ts";
import { toVerifiersRow, verifiersColumns, type VerifiersRow } from "./verifiers.ts";
import { toVerlRow, verlColumns, type VerlRow } from "./verl.ts";

export type EpisodeToExport = { readonly origin: ExportOrigin; readonly result: EpisodeSamples };

/** What a format may need beyond episodes. */
export type ExportContext = {
  /** Text of tokens, for formats that want it (`needsText`). */
  readonly decode: (tokens: Uint32Array, origin: ExportOrigin) => string;
  /** JSON text of the tools that the episode's template shows; `null` where none are known. */
  readonly toolsOf: (origin: ExportOrigin) => string | null;
};

/** A row and the episodes that are in it. */
export type ExportedRow = { readonly row: AnyRow; readonly episodes: readonly ExportOrigin[] };

export type ExportFormat = {
  readonly columns: Columns<AnyRow>;
  /** Trainers of policies get kept groups alone: a dropped group was dropped for their sake. Datasets of text take all. */
  readonly takes: "kept-groups" | "all-groups";
  /** True: `decode` is called. */
  readonly needsText: boolean;
  /** The trainer finds groups by position: a file holds whole groups of one size. */
  readonly wholeGroups: boolean;
  /** The rows of one group; `episodes` is not empty. */
  readonly rowsOf: (episodes: readonly EpisodeToExport[], context: ExportContext) => readonly ExportedRow[];
  /** Tokens of the row that enter the loss; `null` for formats without tokens. */
  readonly trainedTokens: (row: AnyRow) => number | null;
  /** Why an episode that was offered is in no row. */
  readonly whyLeftOut: string;
};

const noTokens = "no token that could be trained is recorded";

export const exportFormats = {
  slime: perSample<SlimeRow>(
    slimeColumns,
    ({ loss_mask }) => countOnesIn(loss_mask),
    (sample, origin, { decode }) => toSlimeRow(sample, origin, { decode: (tokens) => decode(tokens, origin) }),
    { needsText: true },
  ),
  verl: perSample<VerlRow>(verlColumns, ({ response_mask }) => countOnesIn(response_mask), toVerlRow),
  atropos: {
    columns: atroposColumns,
    takes: "kept-groups",
    needsText: false,
    wholeGroups: false,
    rowsOf: (episodes) => {
      const samples = episodes.flatMap(({ origin, result }) => result.samples.map((sample) => ({ sample, origin })));
      if (samples.length === 0) return [];
      return [{ row: toAtroposRow(samples), episodes: withSamples(episodes) }];
    },
    trainedTokens: (row) => (row as AtroposRow).masks.reduce((sum, mask) => sum + countLabels(mask), 0),
    whyLeftOut: noTokens,
  },
  verifiers: {
    columns: verifiersColumns,
    takes: "kept-groups",
    needsText: false,
    wholeGroups: false,
    rowsOf: (episodes) =>
      episodes
        .filter(({ result }) => result.samples.length > 0)
        .map(({ origin, result }) => ({ row: toVerifiersRow(origin, result.dropped), episodes: [origin] })),
    trainedTokens: (row) => {
      const { nodes } = (row as VerifiersRow).traces[0];
      return nodes.reduce((sum, { mask }) => sum + mask.filter(Boolean).length, 0);
    },
    whyLeftOut: noTokens,
  },
  tinker: perSample<TinkerRow>(tinkerColumns, ({ mask }) => countOnesIn(mask), toTinkerRow),
  trl: {
    ...perSample<TrlRow>(trlColumns, ({ env_mask }) => countOnesIn(env_mask), toTrlRow),
    wholeGroups: true,
  },
  sft: {
    columns: sftColumns,
    takes: "all-groups",
    needsText: false,
    wholeGroups: false,
    rowsOf: (episodes, { toolsOf }) =>
      episodes
        .filter(({ origin }) => origin.episode.messages.some(({ role }) => role === "assistant"))
        .map(({ origin }) => ({ row: toSftRow(origin, toolsOf(origin)), episodes: [origin] })),
    trainedTokens: () => null,
    whyLeftOut: "it holds no action",
  },
  "sft-tokens": {
    ...perSample<SftTokensRow>(sftTokensColumns, ({ labels }) => countLabels(labels), toSftTokensRow),
    takes: "all-groups",
  },
  preferences: {
    columns: preferenceColumns,
    takes: "all-groups",
    needsText: false,
    wholeGroups: false,
    rowsOf: (episodes, { toolsOf }) => {
      const origins = episodes.map(({ origin }) => origin);
      return toPreferenceRows(origins, toolsOf).map((row) => {
        const { chosen_episode_id: chosen, rejected_episode_id: rejected } = row.metadata;
        return { row, episodes: origins.filter(({ episode: { id } }) => id === chosen || id === rejected) };
      });
    },
    trainedTokens: () => null,
    whyLeftOut: "neither the best nor the worst of those that began alike",
  },
} as const satisfies Readonly<Record<string, ExportFormat>>;

export type ExportFormatName = keyof typeof exportFormats;

// `Object.keys` forgets the type of the keys.
export const exportFormatNames = Object.keys(exportFormats) as readonly ExportFormatName[];

type ToRow<Row> = (sample: EpisodeSamples["samples"][number], origin: ExportOrigin, context: ExportContext) => Row;

function perSample<Row extends AnyRow>(
  columns: Columns<Row>,
  trainedTokens: (row: Row) => number,
  toRow: ToRow<Row>,
  options: { readonly needsText?: boolean } = {},
): ExportFormat {
  return {
    columns,
    takes: "kept-groups",
    needsText: options.needsText ?? false,
    wholeGroups: false,
    rowsOf: (episodes, context) =>
      episodes.flatMap(({ origin, result }) =>
        result.samples.map((sample) => ({ row: toRow(sample, origin, context), episodes: [origin] })),
      ),
    // Rows come back to the format that made them.
    trainedTokens: (row) => trainedTokens(row as Row),
    whyLeftOut: noTokens,
  };
}

function withSamples(episodes: readonly EpisodeToExport[]): ExportOrigin[] {
  return episodes.filter(({ result }) => result.samples.length > 0).map(({ origin }) => origin);
}

function countOnesIn(mask: readonly number[]): number {
  let ones = 0;
  for (const entry of mask) if (entry === 1) ones++;
  return ones;
}
