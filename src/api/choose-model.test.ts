import { describe, expect, it } from "vitest";
import { shippedCheckpoint } from "../learner/model/index.ts";
import { chooseModel, withShippedModel } from "./choose-model.ts";

const settings = {
  engine: null,
  model: null,
  renderer: "llama-3.1-instruct",
  history: "keep-reasoning",
  thinking: null,
  toolInstruction: null,
  toolParser: null,
  reasoningParser: null,
  parserMode: "tokens",
  controlTokens: "text",
  repair: false,
} as const;

describe("chooseModel()", () => {
  it("puts our tool instruction where the template has a place for it, and refuses nothing for want of one", async () => {
    const { renderer } = await chooseModel({ ...settings, model: null, renderer: "qwen3-coder" }, ".");
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

  it("refuses wording that was asked for where the template has no place for it", async () => {
    const asked = { ...settings, model: null, renderer: "qwen3-coder", toolInstruction: "LICENSE" };
    await expect(chooseModel(asked, ".")).rejects.toThrow("Cannot edit the prompt");
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
