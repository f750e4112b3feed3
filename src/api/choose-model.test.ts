import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";
import { shippedCheckpoint } from "../learner/model/index.ts";
import { toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { unwritableNames } from "../renderers/index.ts";
import { trainChatTokenizer } from "../tokenizers/index.ts";
import { auditTemplate } from "./audit-template.ts";
import { chooseModel } from "./choose-model.ts";
import { withShippedModel } from "./model-path.ts";
import { resolveSettings } from "./resolve-settings.ts";

const settings = resolveSettings({ renderer: "llama-3.1-instruct" }, null);

const withoutTools = "{% for m in messages %}{{ '<|im_start|>' + m.role + m.content + '<|im_end|>' }}{% endfor %}";

/** A model folder without weights; `null` for one without a chat template. */
async function folderWith(chatTemplate: string | null, further: object = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "model-"));
  onTestFinished(async () => rm(folder, { recursive: true }));
  const { tokenizerJson, tokenizerConfig } = trainChatTokenizer([], { vocabularySize: 265 });
  await writeFile(join(folder, "tokenizer.json"), JSON.stringify(tokenizerJson));
  const config = { ...tokenizerConfig, chat_template: chatTemplate ?? undefined, ...further };
  await writeFile(join(folder, "tokenizer_config.json"), JSON.stringify(config));
  return folder;
}

describe("chooseModel()", () => {
  it("puts our tool instruction where the template has a place for it, and refuses nothing for want of one", async () => {
    const { renderer } = await chooseModel({ ...settings, model: await folderWith(withoutTools), renderer: "qwen3-coder" }, "."); // prettier-ignore
    expect(renderer.family).toBe("qwen3-coder");
    const qwen = await chooseModel({ ...settings, model: null, renderer: null }, ".");
    expect(qwen.renderer.family).toBe("qwen2.5-instruct");
  });

  it("hands on how actions are read, and refuses parsers that there are not", async () => {
    const chosen = {
      ...settings,
      renderer: null,
      toolParser: "hermes",
      reasoningParser: "none",
      repair: true,
    } as const;
    const { renderer } = await chooseModel({ ...chosen, parserMode: "text" }, ".");
    expect(renderer.parsers).toEqual({ toolCalls: "hermes", reasoning: null, mode: "text", repair: true });
    const { renderer: thinking } = await chooseModel({ ...settings, renderer: "qwen3" }, ".");
    expect(thinking.parsers).toEqual({ toolCalls: "qwen25", reasoning: "qwen3", mode: "tokens", repair: false });
    await expect(chooseModel({ ...chosen, toolParser: "gpt-9" }, ".")).rejects.toThrow('parser "gpt-9"');
    await expect(chooseModel({ ...chosen, reasoningParser: "gpt-9" }, ".")).rejects.toThrow('parser "gpt-9"');
  });

  it("reads actions by the checkpoint's own response template where no parser is known for its calls, and where it is named", async () => {
    const own = {
      response_template: {
        start_anchor: "<|im_start|>assistant\n",
        fields: {
          thinking: { open: "{think}", close: "{/think}" },
          tool_calls: {
            open_pattern: "\\{call\\}(?P<name>\\w+);",
            close: "{/call}",
            content: "kv-lines",
            content_args: { line_sep: ";", kv_sep: "~" },
            repeats: true,
            transform: { function: { name: "{name}", arguments: "{content}" } },
          },
          content: {},
        },
      },
    };
    const template =
      "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}" +
      "{% for c in m.tool_calls or [] %}{call}{{ c.function.name }};{% for k, v in c.function.arguments | items %}{{ k }}~{{ v }};{% endfor %}{/call}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}" +
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    const model = await folderWith(template, own);
    const { renderer, tokenizer } = await chooseModel({ ...settings, model, renderer: null }, ".");
    expect(renderer.parsers).toMatchObject({ toolCalls: "response_template", reasoning: "response_template" });
    const text = "{think}Hm.{/think}Now.{call}ping;a~1;{/call}<|im_end|>";
    const tools = [toolFromDefinition(fromPlain({ type: "function", function: { name: "ping" } }) as JsonObject)];
    renderer.renderPrompt([{ role: "user", content: "?" }], tools);
    expect(renderer.parseAction(tokenizer.encode(text), { tools, turn: 0 })).toMatchObject({
      reasoning: "Hm.",
      content: "Now.",
      problems: [],
      isTerminated: true,
      toolCalls: [{ name: "ping", argumentsText: '{"a": "1"}' }],
    });
    const audit = await auditTemplate({ model });
    expect(audit.renderer).toMatchObject({
      toolCallParser: { name: "response_template" },
      reasoningParser: "response_template",
    });
    expect(audit.problems.filter((problem) => /parser|call/i.test(problem))).toEqual([]);
    const bare = renderer.parseAction(tokenizer.encode('{"name": "ping", "arguments": {}}<|im_end|>'), {
      tools,
      turn: 0,
    });
    expect(bare.problems).toMatchObject([{ code: "other-format", toolName: "ping" }]);
    expect(unwritableNames(renderer, tokenizer, ["ping", "a b"])).toEqual(["a b"]);
    const qwen = await chooseModel({ ...settings, model, renderer: null, toolParser: "hermes" }, ".");
    expect(qwen.renderer.parsers.toolCalls).toBe("hermes");
    const named = { ...settings, renderer: null, toolParser: "response_template", reasoningParser: "none" } as const;
    expect((await chooseModel({ ...named, model }, ".")).renderer.parsers).toMatchObject({
      toolCalls: "response_template",
      reasoning: null,
    });
    const byVllm = { ...named, toolParser: "hf", reasoningParser: "hf" } as const;
    expect((await chooseModel({ ...byVllm, model }, ".")).renderer.parsers).toMatchObject({
      toolCalls: "response_template",
      reasoning: "response_template",
    });
    await expect(chooseModel({ ...named, model: await folderWith(template) }, ".")).rejects.toThrow(
      "its checkpoint has none",
    );
    const broken = await folderWith(template, { response_template: { fields: {} } });
    await expect(chooseModel({ ...settings, model: broken, renderer: null }, ".")).rejects.toThrow(
      "Cannot use the response template: it has no fields.",
    );
  });

  it("refuses a folder without a chat template, naming the file, whatever family is named", async () => {
    const model = await folderWith(null);
    for (const renderer of [null, "qwen3"]) {
      await expect(chooseModel({ ...settings, model, renderer }, ".")).rejects.toThrow(
        "the folder has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)",
      );
    }
  });

  it("refuses wording that was asked for where the template has no place for it", async () => {
    const requested = {
      ...settings,
      model: await folderWith(withoutTools),
      renderer: "qwen3-coder",
      toolInstruction: "LICENSE",
    };
    await expect(chooseModel(requested, ".")).rejects.toThrow("Cannot edit the prompt");
  });
});

describe("withShippedModel()", () => {
  it("gives the embedded engine a model, and knows shipped ones by name", () => {
    const folderOf = (model: string | null, engine: "embedded" | null): string | null =>
      withShippedModel({ ...settings, model, engine }).model;
    expect(folderOf(null, "embedded")).toBe(shippedCheckpoint("bookshop-1m"));
    expect(folderOf("bookshop-nano", "embedded")).toBe(shippedCheckpoint("bookshop-nano"));
    expect(folderOf("bookshop-nano", null)).toBe(shippedCheckpoint("bookshop-nano"));
    expect(folderOf("models/mine", "embedded")).toBe("models/mine");
    expect(folderOf(null, null)).toBe(null);
  });
});
