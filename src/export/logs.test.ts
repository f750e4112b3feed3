import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openForeignFile } from "../foreign/index.ts";
import { createInspectFile, createJsonLinesFile, exportFormats, exportGroup } from "./index.ts";
import { randomGroup } from "./random-episode.test-helper.ts";

const context = { decode: () => "", toolsOf: () => '[{"type":"function","function":{"name":"f"}}]', where: () => true };

test("ATIF and inspect logs hold every episode, and what is read back of them is what was written", async () => {
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-logs-"));
  const groups = Array.from({ length: 12 }, (_, seed) => ({
    ...randomGroup(seed, { canBranch: false, canDrop: false, reward: (at) => [1, 0.25, null][at] ?? null }),
    decision: "dropped" as const,
    reason: "too old",
  }));
  for (const name of ["atif", "inspect"] as const) {
    const { columns } = exportFormats[name];
    const path = join(folder, name);
    const file =
      name === "atif" ? await createJsonLinesFile(path, columns) : await createInspectFile(path, columns, "t");
    for (const group of groups) {
      const { rows, leftOut, trainedTokens } = exportGroup(group, exportFormats[name], context);
      expect([rows.length, leftOut, trainedTokens]).toEqual([3, [], null]);
      await file.write(rows);
    }
    await file.close();
    const episodes = groups.flatMap((group) => group.episodes);
    const read = [];
    const opened = await openForeignFile(path, path);
    for await (const episode of opened!.episodes()) read.push(episode);
    expect(opened!.format).toBe(name);
    expect(read.map(({ reward }) => reward)).toEqual(episodes.map(({ episode }) => episode.reward));
    expect(read.map(({ contentHash }) => contentHash)).toEqual(episodes.map(({ episode }) => episode.task.contentHash));
    // Epochs count the repetitions of a task over the whole log, since groups repeat a task.
    if (name === "inspect") expect(new Set(read.map(({ id }) => id)).size).toBe(read.length);
    for (const [at, { episode, result }] of episodes.entries()) {
      expect(read[at]!.messages!.filter(({ role }) => role !== "tool").length).toBe(
        episode.messages.filter(({ role }) => role !== "tool").length,
      );
      if (name !== "atif" || result.samples.length === 0) continue;
      const [branch] = read[at]!.branches!;
      const [sample] = result.samples;
      expect([...branch!.tokens]).toEqual([...sample!.tokens]);
      expect([...branch!.lossMask!]).toEqual([...sample!.sampledMask]);
      if (sample!.logprobs !== null) expect([...branch!.logprobs!]).toEqual([...sample!.logprobs]);
    }
  }
});
