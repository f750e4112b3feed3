// A rollout whose actions are parsed by the response template of the model folder earns the same
// rewards as with the format's own parser.

import { cp, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { shippedCheckpoint } from "../learner/model/index.ts";
import { readEpisodes } from "../store/index.ts";
import { rollout } from "./rollout.ts";

it("reads the same calls: earns the same rewards", async () => {
  const folder = await mkdtemp(join(tmpdir(), "response-template-"));
  const model = join(folder, "model");
  await cp(shippedCheckpoint("bookshop-nano"), model, { recursive: true });
  const path = join(model, "tokenizer_config.json");
  const config = JSON.parse(await readFile(path, "utf8")) as object;
  const responseTemplate = {
    start_anchor: "<|im_start|>assistant\n",
    fields: {
      thinking: { open: "<think>", close: "</think>" },
      tool_calls: {
        open: "<tool_call>",
        close: "</tool_call>",
        repeats: true,
        content: "json",
        transform: { type: "function", function: "{content}" },
      },
      content: {},
    },
  };
  await writeFile(path, JSON.stringify({ ...config, response_template: responseTemplate }));
  const episodesWith = async (out: string, parsers: object) => {
    const settings = {
      env: "bookshop",
      engine: "embedded",
      model,
      tasks: "0-11",
      temperature: 0,
      quiet: true,
    } as const;
    await rollout({ ...settings, ...parsers, out, cwd: folder, variables: {} });
    const episodes = new Map<string, number | null>();
    for await (const { id, reward } of readEpisodes(join(folder, out))) {
      episodes.set(id, reward);
    }
    return episodes;
  };
  const own = await episodesWith("own", { toolParser: "response_template", reasoningParser: "response_template" });
  expect(own.size).toBe(12);
  expect([...own.values()]).toContain(1);
  expect(own).toEqual(await episodesWith("listed", { toolParser: "hermes" }));
}, 120_000);
