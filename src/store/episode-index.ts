// `index.jsonl` of a run folder: one line per episode that counts, in the order in which they
// ended, with everything that a list shows and the place of the full record. In a run of one
// process it is derived from `episodes.jsonl` and can be made again; in a run with shards it
// decides which of their lines count.

import {
  ConfigurationError,
  endingOf,
  type Episode,
  type Task,
  outcomes,
  stopReasons,
  boundaries,
} from "../core/index.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { countSamples } from "../trajectories/index.ts";
import type { ByteWriter } from "./byte-writer.ts";
import { checkLine, endLine } from "./lines.ts";
import { runFiles } from "./run-store.ts";
import { checked, namedValues, nullable, number, oneOf, record, text, wholeNumber } from "./schema.ts";
import { addCount } from "../lib/counts.ts";

/** Place of an episode's line, without its line end. */
export type EpisodePlace = {
  /** Shard whose file `shards/<shard>` has the line; `null` for `episodes.jsonl` of the folder. */
  readonly shard: string | null;
  /** Offset of the first byte. */
  readonly offset: number;
  readonly length: number;
  /** The checksum at the end of the line. */
  readonly crc32: string;
};

/** Summary of an episode for lists, and the place of its full record. */
export type EpisodeSummary = {
  /** Number from 1, in the order in which the episodes of the run ended. */
  readonly number: number;
  readonly id: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly task: Pick<Task, "environment" | "split" | "id" | "index" | "contentHash">;
  readonly outcome: Episode["outcome"];
  readonly stopReason: Episode["stopReason"];
  /** The environment's own name for the end; `null` if only the stop reason describes it. */
  readonly ending: string | null;
  readonly failure: Pick<NonNullable<Episode["failure"]>, "boundary" | "code"> | null;
  readonly reward: number | null;
  /** First line of the grade's log; `null` if the log is empty. */
  readonly gradeNote: string | null;
  /** Format errors by code. */
  readonly problems: Readonly<Record<string, number>>;
  readonly historyPolicy: Episode["historyPolicy"];
  /** Engine calls; 0 for a model behind an API. */
  readonly turns: number;
  /** Number of parsed actions. */
  readonly decisions: number;
  readonly observedTokens: number;
  readonly sampledTokens: number;
  /** Tokens in the loss, before any policy of the run removes episodes. */
  readonly trainedTokens: number;
  /** Number of training rows; `longestSample` is the number of tokens of the longest. */
  readonly samples: number;
  readonly longestSample: number;
  /**
   * Oldest weight version: the smallest of whole numbers, else the first; `newestWeights` is the
   * greatest, else the last. `null` if the engine names none.
   */
  readonly oldestWeights: string | null;
  readonly newestWeights: string | null;
  /** Sum over the episode's events. */
  readonly durationMs: number;
  readonly place: EpisodePlace;
};

/** A summary before its number in the run is known. */
export type UnnumberedSummary = Omit<EpisodeSummary, "number">;

const shardPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/** True if a shard may have this name, which becomes the name of a folder. */
export function isShardName(name: string): boolean {
  return shardPattern.test(name);
}

const shardName = checked(
  "text",
  "a name of letters, digits, dots, dashes and underscores",
  (value): value is string => typeof value === "string" && isShardName(value),
  (writer, value) => writer.quoted(value),
);

const crc = checked(
  "text",
  "8 hexadecimal digits",
  (value): value is string => typeof value === "string" && /^[0-9a-f]{8}$/.test(value),
  (writer, value) => writer.quoted(value),
);

const unnumbered = {
  id: text,
  groupId: text,
  sampleIndex: [number, "the episode's place in its group"],
  task: record<EpisodeSummary["task"]>("TaskName", {
    environment: text,
    split: text,
    id: text,
    index: number,
    contentHash: text,
  }),
  outcome: oneOf(outcomes),
  stopReason: oneOf(stopReasons),
  ending: [nullable(text), "what the environment calls its end"],
  failure: nullable(
    record<NonNullable<EpisodeSummary["failure"]>>("FailureName", { boundary: oneOf(boundaries), code: text }),
  ),
  reward: nullable(number),
  gradeNote: [nullable(text), "first line of the grade's log, cut"],
  problems: [namedValues(number), "format errors by code"],
  historyPolicy: oneOf<Episode["historyPolicy"]>(["append-only", "keep-reasoning", "branch", "no-tokens"]),
  turns: [number, "engine calls; 0 for a model behind an API"],
  decisions: [number, "actions that were read"],
  observedTokens: number,
  sampledTokens: number,
  trainedTokens: [number, "in the loss, before a fault policy of the run takes episodes out"],
  samples: [number, "training rows"],
  longestSample: [number, "its tokens"],
  oldestWeights: [nullable(text), "of whole numbers the smallest, else the first"],
  newestWeights: nullable(text),
  durationMs: [number, "of its events, added up"],
  place: record<EpisodePlace>("EpisodePlace", {
    shard: [nullable(shardName), "null: in `episodes.jsonl` of the folder; else in that of `shards/<shard>`"],
    offset: [wholeNumber, "of the first byte"],
    length: [wholeNumber, "without the line end"],
    crc32: [crc, "as at the end of the line"],
  }),
} as const;

