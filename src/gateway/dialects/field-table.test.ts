// The table of fields has a row for every field in the types of the client libraries, and the
// gateway handles each field as its row says.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DialectName } from "../request.ts";
import { allConstraints, openWorld, post, tokenizer } from "../gateway-world.test-helper.ts";
import { type FieldRule, fieldTables } from "./field-table.ts";

type Json = Readonly<Record<string, unknown>>;

const goldens = join(import.meta.dirname, "..", "..", "..", "tests", "goldens", "gateway", "client-fields.json");
const recorded = JSON.parse(readFileSync(goldens, "utf8")) as { fields: Readonly<Record<string, readonly string[]>> };

const question = [{ role: "user", content: "a" }];
const schema = { type: "object", properties: {} };
const plainTool = { type: "function", function: { name: "f", parameters: schema } };

const requests: Readonly<Record<DialectName, { readonly path: string; readonly body: Json }>> = {
  chat: { path: "/v1/chat/completions", body: { model: "m", messages: question } },
  completions: { path: "/v1/completions", body: { model: "m", prompt: [...tokenizer.encode("a")] } },
  responses: { path: "/v1/responses", body: { model: "m", input: "a" } },
  messages: { path: "/v1/messages", body: { model: "m", max_tokens: 50, messages: question } },
  google: { path: "/v1beta/models/m:generateContent", body: { contents: [{ parts: [{ text: "a" }] }] } },
  sglang: { path: "/generate", body: { input_ids: [...tokenizer.encode("a")] } },
  vllm: { path: "/inference/v1/generate", body: { token_ids: [...tokenizer.encode("a")] } },
};

const serverForms: Json = {
  guided_json: schema,
  guided_regex: "a+",
  guided_choice: ["a", "b"],
  guided_grammar: 'root ::= "a"',
  structured_outputs: { json: schema },
  json_schema: JSON.stringify(schema),
  regex: "a+",
  ebnf: 'root ::= "a"',
};

/** An example request for every row with status "done"; other rows need none. */
const examples: Readonly<Record<DialectName, Json>> = {
  chat: {
    messages: question,
    model: "x",
    tools: [plainTool],
    tool_choice: "none",
    parallel_tool_calls: false,
    max_tokens: 5,
    max_completion_tokens: 5,
    stop: ["x"],
    stream: true,
    "stream_options.include_usage": true,
    response_format: { type: "json_schema", json_schema: { name: "a", schema } },
    ...serverForms,
  },
  completions: {
    prompt: [...tokenizer.encode("b")],
    model: "x",
    max_tokens: 5,
    stop: "x",
    stream: true,
    "stream_options.include_usage": true,
    logprobs: 1,
    return_token_ids: true,
    response_format: { type: "json_object" },
    ...serverForms,
  },
  responses: {
    input: [{ role: "user", content: "a" }],
    instructions: "x",
    model: "x",
    previous_response_id: "the last one",
    store: false,
    tools: [{ type: "function", name: "f", parameters: schema }],
    tool_choice: "auto",
    parallel_tool_calls: false,
    max_output_tokens: 5,
    stream: true,
    "reasoning.summary": "auto",
    "reasoning.generate_summary": "auto",
    "text.format": { type: "json_schema", name: "a", schema },
  },
  messages: {
    messages: question,
    model: "x",
    system: "x",
    max_tokens: 5,
    stop_sequences: ["x"],
    stream: true,
    tools: [{ name: "f", input_schema: schema }],
    tool_choice: { type: "none" },
    "tool_choice.disable_parallel_tool_use": true,
    "output_config.format": { type: "json_schema", schema },
    output_format: { type: "json_schema", schema },
  },
  google: {
    contents: [{ role: "user", parts: [{ text: "a" }] }],
    model: "models/x",
    systemInstruction: { parts: [{ text: "x" }] },
    tools: [{ functionDeclarations: [{ name: "f", parameters: { type: "OBJECT" } }] }],
    "toolConfig.functionCallingConfig": { mode: "NONE" },
    "generationConfig.maxOutputTokens": 5,
    "generationConfig.stopSequences": ["x"],
    "generationConfig.thinkingConfig": { includeThoughts: true },
    "generationConfig.responseMimeType": "application/json",
    "generationConfig.responseSchema": { type: "OBJECT" },
    "generationConfig.responseJsonSchema": schema,
  },
  sglang: {
    input_ids: [...tokenizer.encode("b")],
    rid: "x",
    stream: true,
    return_logprob: true,
    "sampling_params.stop": ["x"],
    "sampling_params.stop_token_ids": [5],
    "sampling_params.max_new_tokens": 5,
    "sampling_params.json_schema": JSON.stringify(schema),
    "sampling_params.regex": "a+",
    "sampling_params.ebnf": 'root ::= "a"',
    "sampling_params.choice": ["a", "b"],
  },
  vllm: {
    token_ids: [...tokenizer.encode("b")],
    request_id: "x",
    model: "x",
    stream: true,
    "stream_options.include_usage": true,
    return_token_ids: true,
    "sampling_params.stop": ["x"],
    "sampling_params.stop_token_ids": [5],
    "sampling_params.max_tokens": 5,
    "sampling_params.logprobs": 0,
    "sampling_params.structured_outputs": { json: schema },
  },
};

