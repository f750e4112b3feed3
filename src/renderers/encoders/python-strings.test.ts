import { expect, test } from "vitest";

import { ourModule } from "./encoders.test-helper.ts";
import { pythonStrings } from "./python-strings.ts";

const read = (source: string): Record<string, string> => Object.fromEntries(pythonStrings(source));

test("reads constants of a module, entries of dicts among them", () => {
  const strings = read(ourModule);
  expect(strings["bos_token"]).toBe("x");
  expect(strings["REASONING_EFFORT_TEMPLATE"]).toBe("Effort {budget} of 100.\n\n");
  expect(strings["REASONING_EFFORT_PROMPTS.high"]).toBe("Think well.\nThen answer.\n\n");
  expect(strings["REASONING_EFFORT_PROMPTS.low"]).toBe("");
  expect(strings["TOOLS_TEMPLATE"]).toMatch(/^Tools.*\n\{tool_schemas\}\nNo more tools\.$/);
});

test.each([
  [String.raw`A = "a\n\x41\u00e9\\"`, { A: "a\nA\u00e9\\" }],
  [String.raw`A = r"a\n" 'b'  # both`, { A: String.raw`a\nb` }],
  ['A = """a\r\n"b" """\r\nB = \'c\'\r\n', { A: 'a\n"b" ', B: "c" }],
  ['A = (\n  "a"  # one\n  # two\n  "b"\n)', { A: "ab" }],
  ['A = "first"\nA = "second"', { A: "first" }],
  ['A: Final[str] = "typed"', { A: "typed" }],
])("reads %j", (source, expected) => {
  expect(read(source)).toEqual(expected);
});

test.each([
  'A = "a" + B',
  'A = ("a" + B)',
  'A = f"{b}"',
  'A = "a',
  'A = """a',
  'A == "a"',
  ' A = "a"',
  'A = "a".upper()',
  String.raw`A = "\N{DASH}"`,
  'A = {"a": 1}',
  'A = {"a": "b"',
  "A = ",
])("passes over %j", (source) => {
  expect(read(source)).toEqual({});
});

test("reads on after what it cannot read", () => {
  expect(read('A = {"a": call()}\nB = ["x"]\nC = "c"')).toEqual({ C: "c" });
});
