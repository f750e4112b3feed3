// Google's dialect beyond what all dialects share (`dialects.test.ts`): paths, keys, both forms of
// streams, names and schemas of its bodies, thoughts, and its errors.

import { describe, expect, test } from "vitest";
import {
  allConstraints,
  eventsOf,
  openWorld,
  post,
  send,
  tokenizer,
  type World,
} from "../gateway-world.test-helper.ts";
import { chooseRenderer } from "../../renderers/index.ts";
import { jsonSchemaOf } from "./google-schema.ts";

type Json = Readonly<Record<string, unknown>>;
type Candidate = {
  readonly content: { readonly parts: readonly Json[]; readonly role: string };
  readonly finishReason?: string;
};

const path = "/v1beta/models/m:generateContent";
const streamPath = "/v1beta/models/m:streamGenerateContent";
const question = { contents: [{ role: "user", parts: [{ text: "a" }] }] };
const json = { "content-type": "application/json" };
const of = (value: unknown): Json => value as Json;
const candidateOf = (answer: unknown): Candidate => (of(answer)["candidates"] as readonly Candidate[])[0]!;
const textOf = (parts: readonly Json[]): string => parts.map(({ text = "" }) => text).join("");

async function withWorld(
  policy: Parameters<typeof openWorld>[0],
  use: (world: World) => Promise<void>,
  options: Parameters<typeof openWorld>[1] = {},
): Promise<void> {
  const world = await openWorld(policy, options);
  await use(world);
  await world.close();
}

/** Lets a test decide when the engine goes on. */
function openGate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

/** Reads a stream; `heard` receives its text so far after every part. */
async function readStream(gateway: World["gateway"], url: string, heard: (soFar: string) => unknown): Promise<string> {
  const headers = { ...json, authorization: "Bearer s1" };
  const answer = await gateway.handle({ method: "POST", url, headers, body: Buffer.from(JSON.stringify(question)) });
  let text = "";
  for await (const part of answer.body as AsyncIterable<string>) heard((text += part));
  return text;
}

const shownIn = (world: World, at = 0): string => tokenizer.decode(world.sampled[at]!.prompt);

describe("the path", () => {
  test.each([
    "/v1beta/models/m:generateContent",
    "/v1/models/m:generateContent",
    "/v1alpha/models/m:generateContent",
    "/v1/v1beta/models/m:generateContent",
    "/models/m:generateContent",
    "/v1beta/models/m%3AgenerateContent",
    "/v1beta1/projects/p/locations/l/publishers/google/models/m:generateContent",
  ])("names the model: %s", async (url) => {
    await withWorld(
      () => "fine",
      async ({ gateway }) => {
        const answer = await post(gateway, url, question);
        expect([answer.status, answer.json["modelVersion"]]).toEqual([200, "m"]);
      },
    );
  });

  test("of another method is none", async () => {
    await withWorld(
      () => "fine",
      async ({ gateway }) => {
        expect((await post(gateway, "/v1beta/models/m:embedContent", question)).status).toBe(404);
      },
    );
  });
});

describe("the key", () => {
  test("is in the header of Google's clients, in the query, or in the path", async () => {
    await withWorld(
      () => "fine",
      async ({ gateway }) => {
        const request = { method: "POST", body: question };
        for (const [url, headers] of [
          [path, { "x-goog-api-key": "k1" }],
          [`${path}?key=k2`, {}],
          [`${streamPath}?alt=sse&key=k3`, {}],
          [`/s/k4${path}`, { "x-goog-api-key": "any" }],
          [`${path}?key=k5`, { "x-goog-api-key": "k5" }],
        ] as const) {
          const answer = await send(gateway, { ...request, url, headers: { ...json, ...headers } });
          expect([url, answer.status]).toEqual([url, 200]);
        }
        expect(gateway.sessions.map(({ id }) => id)).toEqual(["k1", "k2", "k3", "k4", "k5"]);
      },
    );
  });

  test("that is missing, or differs from another, is refused without being repeated", async () => {
    await withWorld(
      () => "fine",
      async ({ gateway }) => {
        const request = { method: "POST", body: question };
        const none = await send(gateway, { ...request, url: path, headers: json });
        expect(none.json).toMatchObject({ error: { code: 401, status: "UNAUTHENTICATED" } });
        const headers = { ...json, "x-goog-api-key": "secret-one" };
        const two = await send(gateway, { ...request, url: `${path}?key=secret-two`, headers });
        expect([two.status, two.text.includes("secret")]).toEqual([401, false]);
      },
    );
  });
});

