// Clients of four dialects get the right answers, whole and streamed, and the history that they
// send back matches the recorded conversation.

import { describe, expect, test } from "vitest";
import { weather } from "./clients.test-helper.ts";
import {
  eventsOf,
  openWorld,
  type Policy,
  post,
  recordViolations,
  tokenizer,
  type World,
} from "./gateway-world.test-helper.ts";
import { type Heard, type Said, say, type SaidCall, speakers } from "./speakers.test-helper.ts";

const dialects = Object.keys(speakers) as (keyof typeof speakers)[];
const modes = dialects.flatMap((dialect) => [false, true].map((stream) => ({ dialect, stream })));

const call = (text: string): string => `<tool_call>\n{"name": "get_weather", "arguments": ${text}}\n</tool_call>`;
const resultsIn = (prompt: string): number => prompt.split("<tool_response>").length - 1;
const tools = [weather];
const start: readonly Said[] = [{ role: "user", text: "a" }];

const answered = ({ text, calls }: Pick<Heard, "text" | "calls">): Said => ({ role: "assistant", text, calls });
const result = (id: unknown, text = "sunny"): Said => ({ role: "result", id, text });

async function withWorld(policy: Policy, use: (world: World) => Promise<void>): Promise<void> {
  const world = await openWorld(policy);
  await use(world);
  const [session] = world.gateway.sessions;
  if (session !== undefined) {
    await world.gateway.reward(session.id, { reward: 1, metrics: {}, log: "", info: new Map() });
    expect(recordViolations(await world.gateway.end(session.id), world.sampled)).toEqual([]);
  }
  await world.close();
}

/**
 * Runs rounds until the policy makes no more calls; `echo` rewrites a call the way the client does.
 */
async function play(
  world: World,
  dialect: keyof typeof speakers,
  {
    stream = false,
    echo = (calls: readonly SaidCall[], _round: number): readonly SaidCall[] => calls,
    say: saying = (text: string): string | null => text,
  } = {},
): Promise<void> {
  const history: Said[] = [...start];
  for (let round = 0; ; round++) {
    const heard = await say(world, dialect, history, { tools, stream });
    expect(heard.status, heard.raw).toBe(200);
    if (heard.calls.length === 0) break;
    const calls = echo(heard.calls, round);
    history.push(
      { role: "assistant", text: saying(heard.text), calls },
      ...calls.map(({ id }, place) => result(id, `${round}.${place}`)),
    );
  }
}

const countersOf = (world: World) => world.gateway.sessions[0]!.counters;

