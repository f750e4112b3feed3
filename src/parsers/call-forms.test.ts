import { describe, expect, it } from "vitest";

import { type TextForm, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject, parseJson, toPlain } from "../python-semantics/json/index.ts";
import { callForm } from "./call-forms.ts";
import { toolCallParser, toolCallParserNames } from "./index.ts";
import { spelledFormats } from "./spelled-calls.ts";

const tool = (name: string, parameters: object | null) =>
  toolFromDefinition(
    fromPlain({
      type: "function",
      function: { name, description: "", ...(parameters === null ? {} : { parameters }) },
    }) as JsonObject,
  );

const order = tool("get_city_order", {
  type: "object",
  properties: {
    city: { type: "string" },
    copies: { type: "integer" },
    gift: { type: "boolean" },
    cover: { $ref: "#/$defs/Cover" },
    weight: { anyOf: [{ type: "number" }, { type: "null" }] },
  },
  required: ["city", "copies", "cover"],
  $defs: { Cover: { type: "string", enum: ["hard", "soft"] } },
});
const nothing = tool("list_orders", { type: "object", properties: {} });
const optionalOnly = tool("search", {
  type: "object",
  properties: { word: { type: "string" }, page: { type: "integer" } },
});

/** A value that is valid under a schema. */
function valueFor(schema: Record<string, unknown>, root = schema): unknown {
  const reference = schema["$ref"];
  if (typeof reference === "string") {
    const definitions = root["$defs"] as Record<string, Record<string, unknown>>;
    return valueFor(definitions[reference.replace("#/$defs/", "")] ?? {}, root);
  }
  if (Array.isArray(schema["enum"])) return (schema["enum"] as unknown[])[0];
  if (Array.isArray(schema["anyOf"])) return valueFor((schema["anyOf"] as Record<string, unknown>[])[0]!, root);
  const properties = (schema["properties"] ?? {}) as Record<string, Record<string, unknown>>;
  const values: Record<string, unknown> = {
    string: 'Via "Roma" 1',
    integer: 3,
    number: 2.5,
    boolean: true,
    object: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, valueFor(one, root)])),
  };
  return values[schema["type"] as string];
}

/** A text of the form, with or without its optional parts. */
function textOf(form: TextForm, takesOptional: boolean): string {
  switch (form.type) {
    case "literal":
      return form.text;
    case "json":
      return JSON.stringify(valueFor(JSON.parse(form.schema) as Record<string, unknown>));
    case "text":
      return `New <York>${form.end}`;
    case "sequence":
      return form.parts.map((part) => textOf(part, takesOptional)).join("");
    case "choice":
      return textOf(form.options[0]!, takesOptional);
    case "optional":
      return takesOptional ? textOf(form.form, takesOptional) : "";
    case "regex":
      return "New York";
    case "ebnf":
      throw new Error("No form of a call has one.");
    default:
      return form satisfies never;
  }
}

const formats = toolCallParserNames.filter((name) => spelledFormats.includes(toolCallParser(name).name));

