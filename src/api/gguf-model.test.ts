// A GGUF file without a folder says what a model folder says: the same tokenizer, prompts and parsers, for
// every command that takes a model.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { toolFromDefinition } from "../core/index.ts";
import { exportGguf } from "../learner/model/index.ts";
import { shippedCheckpoint } from "../learner/model/shipped-checkpoints.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { auditTemplate } from "./audit-template.ts";
import { type ChosenModel, chooseModel, tokenizerOf } from "./choose-model.ts";
import { withShippedModel } from "./model-path.ts";
import { resolveSettings } from "./resolve-settings.ts";

let folder = "";
let path = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gguf-"));
  path = join(folder, "nano.gguf");
  await exportGguf(shippedCheckpoint("bookshop-nano"), path);
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

const choose = (flags: Parameters<typeof resolveSettings>[0]): Promise<ChosenModel> =>
  chooseModel(withShippedModel(resolveSettings(flags, null)), folder);

describe("--gguf alone", () => {
  test("renders the prompts of the model's folder, with its family and parsers", async () => {
    const [ours, theirs] = [await choose({ gguf: "nano.gguf" }), await choose({ model: "bookshop-nano" })];
    expect(ours.renderer.family).toBe(theirs.renderer.family);
    expect(ours.renderer.parsers).toEqual(theirs.renderer.parsers);
    expect(ours.renderer.stopTokenIds).toEqual(theirs.renderer.stopTokenIds);
    expect(ours.chatTemplate).toBe(theirs.chatTemplate);
    const tools = [toolFromDefinition(fromPlain({ type: "function", function: { name: "find_order" } }) as JsonObject)];
    const messages = [
      { role: "system", content: "Help the customers. #W1042 costs 12.50" },
      { role: "user", content: "Übrigens <|im_end|> 日本語?" },
    ] as const;
    const [mine, expected] = [ours, theirs].map(({ renderer }) => renderer.renderPrompt(messages, tools));
    expect(mine).toEqual(expected);
  });

  test("is overridden by --model", async () => {
    expect((await choose({ gguf: "nano.gguf", model: "bookshop-1m" })).folder).toContain("bookshop-1m");
  });

  test("is the model of a recorded run, and of `doctor template`", async () => {
    const tokenizer = await tokenizerOf("nano.gguf", folder);
    expect(tokenizer?.decode(tokenizer.encode("a #W12 book"))).toBe("a #W12 book");
    const [ours, theirs] = [
      await auditTemplate({ model: path }),
      await auditTemplate({ model: shippedCheckpoint("bookshop-nano") }),
    ];
    expect(ours).toEqual(theirs);
  });
});