describe("a stream", () => {
  const call = '<tool_call>\n{"name": "find", "arguments": {"id": 12345678901234567890}}\n</tool_call>';
  const tools = [{ functionDeclarations: [{ name: "find" }] }];

  test("without alt=sse is one JSON array, and its parts join to the whole answer", async () => {
    await withWorld(
      () => `Let me look.\n${call}`,
      async ({ gateway }) => {
        const array = await post(gateway, streamPath, { ...question, tools });
        expect(array.headers["content-type"]).toBe("application/json");
        expect(array.text).toContain("12345678901234567890");
        const events = await post(gateway, `${streamPath}?alt=sse`, { ...question, tools });
        expect(events.headers["content-type"]).toContain("text/event-stream");
        for (const all of [JSON.parse(array.text) as unknown[], eventsOf(events.text)]) {
          const candidates = all.map(candidateOf);
          expect(textOf(candidates.flatMap(({ content }) => content.parts)).trim()).toBe("Let me look.");
          expect(candidates.at(-1)).toMatchObject({ finishReason: "STOP", index: 0 });
          expect(candidates.slice(0, -1).every(({ finishReason }) => finishReason === undefined)).toBe(true);
          expect(of(all.at(-1))["usageMetadata"]).toMatchObject({ candidatesTokenCount: expect.any(Number) as number });
          // Clients drop an answer of which one event has no parts.
          expect(candidates.every(({ content }) => content.parts.length > 0 && content.role === "model")).toBe(true);
        }
      },
    );
  });

  test.each(["", "?alt=sse"])(
    "that fails after its beginning ends with an error that can be parsed: %j",
    async (alt) => {
      await withWorld(
        () => "fine",
        async ({ gateway, engine }) => {
          const gate = openGate();
          engine.sample = async (_request, options) => {
            options?.onTokens?.(tokenizer.encode("some text that is long enough to be told at once, and more of it"));
            await gate.opened;
            throw new Error("the server is gone");
          };
          const text = await readStream(
            gateway,
            `${streamPath}${alt}`,
            (soFar) => soFar.includes("some text") && gate.open(),
          );
          const all = alt === "" ? (JSON.parse(text) as unknown[]) : eventsOf(text);
          expect(all.length).toBeGreaterThan(1);
          expect(candidateOf(all[0]).content.parts).toMatchObject([
            { text: expect.stringContaining("some text") as string },
          ]);
          const last = all.at(-1);
          expect(last).toMatchObject({
            error: { code: expect.any(Number) as number, status: expect.any(String) as string },
          });
        },
      );
    },
  );

  test.each(["", "?alt=sse"])("that waits is kept open by empty lines, which no client reads: %j", async (alt) => {
    await withWorld(
      () => "fine",
      async ({ gateway, engine }) => {
        const sample = engine.sample.bind(engine);
        const gate = openGate();
        engine.sample = async (request, options) => {
          await gate.opened;
          return sample(request, options);
        };
        const text = await readStream(gateway, `${streamPath}${alt}`, (soFar) => soFar.includes("\n\n") && gate.open());
        expect(text).toMatch(/^\n\n/);
        expect(text).not.toContain("keepalive");
        const all = alt === "" ? (JSON.parse(text) as unknown[]) : eventsOf(text);
        expect(textOf(all.flatMap((one) => candidateOf(one).content.parts))).toBe("fine");
      },
      { keepAliveMs: 5 },
    );
  });

  test("that its client never had is given again after a restart, and continued", async () => {
    const world = await openWorld((prompt) => (prompt.includes("again") ? "done" : "fine"));
    const url = `${streamPath}?alt=sse`;
    const lost = await post(world.gateway, url, question, { delivers: false });
    const after = await world.restart();
    const again = await post(after.gateway, url, question);
    const heard = (text: string): string => textOf(eventsOf(text).flatMap((one) => candidateOf(one).content.parts));
    expect([heard(lost.text), heard(again.text), after.sampled.length]).toEqual(["fine", "fine", 0]);
    const contents = [
      ...question.contents,
      { role: "model", parts: [{ text: "fine" }] },
      { role: "user", parts: [{ text: "again" }] },
    ];
    expect((await post(after.gateway, path, { contents })).status).toBe(200);
    expect(after.gateway.sessions[0]!.counters).toMatchObject({ extended: 1, branched: {} });
    await after.close();
  });

  test("that is echoed event by event is the answer that was sampled", async () => {
    await withWorld(
      (prompt) =>
        prompt.includes("again") ? "done" : "One sentence, then\n another one that is longer than the first.",
      async ({ gateway }) => {
        const events = eventsOf((await post(gateway, `${streamPath}?alt=sse`, question)).text).map(candidateOf);
        const pieces = events.flatMap(({ content }) => {
          const text = textOf(content.parts);
          const [first, second] = [text.slice(0, 7), text.slice(7)];
          return [
            { ...content, parts: [{ text: first }] },
            { ...content, parts: [{ text: second, thoughtSignature: "x" }] },
          ];
        });
        const contents = [...question.contents, ...pieces, { role: "user", parts: [{ text: "again" }] }];
        expect((await post(gateway, path, { contents })).status).toBe(200);
        expect(gateway.sessions[0]!.counters).toMatchObject({ extended: 1, branched: {} });
      },
    );
  });
});

