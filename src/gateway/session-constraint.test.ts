// Constraints of clients in every dialect: what the engine is given, what is recorded, and what is
// trained.

import { describe, expect, test } from "vitest";

import { episodeSamples } from "../rollout/index.ts";
import { chooseRenderer, createQwenRenderer } from "../renderers/index.ts";
import { openRunFolder } from "../store/index.ts";
import { allConstraints, openWorld, post, tokenizer, type World } from "./gateway-world.test-helper.ts";

const schema = { type: "object", properties: { b: { type: "string" }, a: { type: "integer" } }, required: ["b"] };
const question = [{ role: "user", content: "a" }];
const find = { name: "find", description: "Finds it.", parameters: schema };
const give = { name: "give", parameters: { type: "object", properties: {} } };
const chatTools = [find, give].map((one) => ({ type: "function", function: one }));
const responseTools = [find, give].map((one) => ({ type: "function", ...one }));
const messageTools = [find, give].map(({ name, parameters }) => ({ name, input_schema: parameters }));
const call = '<tool_call>\n{"name": "find", "arguments": {"b": "x"}}\n</tool_call>';

const [chat, responses, messages] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"] as const;
const inChat = (fields: object): readonly [string, object] => [chat, { model: "m", messages: question, ...fields }];
const inResponses = (fields: object): readonly [string, object] => [responses, { model: "m", input: "a", ...fields }];
const inMessages = (fields: object): readonly [string, object] => [
  messages,
  { model: "m", max_tokens: 90, messages: question, ...fields },
];

const jsonSchema = {
  type: "json-schema",
  schema: '{"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}, "required": ["b"]}',
};
const anyObject = { type: "json-schema", schema: '{"type":"object"}' };
const oneCall = (count: number) => ({
  type: "tool-call",
  calls: Array.from({ length: count }, () => expect.objectContaining({ type: "sequence" }) as object),
});
const callOrAnswer = {
  type: "tool-call-or-answer",
  calls: [expect.anything(), expect.anything()],
  answer: { type: "json", schema: jsonSchema.schema },
};

const requests: readonly (readonly [what: string, request: readonly [string, object], text: object | null])[] = [
  ["Chat: text", inChat({ response_format: { type: "text" } }), null],
  ["Chat: json_object", inChat({ response_format: { type: "json_object" } }), anyObject],
  [
    "Chat: json_schema",
    inChat({ response_format: { type: "json_schema", json_schema: { name: "n", strict: true, schema } } }),
    jsonSchema,
  ],
  [
    "Chat: json_schema with tools",
    inChat({ tools: chatTools, response_format: { type: "json_schema", json_schema: { name: "n", schema } } }),
    callOrAnswer,
  ],
  [
    "Chat: json_schema with tools and none",
    inChat({
      tools: chatTools,
      tool_choice: "none",
      response_format: { type: "json_schema", json_schema: { name: "n", schema } },
    }),
    jsonSchema,
  ],
  ["Chat: required", inChat({ tools: chatTools, tool_choice: "required" }), oneCall(2)],
  ["Chat: auto", inChat({ tools: chatTools, tool_choice: "auto" }), null],
  [
    "Chat: a named tool",
    inChat({ tools: chatTools, tool_choice: { type: "function", function: { name: "find" } } }),
    oneCall(1),
  ],
  [
    "Chat: allowed tools, required",
    inChat({
      tools: chatTools,
      tool_choice: {
        type: "allowed_tools",
        allowed_tools: { mode: "required", tools: [{ type: "function", function: { name: "give" } }] },
      },
    }),
    oneCall(1),
  ],
  ["Chat: guided_json as text", inChat({ guided_json: JSON.stringify(schema) }), jsonSchema],
  [
    "Chat: guided_choice",
    inChat({ guided_choice: ["a.b", "(c)"] }),
    { type: "regex", pattern: String.raw`(a\.b|\(c\))` },
  ],
  ["Chat: structured_outputs", inChat({ structured_outputs: { regex: "a+" } }), { type: "regex", pattern: "a+" }],
  [
    "Chat: guided_grammar with tools",
    inChat({ tools: chatTools, guided_grammar: 'root ::= "a"' }),
    { type: "ebnf", grammar: 'root ::= "a"' },
  ],
  [
    "Responses: json_schema",
    inResponses({ text: { format: { type: "json_schema", name: "n", strict: true, schema } } }),
    jsonSchema,
  ],
  ["Responses: text", inResponses({ text: { format: { type: "text" } } }), null],
  ["Responses: required", inResponses({ tools: responseTools, tool_choice: "required" }), oneCall(2)],
  [
    "Responses: a named tool",
    inResponses({ tools: responseTools, tool_choice: { type: "function", name: "find" } }),
    oneCall(1),
  ],
  ["Messages: any", inMessages({ tools: messageTools, tool_choice: { type: "any" } }), oneCall(2)],
  [
    "Messages: a tool",
    inMessages({ tools: messageTools, tool_choice: { type: "tool", name: "find", disable_parallel_tool_use: true } }),
    oneCall(1),
  ],
  ["Messages: output_config", inMessages({ output_config: { format: { type: "json_schema", schema } } }), jsonSchema],
];

