import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { type Tool, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import {
  mayBeOtherFormat,
  otherFormatNames,
  readOtherFormat,
  spelledCall,
  toolCallParser,
  toolCallParserNames,
} from "./index.ts";
import { callCharacters, formatOpenings } from "./other-formats.ts";

const tool = (name: string, properties: object): Tool =>
  toolFromDefinition(
    fromPlain({ type: "function", function: { name, parameters: { type: "object", properties } } }) as JsonObject,
  );
const tools = [
  tool("find_order", { order_id: { type: "string" } }),
  tool("get_city", { city: { type: "string" } }),
  tool("list_orders", {}),
];
const otherParsers = otherFormatNames.map(toolCallParser);
const read = (text: string, parser = "qwen25", isWhole = true) =>
  readOtherFormat(text, { tools, parser, isWhole, otherParsers });

const call = '{"name": "find_order", "arguments": {"order_id": "#W1"}}';
const found = ["find_order", '{"order_id": "#W1"}'];

describe("readOtherFormat() reads a text that is nothing but calls", () => {
  it.each([
    ["bare JSON", call],
    ["bare JSON with white space around it", `\n\n ${call}\n`],
    ["parameters", call.replace("arguments", "parameters")],
    ["input", call.replace("arguments", "input")],
    ["arguments as JSON text", '{"name": "find_order", "arguments": "{\\"order_id\\": \\"#W1\\"}"}'],
    ["an id and a type beside them", `{"id": "call_1", "type": "function", ${call.slice(1)}`],
    ["a function in a wrapper", `{"type": "function", "function": ${call}}`],
    ["a list in a wrapper", `{"role": "assistant", "content": null, "tool_calls": [{"function": ${call}}]}`],
    ["one call in a wrapper", `{"tool_call": ${call}}`],
    ["a list", `[${call}]`],
    ["a code block", `\`\`\`\n${call}\n\`\`\``],
    ["a code block of JSON", `\`\`\`json\n${call}\n\`\`\``],
    ["tags that the template uses for tools", `<tools>\n${call}\n</tools>`],
    ["tags of a response", `<response>\n${call}\n</response>`],
    ["a code block in tags", `<function_call>\n\`\`\`json\n${call}\n\`\`\`\n</function_call>`],
    ["a closing tag alone", `${call}\n</tool_call>`],
    ["an opening tag alone", `<tools>\n${call}`],
    ["a bracket that is missing", call.slice(0, -1)],
    ["a comma too many, in a code block", `\`\`\`json\n${call.replace('"}}', '",}}')}\n\`\`\``],
    ["single quotes", call.replaceAll('"', "'")],
    ["Python", 'find_order(order_id="#W1")'],
    ["Python in a code block", "```tool_code\nfind_order(order_id='#W1')\n```"],
  ])("%s", (_what, text) => {
    const other = read(text)!;
    expect(other.calls.map(({ name, parameters }) => [name, parameters])).toEqual([found]);
    expect(other.problem).toMatchObject({ code: "other-format", toolName: "find_order", text: text.trim() });
  });

  it.each([
    ["in lines", `${call}\n${call}`],
    ["in a list", `[${call}, ${call}]`],
    ["in code blocks", `\`\`\`json\n${call}\n\`\`\`\n\`\`\`json\n${call}\n\`\`\``],
    ["in tags", `<tools>${call}</tools><tools>${call}</tools>`],
  ])("two calls %s", (_what, text) => {
    expect(read(text)!.calls.map(({ name, parameters }) => [name, parameters])).toEqual([found, found]);
  });

  it("says how it was written, with an example in the model's own format of the call that was meant", () => {
    expect(read(call)!.problem.detail).toBe(
      `It was written as bare JSON, which is not read here. Write a call like this:\n<tool_call>\n${call}\n</tool_call>`,
    );
    expect(read(call, "qwen3_coder")!.problem.detail).toContain(
      "<function=find_order>\n<parameter=order_id>\n#W1\n</parameter>",
    );
    const unsafe = call.replace("#W1", "<|im_end|>");
    expect(read(unsafe)!.problem.detail).toContain('{"name": "find_order", "arguments": {"order_id": "..."}}');
  });
});

it.each(toolCallParserNames)("a call in the format of %s is found by the parsers of other formats", (name) => {
  const text = spelledCall(name, "get_city")!;
  const own = toolCallParser(name).name === "qwen25" ? "qwen3_coder" : "qwen25";
  expect(read(text, own)?.problem).toMatchObject({ code: "other-format", toolName: "get_city" });
  expect(read(`Let me look.\n${text}`, own)?.calls ?? []).toEqual([]);
  const withoutParsers = readOtherFormat(text, { tools, parser: own, isWhole: true, otherParsers: [] });
  expect(withoutParsers?.problem).toEqual(read(text, own)?.problem);
});

it("calls in most formats of other families have one reading", () => {
  const unread = otherFormatNames.filter((name) => {
    const calls = read(spelledCall(name, "get_city")!, name === "qwen25" ? "qwen3_coder" : "qwen25")?.calls ?? [];
    return JSON.stringify(calls.map(({ name: called, parameters }) => [called, parameters])) !== '[["get_city","{\\"city\\": \\"Rome\\"}"]]'; // prettier-ignore
  });
  // The blank that opens a call of beam is stripped with the text's outer white space, and
  // olmo3 and phi4_mini_json drop the text around their calls.
  expect(unread).toEqual(["beam", "gigachat3", "olmo3", "phi4_mini_json"]);
});

describe("a call that may not have been meant is a problem and no call", () => {
  it.each([
    ["in a code block beside other text", `I would call this:\n\`\`\`json\n${call}\n\`\`\`\nShall I?`],
    ["behind other text", `Let me see. ${call}`],
    ["in a thought", `<thought>${call}</thought>`],
    ["beside a call of a tool that does not exist", `[${call}, {"name": "fly", "arguments": {}}]`],
  ])("%s", (_what, text) => {
    expect(read(text)).toMatchObject({ problem: { code: "other-format", toolName: "find_order" }, calls: [] });
  });

  it("is not completed while it may still be written", () => {
    expect(read(call.slice(0, -1), "qwen25", false)).toBeNull();
    expect(read(call, "qwen25", false)).not.toBeNull();
  });
});

it("every format begins its calls with a character that most sentences do not have", () => {
  const beginnings = formatOpenings().map(({ before }) => before);
  expect(beginnings.length).toBeGreaterThan(40);
  expect(beginnings.filter((before) => !callCharacters.test(before))).toEqual([]);
});

describe("data is not a call", () => {
  it.each([
    ["a tool that does not exist", '{"name": "fly", "arguments": {"to": "Rome"}}'],
    ["a name without arguments", '{"name": "find_order"}'],
    ["arguments that are not an object", '{"name": "find_order", "arguments": "#W1"}'],
    ["a record with further fields", '{"name": "find_order", "input": {}, "result": "shipped"}'],
    ["a definition", '{"name": "find_order", "parameters": {"type": "object", "properties": {}}}'],
    ["a call inside of other data", `{"log": [${call}]}`],
    ["a list with other data", `[${call}, 1]`],
    ["a name in a sentence", "I can use find_order (or list_orders) for that."],
    ["a link", "[find_order](https://example.com)"],
    ["nothing", " \n"],
    ["fences", "``` ```json ```"],
    ["tags", "<tools></tools>"],
  ])("%s", (_what, text) => expect(read(text)).toBeNull());

  it("JSON of any shape is none, bare, in a code block, in tags and beside text", () => {
    const value = fc.json({ maxDepth: 4 });
    const frame = fc.constantFrom("", "```json\n", "<response>", "Here it is: ");
    fc.assert(
      fc.property(value, frame, (json, opening) => {
        expect(read(opening + json)).toBeNull();
      }),
      { numRuns: 500 },
    );
  });

  it("keys of calls in other combinations are none", () => {
    const key = fc.constantFrom("name", "arguments", "function", "tool_calls", "type", "city");
    const leaf = fc.constantFrom<unknown>("find_order", "fly", 1, null, [], "{}");
    const record = fc.dictionary(key, fc.oneof(leaf, fc.dictionary(key, leaf)));
    fc.assert(
      fc.property(record, (data) => {
        const text = JSON.stringify(data);
        const isCall = /"find_order"/.test(text) && /"arguments":(\{|"\{\}")/.test(text);
        if (!isCall) expect(read(text)).toBeNull();
      }),
      { numRuns: 500 },
    );
  });
});

it("any text is read, in time that its length bounds", () => {
  const piece = fc.constantFrom(call, "{", "[", '"', "}", "<tools>", "```", "find_order(", "[TOOL_CALLS]", " ", "x", "\u0000");
  fc.assert(fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => void read(pieces.join(""))));
  for (const part of ["{", "[", '{"', "<a>", "```", '{"a":[', "<tool_call>{", "find_order(", "[TOOL_CALLS]", "function=", ",;", call]) {
    expect(() => read(part.repeat(20_000))).not.toThrow();
  }
}); // prettier-ignore

it("mayBeOtherFormat() holds back every beginning of such a text, and no sentence beyond its first word", () => {
  const texts = [call, `\`\`\`json\n${call}\n\`\`\``, `<tools>${call}</tools>`, 'find_order(order_id="#W1")'];
  for (const text of [...texts, ...otherFormatNames.map((name) => spelledCall(name, "get_city")!)]) {
    if (read(text, "qwen25")!.calls.length === 0) continue;
    for (let end = 0; end <= text.length; end++) expect([text.slice(0, end), mayBeOtherFormat(text.slice(0, end))]).toEqual([text.slice(0, end), true]); // prettier-ignore
  }
  expect(mayBeOtherFormat("Your order")).toBe(false);
});
