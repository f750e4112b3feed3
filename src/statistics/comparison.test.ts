import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { createRandom } from "../lib/random.ts";
import { type ComparedRun, compareTasks, comparisonSentence } from "./comparison.ts";
import { bootstrapInterval, signFlipTest } from "./paired.ts";

describe("signFlipTest()", () => {
  // scipy 1.17: permutation_test((d,), mean, permutation_type="samples", n_resamples=inf).pvalue
  test.each([
    [[1, 1, 1, 1, 1, 0, 0], 0.0625],
    [[1, -1, 0.5, 0.25, -0.25, 0.75, 1, 0.5], 0.234375],
    [[0.31, 0.72, -0.115, 0.98, 0.4444, 0.618], 0.0625],
    [[Math.PI, Math.E, -Math.SQRT2, 1.1, 2.7, -0.3, 0.9], 0.125],
  ])("%j as scipy has it: %f", (differences, p) => {
    expect(signFlipTest(differences)).toEqual({ p: expect.closeTo(p, 12) as number, isExact: true });
  });

  it("is the same by enumeration as by the table of sums", () => {
    const sizes = fc.array(fc.integer({ min: -8, max: 8 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(sizes, (whole) => {
        // Scaling by an irrational factor leaves no common unit up to 1/5,040, so these are
        // enumerated.
        const table = signFlipTest(whole.map((size) => size / 8));
        const enumerated = signFlipTest(whole.map((size) => (size / 8) * Math.SQRT2));
        expect(enumerated.p).toBeCloseTo(table.p, 9);
      }),
    );
  });

  it("is exact for thousands of tasks with equal trials, and says so where it is not", () => {
    const random = createRandom(3);
    const rates = Array.from({ length: 3000 }, () => (random.integer(9) - 4 + (random.next() < 0.1 ? 1 : 0)) / 8);
    expect(signFlipTest(rates).isExact).toBe(true);
    const odd = Array.from({ length: 60 }, () => random.next() - 0.4);
    const first = signFlipTest(odd, { seed: 1 });
    expect(first.isExact).toBe(false);
    expect(signFlipTest(odd, { seed: 1 })).toEqual(first);
    expect(signFlipTest([0, 0, 0])).toEqual({ p: 1, isExact: true });
    expect(signFlipTest([])).toEqual({ p: 1, isExact: true });
  });
});

describe("bootstrapInterval()", () => {
  it.each([
    [5, 0.5, 0.5],
    [10, 0.9, 0.9],
    [10, 0.5, 0.8],
    [30, 0.2, 0.3],
    [100, 0.6, 0.65],
  ])("covers the true difference with %i tasks that pass at %f and %f", (tasks, before, after) => {
    const random = createRandom(tasks);
    let covered = 0;
    for (let run = 0; run < 200; run++) {
      const differences = Array.from(
        { length: tasks },
        () => Number(random.next() < after) - Number(random.next() < before),
      );
      const { low, high } = bootstrapInterval(differences, { seed: run })!;
      if (low <= after - before && after - before <= high) covered++;
    }
    expect(covered).toBeGreaterThanOrEqual(184);
  });

  it("has a width where all tasks agree, and none is known of one task", () => {
    expect(bootstrapInterval([0, 0, 0, 0])!.high).toBeGreaterThan(0.2);
    expect(bootstrapInterval([1])).toBeNull();
    expect(bootstrapInterval([0.5, 0.25, 0], { seed: 4 })).toEqual(bootstrapInterval([0.5, 0.25, 0], { seed: 4 }));
  });
});

const task = (taskId: string, contentHash: string | null, ...rewards: (number | null)[]) => ({
  taskId,
  contentHash,
  episodes: rewards.map((reward, at) => ({ id: `${taskId}-${at}`, reward })),
});

describe("compareTasks()", () => {
  const before: ComparedRun = {
    name: "before",
    tasks: [
      task("t:1", "a", 1, 1),
      task("t:2", "b", 0, 0),
      task("t:3", "c", 1, 0),
      task("t:10", "d", 1, 1),
      task("t:9", "e", 1, 1),
      task("t:11", "f", null),
      task("t:12", "g", 1),
      task("t:13", "h", 0),
    ],
  };
  const after: ComparedRun = {
    name: "after",
    tasks: [
      // A task with another id and the same content.
      task("renamed", "a", 0, 1),
      task("t:2", "b", 1, 1),
      task("t:3", "c", 1, 0),
      task("t:10", "d", 1, 1),
      task("t:9", "e", 1, 1),
      task("t:11", "f", 1),
      task("t:12", "other", 1),
      task("t:14", "i", 1),
    ],
  };

  it("matches tasks by content, counts what has no match, and puts flips first", () => {
    const { pairs, rows, runs } = compareTasks([before, after]);
    expect(pairs).toMatchObject([
      {
        tasks: 5,
        byId: 0,
        unmatched: { baselineOnly: 2, otherOnly: 2, ungraded: 1, contentChanged: 1 },
        lost: 1,
        gained: 1,
        passRate: { baseline: 0.7, other: 0.8, mean: expect.closeTo(0.1, 9) as number, p: 1, isExact: true },
      },
    ]);
    expect(rows.map(({ taskId, changes }) => [taskId, ...changes])).toEqual([
      ["t:1", "lost"],
      ["t:2", "gained"],
      ["t:3", "same"],
      ["t:9", "same"],
      ["t:10", "same"],
      ["t:11", null],
    ]);
    expect(runs[0]).toEqual({ name: "before", tasks: 8, episodes: 13, graded: 12 });
  });

  it("matches by id where a run does not record content, and says of how many", () => {
    const tasks = after.tasks.map((one) => ({ ...one, contentHash: null }));
    const { pairs } = compareTasks([before, { name: "after", tasks }]);
    expect(pairs[0]).toMatchObject({ tasks: 5, byId: 6, unmatched: { contentChanged: 0, ungraded: 1 } });
  });

  it("is the same in whatever order the tasks of the runs ended", () => {
    const random = createRandom(5);
    const rewards = Array.from(
      { length: 15 },
      (_, at) => [at % 7 ? 1 : 0, at % 3 ? 0.3 : 0.1, at % 4 ? 1 : 0.7] as const,
    );
    const runOf = (name: string, list: typeof rewards) => ({
      name,
      tasks: list.map((three, at) => task(`t:${at}`, `h${at}`, ...(name === "one" ? three : [three[2], 0]))),
    });
    const compared = (shuffle: boolean) => {
      const runs = [runOf("one", rewards), runOf("other", rewards)];
      const { pairs } = compareTasks(runs.map((run) => (shuffle ? { ...run, tasks: random.shuffle(run.tasks) } : run)));
      return pairs;
    };
    const ordered = compared(false);
    for (let time = 0; time < 10; time++) expect(compared(true)).toEqual(ordered);
  });

  it("compares each later run with the first", () => {
    const { pairs, rows } = compareTasks([before, after, before]);
    expect(pairs.map(({ baseline, other }) => `${baseline} ${other}`)).toEqual(["before after", "before before"]);
    expect(pairs[1]).toMatchObject({ tasks: 7, lost: 0, gained: 0, passRate: { mean: 0, p: 1 } });
    expect(rows[0]!.changes).toEqual(["lost", "same"]);
    expect(() => compareTasks([before])).toThrow("there are 1, expected at least 2");
  });

  it("says what came out in a sentence", () => {
    expect(comparisonSentence(compareTasks([before, after]).pairs[0]!)).toMatch(
      /^after against before: no clear difference\. Pass rate 80\.0 % against 70\.0 % over 5 tasks: \+10\.0 points \[-\d+\.\d to \+\d+\.\d\] \(p = 1\.00\), 1 lost, 1 gained\.$/,
    );
    const score = (name: string, by: number): ComparedRun => ({
      name,
      tasks: Array.from({ length: 12 }, (_, at) => task(`g:${at}`, null, at * 7 + by + 2)),
    });
    expect(comparisonSentence(compareTasks([score("a", 5), score("b", 0)]).pairs[0]!)).toMatch(
      /^b against a: worse\. Mean reward 40\.500 against 45\.500 over 12 tasks: -5\.000 \[.*\] \(p = 0\.0005\)\.$/,
    );
    expect(comparisonSentence(compareTasks([before, { name: "none", tasks: [] }]).pairs[0]!)).toBe(
      "none and before have no graded task in common.",
    );
  });
});