describe.each(dialects)("over %s", (dialect) => {
  test.each([
    '{"days": 1.0}',
    '{"days": 100.00, "more": [1e2, -0.0, 1E-7, 0.1e1]}',
    '{"id": 12345678901234567890, "other": -9007199254740993}',
    '{"days": 1e21, "least": 5e-324}',
    '{"b": 1, "a": {"d": 2.50, "c": "\\u00e9\\/"}}',
    '{"a": 1, "a": 2}',
    '{"json": "{\\"days\\": 1.0}"}',
    "{}",
  ])("numbers are what a reader of JSON makes of them: %s", async (given) => {
    await withWorld(
      (prompt) => (resultsIn(prompt) < 2 ? call(given) : "done"),
      async (world) => {
        await play(world, dialect, {
          echo: (calls) =>
            calls.map((one) => ({ ...one, arguments: JSON.stringify(JSON.parse(one.arguments), null, 1) })),
        });
        expect(countersOf(world)).toMatchObject({ calls: 3, extended: 2, branched: {}, reencoded: 0 });
      },
    );
  });

  test.each([
    ["of one name in every round", (place: number) => `call_${place}`],
    ["that are empty", () => ""],
    ["that are all the same", () => "call"],
    ["of which one is empty", (place: number) => (place === 0 ? "" : "x")],
    ["that are never the same", (place: number, round: number) => `mine-${round}-${place}`],
  ] as const)("ids of a client's own do not count, %s", async (_name, idOf) => {
    const both = `${call('{"city": "Rome"}')}\n${call('{"city": "Oslo"}')}`;
    await withWorld(
      (prompt) => (resultsIn(prompt) < 6 ? both : "done"),
      async (world) => {
        await play(world, dialect, {
          echo: (calls, round) => calls.map((one, place) => ({ ...one, id: idOf(place, round) })),
        });
        expect(countersOf(world)).toMatchObject({ calls: 4, extended: 3, branched: {} });
      },
    );
  });

  test("the text beside a call may be missing from its echo, and is in the record", async () => {
    await withWorld(
      (prompt) => (resultsIn(prompt) < 2 ? `Let me look.\n${call('{"city": "Rome", "days": 1.0}')}` : "done"),
      async (world) => {
        await play(world, dialect, {
          say: () => null,
          echo: (calls) => calls.map((one) => ({ ...one, arguments: JSON.stringify(JSON.parse(one.arguments)) })),
        });
        expect(countersOf(world)).toMatchObject({ calls: 3, extended: 2, branched: {} });
      },
    );
  });

  test("null is absent", async () => {
    const rest = { temperature: null, tool_choice: null, stream: null, stop: null, model: null, metadata: null };
    const fields = { chat: { functions: null, function_call: null, n: null, response_format: null, stream_options: null, logprobs: null, parallel_tool_calls: null }, responses: { instructions: null, previous_response_id: null, store: null, text: null, reasoning: null, conversation: null, prompt: null, background: null }, messages: { system: null, stop_sequences: null, thinking: null, output_config: null, mcp_servers: null }, google: { systemInstruction: null, tools: null, toolConfig: null, generationConfig: null, cachedContent: null } }; // prettier-ignore
    await withWorld(
      () => "fine",
      async (world) => {
        const heard = await say(world, dialect, start, { fields: { ...rest, ...fields[dialect] } });
        expect([heard.status, heard.text]).toEqual([200, "fine"]);
        expect(countersOf(world)).toMatchObject({ ignoredSampling: {}, ignoredFields: {} });
      },
    );
  });

  // Google's clients take any number of calls.
  test.skipIf(dialect === "google")(
    "one call is shown where the client takes no more, and the record has all",
    async () => {
      const single: Readonly<Record<string, Readonly<Record<string, unknown>>>> = { chat: { parallel_tool_calls: false }, responses: { parallel_tool_calls: false }, messages: { tool_choice: { type: "auto", disable_parallel_tool_use: true } } }; // prettier-ignore
      await withWorld(
        (prompt) => (resultsIn(prompt) === 0 ? `${call('{"city": "Rome"}')}\n${call('{"city": "Oslo"}')}` : "done"),
        async (world) => {
          const fields = single[dialect]!;
          const heard = await say(world, dialect, start, { tools, fields });
          expect(heard.calls).toHaveLength(1);
          const next = [...start, answered(heard), result(heard.calls[0]!.id)];
          expect((await say(world, dialect, next, { tools, fields })).text).toBe("done");
          expect(countersOf(world)).toMatchObject({ extended: 1, branched: {}, ignoredFields: {} });
        },
      );
    },
  );
});

describe.each(modes)("over $dialect, streamed: $stream", ({ dialect, stream }) => {
  test.each(['{"x": NaN}', '{"x": [-Infinity]}', "null", "[1]", '"text"', "3", "true", '{"city": "Ro'])(
    "arguments that are not an object are text: %s",
    async (given) => {
      const said = `Let me look.\n${call(given)}`;
      await withWorld(
        (prompt) => (prompt.includes("again") ? "done" : said),
        async (world) => {
          const heard = await say(world, dialect, start, { tools, stream });
          expect(heard).toMatchObject({ status: 200, calls: [], text: said });
          expect(heard.ending).toBe(
            { chat: "stop", responses: "completed", messages: "end_turn", google: "STOP" }[dialect],
          );
          await say(world, dialect, [...start, answered(heard), { role: "user", text: "again" }], { tools, stream });
          expect(countersOf(world)).toMatchObject({ extended: 1, branched: {} });
        },
      );
    },
  );

  test("a call that no reader of JSON takes makes text of those beside it", async () => {
    const said = `${call('{"city": "Rome"}')}\n${call("[1]")}`;
    await withWorld(
      () => said,
      async (world) => {
        expect(await say(world, dialect, start, { tools, stream })).toMatchObject({ calls: [], text: said });
      },
    );
  });

  test("integers beyond those of JavaScript are a call, as they were sampled", async () => {
    await withWorld(
      (prompt) => (resultsIn(prompt) === 0 ? call('{"id": 12345678901234567890}') : "done"),
      async (world) => {
        const heard = await say(world, dialect, start, { tools, stream });
        expect(heard.calls).toHaveLength(1);
        expect(heard.raw).toContain("12345678901234567890");
        expect(heard.ending).toBe(
          { chat: "tool_calls", responses: "completed", messages: "tool_use", google: "STOP" }[dialect],
        );
      },
    );
  });
});

