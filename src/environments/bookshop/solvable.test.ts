import { expect, test } from "vitest";
import { bookshopSource, expertAction } from "./index.ts";
import { play } from "./play.test-helper.ts";

/** BOOKSHOP_TASKS=all runs every task of all these splits: minutes instead of seconds. */
const isFullRun = process.env["BOOKSHOP_TASKS"] === "all";
const source = bookshopSource();

test.each([
  ["train", 2000],
  ["validation", 1000],
  ["test", 500],
  ["fresh:7", 500],
] as const)(
  "the expert without noise solves every task of %s from the conversation alone",
  async (split, count) => {
    const tasks = source.taskset(split);
    const unsolved: string[] = [];
    const seen = new Set<string>();
    let longest = 0;
    for (let index = 0; index < (isFullRun ? tasks.size : count); index++) {
      const task = tasks.task(index);
      const { grade, stop, lines, prompt } = await play(source, task, (text) => expertAction(text).text, {
        seed: index,
      });
      const { info } = source.open(task);
      seen.add(`${JSON.stringify(info.get("kind"))} level ${JSON.stringify(info.get("level"))}`);
      longest = Math.max(longest, prompt.length);
      if (grade.reward !== 1 || stop === "max_turns" || grade.metrics["ruleViolations"] !== 0) {
        const text = lines.map((line) => `${line.role}: ${line.text}`).join("\n");
        unsolved.push(`${task.id} (${stop}): ${grade.log}\n${text}`);
      }
    }
    expect(unsolved).toEqual([]);
    expect(seen.size).toBe(21);
    // Short enough for a model of a million parameters, with room to spare.
    expect(longest).toBeLessThan(6500);
  },
  isFullRun ? 1_200_000 : 60_000,
);

test("the same task and seed give the same conversation, word for word, and another seed other words", async () => {
  const tasks = source.taskset("train");
  const texts = async (seed: number): Promise<string[]> => {
    const played: string[] = [];
    for (let index = 0; index < 42; index++) {
      const { prompt, digest } = await play(source, tasks.task(index), (text) => expertAction(text).text, { seed });
      played.push(`${digest} ${prompt}`);
    }
    return played;
  };
  const [first, again, other] = [await texts(1), await texts(1), await texts(2)];
  expect(again).toEqual(first);
  expect(other.filter((text, index) => text === first[index]).length).toBeLessThan(15);
});

test("the more noise, the fewer tasks the expert solves", async () => {
  const tasks = source.taskset("validation");
  const rates: number[] = [];
  for (const noise of [0, 0.1, 0.3, 1]) {
    let solved = 0;
    for (let index = 0; index < 210; index++) {
      const agent = (text: string): string => expertAction(text, { noise, seed: 7 }).text;
      solved += (await play(source, tasks.task(index), agent)).grade.reward;
    }
    rates.push(solved / 210);
  }
  expect(rates[0]).toBe(1);
  expect(rates[1]).toBeGreaterThan(0.6);
  expect(rates[1]).toBeLessThan(0.9);
  expect(rates[2]).toBeLessThan(0.6);
  expect(rates[2]).toBeGreaterThan(0.2);
  expect(rates[3]).toBeLessThan(0.02);
});
