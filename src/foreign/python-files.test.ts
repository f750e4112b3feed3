// Numbers that Python tools write and standard JSON does not allow, in every format; and records
// that a file holds more than once.

import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { type ForeignEpisode, openForeignFile } from "./index.ts";
import { zipOf } from "./zip-file.test-helper.ts";

const folder = await mkdtemp(join(tmpdir(), "trainable-agents-python-files-"));
let count = 0;

async function read(name: string, content: string | Buffer) {
  const path = join(folder, `${count++}-${name}`);
  await writeFile(path, content);
  const repeated: string[] = [];
  const episodes: ForeignEpisode[] = [];
  const file = await openForeignFile(path, "x");
  for await (const one of file!.episodes({ onRepeated: (id) => repeated.push(id) })) episodes.push(one);
  return { format: file!.format, episodes, repeated };
}

/** The text that `json.dumps` writes: `"NaN"` stands for the number. */
const python = (value: object): string => JSON.stringify(value).replaceAll(/"(NaN|-?Infinity)"/g, "$1");
const inspectLog = (samples: readonly string[]): string =>
  `{"version": 2, "eval": {"task": "t", "model": "m"}, "samples": [${samples.join(",")}]}`;
const tau2File = (simulations: readonly string[]): string =>
  `{"info": {"environment_info": {"domain_name": "mock"}}, "tasks": [], "simulations": [${simulations.join(",")}]}`;

/** For each format, a record with a reward, and a file of such records. */
const formats: Readonly<
  Record<
    string,
    {
      readonly record: (id: number, reward: unknown) => object;
      readonly file: (records: readonly string[]) => string;
    }
  >
> = {
  slime: {
    record: (id, reward) => ({ index: id, prompt: "a", response: "b", tokens: [1, 2], response_length: 1, reward }),
    file: (records) => records.join("\n"),
  },
  verifiers: {
    record: (id, reward) => ({ example_id: id, prompt: "a", completion: "b", reward, metrics: { m: reward } }),
    file: (records) => records.join("\n"),
  },
  "verifiers-traces": {
    record: (id, score) => ({ id: `e${id}`, traces: [{ nodes: [], rewards: { a: { score }, b: { score: 1 } } }] }),
    file: (records) => records.join("\n"),
  },
  inspect: {
    record: (id, value) => ({ id, epoch: 1, scores: { s: { value } }, messages: [] }),
    file: inspectLog,
  },
  atif: {
    record: (id, reward) => ({ schema_version: "ATIF-v1.7", session_id: `s${id}`, steps: [], extra: { reward } }),
    file: (records) => records.join("\n"),
  },
  "tau-bench": {
    record: (id, reward) => ({ task_id: id, trial: 0, reward, info: {}, traj: [] }),
    file: (records) => `[${records.join(",")}]`,
  },
  "tau2-bench": {
    record: (id, reward) => ({ id: `s${id}`, task_id: "t", termination_reason: "user_stop", reward_info: { reward } }),
    file: tau2File,
  },
};

describe.each(Object.entries(formats))("a file of %s", (format, { record, file }) => {
  it.each(["NaN", "Infinity", "-Infinity"])("with %s is read, and that value is not scored", async (value) => {
    for (const place of [0, 1, 2]) {
      const records = [0, 1, 2].map((id) => python(record(id, id === place ? value : 1)));
      const found = await read("numbers", file(records));
      expect(found.format).toBe(format);
      const expected = (format === "verifiers-traces" ? 2 : 1) as number | null;
      expect(found.episodes.map(({ reward }) => reward)).toEqual(
        [0, 1, 2].map((id) => (id === place ? null : expected)),
      );
      for (const { scores } of found.episodes) {
        for (const score of Object.values(scores)) expect(Number.isFinite(score)).toBe(true);
      }
    }
  });

  it("with a recording several times has it once, and says so", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 8 }), async (ids) => {
        // Consecutive rows of slime are branches of one episode.
        const given = format === "slime" ? ids.filter((id, at) => id !== ids[at - 1]) : ids;
        const { episodes, repeated } = await read("copies", file(given.map((id) => python(record(id, 1)))));
        const distinct = [...new Set(given)];
        expect(episodes.length).toBe(distinct.length);
        expect(repeated.length).toBe(given.length - distinct.length);
        expect(new Set(episodes.map(({ recording }) => recording)).size).toBe(distinct.length);
      }),
      { numRuns: 15 },
    );
  });

  it("names a recording alike wherever it is", async () => {
    const [one, other] = [1, 2].map((id) => python(record(id, 1)));
    const first = await read("one", file([one!]));
    const second = await read("both", file([other!, one!]));
    expect(second.episodes.map(({ recording }) => recording)).toContain(first.episodes[0]!.recording);
  });
});

