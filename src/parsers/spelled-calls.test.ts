import { expect, it } from "vitest";
import { calledTool, formatsWithout, spelledCall, toolCallParser, toolCallParserNames } from "./index.ts";

const spelled = toolCallParserNames.filter((name) => spelledCall(name, "find_city") !== null);

it.each(spelled)("spelledCall() writes a call that %s reads", (name) => {
  const tool = calledTool("find_city");
  const parse = toolCallParser(name).parse(spelledCall(name, tool.name)!, { tools: [tool] });
  expect(parse).toMatchObject({
    calls: [{ name: "find_city", parameters: expect.stringMatching(/^\{"city": ?"Rome"\}$/) as unknown }],
    problems: [],
  });
});

it("formatsWithout() names formats whose calls have no place for a name, and no others", () => {
  expect(spelled.length).toBeGreaterThan(20);
  for (const name of ["find_city", "a", "getWeather2", "mcp__server__tool"]) expect(formatsWithout(name)).toEqual([]);
  // Names are in Python code there, in a JSON string here.
  for (const name of ["my-tool", "my.tool", "my/tool", "my tool", "2nd_tool", "import", "None"]) {
    expect(formatsWithout(name)).toContain("pythonic");
    for (const format of ["qwen25", "hermes", "mistral", "llama3"]) expect(formatsWithout(name)).not.toContain(format);
  }
});