describe("a constraint of a client", () => {
  test.each(requests)("reaches the engine: %s", async (_, [path, body], text) => {
    const world = await openWorld(() => "fine", { constraints: allConstraints });
    const { status, text: said } = await post(world.gateway, path, body);
    expect([status, said]).toEqual([200, said]);
    expect(world.sampled[0]!.constraint).toEqual(text === null ? null : { text, reasoning: null });
    expect(world.gateway.sessions[0]!.counters.ignoredFields).toEqual({});
    await world.close();
  });

  test.each(requests.filter(([, , text]) => text !== null))(
    "is refused by name without grammars, or counted: %s",
    async (_, [path, body]) => {
      const world = await openWorld(() => "fine");
      const { status, text } = await post(world.gateway, path, body);
      expect(status).toBe(400);
      expect(text).toMatch(
        /(tool_choice|format|guided_\w+|structured_outputs).* constrains? the answer, and the engine .*scripted.* has no grammars/,
      );
      expect(text).toContain("--client-constraints ignore");
      await world.close();
      const free = await openWorld(() => "fine", { clientConstraints: "ignore" });
      expect((await post(free.gateway, path, body)).status).toBe(200);
      expect(free.sampled[0]!.constraint).toBeNull();
      expect(Object.values(free.gateway.sessions[0]!.counters.ignoredFields)).toEqual([1]);
      await free.close();
    },
  );

  test.each([
    ["response_format.json_schema", inChat({ response_format: { type: "json_schema" } }), "response_format"],
    ["response_format.type", inChat({ response_format: { type: "grammar" } }), "response_format"],
    ["two of them", inChat({ guided_regex: "a", regex: "b" }), "regex"],
    [
      "tool_choice",
      inChat({ tools: chatTools, tool_choice: { type: "function", function: { name: "take" } } }),
      "tool_choice",
    ],
    ["tool_choice without tools", inChat({ tool_choice: "required" }), "tool_choice"],
    [
      "tool_choice that allows no function",
      inChat({
        tools: chatTools,
        tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "custom" }] },
      }),
      "tool_choice",
    ],
    ["guided_json", inChat({ guided_json: "{" }), "guided_json"],
    ["guided_json beyond floats", inChat({ guided_json: '{"type":"number","maximum":1e999}' }), "guided_json"],
    ["guided_json too deep", inChat({ guided_json: `${'{"a":'.repeat(30_000)}1${"}".repeat(30_000)}` }), "guided_json"],
    ["guided_choice", inChat({ guided_choice: [] }), "guided_choice"],
    ["structured_outputs", inChat({ structured_outputs: { regex: "a", json: schema } }), "structured_outputs"],
    ["regex too long", inChat({ regex: "a".repeat(300_000) }), "regex"],
  ] as const)("that cannot be read is refused: %s", async (_, [path, body], param) => {
    const world = await openWorld(() => "fine", { constraints: allConstraints });
    const { status, json } = await post(world.gateway, path, body);
    expect([status, json]).toMatchObject([400, { error: { param } }]);
    expect(world.sampled).toEqual([]);
    await world.close();
  });

  test("of a call is refused if the schema of the tool has a number that JSON cannot write", async () => {
    const [path, body] = inChat({ tools: chatTools, tool_choice: "required" });
    const text = JSON.stringify(body).replaceAll('"properties":', '"maxProperties":1e999,"properties":');
    expect(text).toContain("1e999");
    const world = await openWorld(() => "fine", { constraints: allConstraints });
    const headers = { "content-type": "application/json", authorization: "Bearer s1" };
    const answer = await world.gateway.handle({ method: "POST", url: path, headers, body: Buffer.from(text) });
    expect(answer).toMatchObject({ status: 400, body: expect.stringContaining("beyond the largest float") as unknown });
    expect(world.sampled).toEqual([]);
    await world.close();
  });
});

