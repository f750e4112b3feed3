import { describe, expect, it } from "vitest";

import { toolFromDefinition } from "../core/index.ts";
import { type JsonObject, parseJson } from "../python-semantics/json/index.ts";
import { fromPlain, toPlain } from "../python-semantics/json/plain.ts";
import { callExample, spelledFormats, withExample } from "./spelled-calls.ts";
import { toolCallParser, toolCallParserNames } from "./index.ts";

const tool = (name: string, properties: object, required: readonly string[]) =>
  toolFromDefinition(
    fromPlain({
      type: "function",
      function: { name, description: "", parameters: { type: "object", properties, required } },
    }) as JsonObject,
  );
const tools = [
  tool("find_order", { order_id: { type: "string" } }, ["order_id"]),
  tool(
    "refund",
    { note: { type: "string" }, order_id: { type: "string" }, cents: { type: "integer" }, lines: { type: "array" } },
    ["order_id", "cents", "lines"],
  ),
];
const formats = toolCallParserNames.filter((name) => spelledFormats.includes(toolCallParser(name).name));

describe("callExample()", () => {
  it.each(formats)("of %s is read by its own parser as a call of the tool", (format) => {
    // Its calls end at the first "]": vLLM's own parser reads none with a list.
    const toolNames = format === "phi4_mini_json" ? ["find_order"] : ["find_order", "refund"];
    for (const toolName of toolNames) {
      const example = callExample(format, { toolName, arguments: null }, tools);
      const [lead, ...lines] = example.split("\n");
      expect(lead).toBe("Write a call like this:");
      const parser = toolCallParser(format);
      const { calls, problems } = parser.parse(lines.join("\n"), { tools });
      expect([calls.map(({ name }) => name), problems]).toEqual([[toolName], []]);
      expect(toPlain(parseJson(calls[0]!.parameters))).toMatchObject({ order_id: "..." });
    }
  });

  it("has all required arguments with their types where calls are JSON", () => {
    const example = callExample("qwen25", { toolName: "refund", arguments: null }, tools);
    expect(example).toContain('{"name": "refund", "arguments": {"order_id": "...", "cents": 1, "lines": []}}');
  });

  it("repeats the values that the model gave, if every format writes them alike", () => {
    const given = fromPlain({ order_id: "#W1", cents: "</tool_call>", other: "x" }) as JsonObject;
    expect(callExample("qwen25", { toolName: "refund", arguments: given }, tools)).toContain(
      '{"order_id": "#W1", "cents": 1, "lines": []}',
    );
  });
});

describe("withExample()", () => {
  const problem = { code: "not-json", text: "", toolName: null, detail: "It is not JSON." } as const;

  it("shows the tool that the text names, else the first", () => {
    const detailOf = (text: string) => withExample({ ...problem, text }, "hermes", tools).detail;
    expect(detailOf("<tool_call>refund(</tool_call>")).toContain('{"name": "refund"');
    expect(detailOf("<tool_call>give(</tool_call>")).toContain('{"name": "find_order"');
  });

  it("leaves problems alone that are not about the form of a call", () => {
    for (const code of ["unknown-tool", "spoofed-marker", "other-format", "repaired"] as const) {
      expect(withExample({ ...problem, code }, "hermes", tools)).toEqual({ ...problem, code });
    }
    expect(withExample(problem, "hermes", [])).toBe(problem);
  });
});
