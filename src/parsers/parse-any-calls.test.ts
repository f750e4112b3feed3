import { describe, expect, it } from "vitest";
import { exampleTools, formatExamples } from "./formats/format-examples.test-helper.ts";
import { parseAnyCalls, toolCallParser, toolCallParserNames } from "./index.ts";

const options = { tools: exampleTools };

describe.each(toolCallParserNames)("parseAnyCalls() with %s", (name) => {
  const parser = toolCallParser(name);
  const [whole, cut] = formatExamples[name] ?? formatExamples[parser.name]!;

  it("reads the call of a tool that does not exist", () => {
    const parse = parseAnyCalls(parser, whole.replaceAll("get_weather", "fly_away"), options);
    expect(parse).toMatchObject({
      calls: [{ name: "fly_away", parameters: expect.stringMatching(/^\{"city": ?"Rome"\}$/) as unknown }],
      problems: [],
    });
  });

  it("reads all else as the parser does", () => {
    for (const text of [whole, cut, "Hello.", ""]) {
      expect(parseAnyCalls(parser, text, options)).toEqual(parser.parse(text, options));
    }
  });
});
