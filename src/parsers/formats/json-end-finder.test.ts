import { afterEach, expect, test, vi } from "vitest";

import { toolFromDefinition } from "../../core/index.ts";
import { addAllFormats } from "../all-formats.ts";
import { toolCallParser } from "../tool-call-parsers.ts";
import { JsonEndFinder } from "./json-end-finder.ts";

addAllFormats();
afterEach(() => vi.restoreAllMocks());

/** The end in all of the text, of which each piece ends at one of the cuts. */
function endIn(text: string, cuts: readonly number[]): number {
  const finder = new JsonEndFinder();
  const places = [...cuts, text.length];
  for (const [index, stop] of places.entries()) {
    const start = places[index - 1] ?? 0;
    const end = finder.push(text.slice(start, stop), 0);
    if (end !== -1) return start + end;
  }
  return -1;
}

test.each([
  ['{"a": 1} x', 8],
  [' \n["}", "\\"]", {}]]', 18],
  ['"a\\"b" c', 6],
  ["true, 1", 4],
  ["-1.5", 2],
  ["12", 1],
  ["nul", -1],
  ["nothing", -1],
  ["{a} {}", -1],
  ['{"a": 1e999} {}', -1],
  ['"\ud800" 1', -1],
  [`${"[".repeat(127)}${"]".repeat(127)}`, 254],
  [`${"[".repeat(128)}${"]".repeat(128)}`, -1],
])("the end in %j is %i, wherever the text is cut", (text, end) => {
  expect(endIn(text, [])).toBe(end);
  for (let cut = 0; cut <= text.length; cut++) expect(endIn(text, [cut])).toBe(end);
  expect(
    endIn(
      text,
      Array.from(text, (_, at) => at),
    ),
  ).toBe(end);
});

test("parameters that go on in many sections are read once", () => {
  const tools = [toolFromDefinition(new Map([["function", new Map([["name", "f"]])]]))];
  const steps = (sections: number): number => {
    const opened = '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": "';
    const text = opened + "<|END_ACTION|><|START_ACTION|>abcdefgh".repeat(sections);
    const counted = vi.spyOn(String.prototype, "charCodeAt");
    toolCallParser("cohere_command3").parse(text, { tools });
    const { length } = counted.mock.calls;
    counted.mockRestore();
    return length;
  };
  const [short, long] = [steps(100), steps(400)];
  expect(short).toBeGreaterThanOrEqual(800);
  expect(long / short).toBeLessThan(4.5);
});
