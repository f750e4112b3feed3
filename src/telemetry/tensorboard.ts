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
  file.write(fileHead(begun / 1000));
  const scalars = new RunScalars(now);
  const groups = { kept: 0, dropped: 0 };

  function write(): void {
    if (isBroken) return;
    file.write(
      scalarRecord({
        wallTime: now() / 1000,
        step: scalars.endedEpisodes,
        scalars: [...scalars.read(), ["groups/kept", groups.kept], ["groups/dropped", groups.dropped]],
      }),
    );
  }

  return observing({
    event(_episodeId, event) {
      scalars.add(event);
      if (event.type === "episode-end" && scalars.newEpisodes >= everyEpisodes) write();
    },
    recorded(_episodeId, event) {
      if (isDone(event)) scalars.skip();
    },
    group: ({ decision }) => void (groups[decision] += 1),
    async close() {
      if (scalars.newEpisodes > 0) write();
      file.end();
      await finished(file).catch(() => undefined);
    },
  });
}

/** Counts since the last reading, so that a curve shows what happens and not what happened long ago. */
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

/** Adds events up; `read` takes what came since the last `read`. */
class RunScalars {
  #sums = { ...nothing };
  #since: number;
  #ended = 0;
  readonly #now: () => number;

  /** `now`: milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
    this.#since = now();
  }

  /** Episodes ended since the beginning. */
  get endedEpisodes(): number {
    return this.#ended;
  }

  /** Episodes ended since the last reading. */
  get newEpisodes(): number {
    return this.#sums.episodes;
  }

  /** An episode that ended in an earlier process: the curves continue after it. */
  skip(): void {
    this.#ended += 1;
  }

  add(event: EpisodeEvent): void {
    const sums = this.#sums;
    const facts = factsOf(event);
    if (facts?.phase === "user") sums.userMs += facts.durationMs;
    if (facts !== null && facts.tokens !== null) {
      sums.turns += 1;
      sums.engineMs += facts.durationMs;
      sums.retries += facts.attempts.length;
      sums.sampledTokens += facts.tokens.sampled;
      sums.promptTokens += facts.tokens.prompt;
      sums.cachedTokens += facts.tokens.cached ?? 0;
    }
    if (event.type === "decision") sums.problems += event.decision.problems.length;
    if (event.type === "grade") {
      sums.graded += 1;
      sums.reward += event.grade.reward;
      sums.passed += event.grade.reward === 1 ? 1 : 0;
    }
    if (event.type === "episode-end") {
      const outcome = outcomeOf(event.stopReason);
      this.#ended += 1;
      sums.episodes += 1;
      sums.failed += outcome === "failed" ? 1 : 0;
      sums.truncated += outcome === "truncated" ? 1 : 0;
    }
  }

  /** Name and value. What had no episode, turn or token to be counted over is left out: absent is not zero. */
  read(): (readonly [name: string, value: number])[] {
    const sums = this.#sums;
    const now = this.#now();
    const seconds = (now - this.#since) / 1000;
    this.#sums = { ...nothing };
    this.#since = now;
    const scalars: (readonly [string, number])[] = [];
    const ratio = (name: string, part: number, whole: number): void => {
      if (whole > 0) scalars.push([name, part / whole]);
    };
    ratio("reward/mean", sums.reward, sums.graded);
    ratio("reward/pass_rate", sums.passed, sums.graded);
    ratio("episodes/failed", sums.failed, sums.episodes);
    ratio("episodes/truncated", sums.truncated, sums.episodes);
    ratio("episodes/turns", sums.turns, sums.episodes);
    ratio("episodes/sampled_tokens", sums.sampledTokens, sums.episodes);
    ratio("actions/problems_per_turn", sums.problems, sums.turns);
    ratio("engine/retries_per_turn", sums.retries, sums.turns);
    ratio("engine/cached_prompt_tokens", sums.cachedTokens, sums.promptTokens);
    ratio("time/engine_ms_per_turn", sums.engineMs, sums.turns);
    ratio("time/user_ms_per_turn", sums.userMs, sums.turns);
    ratio("speed/turns_per_second", sums.turns, seconds);
    ratio("speed/sampled_tokens_per_second", sums.sampledTokens, seconds);
    return scalars;
  }
}

/**
 * An Event message in protocol-buffer encoding, scalars only, in a TFRecord frame. Formats: tensorflow/core/lib/io/record_writer
 * (length, masked CRC, data, masked CRC) and core/util/event.proto, core/framework/summary.proto (field numbers below).
 */
type ScalarEvent = {
  /** Seconds since 1970. */
  readonly wallTime: number;
  readonly step: number;
  /** Tag and value. */
  readonly scalars: readonly (readonly [tag: string, value: number])[];
};

/** The record that every file begins with. */
function fileHead(wallTime: number): Buffer {
  return frame(Buffer.concat([wallTimeField(wallTime), bytesField(3, Buffer.from("brain.Event:2"))]));
}

function scalarRecord({ wallTime, step, scalars }: ScalarEvent): Buffer {
  const values = scalars.map(([tag, value]) => {
    const simpleValue = Buffer.alloc(5);
    simpleValue[0] = (2 << 3) | 5;
    simpleValue.writeFloatLE(value, 1);
    return bytesField(1, Buffer.concat([bytesField(1, Buffer.from(tag)), simpleValue]));
  });
  const stepField = Buffer.concat([Buffer.of(2 << 3), varint(step)]);
  return frame(Buffer.concat([wallTimeField(wallTime), stepField, bytesField(5, Buffer.concat(values))]));
}

function wallTimeField(wallTime: number): Buffer {
  const field = Buffer.alloc(9);
  field[0] = (1 << 3) | 1;
  field.writeDoubleLE(wallTime, 1);
  return field;
}

function bytesField(number: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of((number << 3) | 2), varint(content.length), content]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt(value);
  do {
    const low = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 128);
  } while (rest !== 0n);
  return Buffer.from(bytes);
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
