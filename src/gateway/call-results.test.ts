import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Message } from "../core/index.ts";
import { inCallOrder, withSampledIds } from "./call-results.ts";

const calling = (ids: readonly string[]): Message => ({
  role: "assistant",
  content: "",
  reasoning: null,
  toolCalls: ids.map((id, place) => ({ id, name: `tool-${place}`, argumentsText: "{}" })),
});
const result = (callId: string | null, content: string): Message => ({
  role: "tool",
  content,
  name: "unknown",
  callId,
});
const resultsOf = (messages: readonly Message[]) =>
  messages.flatMap((message) => (message.role === "tool" ? [[message.content, message.name]] : []));

describe("inCallOrder()", () => {
  test.each<readonly [string, readonly string[], readonly (readonly [string | null, string])[], readonly string[]]>([
    [
      "by their ids",
      ["a", "b"],
      [
        ["b", "second"],
        ["a", "first"],
      ],
      ["first", "second"],
    ],
    [
      "by their order where ids are the same",
      ["x", "x"],
      [
        ["x", "first"],
        ["x", "second"],
      ],
      ["first", "second"],
    ],
    [
      "by their order where there are none",
      ["", ""],
      [
        [null, "first"],
        [null, "second"],
      ],
      ["first", "second"],
    ],
    [
      "by what is left where one has none",
      ["a", ""],
      [
        [null, "second"],
        ["a", "first"],
      ],
      ["first", "second"],
    ],
    [
      "by what is left where one is unknown",
      ["a", "b", "c"],
      [
        ["z", "first"],
        ["c", "third"],
        ["b", "second"],
      ],
      ["first", "second", "third"],
    ],
    ["where one is missing", ["a", "b"], [["b", "second"]], ["second"]],
  ])("resolves results %s", (_name, ids, results, expected) => {
    const messages = inCallOrder([calling(ids), ...results.map(([id, content]) => result(id, content))]);
    expect(messages.flatMap((message) => (message.role === "tool" ? [message.content] : []))).toEqual(expected);
    const [first] = messages;
    const known = first?.role === "assistant" ? first.toolCalls.map(({ id }) => id) : [];
    expect(new Set(known).size).toBe(ids.length);
    for (const message of messages) if (message.role === "tool") expect(known).toContain(message.callId);
  });

  test("looks at the latest round alone, and keeps a result that answers nothing", () => {
    const messages = inCallOrder([
      ...[calling(["call_0"]), result("call_0", "one")],
      ...[calling(["call_0", "call_1"]), result("call_1", "three"), result("call_0", "two")],
      ...[{ role: "user", content: "go on" } as const, result("call_7", "late")],
    ]);
    expect(resultsOf(messages)).toEqual([["one", "tool-0"], ["two", "tool-0"], ["three", "tool-1"], ["late", "unknown"]]); // prettier-ignore
  });

  test("reads a round of 100,000 calls within the time of a test, which the square of their number would exceed", () => {
    const ids = Array.from({ length: 100_000 }, (_, place) => (place % 2 === 0 ? "" : String(place)));
    const results = ids.map((id, place) => result(id === "" ? null : id, String(place))).toReversed();
    expect(inCallOrder([calling(ids), ...results])).toHaveLength(ids.length + 1);
  });

  test("changes nothing that is resolved", () => {
    const id = fc.constantFrom("a", "b", "", "call_0");
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.array(id, { maxLength: 4 }), fc.array(fc.option(id), { maxLength: 5 })), { maxLength: 3 }),
        (rounds) => {
          const messages = rounds.flatMap(([ids, ofResults]) => [calling(ids), ...ofResults.map((one, at) => result(one, String(at)))]); // prettier-ignore
          const once = inCallOrder(messages);
          expect(inCallOrder(once)).toEqual(once);
          const contentsOf = (list: readonly Message[]) => new Set(resultsOf(list).map(([content]) => content));
          expect(once).toHaveLength(messages.length);
          expect(contentsOf(once)).toEqual(contentsOf(messages));
        },
      ),
    );
  });
});

describe("withSampledIds()", () => {
  test("gives calls and their results the ids that were given out, and leaves others alone", () => {
    const messages = inCallOrder([calling(["x", "x"]), result("x", "one"), result("x", "two"), calling(["x"]), result("x", "three")]); // prettier-ignore
    const given = [["call_0_0"], ["call_0_1"]].map(([id = ""]) => ({ id, name: "tool", argumentsText: "{}" }));
    const idsOf = (list: readonly Message[]) =>
      list.flatMap((message) => {
        if (message.role === "tool") return [message.callId];
        return message.role === "assistant" ? message.toolCalls.map(({ id }) => id) : [];
      });
    expect(idsOf(withSampledIds(messages, new Map([[0, given]])))).toEqual(["call_0_0", "call_0_1", "call_0_0", "call_0_1", "x", "x"]); // prettier-ignore
    expect(withSampledIds(messages, new Map())).toEqual(messages);
  });
});