/** A line of `index.jsonl`. */
export const storedSummary = record<EpisodeSummary>("index.jsonl", {
  number: [wholeNumber, "from 1, in the order in which episodes ended"],
  ...unnumbered,
});

const receipt = record<UnnumberedSummary>("EpisodeReceipt", unnumbered);

/**
 * Checks a summary that came from another process as plain JSON. Throws a plain error that names
 * the invalid field.
 */
export function summaryFromPlain(value: unknown, where: string): UnnumberedSummary {
  return receipt.read(fromPlain(value), where);
}

/** Writes a line of the index, line end included. */
export function writeSummary(writer: ByteWriter, summary: EpisodeSummary, redact: (text: string) => string): void {
  const start = writer.length;
  storedSummary.write(writer, summary);
  writer.redact(start, redact);
  endLine(writer, start);
}

/** Reads a line of an index, without its end. Throws a `ConfigurationError` for a corrupted line. */
export function readSummary(line: Buffer, file: string, place: string): EpisodeSummary {
  checkLine(line, { file, place });
  const where = `"${file}" ${place}`;
  try {
    return storedSummary.read(parseJson(line.toString("utf8")), where);
  } catch (cause) {
    throw new ConfigurationError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

const longestNote = 160;

/** Summary derived from an episode. Throws a `RangeError` for turns whose parents do not exist. */
export function summaryOf(episode: Episode): Omit<UnnumberedSummary, "place"> {
  const { id, groupId, sampleIndex, task, outcome, stopReason, failure, reward, grade, historyPolicy } = episode;
  const { turns } = episode.trajectory;
  const problems: Record<string, number> = {};
  for (const { code } of episode.problems) addCount(problems, code);
  let [observedTokens, sampledTokens, decisions, durationMs] = [0, 0, 0, 0];
  for (const turn of turns) {
    observedTokens += turn.observationTokens.length;
    sampledTokens += turn.sampledTokens.length;
  }
  for (const event of episode.events) {
    if (event.type === "decision" || event.type === "exchange") decisions++;
    durationMs += (event as { readonly durationMs?: number }).durationMs ?? 0;
  }
  const { samples, trainedTokens, longest } = countSamples(episode);
  const [oldestWeights, newestWeights] = weightsOf(episode);
  // Listed field by field, because spreading takes longer than everything above.
  return {
    id,
    groupId,
    sampleIndex,
    task: {
      environment: task.environment,
      split: task.split,
      id: task.id,
      index: task.index,
      contentHash: task.contentHash,
    },
    outcome,
    stopReason,
    ending: endingOf(episode),
    failure: failure === null ? null : { boundary: failure.boundary, code: failure.code },
    reward,
    gradeNote: noteOf(grade?.log ?? ""),
    problems,
    historyPolicy,
    turns: turns.length,
    decisions,
    observedTokens,
    sampledTokens,
    trainedTokens,
    samples,
    longestSample: longest,
    oldestWeights,
    newestWeights,
    durationMs: Math.round(durationMs * 10) / 10,
  };
}

function noteOf(log: string): string | null {
  const end = log.indexOf("\n");
  const line = end === -1 ? log : log.slice(0, end);
  if (line === "") return null;
  return line.length > longestNote ? `${line.slice(0, longestNote).replace(/[\uD800-\uDBFF]$/, "")}…` : line;
}

/** The oldest and the newest weights that sampled a token of the episode. */
function weightsOf({ trajectory }: Episode): readonly [oldest: string | null, newest: string | null] {
  let [oldest, newest]: [string | null, string | null] = [null, null];
  const add = (version: string | null): void => {
    if (version === null || version === newest) return;
    if (newest === null || oldest === null || !isWhole(version) || !isWhole(newest) || !isWhole(oldest)) {
      oldest ??= version;
      newest = version;
      return;
    }
    if (Number(version) < Number(oldest)) oldest = version;
    if (Number(version) > Number(newest)) newest = version;
  };
  for (const { weightSpans } of trajectory.turns) {
    for (const { tokenCount, dispatch, reply } of weightSpans) {
      if (tokenCount === 0) continue;
      add(dispatch);
      add(reply);
    }
  }
  return [oldest, newest];
}

function isWhole(version: string): boolean {
  return /^\d{1,15}$/.test(version);
}

/** The file of a place, relative to the run folder. */
export function fileOf(shard: string | null): string {
  return shard === null ? runFiles.episodes : `${runFiles.shards}/${shard}/${runFiles.episodes}`;
}
