// The files in models/ match their cards.

import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import { worldVersion } from "../../environments/bookshop/index.ts";
import { readCheckpoint, shippedCheckpoint, shippedCheckpoints } from "../model/index.ts";
import { chooseRenderer } from "../../renderers/index.ts";
import { loadModelFolder } from "../../tokenizers/index.ts";
import { evaluateEpisodes } from "./evaluate-model.ts";
import { pretrain } from "./pretrain.ts";
import { recipes } from "./recipe.ts";
import { logAsCsv, type LogRow } from "./model-folder.ts";

/** Values of the last row, by the names of the columns. */
function lastRow(log: string): ReadonlyMap<string, string> {
  const [head = "", ...rows] = log.trim().split("\n");
  const values = (rows.at(-1) ?? "").split(",");
  return new Map(head.split(",").map((column, index) => [column, values[index] ?? ""]));
}

describe.each(shippedCheckpoints)("models/%s", (name) => {
  const folder = shippedCheckpoint(name);
  const textOf = (file: string): Promise<string> => readFile(join(folder, file), "utf8");

  test("fits together: shape, tokenizer, template, log and card", async () => {
    const { config } = await readCheckpoint(folder);
    expect(config).toMatchObject(recipes[name].shape);
    const { tokenizer, chatTemplate, specialTokens } = await loadModelFolder(folder);
    expect(tokenizer.vocabularySize).toBeLessThanOrEqual(config.vocabularySize);
    expect(chooseRenderer({ tokenizer, chatTemplate: chatTemplate ?? "", specialTokens }).family).toBe(
      "qwen3-instruct-2507",
    );
    const last = lastRow(await textOf("training-log.csv"));
    const cloned = Number(last.get("tokens"));
    expect(Math.abs(cloned - recipes[name].cloning.tokens)).toBeLessThan(20_000);
    expect(await textOf("README.md")).toContain(
      `| pass rate | ${(Number(last.get("pass_rate")) * 100).toFixed(1)} % |`,
    );
  });

  test("is read by other programs as by ours, with the weights that lie here", async () => {
    const weights = createHash("sha256")
      .update(await readFile(join(folder, "model.safetensors")))
      .digest("hex");
    const outcomes = JSON.parse(await textOf("verification.json")) as unknown;
    const passed = expect.objectContaining({ passed: true, weights }) as unknown;
    expect(outcomes).toEqual({ "llama-cpp": passed, transformers: passed });
  });
});

test("a shipped model passes as many validation tasks as its log says, within the luck of a sample", async () => {
  const isFull = process.env["FULL"] === "1";
  const folder = shippedCheckpoint(isFull ? "bookshop-1m" : "bookshop-nano");
  const [{ tokenizer }, checkpoint] = await Promise.all([loadModelFolder(folder), readCheckpoint(folder)]);
  const tasks = isFull ? 630 : 63;
  // Another seed than the log's, so that the episodes are independent of it.
  const { passRate } = await evaluateEpisodes(checkpoint, { tokenizer, tasks, threads: 2, seed: 2 });
  const expected = Number(lastRow(await readFile(join(folder, "training-log.csv"), "utf8")).get("pass_rate"));
  expect(Math.abs(passRate - expected)).toBeLessThan(4 * Math.sqrt((expected * (1 - expected)) / tasks));
});

const nanoCard = await readFile(join(shippedCheckpoint("bookshop-nano"), "README.md"), "utf8");
/** The recipe runs tasks of the current world, so the shipped model must be from it. */
const isOfThisWorld = nanoCard.includes(`on *validation* tasks of version ${worldVersion} of the bookshop`);

/**
 * Minutes of training would prove more; the beginning proves that data, tokenizer, weights and
 * steps are unchanged.
 */
test.runIf(process.env["FULL"] === "1" && isOfThisWorld)(
  "the beginning of a recipe gives the beginning of the shipped log",
  async () => {
    const work = await mkdtemp(join(tmpdir(), "pretrain-"));
    const rows: LogRow[] = [];
    const options = { folder: join(work, "model"), stateFolder: join(work, "state"), stopAfterSteps: 50 };
    await pretrain(recipes["bookshop-nano"], { ...options, report: (row) => rows.push(row) });
    const folder = shippedCheckpoint("bookshop-nano");
    const shipped = (await readFile(join(folder, "training-log.csv"), "utf8")).split("\n").slice(1, 1 + rows.length);
    const numbersOf = (line: string): number[] => line.split(",").map(Number);
    const again = logAsCsv(rows).trim().split("\n").slice(1);
    expect(again.length).toBeGreaterThan(1);
    again.forEach((line, index) => {
      const expected = numbersOf(shipped[index] ?? "");
      // Kernels of other processors may differ in the last bits.
      numbersOf(line).forEach((value, column) => {
        if (!Number.isNaN(value)) expect(value).toBeCloseTo(expected[column] ?? NaN, 2);
      });
    });
    await rm(work, { recursive: true });
  },
);
