import { describe, expect, it } from "vitest";
import { chooseModel } from "./choose-model.ts";

const settings = {
  model: null,
  renderer: "llama-3.1-instruct",
  history: "keep-reasoning",
  thinking: null,
  toolInstruction: null,
} as const;

describe("chooseModel()", () => {
  it("puts our tool instruction where the template has a place for it, and refuses nothing for want of one", async () => {
    const { renderer } = await chooseModel({ ...settings, model: null, renderer: "qwen3-coder" }, ".");
    expect(renderer.family).toBe("qwen3-coder");
    const qwen = await chooseModel({ ...settings, model: null, renderer: null }, ".");
    expect(qwen.renderer.family).toBe("qwen2.5-instruct");
  });

  it("refuses wording that was asked for where the template has no place for it", async () => {
    const asked = { ...settings, model: null, renderer: "qwen3-coder", toolInstruction: "LICENSE" };
    await expect(chooseModel(asked, ".")).rejects.toThrow("Cannot edit the prompt");
  });
});