const renderer = chooseRenderer({
  tokenizer,
  chatTemplate:
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" +
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
  toolCallParser: "qwen25",
  reasoningParser: "qwen3",
});

test("thoughts are shown where the client requests them, and an echo without them is known", async () => {
  await withWorld(
    (prompt) => (prompt.includes("again") ? "done" : "<think>\nHm, sunny.\n</think>\n\nIt is sunny."),
    async ({ gateway }) => {
      const config = { generationConfig: { thinkingConfig: { includeThoughts: true } } };
      const shown = candidateOf((await post(gateway, path, { ...question, ...config })).json).content;
      const plain = candidateOf((await post(gateway, path, question, { key: "s2" })).json).content;
      expect(shown.parts).toEqual([{ text: "Hm, sunny.\n", thought: true }, { text: "It is sunny." }]);
      expect(plain.parts).toEqual([{ text: "It is sunny." }]);
      const streams = await Promise.all(
        [config, {}].map((fields, at) =>
          post(gateway, `${streamPath}?alt=sse`, { ...question, ...fields }, { key: `s${at + 3}` }),
        ),
      );
      const thoughts = streams.map(({ text }) => {
        const parts = eventsOf(text).flatMap((event) => candidateOf(event).content.parts);
        return textOf(parts.filter(({ thought }) => thought === true));
      });
      expect(thoughts).toEqual(["Hm, sunny.\n", ""]);
      const more = { role: "user", parts: [{ text: "again" }] };
      for (const [content, key] of [
        [shown, "s1"],
        [plain, "s2"],
      ] as const) {
        const contents = [...question.contents, content, more];
        expect((await post(gateway, path, { contents, ...config }, { key })).status).toBe(200);
      }
      expect(gateway.sessions.map(({ counters }) => counters.branched)).toEqual([{}, {}, {}, {}]);
      expect(gateway.sessions.map(({ counters }) => counters.extended)).toEqual([1, 1, 0, 0]);
    },
    { renderer },
  );
});