const samplingExamples: Json = {
  temperature: 0.5,
  top_p: 0.9,
  top_k: 5,
  min_p: 0.1,
  repetition_penalty: 1.1,
  seed: 3,
  frequency_penalty: 0.1,
  presence_penalty: 0.1,
  logit_bias: { "5": 1 },
  topP: 0.9,
  topK: 5,
  frequencyPenalty: 0.1,
  presencePenalty: 0.1,
  sampling_seed: 3,
};

/** Sets a field, inside its parent object if it is nested. */
function withField(body: Json, field: string, value: unknown): Json {
  const [name = "", inner] = field.split(".");
  if (inner === undefined) return { ...body, [name]: value };
  const beside = name === "tool_choice" ? { type: "auto" } : {};
  return { ...body, [name]: { ...beside, [inner]: value } };
}

function otherThanNeutral({ neutral }: { readonly neutral: readonly unknown[] }): unknown {
  const values: readonly unknown[] = [true, "x", 7, { a: 1 }, ["x"]];
  return values.find((value) => !neutral.some((one) => JSON.stringify(one) === JSON.stringify(value)));
}

const rows = Object.entries(fieldTables).flatMap(([dialect, table]) =>
  Object.entries(table).map(([field, rule]) => ({ dialect: dialect as DialectName, field, rule })),
);

describe("the table", () => {
  // The interfaces of servers have no library that types them; see generate.test.ts.
  test.each(Object.keys(recorded.fields) as DialectName[])("has a row for every field of %s", (dialect) => {
    const known = Object.keys(fieldTables[dialect]);
    const missing = recorded.fields[dialect]!.filter(
      (field) => !known.includes(field) && !known.some((row) => row.startsWith(`${field}.`)),
    );
    expect(missing).toEqual([]);
  });

  test("has an example of every row that is done, and of no other", () => {
    const done = rows.flatMap(({ dialect, field, rule }) => (rule.status === "done" ? [`${dialect} ${field}`] : []));
    const shown = Object.entries(examples).flatMap(([dialect, fields]) => Object.keys(fields).map((field) => `${dialect} ${field}`)); // prettier-ignore
    expect(shown.toSorted()).toEqual(done.toSorted());
  });
});

