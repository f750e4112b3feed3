// A response template as the parsers of an action, whole, hostile and in pieces.

import { describe, expect, it } from "vitest";
import { toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { loadResponseTemplate, responseTemplateParsers, startParsing } from "../index.ts";

const tools = ["find_order", "cancel"].map((name) =>
  toolFromDefinition(
    fromPlain({
      type: "function",
      function: {
        name,
        parameters: { type: "object", properties: { id: { type: "integer" }, note: { type: "string" } } },
      },
    }) as JsonObject,
  ),
);

const { toolCallParser, reasoningParser } = responseTemplateParsers(
  loadResponseTemplate({
    start_anchor: "<a>",
    defaults: { role: "assistant" },
    fields: {
      thinking: { open: "[think]", close_pattern: "\\[/think\\]\\s*" },
      tool_calls: {
        open_pattern: "\\[do (?P<name>\\w+)\\]",
        close: "[done]",
        repeats: true,
        content: "kv-lines",
        content_args: { kv_sep: "=" },
        transform: { type: "function", function: { name: "{name}", arguments: "{content}" } },
      },
      content: { close_pattern: "\\[end\\]\\s*|$" },
    },
  }),
);

const read = (text: string, forceReasoning = false) => {
  const { reasoning, normalText } = reasoningParser!.split(text, { forceReasoning });
  const { content, calls, problems } = toolCallParser.parse(normalText, { tools });
  return {
    reasoning,
    content,
    calls: calls.map(({ name, parameters }) => [name, parameters]),
    problems: problems.map(({ code }) => code),
  };
};

describe("the parsers of a response template", () => {
  it.each([
    ["Hello.[end]", { content: "Hello." }],
    ["[think]Hm.[/think]\n\nHello.", { reasoning: "Hm.", content: "Hello." }],
    ["[do find_order]\nid=7\nnote=7[done]", { calls: [["find_order", '{"id": 7, "note": "7"}']] }],
    [
      "[think]Hm.[/think]Now.[do find_order]id=7[done][do cancel]id=x[done] So.",
      {
        reasoning: "Hm.",
        content: "Now. So.",
        calls: [
          ["find_order", '{"id": 7}'],
          ["cancel", '{"id": "x"}'],
        ],
      },
    ],
    ["[think]a [do cancel]id=1[done] b[/think]No.", { reasoning: "a [do cancel]id=1[done] b", content: "No." }],
    ["[do find_order]id=7", { calls: [["find_order", '{"id": 7}']] }],
    ["[do sing]id=7[done]", { content: "[do sing]id=7[done]", problems: ["unknown-tool"] }],
    ["[do find_order", { content: "[do find_order", problems: ["unterminated-call"] }],
  ])("%j", (text, expected) => {
    expect(read(text)).toEqual({ reasoning: "", content: "", calls: [], problems: [], ...expected });
  });

  it("begins inside a thought that the prompt has opened", () => {
    expect(read("Hm.[/think]Hello.", true)).toMatchObject({ reasoning: "Hm.", content: "Hello." });
    expect(reasoningParser!.markers).toEqual(["[think]", "[/think]"]);
  });

  it("takes what its content parser refuses for a problem, and nothing for lost", () => {
    const parsers = responseTemplateParsers(
      loadResponseTemplate({
        start_anchor: "<a>",
        fields: { tool_calls: { open: "<t>", close: "</t>", content: "json" }, content: {} },
      }),
    );
    expect(parsers.reasoningParser).toBeNull();
    for (const text of ["<t>{</t>", "a<t>nothing</t>b", "<t>[1, null]</t>", '<t>{"arguments": {}}</t>', "<t>"]) {
      const { content, calls, problems } = parsers.toolCallParser.parse(text, { tools });
      expect({ text, content, calls, isReported: problems.length > 0 }).toEqual({
        text,
        content: text,
        calls: [],
        isReported: true,
      });
    }
  });

  it("gives in pieces what it gives for the whole", () => {
    const text = "[think]Hm.[/think]Now.[do find_order]id=7[done] So.";
    const streaming = startParsing({ toolCallParser, reasoningParser, tools });
    const shown = Array.from(text).flatMap((piece) => streaming.push(piece));
    const { reasoning, parse, isAsShown } = streaming.finish();
    expect([shown, reasoning, parse.content, parse.calls.length, isAsShown]).toEqual([[], "Hm.", "Now. So.", 1, true]);
  });
});
