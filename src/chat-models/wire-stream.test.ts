import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readNamedEvents } from "../http/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { readWireAnswer, type WireAnswer, type WireFormat } from "./wire-answer.ts";
import { splitEvents, WireStream } from "./wire-stream.ts";

async function* chunksOf(text: string, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  const places = [0, ...[...cuts].map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  for (let at = 1; at < places.length; at++) yield bytes.subarray(places[at - 1], places[at]);
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("splitEvents()", () => {
  // A single "\r" is excluded, because the reference parser waits for the character after it.
  const end = fc.constantFrom("\n", "\r\n");
  const line = fc.oneof(
    fc.string({ unit: "grapheme" }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, "")}`),
    fc.constantFrom("data:", "data:x", ": comment", "event: delta", "id: 7", "data: [DONE]"),
  );
  const event = fc.tuple(fc.array(line, { minLength: 1, maxLength: 4 }), end);

  it("cuts a stream where the standard does, however it arrives, and keeps every byte", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 6 }),
        fc.array(fc.nat(2000), { maxLength: 8 }),
        async (events, cuts) => {
          const text = events.map(([lines, ending]) => lines.map((one) => one + ending).join("") + ending).join("");
          const split = await collect(splitEvents(chunksOf(text, cuts)));
          expect(split.map(({ raw }) => raw).join("")).toBe(text);
          expect(split).toHaveLength(events.length);
          const reference = await collect(readNamedEvents(chunksOf(text, [])));
          // The reference parser drops events without a data line.
          const data = split.filter(({ raw }) => /^data/m.test(raw.replaceAll("\r", "\n"))).map((one) => one.data);
          expect(data).toEqual(reference.map((one) => one.data));
        },
      ),
      { seed: 5, numRuns: 400 },
    );
  });

  it("takes an event without the last blank line", async () => {
    const split = await collect(splitEvents(chunksOf("data: a\n\ndata: b", [3])));
    expect(split.map(({ data }) => data)).toEqual(["a", "b"]);
  });
});

const object = (value: object): JsonObject => fromPlain(value) as JsonObject;

/** The answer assembled from a stream. */
function streamed(format: WireFormat, events: readonly (object | string)[]): WireAnswer | null {
  const stream = new WireStream(format);
  for (const event of events) stream.take(typeof event === "string" ? event : JSON.stringify(event));
  expect(stream.isWhole).toBe(true);
  return stream.answer();
}

describe("an answer", () => {
  const usage = { prompt_tokens: 11, completion_tokens: 7 };

  it("of chat completions is the same whole and streamed", () => {
    const calls = [
      { id: "a", type: "function", function: { name: "f", arguments: '{"x": 1.0}' } },
      { id: "b", type: "function", function: { name: "g", arguments: "" } },
    ];
    const message = { role: "assistant", content: "Hi.", reasoning_content: "hm", tool_calls: calls };
    const whole = readWireAnswer("chat", object({ id: "c", choices: [{ message, finish_reason: "length" }], usage }));
    expect(whole).toMatchObject({ text: "Hi.", reasoning: "hm", isTruncated: true, tokens: { input: 11, output: 7 } });
    expect(whole?.toolCalls.map(({ argumentsText }) => argumentsText)).toEqual(['{"x": 1.0}', "{}"]);
    const delta = (fields: object, finish_reason: string | null = null) => ({
      id: "c",
      choices: [{ index: 0, delta: fields, finish_reason }],
    });
    const parts = [
      delta({ role: "assistant", content: "" }),
      delta({ reasoning: "h" }),
      delta({ reasoning_content: "m" }),
      delta({ content: "Hi" }),
      { choices: [{ index: 1, delta: { content: "another choice" } }] },
      delta({ content: "." }),
      delta({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: '{"x": ' } }] }),
      delta({ tool_calls: [{ index: 0, function: { arguments: "1.0}" } }] }),
      delta({ tool_calls: [{ index: 1, id: "b", function: { name: "g" } }] }),
      delta({}, "length"),
    ];
    expect(streamed("chat", [...parts, { choices: [], usage }, "[DONE]"])).toEqual(whole);
    expect(streamed("chat", parts)).toMatchObject({ tokens: { input: null, output: null } });
  });

  it("of Messages is the same whole and streamed", () => {
    const tokens = { input_tokens: 5, cache_read_input_tokens: 6, output_tokens: 7 };
    const message = { id: "m", role: "assistant", stop_reason: "max_tokens", usage: tokens };
    const content = [
      { type: "thinking", thinking: "hm", signature: "s" },
      { type: "redacted_thinking", data: "x" },
      { type: "text", text: "Hi." },
      { type: "server_tool_use", name: "web_search" },
      { type: "tool_use", id: "t", name: "f", input: { x: 10000000000000000000n } },
    ];
    const whole = readWireAnswer("messages", object({ ...message, content }));
    expect(whole).toMatchObject({
      text: "Hi.\n[server_tool_use]",
      reasoning: "hm",
      isTruncated: true,
      tokens: { input: 11, output: 7 },
      toolCalls: [{ id: "t", name: "f", argumentsText: '{"x": 10000000000000000000}' }],
    });
    const block = (index: number, content_block: object, ...deltas: readonly object[]) => [
      { type: "content_block_start", index, content_block },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ];
    const events = [
      {
        type: "message_start",
        message: { ...message, content: [], stop_reason: null, usage: { ...tokens, output_tokens: 1 } },
      },
      { type: "ping" },
      ...block(0, { type: "thinking", thinking: "" }, { thinking: "h" }, { thinking: "m" }, { signature: "s" }),
      ...block(1, { type: "redacted_thinking", data: "x" }),
      ...block(2, { type: "text", text: "" }, { text: "Hi" }, { text: "." }),
      ...block(3, { type: "server_tool_use", name: "web_search" }),
      ...block(
        4,
        { type: "tool_use", id: "t", name: "f", input: {} },
        { partial_json: '{"x": ' },
        { partial_json: "10000000000000000000}" },
      ),
      { type: "message_delta", delta: { stop_reason: "max_tokens" }, usage: { output_tokens: 7 } },
      { type: "message_stop" },
    ];
    expect(streamed("messages", events)).toEqual(whole);
  });

  it("of Responses is the same whole and streamed", () => {
    const output = [
      { id: "r", type: "reasoning", summary: [{ type: "summary_text", text: "hm" }] },
      { id: "o", type: "message", content: [{ type: "output_text", text: "Hi." }] },
      { id: "w", type: "web_search_call" },
      { id: "f", type: "function_call", call_id: "t", name: "f", arguments: '{"x": 1}' },
      { id: "p", type: "custom_tool_call", call_id: "u", name: "patch", input: "***" },
    ];
    const response = { id: "x", status: "completed", output, usage: { input_tokens: 11, output_tokens: 7 } };
    const whole = readWireAnswer("responses", object(response));
    expect(whole).toMatchObject({ text: "Hi.\n[web_search_call]", reasoning: "hm", id: "x" });
    expect([...(whole?.items.keys() ?? [])]).toEqual(["r", "o", "w", "f", "p"]);
    expect(whole?.toolCalls.map(({ id, argumentsText }) => [id, argumentsText])).toEqual([
      ["t", '{"x": 1}'],
      ["u", '{"input": "***"}'],
    ]);
    const events = [
      { type: "response.created", response: { ...response, output: [], status: "in_progress" } },
      ...output.map((item) => ({ type: "response.output_item.done", item })),
      { type: "response.completed", response },
    ];
    expect(streamed("responses", events)).toEqual(whole);
    // Some servers omit the output from the last event.
    const bare = { type: "response.completed", response: { ...response, output: [] } };
    expect(streamed("responses", [...events.slice(0, -1), bare])).toEqual(whole);
  });

  it("of completions is the same whole and streamed", () => {
    const whole = readWireAnswer("completions", object({ choices: [{ text: "Hi.", finish_reason: "stop" }], usage }));
    const parts = ["Hi", "."].map((text) => ({ choices: [{ text, finish_reason: null }] }));
    const end = { choices: [{ text: "", finish_reason: "stop" }], usage };
    expect(streamed("completions", [...parts, end, "[DONE]"])).toEqual(whole);
  });

  it("is what came of it where the stream was cut", () => {
    const stream = new WireStream("responses");
    for (const event of [
      { type: "response.created", response: { id: "x", output: [] } },
      { type: "response.output_text.delta", delta: "Hel" },
    ]) {
      stream.take(JSON.stringify(event));
    }
    expect([stream.isWhole, stream.answer()]).toMatchObject([false, { text: "Hel", isTruncated: true }]);
    expect(new WireStream("chat").answer()).toBeNull();
  });

  it("is read, or is none, whatever a server writes", () => {
    const formats = ["chat", "messages", "responses", "completions"] as const;
    fc.assert(
      fc.property(fc.constantFrom(...formats), fc.array(fc.json(), { maxLength: 5 }), (format, events) => {
        const stream = new WireStream(format);
        for (const event of events) {
          try {
            stream.take(event);
          } catch (error) {
            // The event reported a failure of the server.
            expect(error).toBeInstanceOf(Error);
          }
        }
        const answer = stream.answer();
        if (answer !== null) expect(typeof answer.text).toBe("string");
      }),
      { seed: 9, numRuns: 500 },
    );
    fc.assert(
      fc.property(fc.constantFrom(...formats), fc.dictionary(fc.string(), fc.jsonValue()), (format, fields) => {
        const known = { ...fields, content: fields["content"] ?? [], output: fields["output"] ?? [] };
        const answer = readWireAnswer(format, object(known));
        if (answer !== null) expect(typeof answer.text).toBe("string");
      }),
      { seed: 9, numRuns: 500 },
    );
  });
});
