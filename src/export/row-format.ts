// A format of rows: what a row of the table in `formats.ts` states, and how it is documented: the
// unit of a row, how rows are built, the number of trained tokens, which is counted in the row
// itself, and the kind of file that it needs.

import type { EpisodeSamples, Sample } from "../core/index.ts";
import type { AnyRow, Columns } from "./columns.ts";
import type { RowFile } from "./files.ts";
import type { ExportOrigin } from "./samples.ts";
import type { TeacherFields, TeacherScores } from "./teacher.ts";

export type EpisodeToExport = { readonly origin: ExportOrigin; readonly result: EpisodeSamples };

/** Data that a format may need beyond episodes. */
export type ExportContext = {
  /** Decodes tokens to text, for formats with `needsText`. */
  readonly decode: (tokens: Uint32Array, origin: ExportOrigin) => string;
  /** JSON text of the tools that the episode's template shows; `null` if none are known. */
  readonly toolsOf: (origin: ExportOrigin) => string | null;
  /** Variables that the chat template of a run got. @default none */
  readonly templateKwargsOf?: (run: string | null) => Readonly<Record<string, unknown>> | null;
  /**
   * Place of a sample's experts, for formats with `holdsTurnBytes`; `null` if it has none.
   * @default no sample has any
   */
  readonly expertsOf?: (sample: Sample, origin: ExportOrigin) => RoutedExpertsPlace | null;
  /** Like `expertsOf`, of the ids from which its tokens were sampled. */
  readonly samplingMaskOf?: (sample: Sample, origin: ExportOrigin) => SamplingMaskPlace | null;
  /**
   * A teacher's scores of a sample, for formats with `teacherColumns`; `null` if it is not scored.
   * @default no row has a place for scores
   */
  readonly teacherOf?: (sample: Sample, origin: ExportOrigin) => TeacherScores | null;
};

/** Place of the bytes of a row: in a file next to the rows, or in the row itself. */
type BytesPlace =
  | {
      /** Name of the file. */
      readonly file: string;
      /** Offset of the first byte. */
      readonly offset: number;
    }
  | { readonly base64: string };

/**
 * Place of the experts of a row's tokens: an array of this shape, C order, little-endian, with one
 * row for each token but the last.
 */
export type RoutedExpertsPlace = BytesPlace & {
  readonly dtype: "uint8" | "uint16";
  /** Number of tokens minus one, layers, experts per token. */
  readonly shape: readonly [number, number, number];
};

/**
 * Place of the kept ids of a row's sampled tokens: for each, their number and then the ids, as
 * little-endian uint32.
 */
export type SamplingMaskPlace = BytesPlace & {
  /** Number of sampled tokens. */
  readonly tokens: number;
  /** Number of kept ids of all of them together. */
  readonly ids: number;
};

/** A row, and the episodes that it contains. */
export type ExportedRow = { readonly row: AnyRow; readonly episodes: readonly ExportOrigin[] };

export type ExportFormat = {
  readonly columns: Columns<AnyRow>;
  /**
   * Trainers of policies get only kept groups, because groups are dropped for their sake. Datasets
   * of text take all groups. Logs for people also take failed and ungraded episodes.
   */
  readonly takes: "kept-groups" | "all-groups" | "everything";
  /** True: the format calls `decode`. */
  readonly needsText: boolean;
  /** True: the trainer finds groups by position, so a file holds whole groups of one size. */
  readonly wholeGroups: boolean;
  /** True: a row can hold turn rewards. */
  readonly holdsTurnRewards: boolean;
  /** True: the format calls `expertsOf` and `samplingMaskOf`, and a row has the places. */
  readonly holdsTurnBytes: boolean;
  /**
   * Columns that rows also have if the context has `teacherOf`; empty if scores are in other
   * columns, `null` if the format has no place for them.
   */
  readonly teacherColumns: Columns<AnyRow> | null;
  /** The rows of one group; `episodes` is not empty. */
  readonly rowsOf: (episodes: readonly EpisodeToExport[], context: ExportContext) => readonly ExportedRow[];
  /** Tokens of the row that enter the loss; `null` for formats without tokens. */
  readonly trainedTokens: (row: AnyRow) => number | null;
  /** Reason for omitting an offered episode from all rows. */
  readonly whyLeftOut: string;
  /** True: the format calls `toolsOf`. */
  readonly needsTools: boolean;
  /**
   * File of the rows: "any" for JSON lines or Parquet, "json-lines" for rows whose fields have no columns of Parquet;
   * a function opens a document of its own, `title` names what was run.
   */
  readonly file: "any" | "json-lines" | ((path: string, columns: Columns<AnyRow>, title: string) => Promise<RowFile>);
};

type RowsOf<Row> = (
  episodes: readonly EpisodeToExport[],
  context: ExportContext,
) => readonly { readonly row: Row; readonly episodes: readonly ExportOrigin[] }[];

/** A format with the usual facts where `parts` does not state them. */
export function rowFormat<Row extends AnyRow>(
  columns: Columns<Row>,
  parts: Partial<Omit<ExportFormat, "columns" | "rowsOf" | "trainedTokens">> & {
    readonly rowsOf: RowsOf<Row>;
    readonly trainedTokens?: (row: Row) => number;
  },
): ExportFormat {
  return {
    columns,
    takes: "kept-groups",
    needsText: false,
    wholeGroups: false,
    holdsTurnRewards: false,
    holdsTurnBytes: false,
    teacherColumns: null,
    whyLeftOut: "no token that could be trained is recorded",
    needsTools: columns.some(({ name }) => name === "tools"),
    file: "any",
    ...parts,
    // The cast is safe, because rows are passed back to the format that made them.
    trainedTokens: (row) => parts.trainedTokens?.(row as Row) ?? null,
  };
}

/** One row for each sample. `teacher` adds a teacher's scores to a row. */
export function eachSample<Row>(
  toRow: (sample: Sample, origin: ExportOrigin, context: ExportContext) => Row,
  teacher: TeacherFields<Row> | null = null,
): RowsOf<Row> {
  return (episodes, context) =>
    episodes.flatMap(({ origin, result }) =>
      result.samples.map((sample) => {
        const row = toRow(sample, origin, context);
        if (teacher === null || context.teacherOf === undefined) return { row, episodes: [origin] };
        return { row: teacher(row, sample, context.teacherOf(sample, origin)), episodes: [origin] };
      }),
    );
}

/** Places of the bytes of a sample, under the names of rows; empty if it has none. */
export function turnBytesFacts(sample: Sample, origin: ExportOrigin, { expertsOf, samplingMaskOf }: ExportContext) {
  const experts = expertsOf?.(sample, origin) ?? null;
  const mask = samplingMaskOf?.(sample, origin) ?? null;
  return {
    ...(experts === null ? {} : { routed_experts: experts }),
    ...(mask === null ? {} : { sampling_mask: mask }),
  };
}