describe("callForm()", () => {
  it.each(formats)("of %s has texts that its own parser reads as the call", (format) => {
    const read = (called: ReturnType<typeof tool>, takesOptional: boolean): unknown => {
      const form = callForm(format, called);
      expect(form).not.toBeNull();
      const { calls, problems } = toolCallParser(format).parse(textOf(form!, takesOptional), {
        tools: [order, nothing, optionalOnly],
      });
      expect([calls.map(({ name }) => name), problems]).toEqual([[called.name], []]);
      // vLLM's library for cohere_command3 gives no text for a call without arguments.
      const text = format === "cohere_command3" && called === nothing ? "{}" : calls[0]!.parameters;
      return toPlain(parseJson(text));
    };
    const first = read(order, false);
    expect(first).toMatchObject({ city: expect.any(String) as string, copies: 3, cover: "hard" });
    const second = read(order, true) as Record<string, unknown>;
    expect(second).toMatchObject({ copies: 3, gift: true });
    // Some parsers read a value of several types as text or as nothing, as their servers do.
    expect([2.5, "2.5", null]).toContain(second["weight"]);
    // Two parsers read no call without arguments.
    if (["step3", "minicpm5"].includes(toolCallParser(format).name))
      return expect(callForm(format, nothing)).toBeNull();
    expect(read(nothing, true)).toEqual({});
    expect(read(optionalOnly, true)).toHaveProperty("page");
  });

  it("takes the schema of JSON arguments as it is", () => {
    const form = callForm("hermes", order);
    expect(form).toMatchObject({
      type: "sequence",
      parts: [{ type: "literal" }, { type: "json" }, { type: "literal" }],
    });
    const [before, schema, after] = (form as Extract<TextForm, { type: "sequence" }>).parts;
    expect(before).toEqual({ type: "literal", text: '<tool_call>\n{"name": "get_city_order", "arguments": ' });
    expect(after).toEqual({ type: "literal", text: "}\n</tool_call>" });
    expect(JSON.parse((schema as { schema: string }).schema)).toEqual(
      toPlain((order.definition.get("function") as JsonObject).get("parameters")!),
    );
  });

  it("has no form for a name that the format cannot write, nor for containers in Python calls", () => {
    expect(callForm("pythonic", tool("get order", {}))).toBeNull();
    const lists = tool("pick", { type: "object", properties: { ids: { type: "array" } }, required: ["ids"] });
    expect(callForm("pythonic", lists)).toBeNull();
    expect(callForm("qwen3_coder", lists)).not.toBeNull();
  });

  it("writes an argument whose name has a pattern of a replacement as it is", () => {
    const form = callForm("qwen3_coder", tool("find", { type: "object", properties: { "a$$b$&": {} } }));
    expect(textOf(form!, true)).toContain("<parameter=a$$b$&>");
  });

  it("finds the types of alternatives that are references", () => {
    const of = (format: string, target: object) =>
      callForm(
        format,
        tool("find", {
          type: "object",
          properties: { one: { anyOf: [{ $ref: "#/$defs/One" }, { type: "null" }] } },
          required: ["one"],
          $defs: { One: target },
        }),
      );
    expect(JSON.stringify(of("kimi_k3", { type: "integer" }))).toContain(String.raw`type=\"integer\"`);
    expect(JSON.stringify(of("kimi_k3", { type: "null" }))).toContain(String.raw`type=\"null\"`);
    expect(JSON.stringify(of("qwen3_coder", { type: "string", enum: ["a"] }))).not.toContain('"json"');
    expect(JSON.stringify(of("qwen3_coder", { $ref: "#/$defs/One" }))).toContain('"json"');
    expect(of("pythonic", { type: "object" })).toBeNull();
  });

  it("writes the words of Python in Python calls", () => {
    const valueOf = (schema: object): unknown => {
      const form = callForm(
        "pythonic",
        tool("find", { type: "object", properties: { one: schema }, required: ["one"] }),
      );
      return (form as Extract<TextForm, { type: "sequence" }>).parts[1];
    };
    const words = (...texts: string[]) => texts.map((text) => ({ type: "literal", text }));
    expect(valueOf({ anyOf: [{ type: "string" }, { type: "null" }] })).toEqual({
      type: "choice",
      options: [{ type: "json", schema: '{"anyOf": [{"type": "string"}]}' }, ...words("None")],
    });
    expect(valueOf({ type: ["integer", "boolean", "null"], enum: [1, true, null] })).toEqual({
      type: "choice",
      options: [{ type: "json", schema: '{"type": ["integer"], "enum": [1]}' }, ...words("True", "False", "None")],
    });
    expect(valueOf({ description: "d" })).toEqual({ type: "json", schema: '{"description": "d", "type": "string"}' });
  });

  it("has no form whose size grows with the square of the tool", () => {
    const properties = (count: number, schema: object) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`a${at}`, schema]));
    const many = tool("find", { type: "object", properties: properties(5000, { type: "string" }) });
    expect(callForm("pythonic", many)).toBeNull();
    const $defs = { One: { type: "integer", description: "d".repeat(20_000) } };
    const long = tool("find", {
      type: "object",
      properties: properties(1000, { anyOf: [{ $ref: "#/$defs/One" }] }),
      $defs,
    });
    expect(callForm("qwen3_coder", long)).toBeNull();
  });
});
