import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EventStreamParser, readEventStream, type ServerSentEvent } from "./event-stream.ts";

const encoder = new TextEncoder();

function parse(text: string, cuts: readonly number[] = []): ServerSentEvent[] {
  const bytes = encoder.encode(text);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  const parser = new EventStreamParser();
  return places.slice(1).flatMap((end, index) => parser.push(bytes.subarray(places[index], end)));
}

const data = (...texts: string[]): ServerSentEvent[] => texts.map((text) => ({ type: null, data: text, id: null }));

describe("EventStreamParser", () => {
  test.each<[string, string, ServerSentEvent[]]>([
    ["plain events", "data: a\n\ndata: b\n\n", data("a", "b")],
    ["line ends of every kind", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", data("a", "b", "c")],
    ["several data lines", "data: a\ndata\ndata:b\n\n", data("a\n\nb")],
    ["one space after the colon only", "data:  a\n\n", data(" a")],
    ["comments and unknown fields", ": hello\nretry: 1\nwhat\ndata: a\n\n", data("a")],
    ["a byte order mark", "\uFEFFdata: a\n\n", data("a")],
    ["no event without data", "event: ping\n\ndata: a\n\n", data("a")],
    ["no event without its blank line", "data: a\n\ndata: torn\n", data("a")],
    [
      "types, and ids that stay",
      "event: x\nid: 7\ndata: a\n\ndata: b\n\n",
      [
        { type: "x", data: "a", id: "7" },
        { type: null, data: "b", id: "7" },
      ],
    ],
  ])("reads %s", (_name, text, events) => {
    expect(parse(text)).toEqual(events);
  });

  test("any chunking of the bytes gives the same events", () => {
    const line = fc.oneof(
      fc.constantFrom("data: {}", "data", ": c", "event: e", "id: 1", ""),
      fc.string({ unit: "grapheme", maxLength: 12 }).map((text) => `data: ${text}`),
    );
    const stream = fc.array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\r")), { maxLength: 20 });
    fc.assert(
      fc.property(stream, fc.array(fc.nat(400), { maxLength: 12 }), (lines, cuts) => {
        const text = lines.map(([content, end]) => content + end).join("");
        expect(parse(text, cuts)).toEqual(parse(text));
      }),
      { seed: 20_251, numRuns: 500 },
    );
  });

  test("refuses an event that never ends, in one line or in many", () => {
    const one = new EventStreamParser({ maxEventLength: 100 });
    expect(() => one.push(encoder.encode(`data: ${"x".repeat(200)}`))).toThrow(RangeError);
    const many = new EventStreamParser({ maxEventLength: 100 });
    expect(() => many.push(encoder.encode("data: xxxxxxxxx\n".repeat(20)))).toThrow(RangeError);
  });
});

async function* tornChunks(): AsyncGenerator<Uint8Array> {
  yield encoder.encode("data: a\n\nda");
  throw new Error("cut");
}

test("readEventStream() gives events as chunks come and rejects as the chunks do", async () => {
  const seen: string[] = [];
  const reading = async (): Promise<void> => {
    for await (const event of readEventStream(tornChunks())) seen.push(event.data);
  };
  await expect(reading()).rejects.toThrow("cut");
  expect(seen).toEqual(["a"]);
});