/** The only episode of the run. */
async function episodeOf(world: World) {
  await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
  await world.gateway.end("s1");
  await world.close();
  for await (const episode of openRunFolder(world.folder).episodes()) return episode;
  throw new Error("The run has no episode.");
}

describe("a turn under a constraint", () => {
  const forced = inChat({ tools: chatTools, tool_choice: "required" });
  // "<tool_call>" had a choice; the next tokens were the only ones that the grammar allowed.
  const logprobs = [-0.5, 0, 0];

  test.each([
    ["mask", { forced: 2, constrained: "rest" }],
    ["train", { forced: 2 }],
    ["drop", { forced: 2, constrained: "rest" }],
  ] as const)("with %s trains no forced token, and the others as it says", async (constrained, dropped) => {
    const world = await openWorld(() => call, { constraints: allConstraints, constrained, logprobs });
    const { json } = await post(world.gateway, ...forced);
    expect(json).toMatchObject({
      choices: [
        {
          message: { tool_calls: [{ function: { name: "find", arguments: '{"b": "x"}' } }] },
          finish_reason: "tool_calls",
        },
      ],
    });
    const episode = await episodeOf(world);
    const [turn] = episode.trajectory.turns;
    const count = turn!.sampledTokens.length;
    expect(turn!.constrained).toEqual({ ranges: [{ start: 0, end: count }], allowedMass: null, loss: constrained });
    const { samples, dropped: left } = episodeSamples(episode);
    const expected = Object.entries(dropped).map(([reason, one]) => ({
      turn: 0,
      reason,
      count: one === "rest" ? count - 2 : one,
    }));
    expect(left).toEqual(expected);
    if (constrained !== "train") return expect(samples).toEqual([]);
    const [sample] = samples;
    const start = sample!.tokens.length - count;
    expect(sample!.constrainedRanges).toEqual([{ start, end: start + count }]);
    expect([...sample!.lossMask.subarray(start, start + 4)]).toEqual([1, 0, 0, 1]);
  });

  test("leaves the reasoning free and trained, whoever opens it", async () => {
    const templates = { "<think>\n": "Hm</think>\n\n", "": "<think>Hm</think>\n\n" };
    for (const [opened, thought] of Object.entries(templates)) {
      const renderer = chooseRenderer({
        tokenizer,
        chatTemplate:
          "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" +
          `{% if add_generation_prompt %}{{ '<|im_start|>assistant\n${opened.replace("\n", "\\n")}' }}{% endif %}`,
        toolCallParser: "qwen25",
        reasoningParser: "qwen3",
      });
      const world = await openWorld(() => thought + call, { renderer, constraints: allConstraints });
      expect((await post(world.gateway, ...inChat({ response_format: { type: "json_object" } }))).status).toBe(200);
      const reasoning = { start: opened === "" ? "<think>" : null, end: "</think>" };
      expect(world.sampled[0]!.constraint).toEqual({ text: anyObject, reasoning });
      const [turn] = (await episodeOf(world)).trajectory.turns;
      const texts = turn!.constrained!.ranges.map(({ start, end }) =>
        tokenizer.decode(turn!.sampledTokens.subarray(start, end)),
      );
      expect(texts).toEqual([...(opened === "" ? ["<think>"] : []), `\n\n${call}<|im_end|>`]);
    }
  });

  test("whose grammar the server refuses is the client's error, not a fault of the session", async () => {
    const world = await openWorld(() => "fine", { constraints: ["json-schema"] });
    const { status, json } = await post(world.gateway, ...inChat({ guided_regex: "a" }));
    expect([status, json]).toMatchObject([400, { error: { param: "guided_regex" } }]);
    expect((await post(world.gateway, ...inChat({}))).status).toBe(200);
    const { outcome } = await episodeOf(world);
    expect(outcome).toBe("completed");
  });

  test("reads no call from an answer, although it looks like one", async () => {
    const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
    const world = await openWorld(() => call, { renderer, constraints: allConstraints });
    const { json } = await post(world.gateway, ...inChat({ tools: chatTools, guided_regex: "[^]*" }));
    expect(json).toMatchObject({ choices: [{ message: { content: call }, finish_reason: "stop" }] });
    await world.close();
  });
});
