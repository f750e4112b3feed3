import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { observeCurves } from "./curves.ts";
import { crc32c, createTensorboard } from "./tensorboard.ts";
import { failingEpisode, passingEpisode } from "./episode-events.test-helper.ts";

test("crc32c() agrees with the check value of its definition", () => {
  expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
  expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
});

/** The payloads of TFRecord frames; both checksums are verified. */
function frames(bytes: Buffer): Buffer[] {
  const payloads: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = Number(bytes.readBigUInt64LE(at));
    const payload = bytes.subarray(at + 12, at + 12 + length);
    expect(bytes.readUInt32LE(at + 8)).toBe(mask(crc32c(bytes.subarray(at, at + 8))));
    expect(bytes.readUInt32LE(at + 12 + length)).toBe(mask(crc32c(payload)));
    payloads.push(payload);
    at += 16 + length;
  }
  return payloads;
}

const mask = (crc: number): number => (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;

/** The scalar with a tag: the field is found by its bytes, because tags are plain text. */
function scalar(payload: Buffer, tag: string): number | null {
  const at = payload.indexOf(tag);
  return at < 0 ? null : payload.readFloatLE(at + tag.length + 1);
}

test("createTensorboard() writes frames whose checksums hold, a point every so many episodes and one at the end", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tensorboard-"));
  let time = 1_700_000_000_000;
  const sink = await createTensorboard(folder, { now: () => time });
  const board = observeCurves(sink, { everyEpisodes: 2, now: () => time });
  const play = (): void => {
    for (const event of passingEpisode) board.event("a#0", event);
    for (const event of failingEpisode) board.event("b#0", event);
    time += 1000;
  };
  play();
  play();
  for (const event of passingEpisode) board.event("c#0", event);
  await board.close();
  const [name] = await readdir(folder);
  expect(name).toMatch(/^events\.out\.tfevents\.1700000000\./);
  const payloads = frames(await readFile(join(folder, name ?? "")));
  expect(payloads).toHaveLength(4);
  expect(payloads[0]?.toString("latin1")).toContain("brain.Event:2");
  expect(payloads.slice(1).map((payload) => scalar(payload, "reward/pass_rate"))).toEqual([1, 1, 1]);
  expect(payloads.slice(1).map((payload) => scalar(payload, "episodes/failed"))).toEqual([0.5, 0.5, 0]);
  expect(payloads[2]?.readDoubleLE(1)).toBeCloseTo(1_700_000_001, 5);
  await rm(folder, { recursive: true });
});
