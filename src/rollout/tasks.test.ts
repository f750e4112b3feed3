import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRandom, deriveSeed } from "../lib/random.ts";
import { createCurriculum, drawByPools, poolOf, type TaskRecord } from "./tasks.ts";

const record = (changes: Partial<TaskRecord>): TaskRecord => ({
  taskIndex: 0,
  visits: 0,
  graded: 10,
  passed: 5,
  ...changes,
});
const taskIndexes = Array.from({ length: 12 }, (_, index) => index);

describe("poolOf()", () => {
  it("puts tasks in pools by how often they were passed", () => {
    expect(poolOf(record({ graded: 0, passed: 0 }))).toBe("unknown");
    expect([10, 9, 8, 5, 2, 1, 0].map((passed) => poolOf(record({ passed })))).toEqual([
      "easy",
      "easy",
      "medium",
      "medium",
      "medium",
      "hard",
      "hard",
    ]);
    expect(poolOf(record({ passed: 5 }), { easy: 0.5, hard: 0.1 })).toBe("easy");
  });
});

describe("drawByPools()", () => {
  it("draws in proportion to the weights of the pools", () => {
    const tasks = [
      record({ taskIndex: 1, passed: 10 }),
      record({ taskIndex: 2 }),
      record({ taskIndex: 3, visits: 3 }),
      record({ taskIndex: 4, passed: 0 }),
    ];
    const draw = drawByPools();
    const counts = new Map<number, number>();
    for (let index = 0; index < 4000; index++) {
      const drawn = draw(tasks, createRandom(deriveSeed(1, index)));
      counts.set(drawn, (counts.get(drawn) ?? 0) + 1);
    }
    // Weights 0.1, 1, 1 and 0.25, with a sum of 2.35.
    const shares = [1, 2, 3, 4].map((index) => (counts.get(index) ?? 0) / 4000);
    for (const [place, share] of [0.043, 0.426, 0.426, 0.106].entries())
      expect(Math.abs(shares[place]! - share)).toBeLessThan(0.03);
  });

  it("lowers the weight of a task with every visit that brought no grade, and never to nothing", () => {
    const draw = drawByPools();
    const shareOf = (visits: number): number => {
      const tasks = [record({ taskIndex: 1 }), record({ taskIndex: 2, visits, graded: 0, passed: 0 })];
      const draws = Array.from({ length: 4000 }, (_, index) => draw(tasks, createRandom(deriveSeed(2, index))));
      return draws.filter((drawn) => drawn === 2).length / draws.length;
    };
    const shares = [0, 1, 2, 4, 100].map(shareOf);
    for (const [place, share] of [1 / 2, 1 / 3, 1 / 5, 1 / 17, 1 / 65].entries())
      expect(Math.abs(shares[place]! - share)).toBeLessThan(0.03);
    expect(shares.at(-1)).toBeGreaterThan(0);
  });

  it("still draws when every weight is zero", () => {
    const draw = drawByPools({ unknown: 0, easy: 0, medium: 0, hard: 0 });
    expect(draw([record({ taskIndex: 7 })], createRandom(1))).toBe(7);
  });
});