describe("a body", () => {
  test("has names in snake case and lists of one without brackets, as Google's servers read them", async () => {
    await withWorld(
      () => "fine",
      async (world) => {
        const body = {
          contents: { parts: { text: "a" } },
          system_instruction: { parts: { text: "Be brief." } },
          generation_config: { max_output_tokens: 5, stop_sequences: ["x"], candidate_count: 1 },
          tools: {
            function_declarations: {
              name: "find",
              parameters: { type: "OBJECT", properties: { a: { type: "STRING", min_length: "1" } } },
            },
          },
          tool_config: { function_calling_config: { mode: "none" } },
        };
        const { status, text } = await post(world.gateway, path, body);
        expect([status, text]).toEqual([200, text]);
        for (const part of ["Be brief.", '"type": "object"', '"minLength": 1']) expect(shownIn(world)).toContain(part);
        expect(world.gateway.sessions[0]!.counters.ignoredFields).toEqual({});
      },
    );
  });

  test("counts its tokens in both forms, as its answer reports them", async () => {
    await withWorld(
      () => "fine",
      async ({ gateway }) => {
        const body = { ...question, systemInstruction: { parts: [{ text: "Be brief." }] } };
        const answer = await post(gateway, path, body);
        const expected = { totalTokens: of(answer.json["usageMetadata"])["promptTokenCount"] };
        const count = "/v1beta/models/m:countTokens";
        expect((await post(gateway, count, body)).json).toEqual(expected);
        const nested = {
          generate_content_request: {
            model: "models/m",
            contents: body.contents[0],
            system_instruction: body.systemInstruction,
          },
        };
        expect((await post(gateway, count, nested)).json).toEqual(expected);
        const both = await post(gateway, count, { ...body, generateContentRequest: body });
        expect(both.json).toMatchObject({ error: { code: 400 } });
        expect(gateway.sessions[0]!.counters.calls).toBe(1);
      },
    );
  });

  test("shows results as their output, or as JSON, in the order of the calls", async () => {
    const call = (name: string): string => `<tool_call>\n{"name": "${name}", "arguments": {}}\n</tool_call>`;
    await withWorld(
      (prompt) => (prompt.includes("<tool_response>") ? "done" : `${call("f")}\n${call("g")}`),
      async (world) => {
        const tools = [{ functionDeclarations: [{ name: "f" }, { name: "g" }] }, { googleSearch: {} }];
        const { content } = candidateOf((await post(world.gateway, path, { ...question, tools })).json);
        const results = [
          { name: "f", response: { output: "first" } },
          { name: "g", response: { error: "second" } },
        ];
        const parts = results.map((functionResponse) => ({ functionResponse }));
        const contents = [...question.contents, content, { role: "function", parts }];
        expect((await post(world.gateway, path, { contents, tools })).status).toBe(200);
        const shown = shownIn(world, 1);
        expect(shown.indexOf("first")).toBeLessThan(shown.indexOf('{"error":"second"}'));
        const { counters } = world.gateway.sessions[0]!;
        expect(counters).toMatchObject({ extended: 1, branched: {}, ignoredTools: 2 });
      },
    );
  });

  test.each([
    [{ output: "a" }, "a"],
    [{ result: "a" }, "a"],
    [{ name: "f", content: "a" }, "a"],
    [{ output: { a: 1 } }, '{"a":1}'],
    [{ name: "g", content: "a" }, '{"name":"g","content":"a"}'],
    [{ output: "a", error: "b" }, '{"output":"a","error":"b"}'],
    [{ error: "a" }, '{"error":"a"}'],
    [{}, "{}"],
    [null, "{}"],
  ])("shows the response of a function without what only wraps its output: %j", async (response, shown) => {
    await withWorld(
      () => "fine",
      async (world) => {
        const call = { role: "model", parts: [{ functionCall: { name: "f" } }] };
        const contents = [...question.contents, call, { parts: [{ functionResponse: { name: "f", response } }] }];
        const tools = [{ functionDeclarations: [{ name: "f" }] }];
        expect((await post(world.gateway, path, { contents, tools })).status).toBe(200);
        expect(shownIn(world)).toContain(`<tool_response>\n${shown}\n</tool_response>`);
      },
    );
  });

  test.each([
    ["no contents", {}, "contents"],
    ["empty contents", { contents: [] }, "contents"],
    ["contents of text", { contents: "a" }, "contents.0"],
    ["another role", { contents: [{ role: "system", parts: [{ text: "a" }] }] }, "contents.0.role"],
    ["a picture", { contents: [{ parts: [{ inlineData: { mimeType: "image/png", data: "" } }] }] }, "contents.0.parts"],
    ["a file", { contents: [{ parts: [{ text: "a" }, { file_data: { fileUri: "x" } }] }] }, "contents.0.parts"],
    ["a last content of the model", { contents: [...question.contents, { role: "model", parts: [{ text: "It" }] }] }, "contents.1"],
    ["a call of the user", { contents: [{ parts: [{ functionCall: { name: "f" } }] }] }, "contents.0.parts"],
    ["parts of a result", { contents: [{ parts: [{ functionResponse: { name: "f", parts: [{}] } }] }] }, "contents.0.parts"],
    ["another mode", { ...question, toolConfig: { functionCallingConfig: { mode: "SOME" } } }, "toolConfig.functionCallingConfig"],
    ["a function that is not declared", { ...question, toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["f"] } } }, "toolConfig.functionCallingConfig"],
    ["a forced call without functions", { ...question, toolConfig: { functionCallingConfig: { mode: "ANY" } } }, "toolConfig.functionCallingConfig"],
    ["a temperature out of range", { ...question, generationConfig: { temperature: -1 } }, "generationConfig.temperature"],
    ["another type of answer", { ...question, generationConfig: { responseMimeType: "text/html" } }, "generationConfig.responseMimeType"],
    ["a schema of text", { ...question, generationConfig: { responseMimeType: "text/plain", responseSchema: { type: "OBJECT" } } }, "generationConfig.responseSchema"],
    ["two schemas", { ...question, generationConfig: { responseJsonSchema: {}, responseSchema: { type: "OBJECT" } } }, "generationConfig.responseJsonSchema"],
  ])("is refused by the name of its field: %s", async (_, body, field) => {
    await withWorld(
      () => "fine",
      async (world) => {
        const { status, json: said } = await post(world.gateway, path, body);
        expect([status, said]).toMatchObject([
          400,
          { error: { code: 400, status: "INVALID_ARGUMENT", details: [{ fieldViolations: [{ field }] }] } },
        ]);
        expect(world.sampled).toEqual([]);
      },
      { constraints: allConstraints },
    );
  }); // prettier-ignore
});

