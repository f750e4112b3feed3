import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type EventStreamOptions, readEventStream } from "./event-stream.ts";

const encoder = new TextEncoder();

async function* cut(text: string, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  const bytes = encoder.encode(text);
  const places = [0, ...cuts.map((place) => place % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  for (const [index, end] of places.slice(1).entries()) yield bytes.subarray(places[index], end);
}

async function parse(text: string, cuts: readonly number[] = [], options: EventStreamOptions = {}): Promise<string[]> {
  const events: string[] = [];
  for await (const data of readEventStream(cut(text, cuts), options)) events.push(data);
  return events;
}

async function* tornChunks(): AsyncGenerator<Uint8Array> {
  yield encoder.encode("data: a\n\nda");
  throw new Error("cut");
}

describe("readEventStream()", () => {
  test.each<[string, string, string[]]>([
    ["plain events", "data: a\n\ndata: b\n\n", ["a", "b"]],
    ["line ends of every kind", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", ["a", "b", "c"]],
    ["several data lines", "data: a\ndata\ndata:b\n\n", ["a\n\nb"]],
    ["one space after the colon only", "data:  a\n\n", [" a"]],
    ["comments and unknown fields", ": hello\nretry: 1\nwhat\ndata: a\n\n", ["a"]],
    ["a byte order mark", "\uFEFFdata: a\n\n", ["a"]],
    ["no event without data", "event: ping\n\ndata: a\n\n", ["a"]],
    ["no event without its blank line", "data: a\n\ndata: torn\n", ["a"]],
    ["types and ids, which nothing uses", "event: x\nid: 7\ndata: a\n\ndata: b\n\n", ["a", "b"]],
  ])("reads %s", async (_name, text, events) => {
    expect(await parse(text)).toEqual(events);
  });

  test("any chunking of the bytes gives the same events", async () => {
    const line = fc.oneof(
      fc.constantFrom("data: {}", "data", ": c", "event: e", "id: 1", ""),
      fc.string({ unit: "grapheme", maxLength: 12 }).map((text) => `data: ${text}`),
    );
    const stream = fc.array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\r")), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(stream, fc.array(fc.nat(400), { maxLength: 12 }), async (lines, cuts) => {
        const text = lines.map(([content, end]) => content + end).join("");
        expect(await parse(text, cuts)).toEqual(await parse(text));
      }),
      { seed: 20_251, numRuns: 500 },
    );
  });

  test("refuses an event that never ends, in one line or in many", async () => {
    const bound = { maxEventLength: 100 };
    await expect(parse(`data: ${"x".repeat(200)}`, [], bound)).rejects.toThrow(RangeError);
    const many = "data: xxxxxxxxx\n".repeat(20);
    await expect(parse(many, [50, 150], bound)).rejects.toThrow(RangeError);
  });

  test("gives events as chunks come and rejects as the chunks do", async () => {
    const seen: string[] = [];
    const reading = async (): Promise<void> => {
      for await (const data of readEventStream(tornChunks())) seen.push(data);
    };
    await expect(reading()).rejects.toThrow("cut");
    expect(seen).toEqual(["a"]);
  });
});
