import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { loadEmbeddedEngine } from "../../engines/embedded/index.ts";
import { readCheckpoint } from "../model/index.ts";
import { chooseRenderer } from "../../renderers/index.ts";
import { loadModelFolder } from "../../tokenizers/index.ts";
import { pretrain } from "./pretrain.ts";
import { type Recipe, recipes } from "./recipe.ts";
import type { LogRow } from "./model-folder.ts";

const nano = recipes["bookshop-nano"];
/** All parts of a recipe, each as small as possible. */
const recipe: Recipe = {
  ...nano,
  shape: { ...nano.shape, layers: 2, hiddenSize: 32, heads: 2, headSize: 16, feedForwardSize: 32 },
  vocabularySize: 640,
  tokenizerDialogues: 21,
  copying: { ...nano.copying, tokens: 1500, tokensPerStep: 500 },
  cloning: { ...nano.cloning, tokens: 4000, dialoguesPerStep: { withoutPrompt: 2, withPrompt: 2 }, promptFrom: 0.5 },
  evaluation: { everyTokens: 2000, dialogues: 7, tasks: 0, finalTasks: 1 },
};

let work: string;
beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), "pretrain-"));
});
afterAll(async () => {
  await rm(work, { recursive: true });
});

async function run(name: string, stopAfterSteps?: number): Promise<readonly LogRow[]> {
  const rows: LogRow[] = [];
  await pretrain(recipe, {
    folder: join(work, name),
    stateFolder: join(work, `${name}-state`),
    report: (row) => rows.push(row),
    ...(stopAfterSteps === undefined ? {} : { stopAfterSteps }),
  });
  return rows;
}

const fileOf = (name: string, file: string): Promise<Buffer> => readFile(join(work, name, file));

describe("pretrain()", () => {
  test("makes a folder that the engine and the renderer read, from a recipe alone", async () => {
    const rows = await run("whole");
    expect(rows.map(({ phase }) => phase)).toEqual(expect.arrayContaining(["copying", "cloning", "rounded"]));
    const cloning = rows.filter(({ phase }) => phase === "cloning");
    const [last] = cloning.slice(-1);
    expect(last?.tokens).toBeGreaterThanOrEqual(recipe.cloning.tokens);
    expect(last?.likelihood?.nll).toBeLessThan(rows[0]?.likelihood?.nll ?? 0);

    const folder = join(work, "whole");
    const { tokenizer, chatTemplate, specialTokens } = await loadModelFolder(folder);
    expect(chooseRenderer({ tokenizer, chatTemplate: chatTemplate!, specialTokens }).family).toBe(
      "qwen3-instruct-2507",
    );
    const engine = await loadEmbeddedEngine(folder, { threads: 1 });
    expect(engine.config.vocabularySize).toBe(640);
    await engine.close();
    const log = (await fileOf("whole", "training-log.csv")).toString().trim().split("\n");
    expect(log).toHaveLength(rows.length + 1);
    expect((await fileOf("whole", "README.md")).toString()).toContain("# bookshop-nano");
  });

  test("goes on where it was killed, and writes what it would have written", async () => {
    await run("killed", 4);
    await expect(readCheckpoint(join(work, "killed"))).rejects.toThrow("Cannot read model file");
    const rows = await run("killed");
    expect(rows.some(({ phase }) => phase === "copying")).toBe(false);
    for (const file of ["model.safetensors", "tokenizer.json", "training-log.csv", "config.json"]) {
      expect(await fileOf("killed", file), file).toEqual(await fileOf("whole", file));
    }
  });
});
