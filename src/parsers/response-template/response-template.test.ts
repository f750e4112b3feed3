// Response templates: readings of transformers (goldens that `npm run verify -- response-templates
// --write` records), refused templates, and hostile answers.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { type Tool, toolFromDefinition } from "../../core/index.ts";
import { expectLinear } from "../../lib/growth.test-helper.ts";
import { dumpJson, fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import {
  loadResponseTemplate,
  parseResponse,
  ResponseParseError,
  ResponseParser,
  responseTemplateParsers,
  ResponseTemplateError,
} from "../index.ts";

type Golden = {
  readonly template: string;
  readonly text: string;
  readonly prefix: string;
  readonly typed: boolean;
  readonly pieces: readonly string[];
  readonly expected: Readonly<Record<"whole" | "pieces", string | { readonly error: string }>>;
};
const path = join(import.meta.dirname, "../../../tests/goldens/response-templates.jsonl");
const [head = "", ...lines] = readFileSync(path, "utf8").trim().split("\n");
const { templates, tools } = JSON.parse(head) as {
  readonly templates: Record<string, unknown>;
  readonly tools: readonly object[];
};
const typed: readonly Tool[] = tools.map((tool) => toolFromDefinition(fromPlain(tool) as JsonObject));

const reading = (read: () => JsonObject): unknown => {
  try {
    return dumpJson(read(), { ensureAscii: true });
  } catch (error) {
    if (!(error instanceof ResponseParseError)) throw error;
    return { error: expect.any(String) as string };
  }
};

describe("a response template reads as transformers does", () => {
  it.each(Object.keys(templates))("%s", (name) => {
    const template = loadResponseTemplate(templates[name]);
    const goldens = lines.map((line) => JSON.parse(line) as Golden).filter((golden) => golden.template === name);
    expect(goldens).toHaveLength(20);
    for (const { text, prefix, pieces, expected, ...golden } of goldens) {
      const options = { prefix, tools: golden.typed ? typed : [] };
      const whole = reading(() => parseResponse(text, template, options));
      const inPieces = reading(() => {
        const parser = new ResponseParser(template, options);
        for (const piece of pieces) parser.feed(piece);
        return parser.finish().message;
      });
      expect({ text, whole: expected.whole, pieces: expected.pieces }).toEqual({ text, whole, pieces: inPieces });
    }
  });
});

const anchored = (fields: object): object => ({ start_anchor: "<a>", fields });

describe("a response template is refused", () => {
  it.each([
    [null, "it is not an object"],
    [{}, "it has no fields"],
    [{ version: 2, ...anchored({ content: {} }) }, "version 1 is read"],
    [{ fields: { content: {} } }, "neither start_anchor nor"],
    [anchored({ a: {}, b: {} }), "more than one field has no opening: a, b"],
    [anchored({ a: { content: "yaml" } }), "unknown content; use one of text, int"],
    [anchored({ a: { opens: "<" } }), "unknown keys: opens"],
    [anchored({ a: { open: "" } }), "or one is empty"],
    [anchored({ a: { open: "<", open_pattern: "<" } }), "both open and open_pattern"],
    [anchored({ a: { open_pattern: "(?P<name>x)" } }), "the groups name and no transform"],
    [anchored({ a: { open: "<", transform: "{content}!" } }), "mixes a placeholder"],
    [anchored({ a: { open: "<", join: "," } }), 'requires "repeats"'],
    [anchored({ a: { open_pattern: "(" } }), "is an unsupported pattern"],
    [anchored({ a: { open_pattern: "(?i)a" } }), "is an unsupported pattern"],
    [anchored({ a: { open_pattern: "a++" } }), "possessive"],
    [anchored({ a: { open_pattern: "(a)\\1" } }), "is an unsupported pattern"],
  ])("%j", (template, says) => {
    const load = (): unknown => loadResponseTemplate(template);
    expect(load).toThrow(ResponseTemplateError);
    expect(load).toThrow(says);
  });
});

it("text is given out as soon as it is certain, and no earlier", () => {
  const template = loadResponseTemplate(
    anchored({ tool: { open: "<tool>", close: "</tool>", content: "json", repeats: true }, content: {} }),
  );
  const parser = new ResponseParser(template, { prefix: "<a>Well, " });
  expect(parser.initialEvents.map(({ type }) => type)).toEqual(["region_open", "region_chunk"]);
  const chunks = (text: string): string[] =>
    parser.feed(text).flatMap((event) => (event.type === "region_chunk" ? [event.text] : [event.type]));
  expect(chunks("see <")).toEqual(["see "]);
  expect(chunks("b> <to")).toEqual(["<b> "]);
  expect(chunks('ol>{"a"')).toEqual(["region_close", "region_open", '{"a"']);
  expect(chunks(": 1}</tool")).toEqual([": 1}"]);
  expect(chunks(">")).toEqual(["region_close"]);
  expect(dumpJson(parser.finish().message)).toBe('{"content": "Well, see <b>", "tool": [{"a": 1}]}');
});

describe("patterns of a checkpoint that take quadratic or exponential time natively", () => {
  const template = (pattern: string) =>
    loadResponseTemplate(
      anchored({
        thinking: { open_pattern: pattern, close: "</t>" },
        args: {
          open: "<args>",
          close: "</args>",
          content: "xml-inline",
          content_args: { tag_pattern: "<(?P<key>(?:[a-z]+)+)>(?P<value>.*?)</>" },
        },
        content: {},
      }),
    );
  it.each(["(?:x+)+!", "<t.*?>", "<t[^>]*>", "\\s*<t>", "(?:x|x)*!"])("%s", (pattern) => {
    const loaded = template(pattern);
    // Searches of more than linear time are refused, with a number of steps that these texts exceed.
    for (const part of ["x", "<t", " ", "<args>"]) {
      const text = part.repeat(20_000 / part.length);
      expect([...parseResponse(text, loaded, { prefix: "" }).keys()], part).not.toContain("thinking");
    }
  });

  it("text that is held back is not searched for each piece of it", () => {
    const loaded = template("x+!");
    const searches = vi.spyOn(loaded.fields.get("thinking")!.open!.pattern, "find");
    const parser = new ResponseParser(loaded, { prefix: "" });
    for (let at = 0; at < 5000; at++) expect(parser.feed("x")).toEqual([]);
    expect(searches.mock.calls.length).toBeLessThan(400);
    expect(dumpJson(parser.finish().message)).toBe(`{"content": "${"x".repeat(5000)}"}`);
  });

  it("one that is large and ambiguous costs the answer, and not the run", () => {
    const { toolCallParser, reasoningParser } = responseTemplateParsers(
      loadResponseTemplate(
        anchored({
          thinking: { open: "<t>", close: "</t>" },
          tool_calls: { open_pattern: `(?:${"(?:a?b?c?d?){8}|".repeat(40)}x)*!`, close: "</c>", content: "json" },
        }),
      ),
    );
    const text = "abcd".repeat(5000);
    expect(reasoningParser!.split(text)).toEqual({ reasoning: "", normalText: text });
    expect(toolCallParser.hasToolCall(text)).toBe(true);
    const { problems, content } = toolCallParser.parse(text, { tools: [typed[0]!] });
    expect(content).toBe(text);
    expect(problems.map(({ code }) => code)).toEqual(["not-json"]);
    expect(problems[0]?.detail).toContain("would take too long");
  });
});

describe("what no reader expects is an error of its kind, and costs linear time", () => {
  const template = loadResponseTemplate(
    anchored({
      tool: {
        open: "<t>",
        close_pattern: "</t>\\s*",
        content: "json",
        content_args: { unquoted_keys: true, string_delims: [["'", "'"]] },
      },
      list: { open: "<l>", close: "</l>", content: "python-call-list" },
      content: { close_pattern: "<end>\\s*|$" },
    }),
  );
  const read = (text: string): unknown => reading(() => parseResponse(text, template, { prefix: "" }));
  it.each(["<t>", "</t>", "<l>", "<", '"', "{", "[", "\\", "'", "{a:", ",", " ", "\n", '"\\"', "<end>", "\ud800"])(
    "%j",
    async (part) => {
      for (const before of ["", "<t>", "<l>[a(b="]) await expectLinear(500, (size) => read(before + part.repeat(size)));
    },
  );
});
