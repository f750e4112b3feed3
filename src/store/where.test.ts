import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { createRandom, type Random } from "../lib/random.ts";
import { parseWhere, type WhereFields } from "./index.ts";

const fields: WhereFields = {
  reward: 0.5,
  outcome: "completed",
  stop_reason: "tool_ended",
  environment: "desk",
  split: "train",
  task_id: 'desk:"3"',
  task_index: 3,
  group_id: "g",
  group_mean: null,
  decision: "kept",
  episode_id: "e",
  sample_index: 0,
  run: null,
  turns: 4,
  tokens: 1_000,
  sampled_tokens: 50,
  samples: 1,
  problems: 0,
  history_policy: "append-only",
};

describe("parseWhere()", () => {
  it.each([
    ["reward >= 0.5", true],
    ["reward > .5", false],
    ["reward == 5e-1", true],
    ["reward != -1", true],
    ["turns < 4 or turns <= 4", true],
    ["outcome == 'completed' and not problems > 0", true],
    ['not (outcome == "completed" and reward == 0.5)', false],
    ["not not turns == 4", true],
    ['task_id == "desk:\\"3\\""', true],
    ['stop_reason in ("max_turns", "tool_ended")', true],
    ['stop_reason not in ("max_turns", "tool_ended")', false],
    ['not stop_reason in ("max_turns")', true],
    ["run in (null)", true],
    // "and" binds closer than "or".
    ["turns == 4 or turns == 4 and turns == 0", true],
    ["(turns == 4 or turns == 4) and turns == 0", false],
    // Null equals only null, and has no order.
    ["group_mean == null", true],
    ["group_mean != null", false],
    ["group_mean < 1 or group_mean >= 1", false],
    ["reward==0.5and turns==4", true],
    ['outcome < "d"', true],
  ])("%s is %s", (expression, wanted) => {
    expect(parseWhere(expression)(fields)).toBe(wanted);
  });

  it.each([
    ["", 1, "expected a comparison here"],
    ["reward", 7, 'expected a comparison (==, !=, <, <=, >, >=, in) after "reward"'],
    ["reward = 1", 8, 'a comparison is written "=="'],
    ["reward => 1", 8, 'a comparison is written "=="'],
    ["reward == 1 && turns == 1", 13, '"and" is written as a word'],
    ["reward == 1 || turns == 1", 13, '"or" is written as a word'],
    ["!turns == 1", 1, '"not" is written as a word'],
    ["rewrad == 1", 1, 'there is no field "rewrad"; the fields are reward, outcome'],
    ["constructor == 1", 1, 'there is no field "constructor"'],
    ["outcome == completed", 12, 'put strings in quotes: "completed"'],
    ['outcome == "completed', 12, "the text is not closed"],
    ['reward == "1"', 11, '"reward" is compared with a number'],
    ["outcome == 1", 12, '"outcome" is compared with a text in quotes'],
    ["reward < null", 10, "null has no order"],
    ["(reward == 1", 13, 'expected ")" here'],
    ["reward == 1)", 12, 'expected "and" or "or" before ")"'],
    ["reward == 1 turns == 2", 13, 'expected "and" or "or" before "turns"'],
    ["outcome in ()", 13, "expected a value here"],
    ['outcome in "a"', 12, 'expected "(" here'],
    ["reward == 1; drop", 12, '";" is not expected here'],
    ["turns == process.exit(1)", 17, '"." is not expected here'],
    ["turns == process", 10, "expected a value"],
    ["1 == 1", 1, 'expected a field here, not "1"'],
    ["(".repeat(200), 101, "nested deeper than 100 levels"],
  ])("refuses %s and shows the place", (expression, place, problem) => {
    let message = "";
    try {
      parseWhere(expression);
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigurationError);
      message = String(error);
    }
    expect(message).toContain(`at character ${place}: `);
    expect(message).toContain(problem);
    expect(message).toMatch(/\n {2}.*\n {2} *\^$/);
  });

  it("agrees with JavaScript on random expressions", () => {
    const random = createRandom(7);
    for (let round = 0; round < 200; round++) {
      const { ours, theirs } = randomExpression(random, 4);
      // The expected tree is built independently of the text, so precedence and parentheses are
      // checked without the parser.
      expect([ours, parseWhere(ours)(fields)]).toEqual([ours, theirs]);
    }
  });

  it("reads or refuses whatever it is given", () => {
    const random = createRandom(11);
    const parts = [
      "turns == 4",
      "turns",
      "outcome",
      "==",
      "<",
      "(",
      ")",
      "not",
      "and",
      "or",
      "in",
      '"x"',
      "'",
      "1",
      "null",
      "é",
    ];
    let read = 0;
    for (let round = 0; round < 1_000; round++) {
      const text = Array.from({ length: random.integer(7) }, () => random.pick(parts)).join(
        random.pick(["", " ", " "]),
      );
      try {
        expect(typeof parseWhere(text)(fields)).toBe("boolean");
        read++;
      } catch (error) {
        if (!(error instanceof ConfigurationError)) throw error;
      }
    }
    expect(read).toBeGreaterThan(0);
  });
});

function randomExpression(random: Random, depth: number): { readonly ours: string; readonly theirs: boolean } {
  const kind = depth === 0 ? 0 : random.integer(4);
  if (kind === 0) {
    const value = random.integer(9);
    const compared = random.pick([
      ["==", 4 === value],
      ["!=", 4 !== value],
      ["<", 4 < value],
      [">=", 4 >= value],
    ] as const);
    return { ours: `turns ${compared[0]} ${value}`, theirs: compared[1] };
  }
  const left = randomExpression(random, depth - 1);
  if (kind === 1) return { ours: `not (${left.ours})`, theirs: !left.theirs };
  const right = randomExpression(random, depth - 1);
  if (kind === 2) return { ours: `(${left.ours}) and (${right.ours})`, theirs: left.theirs && right.theirs };
  return { ours: `(${left.ours}) or (${right.ours})`, theirs: left.theirs || right.theirs };
}