test("results that bear no id answer the calls that are left, in their order", async () => {
  const both = `${call('{"city": "Rome"}')}\n${call('{"city": "Oslo"}')}\n${call('{"city": "Bonn"}')}`;
  await withWorld(
    (prompt) => (resultsIn(prompt) === 0 ? both : "done"),
    async (world) => {
      const heard = await say(world, "chat", start, { tools });
      const ids = heard.calls.map(({ id }) => id);
      const results = [result(null, "rainy"), result(ids[0], "sunny"), result("unknown", "windy")];
      await say(world, "chat", [...start, answered(heard), ...results], { tools });
      expect(countersOf(world)).toMatchObject({ extended: 1, branched: {} });
      const shown = tokenizer.decode(world.sampled[1]!.prompt);
      expect(shown.match(/sunny|rainy|windy/g)).toEqual(["sunny", "rainy", "windy"]);
    },
  );
});

describe("a choice of tools", () => {
  const named = (...names: readonly string[]) => names.map((name) => ({ name, parameters: weather.parameters }));
  const both = named("get_weather", "get_time");
  const allowed = {
    chat: (names: readonly string[], mode = "auto") => ({
      type: "allowed_tools",
      allowed_tools: { mode, tools: names.map((name) => ({ type: "function", function: { name } })) },
    }),
    responses: (names: readonly string[], mode = "auto") => ({
      type: "allowed_tools",
      mode,
      tools: names.map((name) => ({ type: "function", name })),
    }),
  };

  test.each(["chat", "responses"] as const)(
    "of some that are allowed shows and reads those alone, over %s",
    async (dialect) => {
      const calls = `${call('{"city": "Rome"}')}\n<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>`;
      await withWorld(
        () => calls,
        async (world) => {
          const fields = { tool_choice: allowed[dialect](["get_weather"]) };
          const heard = await say(world, dialect, start, { tools: both, fields });
          expect(heard.calls.map(({ name }) => name)).toEqual(["get_weather"]);
          const shown = tokenizer.decode(world.sampled[0]!.prompt);
          expect([shown.includes("get_weather"), shown.includes("get_time")]).toEqual([true, false]);
          // No allowed tool is a function: the model sees no tools.
          const other = { tool_choice: { ...allowed[dialect]([]), ...(dialect === "responses" && { tools: [{ type: "web_search" }] }) } }; // prettier-ignore
          expect(await say(world, dialect, start, { tools: both, fields: other })).toMatchObject({
            status: 200,
            calls: [],
          });
        },
      );
    },
  );

  test.each(["chat", "responses"] as const)(
    "that forces a call, or names no tool of the request, is refused over %s",
    async (dialect) => {
      await withWorld(
        () => "fine",
        async (world) => {
          const forced = ["required", { type: "function", name: "get_weather", function: { name: "get_weather" } }, allowed[dialect](["get_weather"], "required"), allowed[dialect](["get_rain"])]; // prettier-ignore
          for (const choice of forced) {
            const heard = await say(world, dialect, start, { tools: both, fields: { tool_choice: choice } });
            expect([choice, heard.status, heard.error?.["param"]]).toEqual([choice, 400, "tool_choice"]);
          }
          expect(world.sampled).toHaveLength(0);
        },
      );
    },
  );

  test("over messages is any or a tool by name: refused", async () => {
    await withWorld(
      () => "fine",
      async (world) => {
        for (const choice of [
          { type: "any" },
          { type: "tool", name: "get_weather" },
          { type: "any", disable_parallel_tool_use: true },
        ]) {
          expect(await say(world, "messages", start, { tools, fields: { tool_choice: choice } })).toMatchObject({
            status: 400,
          });
        }
      },
    );
  });
});

