import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { type ParseProblem, type Tool, toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../lib/json/index.ts";
import { toolCallParser, toolCallParserNames } from "../tool-call-parsers.ts";

const properties = { city: { type: "string" }, days: { type: "integer" }, tags: { type: "array" }, extra: {} };
const tools: readonly Tool[] = ["get_weather", "noop"].map((name) =>
  toolFromDefinition(fromPlain({ type: "function", function: { name, parameters: { properties } } }) as JsonObject),
);

/** One good call of `get_weather` in each syntax, and the same cut short. */
const examples: Readonly<Record<string, readonly [whole: string, cut: string]>> = {
  deepseekv3: ['<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Rome"}\n```<｜tool▁call▁end｜>', '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"ci'],
  deepseekv31: ['<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Rome"}<｜tool▁call▁end｜>', '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"ci'],
  deepseekv32: ['<｜DSML｜function_calls><｜DSML｜invoke name="get_weather"><｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>', '<｜DSML｜function_calls><｜DSML｜invoke name="get_wea'],
  deepseekv4: ['<｜DSML｜tool_calls><｜DSML｜invoke name="get_weather">{"city": "Rome"}</｜DSML｜invoke></｜DSML｜tool_calls>', '<｜DSML｜tool_calls><｜DSML｜invoke'],
  gigachat3: ['function call<|role_sep|>\n{"name": "get_weather", "arguments": {"city": "Rome"}}', 'function call<|role_sep|>\n{"name": "get_wea'],
  glm45: ["<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>", "<tool_call>get_weather\n<arg_key>ci"],
  glm47: ["<tool_call>get_weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>", "<tool_call>get_weather<arg_key>ci"],
  "gpt-oss": ['<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Rome"}<|call|>', ""],
  hermes: ['<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>', '<tool_call>{"name": "get_weather", "arg'],
  interns1: ['<|action_start|> <|plugin|>\n{"name": "get_weather", "parameters": {"city": "Rome"}}<|action_end|>', '<|action_start|> <|plugin|>\n{"name": "get_wea'],
  kimi_k2: ['<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|>', '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"ci'],
  lfm2: ['<|tool_call_start|>[get_weather(city="Rome")]<|tool_call_end|>', '<|tool_call_start|>[get_weather(ci'],
  llama3: ['<|python_tag|>{"name": "get_weather", "parameters": {"city": "Rome"}}', '<|python_tag|>{"name": "get_weather", "par'],
  mimo: ["<tool_call><function=get_weather><parameter=city>Rome</parameter></function></tool_call>", "<tool_call><function=get_wea"],
  "minimax-m2": ['<minimax:tool_call><invoke name="get_weather"><parameter name="city">Rome</parameter></invoke></minimax:tool_call>', '<minimax:tool_call><invoke name="get_wea'],
  "minimax-m3": [']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Rome]<]minimax[>[</city>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>', ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="get_wea'],
  mistral: ['[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Rome"}}]', '[TOOL_CALLS] [{"name": "get_weather", "arg'],
  pythonic: ['[get_weather(city="Rome")]', ""],
  qwen25: ['<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>', '<tool_call>\n{"name": "get_weather", "arg'],
  qwen3_coder: ["<tool_call><function=get_weather><parameter=city>Rome</parameter></function></tool_call>", "<tool_call><func"],
  step3: ['<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather"><steptml:parameter name="city">Rome</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>', '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke'],
  trinity: ['<think>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call></think>', '<tool_call>\n{"name": "get_weather", "arg'],
}; // prettier-ignore

const parsers = Object.keys(examples);
const parse = (name: string, text: string) => toolCallParser(name).parse(text, { tools });

test("every parser there is has an example here", () => {
  const aliases = ["glm", "qwen", "step3p5"];
  expect([...parsers, ...aliases].toSorted()).toEqual([...toolCallParserNames]);
});

describe.each(parsers)("%s", (name) => {
  const [whole, cut] = examples[name]!;

  test("reads its call, and reports nothing", () => {
    expect(parse(name, whole)).toMatchObject({
      calls: [{ name: "get_weather", parameters: '{"city": "Rome"}', toolIndex: 0 }],
      raised: null,
      problems: [],
    });
    expect(toolCallParser(name).hasToolCall(whole)).toBe(true);
  });

  test("leaves plain words alone", () => {
    const words = " Just words, [1] and {2}. ";
    expect(parse(name, words)).toMatchObject({ normalText: words, calls: [], problems: [] });
    expect(toolCallParser(name).hasToolCall(words)).toBe(false);
  });

  test.skipIf(cut === "")(
    "says what is wrong with a call that was cut off (skipped where its beginning looks like words)",
    () => {
      const { normalText, calls, problems } = parse(name, cut);
      expect({ normalText, calls }).toEqual({ normalText: cut, calls: [] });
      expect(problems.length).toBeGreaterThan(0);
      const codes: ParseProblem["code"][] = ["unterminated-call", "not-json"];
      expect(codes).toContain(problems[0]?.code);
    },
  );

  test("says which tool it does not know", () => {
    const { problems } = parse(name, whole.replace("get_weather", "fly"));
    expect(problems).toMatchObject([{ code: "unknown-tool", toolName: "fly" }]);
  });

  test("never throws on mutated text, and gives the whole text back where no call came out", () => {
    const fragments = whole.match(/<[^<>]*>|\w+|\s+|[^\w\s]/gu) ?? [];
    const noise = ["\n", " ", '"', "'", "{", "}", "[", "]", "<", ">", "\\", "null", "1e400", "-", "é", "\ud83d\ude00", "\u0085", "(1,)", "b''", "&lt"]; // prettier-ignore
    const piece = fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...fragments) }, fc.constantFrom(...noise));
    const mutated = fc.oneof(
      fc.array(piece, { maxLength: 40 }),
      fc
        .tuple(fc.nat(fragments.length), fc.nat(4), fc.array(piece, { maxLength: 4 }))
        .map(([at, removed, added]) => [...fragments.slice(0, at), ...added, ...fragments.slice(at + removed)]),
    );
    fc.assert(
      fc.property(mutated, (pieces) => {
        const text = pieces.join("");
        const { normalText, calls } = parse(name, text);
        if (calls.length === 0) expect(normalText).toBe(text);
        for (const call of calls) expect(typeof call.name).toBe("string");
      }),
      { seed: 1, numRuns: 300 },
    );
  });
});
