import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { exampleTools as tools, formatExamples } from "./formats/format-examples.test-helper.ts";
import { toolCallParser } from "./index.ts";
import { readTolerantJson } from "./tolerant-json.ts";

const parse = (name: string, text: string, repair: boolean) => toolCallParser(name).parse(text, { tools, repair });
const good = '{"name": "get_weather", "arguments": {"city": "Rome"}}';
const rome = { name: "get_weather", parameters: '{"city": "Rome"}', toolIndex: 0 };

/** Wrappings of a call in formats that contain JSON; `null` arguments: only the arguments are JSON. */
const wrap = {
  qwen25: (json: string) => `Well.\n<tool_call>\n${json}\n</tool_call>`,
  hermes: (json: string) => `Well.\n<tool_call>${json}</tool_call>`,
  trinity: (json: string) => `Well.\n<tool_call>\n${json}\n</tool_call>`,
  interns1: (json: string) => `Well.<|action_start|> <|plugin|>${json}<|action_end|>`,
  lfm2: (json: string) => `Well.<|tool_call_start|>${json}<|tool_call_end|>`,
  gigachat3: (json: string) => `function call<|role_sep|>\n${json}`,
  llama3: (json: string) => `<|python_tag|>${json}`,
  // A fence inside the list cannot be repaired.
  mistral: (json: string) => `Well. [TOOL_CALLS] [${json.replaceAll("```", "").replace(/^json/, "")}]`,
};

const nearMisses = {
  "a trailing comma": '{"name": "get_weather", "arguments": {"city": "Rome",},}',
  "single quotes": "{'name': 'get_weather', 'arguments': {'city': 'Rome'}}",
  "a brace too few": '{"name": "get_weather", "arguments": {"city": "Rome"}',
  "a brace too many": `${good}}`,
  "arguments in a JSON text": '{"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\"}"}',
  "a code fence": `\`\`\`json\n${good}\n\`\`\``,
};

describe.each(Object.keys(wrap) as (keyof typeof wrap)[])("repair mode of %s", (name) => {
  test.each(Object.entries(nearMisses))("recovers a call with %s, and says so", (_what, json) => {
    const { calls, problems } = parse(name, wrap[name](json), true);
    const strict = parse(name, wrap[name](json), false);
    if (strict.calls[0]?.parameters === rome.parameters) {
      // This format reads it strictly.
      expect({ calls, problems }).toEqual({ calls: [rome], problems: strict.problems });
      return;
    }
    expect(calls).toEqual([rome]);
    expect(problems[0]).toMatchObject({ code: "repaired", toolName: "get_weather" });
    expect(problems[0]?.detail).toMatch(/^The call was read after .+\.$/);
    expect(problems.slice(1)).toEqual([]);
  });

  test("recovers a raw line break in a string", () => {
    const { calls } = parse(name, wrap[name](good.replace("Rome", "Ro\nme")), true);
    expect(calls).toEqual([{ ...rome, parameters: '{"city": "Ro\\nme"}' }]);
  });

  test.each([
    ["a string that was cut off", '{"name": "get_weather", "arguments": {"city": "Ro'],
    ["a key without its value", '{"name": "get_weather", "arguments": {"city": '],
    ["no JSON at all", "get_weather Rome"],
  ])("invents nothing for %s", (_what, json) => {
    expect(parse(name, wrap[name](json), true)).toEqual(parse(name, wrap[name](json), false));
  });
});

