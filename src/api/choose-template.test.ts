// A model folder without a chat template, whose prompts an encoder writes: chosen without a flag,
// with the folder's own sentences.

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, it, onTestFinished } from "vitest";

import { toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { trainChatTokenizer } from "../tokenizers/index.ts";
import { auditTemplate } from "./audit-template.ts";
import { chooseModel } from "./choose-model.ts";
import { resolveSettings } from "./resolve-settings.ts";

const settings = resolveSettings({}, null);
const tokens = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "｜DSML｜"];
const tool = toolFromDefinition(fromPlain({ type: "function", function: { name: "add" } }) as JsonObject);

/** `module`: Python with the vendor's sentences, `null` for none. */
async function folderOf(config: object, module: string | null): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "model-"));
  onTestFinished(async () => rm(folder, { recursive: true }));
  const { tokenizerJson, tokenizerConfig } = trainChatTokenizer([], { vocabularySize: 265 });
  const known = tokenizerJson["added_tokens"] as readonly object[];
  const added = tokens.map((content, index) => ({ ...known[0], content, id: 265 + index }));
  const { chat_template: _, added_tokens_decoder: __, ...rest } = tokenizerConfig;
  await Promise.all([
    writeFile(join(folder, "tokenizer.json"), JSON.stringify({ ...tokenizerJson, added_tokens: [...known, ...added] })),
    writeFile(join(folder, "tokenizer_config.json"), JSON.stringify(rest)),
    writeFile(join(folder, "config.json"), JSON.stringify(config)),
  ]);
  if (module === null) return folder;
  await mkdir(join(folder, "encoding"));
  await writeFile(join(folder, "encoding", "encoding_dsv32.py"), module);
  return folder;
}

const module = 'TOOLS_SYSTEM_TEMPLATE = "Ours: {tool_schemas}"\nraise SystemExit("This is never run.")\n';

it("renders with the encoder, its parsers and the sentences of the folder", async () => {
  const model = await folderOf({ model_type: "deepseek_v32" }, module);
  const { renderer } = await chooseModel({ ...settings, model, thinking: "on" }, ".");
  expect(renderer.family).toBe("deepseek-v3.2");
  expect(renderer.parsers).toMatchObject({ toolCalls: "deepseekv32", reasoning: "deepseek-v3" });
  expect(renderer.renderPrompt([{ role: "user", content: "Hi" }], [tool]).text).toBe(
    '<｜begin▁of▁sentence｜>\n\nOurs: {"name": "add"}<｜User｜>Hi<｜Assistant｜><think>',
  );
  const named = await chooseModel({ ...settings, model, renderer: "deepseek-v3.2" }, ".");
  expect(named.renderer.family).toBe("deepseek-v3.2");
  const { renderer: audited, problems } = await auditTemplate({ model, renderer: "deepseek-v3.2" });
  expect([audited?.family, problems]).toEqual(["deepseek-v3.2", []]);
});

it("renders without the sentences what needs none, and names the file for the rest", async () => {
  const model = await folderOf({ architectures: ["DeepseekV32ForCausalLM"] }, null);
  const { renderer } = await chooseModel({ ...settings, model }, ".");
  expect(renderer.renderPrompt([{ role: "user", content: "Hi" }], []).text).toMatch(/^<[^>]+><｜User｜>Hi/);
  expect(() => renderer.renderPrompt([{ role: "user", content: "Hi" }], [tool])).toThrow(
    "put the file of the model's publisher there as encoding/encoding_dsv32.py",
  );
  const { problems } = await auditTemplate({ model });
  expect(problems).toEqual([expect.stringContaining("encoding/encoding_dsv32.py")]);
});

it("refuses a file with sentences that is far too long", async () => {
  const model = await folderOf({ model_type: "deepseek_v32" }, "#".repeat(2 ** 20 + 1));
  await expect(chooseModel({ ...settings, model }, ".")).rejects.toThrow(
    'encoding_dsv32.py": it has 1048577 characters',
  );
});

it("refuses a kind of model that there is no encoder for, by name, and others as before", async () => {
  const kimi = await folderOf({ model_type: "kimi_k3" }, null);
  await expect(chooseModel({ ...settings, model: kimi }, ".")).rejects.toThrow('model family "kimi-k3"');
  const other = await folderOf({ model_type: "llama" }, null);
  await expect(chooseModel({ ...settings, model: other }, ".")).rejects.toThrow("the folder has no chat template");
});
