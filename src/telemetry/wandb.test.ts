// The file layout, parsed by a separate reader; W&B's program reads it in `npm run verify --
// metrics`.

import { mkdtemp, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { passingEpisode } from "./episode-events.test-helper.ts";
import { observeCurves } from "./curves.ts";
import { createWandb } from "./wandb.ts";

/** The records of a file, reassembled from chunks in blocks of 32,768 bytes. */
function recordsOf(file: Buffer): Buffer[] {
  expect([...file.subarray(0, 7)]).toEqual([0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0]);
  const records: Buffer[] = [];
  let parts: Buffer[] = [];
  for (let at = 7; at < file.length;) {
    const room = 32_768 - (at % 32_768);
    if (room < 7) {
      at += room;
      continue;
    }
    const length = file.readUInt16LE(at + 4);
    const data = file.subarray(at + 7, at + 7 + length);
    expect(file.readUInt32LE(at)).toBe(crc32(file.subarray(at + 6, at + 7 + length)));
    const type = file[at + 6]!;
    parts = type === 1 || type === 2 ? [data] : [...parts, data];
    if (type === 1 || type === 4) records.push(Buffer.concat(parts));
    at += 7 + length;
  }
  return records;
}

test("createWandb() writes numbered records that cross blocks, from header to exit", async () => {
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-wandb-"));
  const configuration = { env: "bookshop", long: "x".repeat(40_000), seed: 3, never: undefined };
  const run = { id: "r", name: "first", configuration };
  const observer = observeCurves(await createWandb(folder, run, { now: () => 1e12 }), { everyEpisodes: 1 });
  for (let episode = 0; episode < 60; episode++)
    for (const event of passingEpisode) observer.event(`e${episode}`, event);
  await observer.close();
  const [name = ""] = await readdir(folder);
  expect(name).toMatch(/^offline-run-20010909_014640-[0-9a-f]{8}$/);
  const file = await readFile(join(folder, name, `run-${name.slice(-8)}.wandb`));
  const records = recordsOf(file);
  expect(records.length).toBe(1 + 1 + 60 + 1 + 1);
  // Field 1 with the number as a varint; then the field of the record's kind.
  const kinds = records.map((record, number) => {
    expect([record[0], record[1]]).toEqual([8, number]);
    const tag = record[2]! < 128 ? record[2]! : (record[2]! & 127) + record[3]! * 128;
    return tag >> 3;
  });
  expect(kinds).toEqual([21, 17, ...Array.from({ length: 60 }, () => 2), 3, 18]);
  const text = records[2]!.toString("latin1");
  expect(text).toContain("reward/mean");
  expect(text).toContain("_step");
});
