// Event files that TensorBoard reads, beside the run's own files: `tensorboard --logdir <run folder>`. Written in steps of
// ended episodes, behind the run; a file that cannot be written ends the curves and not the run.

import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";

import { type EpisodeEvent, outcomeOf } from "../core/index.ts";
import { factsOf, isDone, observing, type RunObserver } from "./observer.ts";

export type TensorboardOptions = {
  /** A point of each curve every so many ended episodes. Default: 16. */
  readonly everyEpisodes?: number;
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** Called once, with the reason, when the file cannot be written any more. */
  readonly onFault?: (message: string) => void;
};

/** An observer that writes `<folder>/events.out.tfevents.…`. Rejects when the file cannot be made. */
export async function createTensorboard(folder: string, options: TensorboardOptions = {}): Promise<RunObserver> {
  const { everyEpisodes = 16, now = Date.now, onFault } = options;
  if (!Number.isInteger(everyEpisodes) || everyEpisodes < 1) {
    throw new RangeError(
      `Cannot write event files: everyEpisodes is ${everyEpisodes}, a whole number of at least 1 is needed.`,
    );
  }
  await mkdir(folder, { recursive: true });
  const begun = now();
  const name = `events.out.tfevents.${Math.floor(begun / 1000)}.${hostname()}.${process.pid}`;
  const file = createWriteStream(join(folder, name), { flags: "wx" });
  await new Promise<void>((resolve, reject) => {
    file.once("open", () => resolve());
    file.once("error", reject);
  });
  let isBroken = false;
  file.on("error", (error) => {
    if (!isBroken) onFault?.(`Cannot write ${name}: ${error.message}; the curves end here.`);
    isBroken = true;
  });
  file.write(frame(Buffer.concat([doubleField(1, begun / 1000), bytesField(3, Buffer.from("brain.Event:2"))])));
  let sums = { ...nothing };
  let since = begun;
  let ended = 0;
  const groups = { kept: 0, dropped: 0 };

  function write(): void {
    if (isBroken) return;
    const time = now();
    const counted = { ...sums, seconds: (time - since) / 1000 };
    sums = { ...nothing };
    since = time;
    // What had no episode, turn or token to be counted over is left out: absent is not zero.
    const shown = curves.filter(([, , whole]) => counted[whole] > 0);
    const scalars: [string, number][] = shown.map(([tag, part, whole]) => [tag, counted[part] / counted[whole]]);
    scalars.push(["groups/kept", groups.kept], ["groups/dropped", groups.dropped]);
    file.write(scalarRecord(time / 1000, ended, scalars));
  }

  return observing({
    event(_episodeId, event) {
      count(sums, event);
      if (event.type !== "episode-end") return;
      ended += 1;
      if (sums.episodes >= everyEpisodes) write();
    },
    recorded(_episodeId, event) {
      // The curves continue after what an earlier process ended.
      if (isDone(event)) ended += 1;
    },
    group: ({ decision }) => void (groups[decision] += 1),
    async close() {
      if (sums.episodes > 0) write();
      file.end();
      await finished(file).catch(() => undefined);
    },
  });
}

/** Counts since the last point, so that a curve shows what happens and not what happened long ago. */
const nothing = {
  episodes: 0,
  graded: 0,
  reward: 0,
  passed: 0,
  failed: 0,
  truncated: 0,
  turns: 0,
  sampledTokens: 0,
  promptTokens: 0,
  cachedTokens: 0,
  problems: 0,
  retries: 0,
  engineMs: 0,
  userMs: 0,
};

type Counted = keyof typeof nothing | "seconds";

/** What each curve shows: so much of the first for each of the second. */
const curves: readonly (readonly [name: string, part: Counted, whole: Counted])[] = [
  ["reward/mean", "reward", "graded"],
  ["reward/pass_rate", "passed", "graded"],
  ["episodes/failed", "failed", "episodes"],
  ["episodes/truncated", "truncated", "episodes"],
  ["episodes/turns", "turns", "episodes"],
  ["episodes/sampled_tokens", "sampledTokens", "episodes"],
  ["actions/problems_per_turn", "problems", "turns"],
  ["engine/retries_per_turn", "retries", "turns"],
  ["engine/cached_prompt_tokens", "cachedTokens", "promptTokens"],
  ["time/engine_ms_per_turn", "engineMs", "turns"],
  ["time/user_ms_per_turn", "userMs", "turns"],
  ["speed/turns_per_second", "turns", "seconds"],
  ["speed/sampled_tokens_per_second", "sampledTokens", "seconds"],
];

/** Adds what the event says to the sums. */
function count(sums: Record<keyof typeof nothing, number>, event: EpisodeEvent): void {
  const { phase = null, durationMs = 0, attempts = [], tokens = null } = factsOf(event) ?? {};
  if (phase === "user") sums.userMs += durationMs;
  if (tokens !== null) {
    sums.turns += 1;
    sums.engineMs += durationMs;
    sums.retries += attempts.length;
    sums.sampledTokens += tokens.sampled;
    sums.promptTokens += tokens.prompt;
    sums.cachedTokens += tokens.cached ?? 0;
  }
  if (event.type === "decision") sums.problems += event.decision.problems.length;
  if (event.type === "grade") {
    sums.graded += 1;
    sums.reward += event.grade.reward;
    sums.passed += event.grade.reward === 1 ? 1 : 0;
  }
  if (event.type === "episode-end") {
    const outcome = outcomeOf(event.stopReason);
    sums.episodes += 1;
    sums.failed += outcome === "failed" ? 1 : 0;
    sums.truncated += outcome === "truncated" ? 1 : 0;
  }
}

/**
 * An Event message in protocol-buffer encoding, scalars only, in a TFRecord frame. Formats: tensorflow/core/lib/io/record_writer
 * (length, masked CRC, data, masked CRC) and core/util/event.proto, core/framework/summary.proto (field numbers below).
 * `wallTime`: seconds since 1970.
 */
function scalarRecord(wallTime: number, step: number, scalars: readonly (readonly [string, number])[]): Buffer {
  const values = scalars.map(([tag, value]) => {
    const simpleValue = Buffer.alloc(5);
    simpleValue[0] = (2 << 3) | 5;
    simpleValue.writeFloatLE(value, 1);
    return bytesField(1, Buffer.concat([bytesField(1, Buffer.from(tag)), simpleValue]));
  });
  const stepField = Buffer.concat([Buffer.of(2 << 3), varint(step)]);
  return frame(Buffer.concat([doubleField(1, wallTime), stepField, bytesField(5, Buffer.concat(values))]));
}

function doubleField(number: number, value: number): Buffer {
  const field = Buffer.alloc(9);
  field[0] = (number << 3) | 1;
  field.writeDoubleLE(value, 1);
  return field;
}

function bytesField(number: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of((number << 3) | 2), varint(content.length), content]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

function frame(data: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(data.length), 0);
  head.writeUInt32LE(masked(head.subarray(0, 8)), 8);
  const tail = Buffer.alloc(4);
  tail.writeUInt32LE(masked(data), 0);
  return Buffer.concat([head, data, tail]);
}

/** Checksums that are stored among what they are of are rotated and shifted, as the format demands. */
function masked(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

/** The polynomial 0x1EDC6F41, bits reversed. */
const polynomial = 0x82f63b78;

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ polynomial : value >>> 1;
  return value;
});

/** CRC-32C (Castagnoli), which records of event files carry; the platform's own checksum has another polynomial. */
export function crc32c(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) value = (table[(value ^ byte) & 0xff] as number) ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
