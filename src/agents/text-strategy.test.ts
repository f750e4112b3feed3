import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { type Decision, type ParsedAction, type Tool, toolFromDefinition } from "../core/index.ts";
import { fromPlain, JsonFloat, type JsonObject } from "../python-semantics/json/index.ts";
import { createAct, createReact, type TextStrategyOptions } from "./text-strategy.ts";

const parameters = { type: "object", properties: { id: { type: "string" } }, required: ["id"] };
const tool = toolFromDefinition(
  fromPlain({ type: "function", function: { name: "get_order", description: "Größe", parameters } }) as JsonObject,
);
const tools: readonly Tool[] = [tool];

const said = (text: string, changes: Partial<ParsedAction> = {}): ParsedAction => ({
  text,
  reasoning: null,
  content: text,
  toolCalls: [],
  problems: [],
  isTerminated: true,
  ...changes,
});

function decide(
  action: ParsedAction | string,
  options: TextStrategyOptions & { readonly argumentErrors?: "environment" | "loop" } = {},
): Decision {
  const { argumentErrors = "loop", ...rest } = options;
  const read = typeof action === "string" ? said(action) : action;
  return createAct(rest).decide(read, { tools, argumentErrors, turn: 3 });
}
const codes = ({ problems }: Decision) => problems.map(({ code }) => code);

describe.each([
  ["act", createAct],
  ["react", createReact],
] as const)("%s", (name, create) => {
  test("describes tools in the system message as Python's json.dumps does, and gives the template none", () => {
    const opening = create().open({ guidelines: "Be kind.", tools, firstUtterance: "Hi", seed: 1 });
    expect(opening.tools).toEqual([]);
    expect(opening.messages[1]).toEqual({ role: "user", content: "Hi" });
    const system = opening.messages[0]?.content ?? "";
    expect(system).toMatch(
      /^Be kind\.\n#Available tools\n\[\{"type": "function", "function": \{"name": "get_order", "description": "Gr\\u00f6\\u00dfe", .*\}\]\n\n# How to act\n/,
    );
    expect(system.includes("Thought:")).toBe(name === "react");
  });

  test("takes another instruction, directly behind the tools", () => {
    const strategy = create({ instruction: "\nJust act." });
    const { messages } = strategy.open({ guidelines: "G", tools: [], firstUtterance: "Hi", seed: 1 });
    expect(messages[0]?.content).toBe("G\n#Available tools\n[]\nJust act.");
  });

  test("gives results back in the user's place, marked if a tool gave them", () => {
    const strategy = create();
    const observe = (decision: Decision) => strategy.observe(decision, "text");
    const call = { id: "call_0_0", name: "get_order", argumentsText: "{}" };
    const marked = { role: "user", content: "API output: text" };
    expect(observe({ type: "say", content: "", problems: [] })).toEqual({ role: "user", content: "text" });
    expect(observe({ type: "call", call, arguments: new Map(), problems: [] })).toEqual(marked);
    expect(observe({ type: "observe", feedback: "text", call: null, problems: [] })).toEqual({
      role: "user",
      content: "text",
    });
  });
});