test.each([
  ["tags on one line", "qwen25", `<tool_call>${good}</tool_call>`],
  ["tags on one line", "trinity", `<tool_call>${good}</tool_call>`],
  ["no closing tag", "qwen25", `<tool_call>\n${good}\n`],
  ["a call on one line that does not end", "qwen25", `<tool_call>${good}`],
  ["neither brace nor closing tag", "qwen25", `<tool_call>\n${good.slice(0, -1)}`],
  ["no closing marker", "interns1", `<|action_start|> <|plugin|>${good}`],
  ["no closing marker", "lfm2", `<|tool_call_start|>${good}`],
  ["an open list", "mistral", `[TOOL_CALLS] [${good}`],
  ["an open object", "mistral", '[TOOL_CALLS]get_weather[ARGS]{"city": "Rome"'],
  ["no closing marker", "kimi_k2", '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Rome"}'],
  ["a trailing comma", "kimi_k2", '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Rome",}<|tool_call_end|>'],
  ["a trailing comma", "gpt-oss", '<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Rome",}<|call|>'],
  ["no closing marker", "deepseekv31", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Rome"}'],
  ["no closing fence", "deepseekv3", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Rome"}'],
  ["no closing tags", "deepseekv32", '<｜DSML｜function_calls><｜DSML｜invoke name="get_weather"><｜DSML｜parameter name="city" string="true">Rome'],
  ["no closing tags", "glm45", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome"],
  ["no closing tags", "glm47", "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome"],
  ["no closing tags", "mimo", "<tool_call><function=get_weather><parameter=city>Rome"],
  ["no closing tags", "minimax-m2", '<minimax:tool_call><invoke name="get_weather"><parameter name="city">Rome'],
  ["no closing tags", "step3", '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather"><steptml:parameter name="city">Rome'],
])("repair mode recovers a call with %s in %s", (_what, name, text) => {
  expect(parse(name, text, false).calls).not.toEqual([rome]);
  const { calls, problems } = parse(name, text, true);
  expect(calls.map(({ name: tool, parameters }) => ({ name: tool, parameters }))).toEqual([{ name: "get_weather", parameters: rome.parameters }]);
  expect(problems[0]).toMatchObject({ code: "repaired", toolName: "get_weather" });
}); // prettier-ignore

test("a good call beside a near-miss stays as it is, and the words before them, too", () => {
  const text = `Well.\n<tool_call>\n${good}\n</tool_call>\n<tool_call>\n${good.slice(0, -1)},\n</tool_call>`;
  expect(parse("qwen25", text, true)).toMatchObject({ normalText: "Well.", calls: [rome, rome] });
});

test("a name that no tool has is not repaired", () => {
  const text = `<tool_call>\n${good.replace("get_weather", "fly")}\n</tool_call>`;
  expect(parse("qwen25", text, true)).toEqual(parse("qwen25", text, false));
});

test.each(Object.keys(formatExamples))("%s: repair never changes what is read without a problem", (name) => {
  const [whole] = formatExamples[name]!;
  const fragments = whole.match(/<[^<>]*>|\w+|\s+|[^\w\s]/gu) ?? [];
  const mutated = fc
    .tuple(fc.nat(fragments.length), fc.nat(2), fc.array(fc.constantFrom(...fragments, "\n", " ", "'", ",", "}", "x"), { maxLength: 2 }))
    .map(([at, removed, added]) => [...fragments.slice(0, at), ...added, ...fragments.slice(at + removed)].join("")); // prettier-ignore
  fc.assert(
    fc.property(mutated, (text) => {
      const strict = parse(name, text, false);
      const repaired = parse(name, text, true);
      const isClean = strict.problems.length === 0 && strict.calls.every(({ parameters }) => isObject(parameters));
      if (isClean) expect(repaired).toEqual(strict);
      expect(repaired.calls.length).toBeGreaterThanOrEqual(strict.calls.length);
      const isRepaired = repaired.problems.some(({ code }) => code === "repaired");
      if (!isRepaired) expect(repaired).toEqual(strict);
    }),
    { seed: 3, numRuns: 200 },
  );
});

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

test.each([
  ["[1, 2.0, -3e5, NaN]", []],
  ["{'it\\'s': 'a \"b\"'}", ["turning single quotes into double quotes"]],
  ["{\"a\": [True, None,]}", ["reading Python's True, False or None", "dropping a trailing comma"]],
  ['{"a": {"b": [1', ["closing brackets that were left open"]],
])("readTolerantJson() reads %s", (text, repairs) => {
  expect(readTolerantJson(text)?.repairs).toEqual(repairs);
}); // prettier-ignore

test.each([
  "",
  "{,}",
  "[1,,2]",
  '{"a" 1}',
  '{"a": }',
  "{a: 1}",
  '"x',
  "1 2",
  '{"a": 1} and more',
  "'it's'",
  "[".repeat(5000),
])("readTolerantJson() does not read %s", (text) => {
  expect(readTolerantJson(text)).toBe(null);
});
