import fc from "fast-check";
import { describe, expect, test } from "vitest";

import type { ParseProblem } from "../../core/index.ts";
import { exampleTools as tools, formatExamples as examples } from "./format-examples.test-helper.ts";
import { heldBack } from "../streaming.ts";
import { toolCallParser, toolCallParserNames } from "../index.ts";

const parsers = Object.keys(examples);
const parse = (name: string, text: string) => toolCallParser(name).parse(text, { tools });

test("every parser there is has an example here", () => {
  const aliases = toolCallParserNames.filter((name) => toolCallParser(name).name !== name);
  const remedy = "add what is missing to format-examples.test-helper.ts: a whole call, and the same cut short";
  expect([...parsers, ...aliases].toSorted(), remedy).toEqual([...toolCallParserNames]);
});

describe.each(parsers)("%s", (name) => {
  const [whole, cut] = examples[name]!;

  test("reads its call, and reports nothing", () => {
    expect(parse(name, whole)).toMatchObject({
      calls: [
        { name: "get_weather", parameters: expect.stringMatching(/^\{"city": ?"Rome"\}$/) as unknown, toolIndex: 0 },
      ],
      raised: null,
      problems: [],
    });
    expect(toolCallParser(name).hasToolCall(whole)).toBe(true);
  });

  test.each([
    ["", whole],
    ["Here it is: ", whole],
    ["So ", cut],
  ])("of %j nothing but the words is shown before what follows is a call", (words, call) => {
    const { hints } = toolCallParser(name);
    const text = words + call;
    let shown = "";
    for (let length = 1; length <= text.length; length++) {
      const { content, calls, problems } = parse(name, text.slice(0, length));
      // Once a call has begun, the rest is checked with the whole text.
      if (calls.length > 0 || problems.length > 0) break;
      const sure = content.slice(0, content.length - heldBack(content, hints, null));
      if (sure.length > shown.length) shown = sure;
    }
    expect(shown).toBe(words.trimEnd());
  });

  test("leaves plain words alone", () => {
    const words = " Just words, [1] and {2}. ";
    // Cohere's parser on vLLM takes the white space from the end of an answer.
    const normalText = name === "cohere_command3" ? words.trimEnd() : words;
    expect(parse(name, words)).toMatchObject({ normalText, content: words, calls: [], problems: [] });
    expect(toolCallParser(name).hasToolCall(words)).toBe(false);
  });

  test.skipIf(cut === "")(
    "says what is wrong with a call that was cut off (skipped where its beginning looks like words)",
    () => {
      const { content, calls, problems } = parse(name, cut);
      expect({ content, calls }).toEqual({ content: cut, calls: [] });
      expect(
        problems.length,
        'a call that does not end is reported: scan.report("unterminated-call", ...)',
      ).toBeGreaterThan(0);
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
        const { content, calls, problems } = parse(name, text);
        if (calls.length > 0) return;
        expect(content).toBe(text);
        // Text that announces a call but yields none is reported as a problem.
        if (toolCallParser(name).hasToolCall(text)) expect(problems).not.toEqual([]);
        for (const call of calls) expect(typeof call.name).toBe("string");
      }),
      { seed: 1, numRuns: 300 },
    );
  });
});

test("minimax-m3 takes tags that nest too deep for Python as no call", () => {
  const prefix = "]<]minimax[>[";
  const nested = `${`${prefix}<a>`.repeat(20_000)}${`${prefix}</a>`.repeat(20_000)}`;
  const text = `${prefix}<tool_call>${prefix}<invoke name="get_weather">${nested}${prefix}</invoke>${prefix}</tool_call>`;
  expect(parse("minimax-m3", text).calls).toEqual([]);
});