test("a simulation of τ²-bench is known by its id, whatever else a file says of it", async () => {
  const simulation = (id: string, task: string, trial: number): string =>
    JSON.stringify({ id, task_id: task, trial, termination_reason: "user_stop", reward_info: { reward: trial % 2 } });
  const { episodes, repeated } = await read(
    "ids",
    tau2File([simulation("s", "a", 0), simulation("s", "a", 1), simulation("s", "b", 0), simulation("r", "a", 1)]),
  );
  expect(episodes.map(({ id, taskId, trial }) => [id, taskId, trial])).toEqual([["s", "a", 0], ["s", "b", 0], ["r", "a", 1]]); // prettier-ignore
  expect(repeated).toEqual(["s"]);
  // A UUID also identifies the recording in another file, where it was evaluated again.
  const id = "0b8f9a34-6d1c-4f6e-9a51-52f6b7d1c001";
  const [before, after] = await Promise.all(
    [0, 1].map((trial) => read("uuid", tau2File([simulation(id, "a", trial)]))),
  );
  expect(after!.episodes[0]!.recording).toBe(before!.episodes[0]!.recording);
});

test("a folder of τ²-bench and a packed log of inspect are read alike", async () => {
  const place = join(folder, "dir");
  await mkdir(join(place, "simulations"), { recursive: true });
  await writeFile(join(place, "results.json"), '{"info": {"x": NaN}, "tasks": []}');
  const part = python(formats["tau2-bench"]!.record(0, "NaN"));
  for (const name of ["a.json", "b.json"]) await writeFile(join(place, "simulations", name), part);
  const episodes: ForeignEpisode[] = [];
  for await (const one of (await openForeignFile(place, "x"))!.episodes()) episodes.push(one);
  expect(episodes).toMatchObject([{ reward: null }]);
  const members = [
    { name: "header.json", text: Buffer.from('{"eval": {"task": "t"}}') },
    { name: "samples/a.json", text: Buffer.from(python({ id: 1, scores: { s: { value: "NaN" } } })) },
  ];
  expect((await read("log.eval", zipOf(members))).episodes).toMatchObject([{ reward: null, scores: {} }]);
});

// Grades are those of value_to_float() in inspect 0.3.285.
test.each([
  ["C", 1], ["I", 0], ["P", 0.5], ["N", 0], [true, 1], [false, 0], [0.25, 0.25], [3, 3],
  ["yes", 1], ["YES", 1], ["true", 1], ["no", 0], ["False", 0], ["0.5", 0.5], [" 1 ", 1], ["1e-1", 0.1], ["-2", -2], ["1_0", 10],
  ["c", 0], ["maybe", 0], ["", 0], ["nan", 0], ["inf", 0], ["0x10", 0],
  [null, null], [["C"], null], [{ a: 1 }, null],
])("inspect's %j is graded %j", async (value, reward) => {
  const log = inspectLog([JSON.stringify({ id: 1, epoch: 1, scores: { s: { value } } })]);
  const { episodes } = await read("grade.json", log);
  expect(episodes).toMatchObject([{ reward, scores: reward === null ? {} : { s: reward } }]);
}); // prettier-ignore