describe("a constraint", () => {
  const functionDeclarations = ["f", "g"].map((name) => ({ name, parameters: { type: "OBJECT", properties: {} } }));
  const calling = (fields: object): object => ({
    tools: [{ functionDeclarations }],
    toolConfig: { functionCallingConfig: fields },
  });
  const calls = (count: number): object => ({
    type: "tool-call",
    calls: Array.from({ length: count }, () => expect.anything() as object),
  });
  const config = (fields: object): object => ({ generationConfig: fields });
  test.each([
    ["ANY", calling({ mode: "ANY" }), calls(2)],
    ["ANY of one", calling({ mode: "ANY", allowedFunctionNames: ["g"] }), calls(1)],
    ["AUTO", calling({ mode: "AUTO" }), null],
    ["VALIDATED", calling({ mode: "VALIDATED", allowedFunctionNames: ["g"] }), null],
    ["text", config({ responseMimeType: "text/plain" }), null],
    ["JSON", config({ responseMimeType: "application/json" }), { type: "json-schema", schema: '{"anyOf":[{"type":"object"},{"type":"array"}]}' }],
    ["a schema", config({ responseMimeType: "application/json", responseSchema: { type: "OBJECT", nullable: true } }), { type: "json-schema", schema: '{"type": ["object", "null"]}' }],
    ["a JSON schema alone", config({ responseJsonSchema: { type: "array" } }), { type: "json-schema", schema: '{"type": "array"}' }],
    ["an enumeration", config({ responseMimeType: "text/x.enum", responseSchema: { type: "STRING", enum: ["a", "b"] } }), { type: "regex", pattern: "(a|b)" }],
  ])("reaches the engine: %s", async (_, fields, text) => {
    await withWorld(
      () => "fine",
      async (world) => {
        const answer = await post(world.gateway, path, { ...question, ...fields });
        expect([answer.status, answer.text]).toEqual([200, answer.text]);
        expect(world.sampled[0]!.constraint).toEqual(text === null ? null : { text, reasoning: null });
      },
      { constraints: allConstraints },
    );
  }); // prettier-ignore

  test("allows functions that alone are shown, where none is forced", async () => {
    await withWorld(
      () => "fine",
      async (world) => {
        const named = [{ name: "find_it" }, { name: "give_it" }];
        const body = {
          ...question,
          ...calling({ mode: "VALIDATED", allowedFunctionNames: ["give_it"] }),
          tools: [{ functionDeclarations: named }],
        };
        expect((await post(world.gateway, path, body)).status).toBe(200);
        expect([shownIn(world).includes("find_it"), shownIn(world).includes("give_it")]).toEqual([false, true]);
      },
    );
  });
});

test("a conversation that is too long says so as clients look for it", async () => {
  await withWorld(
    () => "fine",
    async ({ gateway }) => {
      const { status, json: said } = await post(gateway, path, question);
      expect(status).toBe(400);
      expect(of(said["error"])["message"]).toMatch(
        /^The input token count \(\d+\) exceeds the maximum number of tokens allowed \(3\)\.$/,
      );
    },
    { episode: { limits: { maxContextTokens: 3 } } },
  );
});

test.each([
  [{ type: "STRING", format: "enum", enum: ["a"], nullable: true }, { type: ["string", "null"], enum: ["a", null] }],
  [{ type: "TYPE_UNSPECIFIED", description: "x" }, { description: "x" }],
  [{ type: "ARRAY", items: { type: "INTEGER" }, minItems: "2", max_items: "x" }, { type: "array", items: { type: "integer" }, minItems: 2, maxItems: "x" }],
  [{ any_of: [{ type: "STRING" }], nullable: true }, { anyOf: [{ type: "string" }, { type: "null" }] }],
  [{ type: "OBJECT", properties: { some_name: { type: "NUMBER" }, b: {} }, propertyOrdering: ["b", "c", "b"], required: ["b"] }, { type: "object", properties: { b: {}, some_name: { type: "number" } }, required: ["b"] }],
  [JSON.parse('{"type":"OBJECT","properties":{"__proto__":{"type":"STRING"}}}'), JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}')],
  ["text", "text"],
  [true, true],
] as const)("a schema is JSON Schema: %j", (given: unknown, expected: unknown) => {
  expect(JSON.stringify(jsonSchemaOf(given))).toBe(JSON.stringify(expected));
}); // prettier-ignore
