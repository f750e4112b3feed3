import { describe, expect, test } from "vitest";

import { ConfigurationError } from "../core/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { bundledToolSentence } from "../renderers/index.ts";
import { models, publishedRenderer, testedFamilies } from "../renderers/published-templates.test-helper.ts";
import { agentFactory, strategyNames } from "./agent-factory.ts";
import { createProblemPolicy } from "./decide-action.ts";
import { defaultToolInstruction, toolInstructionEdit } from "./tool-calling.ts";

describe("agentFactory()", () => {
  test("makes the tool-calling strategy, which opens with guidelines and the user's first words", () => {
    const strategy = agentFactory({ strategy: "tool-calling" });
    expect(strategy.name).toBe("tool-calling");
    expect(strategy.open({ guidelines: "Be kind.", tools: [], firstUtterance: "Hi", seed: 1 })).toEqual({
      messages: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "Hi" },
      ],
      tools: [],
    });
  });

  test.each(strategyNames)("makes %s by its name", (strategy) => {
    expect(agentFactory({ strategy, displays: ["a"], displayCount: 1 }).name).toBe(strategy);
  });

  test.each(["magic", "__proto__", "toString", ""])("lists the strategies for the unknown name %j", (strategy) => {
    expect(() => agentFactory({ strategy })).toThrow(ConfigurationError);
    expect(() => agentFactory({ strategy })).toThrow("use one of tool-calling, act, react, few-shot.");
  });
});

describe("observe() of tool-calling", () => {
  const strategy = agentFactory();
  const call = { id: "call_2_0", name: "get_order", argumentsText: "{}" };

  test("answers a call as the tool, words as the user", () => {
    expect(strategy.observe({ type: "call", call, arguments: new Map(), problems: [] }, "result")).toEqual({
      role: "tool",
      content: "result",
      name: "get_order",
      callId: "call_2_0",
    });
    expect(strategy.observe({ type: "say", content: "Hi", problems: [] }, "Hello")).toEqual({
      role: "user",
      content: "Hello",
    });
  });

  test("gives feedback in a tool's voice, never in the user's", () => {
    const problems = [{ code: "unknown-tool", toolName: "fly", detail: "" }] as const;
    expect(strategy.observe({ type: "observe", feedback: "x", call: null, problems }, "x")).toMatchObject({
      role: "tool",
      name: "fly",
      callId: null,
    });
    expect(strategy.observe({ type: "observe", feedback: "x", call: null, problems: [] }, "x")).toMatchObject({
      role: "tool",
      name: "unknown",
    });
  });
});

describe("createProblemPolicy()", () => {
  test("changes only what is given, and the result is frozen", () => {
    const policy = createProblemPolicy({ "several-calls": "observe" });
    expect(policy).toEqual({ ...createProblemPolicy(), "several-calls": "observe" });
    expect(Object.isFrozen(policy)).toBe(true);
  });

  test("refuses codes and dispositions that do not exist or do not fit", () => {
    expect(() => createProblemPolicy({ "no-json": "end" } as never)).toThrow(ConfigurationError);
    expect(() => createProblemPolicy({ "not-json": "first" })).toThrow("use one of observe, utterance, end, abort.");
    expect(() => createProblemPolicy({ "no-call": "forward" })).toThrow(ConfigurationError);
    expect(createProblemPolicy({ "schema-violation": "forward" })["schema-violation"]).toBe("forward");
  });
});

test.each(
  ["qwen2.5-instruct", "qwen3", "qwen3-rev2", "qwen3-instruct-2507"].filter((name) => testedFamilies.includes(name)),
)("the tool instruction takes the place of the template's own sentence in %s", (family) => {
  const edit = models === null ? toolInstructionEdit(undefined, bundledToolSentence) : toolInstructionEdit();
  const renderer = publishedRenderer(family, createReadableTokenizer(), { promptEdits: [edit] });
  const tool = { name: "f", definition: new Map() };
  const { text } = renderer.renderPrompt([{ role: "user", content: "hi" }], [tool]);
  expect(text).toContain(
    `# Tools\n\n${defaultToolInstruction}\n\n${models === null ? "The tools:" : "You are provided"}`,
  );
  expect(text).not.toContain(models === null ? bundledToolSentence : "one or more functions");
});
