// An episode's line, read for its tokens only: a check of rows reads many lines of a run, and the
// lossless reader of `records.ts` builds a tree of everything that they hold.

import { endianness } from "node:os";
import {
  ConfigurationError,
  type ConstrainedTokens,
  type Episode,
  type EpisodeEvent,
  messageOf,
  type Turn,
} from "../core/index.ts";
import { type FieldPlace, splitFields } from "../system/json-fields.ts";
import type { SampledEpisode } from "../trajectories/index.ts";
import { type DigestedTurn, turnDigests } from "./turn-digests.ts";

/** Facts of an episode from which its samples follow. */
export type RecordedEpisode = SampledEpisode & {
  /** Digest of each turn as it was stored; `null` if the run stored none. */
  readonly digests: readonly string[] | null;
};

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads a line of `episodes.jsonl` whose checksum was checked. Its task has only the id, its turns
 * what digests cover, and its events are those that decide which turns are trained. Throws a
 * `ConfigurationError` that names the line for a value of another kind.
 */
export function readRecordedEpisode(line: Buffer, where: string): RecordedEpisode {
  try {
    const places = new Map<string, FieldPlace>();
    splitFields(line, places);
    const field = (name: string): unknown => {
      const place = places.get(name);
      return place === undefined ? undefined : JSON.parse(line.toString("utf8", ...place));
    };
    const digests = field("digests");
    const reward = field("reward");
    // Quotes inside strings are escaped, so that this is found in events only.
    const isEventful = line.includes('"type":"restart"') || line.includes('"type":"undelivered"');
    return {
      id: string(field("id")),
      groupId: string(field("groupId")),
      task: { id: string(object(field("task"))["id"]) } as Episode["task"],
      outcome: string(field("outcome")) as Episode["outcome"],
      reward: reward === null ? null : number(reward),
      historyPolicy: string(field("historyPolicy")) as Episode["historyPolicy"],
      trajectory: { turns: list(field("turns")).map(turnOf) },
      digests: digests === undefined ? null : list(digests).map(string),
      events: !isEventful
        ? []
        : list(field("events")).flatMap((event) => {
            const { type, turns: named } = object(event);
            return type === "restart" || type === "undelivered"
              ? [{ type, turns: list(named).map(number) } as unknown as EpisodeEvent]
              : [];
          }),
    };
  } catch (error) {
    throw new ConfigurationError(`Cannot read ${where}: ${messageOf(error)}; restore the run folder from a copy.`, {
      cause: error,
    });
  }
}

/** The first turn whose stored digest is not that of its content; `null` if there is none. */
export function changedTurn({ id, trajectory, digests }: RecordedEpisode): number | null {
  if (digests === null) return null;
  const computed = turnDigests(id, trajectory);
  const changed = computed.findIndex((digest, turn) => digest !== digests[turn]);
  return changed === -1 && digests.length !== computed.length ? computed.length : changed === -1 ? null : changed;
}

function turnOf(value: unknown, place: number): Turn {
  const turn = object(value);
  const parent = turn["parent"] === null ? null : number(turn["parent"]);
  if (turn["index"] !== place || (parent !== null && !(Number.isInteger(parent) && parent >= 0 && parent < place))) {
    throw new Error(`turn ${place} is not in its place`);
  }
  const digested: DigestedTurn = {
    index: place,
    parent,
    observationTokens: ids(turn["observationTokens"]),
    sampledTokens: ids(turn["sampledTokens"]),
    logprobs: turn["logprobs"] === null ? null : floats(turn["logprobs"]),
    weightSpans: list(turn["weightSpans"]).map((span) => {
      const { tokenCount, dispatch, reply } = object(span);
      return { tokenCount: number(tokenCount), dispatch: stringOrNull(dispatch), reply: stringOrNull(reply) };
    }),
    requestIds: turn["requestIds"] === undefined ? [] : list(turn["requestIds"]).map(string),
  };
  const { logprobs, sampledTokens } = digested;
  if (logprobs !== null && logprobs.length !== sampledTokens.length) {
    throw new Error(`turn ${place} has ${logprobs.length} logprobs for ${sampledTokens.length} sampled tokens`);
  }
  const { reason } = object(turn["finish"]);
  const constrained = turn["constrained"] ?? null;
  return {
    ...digested,
    ...(constrained === null ? {} : { constrained: constrainedOf(object(constrained)) }),
    finish: { reason: string(reason) as Turn["finish"]["reason"], matched: null, raw: null },
    spelledTokens: 0,
    deviation: null,
    rewriteReason: null,
  };
}

function constrainedOf({ ranges, allowedMass, loss }: Fields): ConstrainedTokens {
  return {
    ranges: list(ranges).map((range) => {
      const { start, end } = object(range);
      return { start: number(start), end: number(end) };
    }),
    allowedMass: allowedMass === null ? null : floats(allowedMass),
    loss: string(loss) as ConstrainedTokens["loss"],
  };
}

function ids(value: unknown): Uint32Array {
  const bytes = unpack(value, "<u4");
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}

function floats(value: unknown): Float32Array {
  const bytes = unpack(value, "<f4");
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}

/** Bytes with memory of their own, in the byte order of this machine. */
function unpack(value: unknown, dtype: string): Buffer {
  const { dtype: found, base64 } = object(value);
  if (found !== dtype) throw new Error(`an array is not packed as ${dtype}`);
  const packed = string(base64);
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(packed, "base64"));
  if (bytes.write(packed, "base64") !== bytes.length || bytes.length % 4 !== 0) {
    throw new Error("a packed array is not base64 of whole numbers");
  }
  return endianness() === "LE" ? bytes : bytes.swap32();
}

function object(value: unknown): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw new Error("an object is missing");
}

function list(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new Error("a list is missing");
}

function string(value: unknown): string {
  if (typeof value === "string") return value;
  throw new Error("a string is missing");
}

function number(value: unknown): number {
  if (typeof value === "number") return value;
  throw new Error("a number is missing");
}

function stringOrNull(value: unknown): string | null {
  return value === null ? null : string(value);
}