test.each([
  {},
  { input: null },
  { input: [] },
  { instructions: "Be brief." },
  { input: [], instructions: "Be brief." },
])("a response of no input samples nothing: %j", async (fields) => {
  const world = await openWorld(() => "fine");
  const body = { model: "m", ...fields };
  const { status, json } = await post(world.gateway, "/v1/responses", body);
  expect([status, json["error"]]).toMatchObject([400, { param: "input", type: "invalid_request_error" }]);
  expect(world.sampled).toHaveLength(0);
  await world.close();
});

test("fields without effect are in the record of the call that set them", async () => {
  const world = await openWorld(() => "fine");
  await say(world, "chat", start, { fields: { temperature: 0.1, reasoning_effort: "high", chat_template_kwargs: { enable_thinking: false }, user: null } }); // prettier-ignore
  const restarted = await world.restart();
  const episode = await restarted.gateway.end("s1");
  const exchange = episode.events.find((event) => event.type === "exchange");
  expect(exchange?.ignored.toSorted()).toEqual(["chat_template_kwargs", "reasoning_effort", "temperature"]);
  await restarted.close();
});

test.each([
  ["tool_calls without ids", { role: "assistant", content: null, tool_calls: [{ id: null, type: null, function: { name: "f", arguments: null } }] }, 200], // prettier-ignore
  ["every other field null", { role: "assistant", content: "x", tool_calls: null, reasoning_content: null, name: null, function_call: null, refusal: null, audio: null }, 200], // prettier-ignore
  ["arguments as an object", { role: "assistant", content: null, tool_calls: [{ id: "a", function: { name: "f", arguments: { x: null } } }] }, 200], // prettier-ignore
  [
    "a call in the form before tools",
    { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } },
    400,
  ],
] as const)("a message of chat with %s is read: %#", async (_name, message, status) => {
  const world = await openWorld(() => "fine");
  const messages = [...[{ role: "user", content: "a", name: null }, message], { role: "user", content: [{ type: "text", text: "b", refusal: null }] }]; // prettier-ignore
  const answer = await post(world.gateway, "/v1/chat/completions", { model: null, messages });
  expect([answer.status, answer.text]).toEqual([status, answer.text]);
  await world.close();
});

test.each([false, true])(
  "a response calls a tool of a namespace by both of its names (streamed: %s)",
  async (stream) => {
    const found = '<tool_call>\n{"name": "mcp__shop__find", "arguments": {"title": "x"}}\n</tool_call>';
    const world = await openWorld((_prompt, at) => (at === 0 ? found : "done"));
    const find = { type: "function", name: "find", parameters: { type: "object" } };
    const sent = [{ type: "namespace", name: "mcp__shop", tools: [find, { type: "custom", name: "odd" }] }, find];
    const first = await post(world.gateway, "/v1/responses", { model: "m", input: "go", tools: sent, stream });
    const items = stream
      ? (eventsOf(first.text) as readonly { type: string; item: unknown }[]).flatMap(({ type, item }) =>
          type === "response.output_item.done" ? [item] : [],
        )
      : (first.json["output"] as readonly unknown[]);
    const item = { type: "function_call", namespace: "mcp__shop", name: "find", arguments: '{"title": "x"}' };
    expect(items).toMatchObject([item]);
    const shown = tokenizer.decode(world.sampled[0]!.prompt);
    expect([shown.includes('"mcp__shop__find"'), shown.includes('"find"'), shown.includes("odd")]).toEqual([
      true,
      true,
      false,
    ]);
    const output = { type: "function_call_output", call_id: (items[0] as { call_id: string }).call_id, output: "yes" };
    const input = [{ role: "user", content: "go" }, ...items, output];
    await post(world.gateway, "/v1/responses", { model: "m", input, tools: sent, stream });
    expect(world.gateway.sessions[0]!.counters).toMatchObject({ extended: 1, branched: {}, ignoredTools: 2 });
    await world.close();
  },
);
