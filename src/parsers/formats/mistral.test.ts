import { describe, expect, test } from "vitest";

import { exampleTools as tools } from "./format-examples.test-helper.ts";
import { writtenCallIds } from "../mistral-blocks.ts";
import { mistralIds } from "./mistral.ts";

const read = (text: string) => {
  const { calls, normalText, problems } = mistralIds.parse(text, { tools });
  return { calls: calls.map(({ name, parameters }) => [name, parameters]), normalText, problems };
};

describe("mistral_ids", () => {
  test.each([
    ["an array", '[TOOL_CALLS][{"name": "noop", "arguments": {}, "id": "a1B2c3D4e"}]'],
    ["an array behind a blank", '[TOOL_CALLS] [{"name": "noop", "arguments": {}, "id": "a1B2c3D4e"}]'],
    ["a call of its own", "[TOOL_CALLS]noop[CALL_ID]a1B2c3D4e[ARGS]{}"],
  ])("reads %s, and the id in it", (_, text) => {
    expect(read(`Well.\n${text}`)).toEqual({ calls: [["noop", "{}"]], normalText: "Well.", problems: [] });
    expect(writtenCallIds(text)).toEqual(["a1B2c3D4e"]);
  });

  test("reads several calls, whatever their arguments say", () => {
    const text = '[TOOL_CALLS]noop[ARGS]{"city": "[TOOL_CALLS]noop[ARGS]{}"} [TOOL_CALLS]get_weather[CALL_ID]x[ARGS]{}';
    const calls = [["noop", '{"city": "[TOOL_CALLS]noop[ARGS]{}"}'], ["get_weather", "{}"]]; // prettier-ignore
    expect(read(text)).toEqual({ calls, normalText: "", problems: [] });
    expect(writtenCallIds(text)).toEqual([null, "x"]);
  });

  test("a broken call costs only itself, and words around calls stay", () => {
    const { calls, normalText, problems } = read('a[TOOL_CALLS]noop[ARGS]{"b[TOOL_CALLS]noop[ARGS]{} c');
    expect({ calls, normalText }).toEqual({ calls: [["noop", "{}"]], normalText: "ac" });
    expect(problems).toMatchObject([{ code: "not-json", text: '[TOOL_CALLS]noop[ARGS]{"b' }]);
  });
});
