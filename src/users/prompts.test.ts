import { describe, expect, it } from "vitest";
import { ownPrompts } from "./prompts.ts";
import { stopMarker } from "./conversation.ts";

const { system, reactSystem, check, reflect } = ownPrompts;

describe("ownPrompts", () => {
  it.each([system, reactSystem])("tell the model its instruction and how to hang up", (prompt) => {
    expect(prompt("Cancel my order.")).toContain("\nCancel my order.\n");
    expect(prompt("Cancel my order.")).toContain(stopMarker);
    expect(prompt(null)).not.toContain("null");
  });

  it("ask for exactly the forms that the strategies read", () => {
    expect(reactSystem(null)).toMatch(/\nThought:\n[^]*\nUser Response:\n/);
    const review = { instruction: "I", transcript: "T", response: "R" };
    for (const prompt of [check(review), reflect(review)]) expect(prompt).toMatch(/\nI\n[^]*\nT\n[^]*\nR\n/);
    expect(check(review)).toMatch(/"true"[^]*"false"/);
    expect(reflect(review)).toMatch(/\nReflection:\n[^]*\nResponse:\n/);
  });
});