describe("what act and react read", () => {
  test("the JSON behind the last Action: is a call, numbered by the turn", () => {
    const text = 'Thought:\nAction: none yet\nAction:\n{"name": "get_order", "arguments": {"id": "#W1"}}\n';
    expect(decide(text)).toEqual({
      type: "call",
      call: { id: "call_3_0", name: "get_order", argumentsText: '{"id": "#W1"}' },
      arguments: new Map([["id", "#W1"]]),
      problems: [],
    });
  });

  test("JSON without Action: is a call, too", () => {
    expect(decide(' {"name": "get_order", "arguments": {"id": "1"}} ').type).toBe("call");
  });

  test("arguments are lossless", () => {
    const decision = decide(
      '{"name": "get_order", "arguments": {"id": "1", "n": 100.0, "9": 1, "big": 10000000000000000000}}',
    );
    expect(decision).toMatchObject({
      call: { argumentsText: '{"id": "1", "n": 100.0, "9": 1, "big": 10000000000000000000}' },
    });
    if (decision.type !== "call") throw new Error("not a call");
    expect([...decision.arguments.keys()]).toEqual(["id", "n", "9", "big"]);
    expect(decision.arguments.get("n")).toBeInstanceOf(JsonFloat);
    expect(decision.arguments.get("big")).toBe(10_000_000_000_000_000_000n);
  });

  test("respond is speech, whatever stands beside its content, and the thought is not heard", () => {
    const text = 'Thought:\nsecret\nAction:\n{"name": "respond", "arguments": {"content": "Hello. ", "mood": 1}}';
    expect(decide(text)).toEqual({ type: "say", content: "Hello. ", problems: [] });
  });

  test.each([
    ["Thought:\nhm\nAction:\n Hello there. ", "Hello there."],
    ["Hello.", "Hello."],
    ["Action:", ""],
    ['Action:\n{"name": "respond", "arguments": {"content": "Your Action: none"}}', 'none"}}'],
  ])("a part that is not JSON is words: %j", (text, words) => {
    expect(decide(text)).toEqual({ type: "say", content: words, problems: [] });
  });

  test.each([
    'API output: {"name": "get_order", "arguments": {"id": "7"}}',
    'Action:\n{"name": "get_order", "arguments": {"id": "7"}}\nAPI output: {"status": "sent"}',
    'I will look. {"a": {"name": "get_order"}} ```json\n{"name": "get_order", "arguments": {"id": "7"}}\n```',
  ])("a call beside other text is not said to the user, who could not read it: %j", (text) => {
    const decision = decide(text);
    expect([decision.type, codes(decision)]).toEqual(["observe", ["other-format"]]);
    expect(decision).toMatchObject({
      feedback: expect.stringContaining(
        'Write a call like this:\nAction:\n{"name": "get_order", "arguments": {"id": "7"}}',
      ) as string,
    });
  });

  test.each([
    ['{"name": "respond", "arguments": {"content": "and?"}', "not-json"],
    ['Action:\n{"name": "get_order", "arguments": {"id": "7"}', "not-json"],
    ['{"name": "get_orders", "arguments": {"id": "7"}}', "unknown-tool"],
    ['{"name": "respond", "arguments": {"content": 1}}', "schema-violation"],
    ["[1]", "not-json"],
    ['{"arguments": {}}', "unknown-tool"],
  ])("feedback to a call that is broken, or of no tool, has an example: %j", (text, code) => {
    const decision = decide(text);
    expect([decision.type, codes(decision)]).toEqual(["observe", [code]]);
    const name = code === "schema-violation" ? '"respond", "arguments": {"content"' : '"get_order", "arguments": {"id"';
    expect(decision).toMatchObject({
      feedback: expect.stringContaining(`Write a call like this:\nAction:\n{"name": ${name}: "..."}}`) as string,
    });
  });

  test.each(['API output: {"id": "7", "status": "sent"}', "Action:\nAPI output: sent"])(
    "the output of a tool that the policy wrote itself is not said to the user: %j",
    (text) => {
      const decision = decide(text);
      expect([decision.type, codes(decision)]).toEqual(["observe", ["not-json"]]);
      expect(decision).toMatchObject({
        feedback: expect.stringContaining('Action:\n{"name": "get_order", "arguments": {"id": "..."}}') as string,
      });
    },
  );

  test.each([
    'You wrote {"name": "fly", "arguments": {}} to me.',
    'The order is {"name": "get_order", "status": "sent"}.',
    'Data: {"call": {"name": "get_order", "arguments": {"id": "7"}}}',
    "{".repeat(200_000),
  ])("JSON that is not a call of a tool is speech: %.60j", (text) => {
    expect(decide(text).type).toBe("say");
  });

  test.each([
    ["5", "not-json"],
    ['"name arguments"', "not-json"],
    ["[]", "not-json"],
    ["null", "not-json"],
    ["{}", "unknown-tool"],
    ['{"name": 5, "arguments": {}}', "unknown-tool"],
    ['{"name": "fly", "arguments": {}}', "unknown-tool"],
    ['{"name": "get_order"}', "not-an-object"],
    ['{"name": "get_order", "arguments": "{}"}', "not-an-object"],
    ['{"name": "get_order", "arguments": {}}', "schema-violation"],
    ['{"name": "respond"}', "not-an-object"],
    ['{"name": "respond", "arguments": {}}', "schema-violation"],
    ['{"name": "respond", "arguments": {"content": null}}', "schema-violation"],
  ])("JSON that is not an action is observed by name: %s", (text, code) => {
    const decision = decide(`Action:\n${text}`);
    expect([decision.type, codes(decision)]).toEqual(["observe", [code]]);
  });

  test("feedback on an unknown name lists respond beside the tools", () => {
    expect(decide('{"name": "fly", "arguments": {}}')).toMatchObject({
      feedback: expect.stringContaining("The tools are respond, get_order.") as string,
    });
  });

  test("an environment that words argument errors gets the call; speech without words never leaves the loop", () => {
    const options = { argumentErrors: "environment", problemPolicy: { "schema-violation": "forward" } } as const;
    expect(decide('{"name": "get_order", "arguments": {}}', options).type).toBe("call");
    expect(decide('{"name": "respond", "arguments": {}}', options).type).toBe("observe");
  });

  test("the problem policy is the caller's", () => {
    expect(decide('{"name": "get_order"}', { problemPolicy: { "not-an-object": "utterance" } })).toMatchObject({
      type: "say",
      content: '{"name": "get_order"}',
    });
    expect(decide("5", { problemPolicy: { "not-json": "abort" } }).type).toBe("abort");
    expect(decide("Hello.", { problemPolicy: { "no-call": "observe" } }).type).toBe("observe");
    expect(
      decide('{"name": "respond", "arguments": {"content": "Hi"}}', { problemPolicy: { "no-call": "end" } }),
    ).toEqual({
      type: "say",
      content: "Hi",
      problems: [],
    });
  });

  test("a text that was cut off is not heard, and a whole action in it not carried out", () => {
    expect(codes(decide(said("Thought:\nI wonder", { isTerminated: false })))).toEqual(["cut-off"]);
    const whole = said('Action:\n{"name": "get_order", "arguments": {"id": "1"}}', { isTerminated: false });
    expect(decide(whole)).toMatchObject({ type: "observe", problems: [{ code: "cut-off", toolName: "get_order" }] });
  });

  test("thinking that a parser split off is not read", () => {
    const content = 'Action:\n{"name": "get_order", "arguments": {"id": "1"}}';
    const reasoning = "Action:\nnothing";
    expect(decide(said(`<think>${reasoning}</think>${content}`, { reasoning, content })).type).toBe("call");
  });

  test("a call in the model's own syntax is not an action, and is not said to the user", () => {
    const foreign = '<tool_call>{"name": "get_order", "arguments": {"id": "1"}}</tool_call>';
    const toolCalls = [{ id: "call_3_0", name: "get_order", argumentsText: '{"id": "1"}' }];
    for (const text of [foreign, `Action:\n${foreign}`]) {
      const decision = decide(said(text, { content: "", toolCalls }));
      expect([decision.type, codes(decision)]).toEqual(["observe", ["other-format"]]);
    }
    const good = 'Action:\n{"name": "respond", "arguments": {"content": "Hi"}}';
    const thinking = said(`<think>a</think>${foreign}${good}`, { reasoning: "a", content: good, toolCalls });
    expect(decide(thinking)).toMatchObject({ type: "say", content: "Hi" });
  });
});