describe.each(Object.keys(requests) as DialectName[])("a request of %s", (dialect) => {
  test("with any field is done, refused or counted as its row says", async () => {
    const world = await openWorld(() => "fine", { constraints: allConstraints });
    const { path, body } = requests[dialect];
    const counted = async (key: string): Promise<Json> => {
      const { json } = await post(world.gateway, `/v1/sessions/${key}`, null, { key: null, method: "GET" });
      return json["counters"] as Json;
    };
    let count = 0;
    for (const { field, rule } of rows.filter((row) => row.dialect === dialect)) {
      const key = `s${count++}`;
      const ask = async (value: unknown) => post(world.gateway, path, withField(body, field, value), { key });
      if (rule.status === "refused") {
        const { status, json } = await ask(otherThanNeutral(rule));
        expect([field, status]).toEqual([field, 400]);
        const error = json["error"] as Json;
        if (dialect === "google") expect(error["details"]).toMatchObject([{ fieldViolations: [{ field }] }]);
        else if (dialect !== "messages") expect(error["param"]).toBe(field);
        for (const part of [field, rule.reason, rule.remedy]) expect(error["message"]).toContain(part);
      }
      const neutral: readonly unknown[] = rule.status === "done" ? [] : [...rule.neutral, null, []];
      for (const value of neutral) expect([field, value, (await ask(value)).status]).toEqual([field, value, 200]);
      if (rule.status === "done") {
        const last = await post(world.gateway, path, body, { key });
        const example = field === "previous_response_id" ? last.json["id"] : examples[dialect][field];
        const answer = await ask(example);
        expect([field, answer.status, answer.text]).toEqual([field, 200, answer.text]);
      }
      const { ignored_fields: before, ignored_sampling: sampling } = await counted(key);
      expect([field, before, sampling]).toEqual([field, {}, {}]);
      if (rule.status !== "counted") continue;
      expect(
        (await ask(samplingExamples[field.slice(field.lastIndexOf(".") + 1)] ?? otherThanNeutral(rule))).status,
      ).toBe(200);
      const { ignored_fields: fields, ignored_sampling: sampled } = await counted(key);
      expect(rule.sampling === null ? fields : sampled).toEqual({ [field]: 1 });
    }
    await world.close();
  }, 60_000);

  test("with a field that is in no row is counted by its name", async () => {
    const world = await openWorld(() => "fine");
    const { path, body } = requests[dialect];
    const odd = JSON.parse('{"__proto__": 1, "of tomorrow": [1], "constructor": {"a": null}}') as Json;
    expect((await post(world.gateway, path, { ...body, ...odd, "": true })).status).toBe(200);
    const expected = { "of tomorrow": 1, constructor: 1, "": 1 };
    const counts = world.gateway.sessions[0]!.counters.ignoredFields;
    expect(counts).toMatchObject(expected);
    expect(Object.entries(counts)).toContainEqual(["__proto__", 1]);
    const many = Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`field-${index}`.padEnd(200, "x"), 1]));
    expect((await post(world.gateway, path, { ...body, ...many })).status).toBe(200);
    const { ignoredFields } = world.gateway.sessions[0]!.counters;
    expect(Object.keys(ignoredFields).length).toBeLessThan(300);
    expect(Math.max(...Object.keys(ignoredFields).map(({ length }) => length))).toBeLessThan(100);
    await world.close();
  });
});

test("sampling that clients set reaches the engine where they are obeyed, and nowhere else", async () => {
  const sampled = rows.filter((row) => row.dialect === "chat" && isSampling(row.rule)).map(({ field }) => field);
  const fields = Object.fromEntries(sampled.map((field) => [field, samplingExamples[field]]));
  for (const clientSampling of ["obey", "ignore"] as const) {
    const world = await openWorld(() => "fine", { clientSampling });
    const seen: unknown[] = [];
    const sample = world.engine.sample.bind(world.engine);
    world.engine.sample = (request, options) => (seen.push(request.sampling), sample(request, options));
    await post(world.gateway, requests.chat.path, { ...requests.chat.body, ...fields });
    const { counters } = world.gateway.sessions[0]!;
    const obeyed = {
      temperature: 0.5,
      topP: 0.9,
      topK: 5,
      minP: 0.1,
      repetitionPenalty: 1.1,
      seed: 3,
      extra: { frequency_penalty: 0.1, presence_penalty: 0.1, logit_bias: { "5": 1 } },
    };
    const own = { temperature: 1, topP: 1, topK: -1, minP: 0, repetitionPenalty: 1, seed: null, extra: {} };
    expect(seen).toMatchObject([clientSampling === "obey" ? obeyed : own]);
    expect(Object.keys(counters.ignoredSampling)).toEqual(clientSampling === "obey" ? [] : sampled);
    await world.close();
  }
});

function isSampling(rule: FieldRule): boolean {
  return rule.status === "counted" && rule.sampling !== null;
}