describe("createCurriculum()", () => {
  it("draws the same tasks whatever order groups are decided in, and waits for those it must see", () => {
    const rewards = (groupIndex: number, taskIndex: number): number[] =>
      [0, 1, 2, 3].map((sample) =>
        createRandom(deriveSeed(taskIndex, groupIndex, sample)).next() < taskIndex / 12 ? 1 : 0,
      );
    fc.assert(
      fc.property(
        fc.nat(),
        fc.integer({ min: 1, max: 10 }),
        fc.array(fc.nat(), { minLength: 1, maxLength: 40 }),
        (seed, lookahead, picks) => {
          const play = (order: readonly number[]): number[] => {
            const source = createCurriculum({ taskIndexes, seed, lookahead });
            const drawn: number[] = [];
            const open: number[] = [];
            for (let step = 0; drawn.length < 30; step++) {
              const next = source.next(drawn.length);
              if (typeof next === "number") open.push(drawn.push(next) - 1);
              if (next !== "later" && open.length < lookahead) continue;
              const [decided] = open.splice((order[step % order.length] ?? 0) % open.length, 1);
              source.report({
                groupIndex: decided!,
                taskIndex: drawn[decided!]!,
                rewards: rewards(decided!, drawn[decided!]!),
                isCancelled: false,
              });
            }
            return drawn;
          };
          expect(play(picks)).toEqual(play([0]));
        },
      ),
      { seed: 1, numRuns: 60 },
    );
  });

  it("turns to what is passed sometimes, and begins with what earlier runs know", () => {
    const source = createCurriculum({
      taskIndexes,
      seed: 5,
      lookahead: 1,
      known: taskIndexes.map((taskIndex) => ({ taskIndex, graded: 8, passed: taskIndex < 9 ? 8 : 4 })),
    });
    const drawn: number[] = [];
    for (let groupIndex = 0; groupIndex < 12; groupIndex++) {
      const taskIndex = source.next(groupIndex);
      if (typeof taskIndex !== "number") throw new Error("A task was expected.");
      drawn.push(taskIndex);
      source.report({ groupIndex, taskIndex, rewards: [1, 0, 1, 0], isCancelled: false });
    }
    expect(drawn.filter((index) => index >= 9).length).toBeGreaterThanOrEqual(7);
  });

  it.each([1, 4, 16])("leaves a task that cannot be graded, seeing all but %i groups", (lookahead) => {
    for (let seed = 0; seed < 20; seed++) {
      // Tasks that are always passed weigh a tenth of an unknown one.
      const source = createCurriculum({ taskIndexes: taskIndexes.slice(0, 6), seed, lookahead });
      let ungradable = 0;
      for (let groupIndex = 0; groupIndex < 122; groupIndex++) {
        const taskIndex = source.next(groupIndex) as number;
        if (taskIndex === 0) ungradable++;
        source.report({ groupIndex, taskIndex, rewards: taskIndex === 0 ? [] : [1, 1], isCancelled: false });
      }
      expect(ungradable).toBeLessThan(20);
    }
  });

  it("holds nothing against tasks whose groups were cancelled, and knows the visits of earlier runs", () => {
    const drawsOf = (isCancelled: boolean): number => {
      const source = createCurriculum({ taskIndexes: [0, 1], seed: 3, lookahead: 1 });
      let first = 0;
      for (let groupIndex = 0; groupIndex < 100; groupIndex++) {
        const taskIndex = source.next(groupIndex) as number;
        if (taskIndex === 0) first++;
        const rewards = taskIndex === 0 ? [] : [1, 0];
        source.report({ groupIndex, taskIndex, rewards, isCancelled: isCancelled && taskIndex === 0 });
      }
      return first;
    };
    expect(drawsOf(true)).toBeGreaterThan(35);
    expect(drawsOf(false)).toBeLessThan(15);
    const visited = createCurriculum({
      taskIndexes: [0, 1],
      seed: 3,
      lookahead: 1,
      known: [{ taskIndex: 0, graded: 0, passed: 0, visits: 9 }],
    });
    const draws = Array.from({ length: 3 }, (_, groupIndex) => {
      const taskIndex = visited.next(groupIndex) as number;
      visited.report({ groupIndex, taskIndex, rewards: [1, 0], isCancelled: false });
      return taskIndex;
    });
    expect(draws).toEqual([1, 1, 1]);
  });

  it("refuses a strategy that draws what is not there, no tasks, and a lookahead of nothing", () => {
    const source = createCurriculum({ taskIndexes, seed: 1, strategy: () => 99 });
    expect(() => source.next(0)).toThrow("the strategy chose 99");
    expect(() => createCurriculum({ taskIndexes: [], seed: 1 })).toThrow("no task");
    expect(() => createCurriculum({ taskIndexes, seed: 1, lookahead: 0 })).toThrow("lookahead is 0");
  });
});