test("act and react never throw, and carry out nothing that is not JSON behind the last Action:", () => {
  const action = fc.record({
    name: fc.constantFrom("get_order", "respond", "fly", "", "__proto__"),
    arguments: fc.oneof(fc.jsonValue(), fc.record({ content: fc.string() }), fc.record({ id: fc.string() })),
  });
  const part = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.json(),
    action.map((value) => JSON.stringify(value)),
  );
  const text = fc
    .tuple(fc.array(fc.oneof(fc.string(), fc.constant("Action:")), { maxLength: 4 }), part)
    .map(([before, last]) => [...before, last].join("Action:"));
  const shapes = fc.record({ text, isTerminated: fc.boolean(), isForeign: fc.boolean() });
  fc.assert(
    fc.property(shapes, ({ text: written, isTerminated, isForeign }) => {
      const toolCalls = isForeign ? [{ id: "call_0_0", name: "get_order", argumentsText: "{" }] : [];
      const decision = decide(said(written, { isTerminated, toolCalls }));
      if (decision.type === "observe") expect(decision.feedback).toMatch(/^Error: /);
      if (decision.type !== "call") return;
      const { name, arguments: given } = JSON.parse(written.split("Action:").at(-1) ?? "") as Record<string, unknown>;
      expect([decision.call.name, JSON.parse(decision.call.argumentsText)]).toEqual([name, given]);
    }),
    { seed: 7, numRuns: 3000 },
  );
});
