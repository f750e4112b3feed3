// A teacher scores runs of the expert: the file beside the run, and the rows that trainers get.

import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

import { AttributedError, ConfigurationError, type Engine, type EngineFailureCode } from "../core/index.ts";
import type { Scorer } from "../core/scoring.ts";
import { readTeacherScores } from "../store/index.ts";
import type { ExportName } from "./export-run.ts";
import { exportRun, rollout, scoreRun } from "./functions.ts";

type Row = Readonly<Record<string, unknown>>;

/** The logprob that the teacher gives a token; a function of it and its place. */
const logprobOf = (id: number, place: number): number => -(1 + ((id + place) % 64)) / 8;

type Faults = {
  /** Number of the call that fails. */
  readonly failAt?: number;
  readonly code?: EngineFailureCode;
  readonly retryable?: boolean;
  /** Most tokens of its context. */
  readonly longest?: number;
};

/** A teacher that knows no model. */
function teacherOf(faults: Faults = {}) {
  const { failAt = Infinity, code = "bad-request", retryable = false, longest = Infinity } = faults;
  const calls: string[] = [];
  const engine: Engine & Scorer = {
    name: "fake",
    sample: () => Promise.reject(new Error("A teacher samples nothing.")),
    score: async ({ tokens, from, topTokens, routingKey }) => {
      calls.push(routingKey ?? "");
      const failure = (failed: EngineFailureCode): AttributedError =>
        new AttributedError({ boundary: "engine", code: failed, message: `It is ${failed}.`, retryable, cause: null });
      if (calls.length === failAt) throw failure(code);
      if (tokens.length > longest) throw failure("context-length");
      const logprobs = Float32Array.from(tokens.subarray(from), (id, at) => logprobOf(id, from + at));
      const size = logprobs.length * topTokens;
      const top = {
        width: topTokens,
        ids: Uint32Array.from({ length: size }, (_, at) => at % 50),
        logprobs: new Float32Array(size).fill(-1),
      };
      return { logprobs, top: topTokens === 0 ? null : top, weightVersion: "t1" };
    },
    close: () => Promise.resolve(),
  };
  return { engine, calls };
}

const root = mkdtempSync(join(tmpdir(), "score-run-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let count = 0;

async function makeRun(tasks = "0-2", options: object = {}): Promise<string> {
  const out = join(root, `run-${count++}`);
  await rollout({
    env: "bookshop",
    engine: "expert",
    model: "bookshop-nano",
    tasks,
    groupSize: 2,
    out,
    quiet: true,
    ...options,
  });
  return out;
}

async function rowsOf(run: string, format: ExportName): Promise<readonly Row[]> {
  const output = join(root, `rows-${count++}.jsonl`);
  await exportRun({ runs: run, format, output });
  const lines = readFileSync(output, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line.replaceAll("-Infinity", "-1e999")) as Row);
}

const linesOf = (run: string): string[] => readFileSync(join(run, "teacher-scores.jsonl"), "utf8").split("\n");

describe("rows of a scored run", () => {
  let scored: Promise<string> | null = null;
  /** The run, which all tests share. */
  const theRun = (): Promise<string> => (scored ??= makeScored());

  async function makeScored(): Promise<string> {
    const run = await makeRun();
    const result = await scoreRun({ run, teacher: teacherOf().engine, topTokens: 3 });
    expect(result).toMatchObject({ episodes: 6, scored: 6, known: 0, tooLong: 0, end: "done" });
    expect(result.tokens).toBeGreaterThan(100);
    return run;
  }

  test("slime: teacher_log_probs, aligned with the response", async () => {
    for (const row of await rowsOf(await theRun(), "slime")) {
      const tokens = row["tokens"] as readonly number[];
      const scores = row["teacher_log_probs"] as readonly number[];
      expect(scores).toHaveLength(row["response_length"] as number);
      const start = tokens.length - scores.length;
      expect(scores).toEqual(scores.map((_, at) => logprobOf(tokens[start + at]!, start + at)));
    }
  });

  test("tinker: teacher_logprobs, aligned with the targets", async () => {
    for (const row of await rowsOf(await theRun(), "tinker")) {
      const [targets, mask] = [row["target_tokens"], row["mask"]] as readonly number[][];
      const scores = row["teacher_logprobs"] as readonly number[];
      expect(scores).toHaveLength(targets!.length);
      for (const [at, isTrained] of mask!.entries()) {
        if (isTrained === 1) expect(scores[at]).toBe(logprobOf(targets![at]!, at + 1));
      }
      expect(scores[0]).toBe(0);
    }
  });

  test("verl: teacher_ids and teacher_logprobs at the place before the token, for all tokens", async () => {
    for (const row of await rowsOf(await theRun(), "verl")) {
      const fields = row["extra_fields"] as { teacher_ids: number[][]; teacher_logprobs: number[][] };
      const [prompt, response] = [row["prompt_ids"], row["response_ids"]] as readonly number[][];
      expect(fields.teacher_ids).toHaveLength(prompt!.length + response!.length);
      expect(fields.teacher_logprobs).toHaveLength(fields.teacher_ids.length);
      const filler = [[0, 0, 0]];
      expect(fields.teacher_logprobs.slice(0, prompt!.length - 1)).toEqual(prompt!.slice(1).map(() => filler[0]));
      expect(fields.teacher_logprobs[prompt!.length - 1]).toEqual([-1, -1, -1]);
      expect(fields.teacher_ids[prompt!.length - 1]).toEqual([0, 1, 2]);
      expect(fields.teacher_logprobs.at(-1)).toEqual([0, 0, 0]);
    }
  });

  test("TRL: the most probable tokens and the token itself, padded to one width", async () => {
    for (const row of await rowsOf(await theRun(), "trl")) {
      const tokens = [...(row["prompt_ids"] as number[]), ...(row["completion_ids"] as number[])];
      const start = (row["prompt_ids"] as number[]).length;
      const [ids, logprobs] = [row["teacher_topk_ids"], row["teacher_topk_logprobs"]] as readonly number[][][];
      expect(ids!.map((list) => list.length)).toEqual(tokens.map(() => 4));
      expect(ids![start - 1]).toEqual([-1, -1, -1, -1]);
      expect(logprobs![start - 1]).toEqual([-Infinity, -Infinity, -Infinity, -Infinity]);
      for (let at = start; at < tokens.length; at++) {
        const own = ids![at]!.indexOf(tokens[at]!);
        expect(own).toBeGreaterThanOrEqual(0);
        if (own === 3) expect(logprobs![at]![3]).toBe(logprobOf(tokens[at]!, at));
        else expect([ids![at]![3], logprobs![at]![3]]).toEqual([-1, -Infinity]);
      }
    }
  });

  test("other formats say that they have no place for them", async () => {
    const notices: string[] = [];
    const output = join(root, "rows.sft");
    await exportRun({
      runs: await theRun(),
      format: "sft-tokens",
      output,
      onNotice: (message) => notices.push(message),
    });
    expect(notices).toEqual([expect.stringContaining("no place for a teacher's logprobs")]);
    expect(Object.keys((await rowsOf(await theRun(), "samples"))[0]!)).not.toContain("teacher_log_probs");
  });

  test("without most probable tokens, verl gets the tokens' own", async () => {
    const other = await makeRun("0");
    const [before] = await rowsOf(other, "verl");
    expect(before!["extra_fields"]).not.toHaveProperty("teacher_ids");
    await scoreRun({ run: other, teacher: teacherOf().engine });
    const [row] = await rowsOf(other, "verl");
    const fields = row!["extra_fields"] as { teacher_ids: number[][]; teacher_logprobs: number[][] };
    const [prompt, response] = [row!["prompt_ids"], row!["response_ids"]] as readonly number[][];
    expect(fields.teacher_ids.slice(0, -1).flat()).toEqual([...prompt!, ...response!].slice(1));
    expect(fields.teacher_logprobs[prompt!.length]).toEqual([logprobOf(response![1]!, prompt!.length + 1)]);
  });
});

describe("scoreRun()", () => {
  test("continues after a failure, and after a kill in the middle of a line, without double work", async () => {
    const run = await makeRun("0-3");
    const first = teacherOf({ failAt: 4 });
    await expect(scoreRun({ run, teacher: first.engine, concurrency: 1 })).rejects.toThrow("It is bad-request.");
    expect(linesOf(run)).toHaveLength(1 + 3 + 1);
    appendFileSync(join(run, "teacher-scores.jsonl"), '{"id":"bookshop:train:0#0","samp');
    const second = teacherOf();
    expect(await scoreRun({ run, teacher: second.engine })).toMatchObject({ episodes: 8, known: 3, scored: 5 });
    expect(second.calls).toHaveLength(5);
    expect(new Set([...first.calls.slice(0, 3), ...second.calls]).size).toBe(8);
    const third = teacherOf();
    expect(await scoreRun({ run, teacher: third.engine })).toMatchObject({ known: 8, scored: 0, reverseKl: null });
    expect(third.calls).toHaveLength(0);
    for (const row of await rowsOf(run, "slime")) expect(row["teacher_log_probs"]).not.toBeNull();
  });

  test("retries what may pass", async () => {
    const run = await makeRun("0");
    const { engine, calls } = teacherOf({ failAt: 1, code: "overloaded", retryable: true });
    expect(await scoreRun({ run, teacher: engine })).toMatchObject({ scored: 2 });
    expect(calls).toHaveLength(3);
  });

  test("stops at a signal, and keeps what is scored", async () => {
    const run = await makeRun("0-2");
    const drain = new AbortController();
    const { engine } = teacherOf();
    const result = await scoreRun({
      run,
      teacher: engine,
      concurrency: 1,
      drain: drain.signal,
      onProgress: () => drain.abort(),
    });
    expect(result.end).toBe("interrupted");
    expect(linesOf(run).length - 2).toBe(result.scored);
    expect(await scoreRun({ run, teacher: engine })).toMatchObject({
      known: result.scored,
      scored: 6 - result.scored,
      end: "done",
    });
  });

  test("follows a run in progress until it ends", async () => {
    const out = join(root, "followed");
    const following: ReturnType<typeof scoreRun>[] = [];
    const { engine } = teacherOf();
    await rollout({
      env: "bookshop",
      engine: "expert",
      model: "bookshop-nano",
      tasks: "0-19",
      groupSize: 2,
      concurrency: 1,
      out,
      quiet: true,
      onEvent: () => {
        if (following.length === 0) following.push(scoreRun({ run: out, teacher: engine, follow: true }));
      },
    });
    expect(await following[0]).toMatchObject({ episodes: 40, scored: 40, end: "done" });
  });

  test("rows that do not fit the teacher have none, and an export says so", async () => {
    const run = await makeRun("0-2");
    const lengths = (await rowsOf(run, "slime")).map((row) => (row["tokens"] as number[]).length).sort((a, b) => a - b);
    const longest = lengths[2]!;
    const result = await scoreRun({ run, teacher: teacherOf({ longest }).engine });
    expect(result.tooLong).toBe(lengths.filter((length) => length > longest).length);
    const notices: string[] = [];
    const output = join(root, "too-long.jsonl");
    await exportRun({ runs: run, format: "slime", output, onNotice: (message) => notices.push(message) });
    expect(notices).toEqual([expect.stringContaining(`${result.tooLong} rows have no teacher's logprobs`)]);
  });

  test.each([
    [
      "another number of tokens",
      (run: string) => scoreRun({ run, teacher: teacherOf().engine, topTokens: 2 }),
      "topTokens",
    ],
    ["another engine", (run: string) => scoreRun({ run, teacher: { ...teacherOf().engine, name: "other" } }), "engine"],
    [
      "an engine that cannot score",
      (run: string) => scoreRun({ run, teacher: { ...unscoring, name: "fake" } }),
      "gives no logprobs",
    ],
    [
      "the expert",
      (run: string) => scoreRun({ run, teacher: "expert" }),
      "use one of sglang, vllm, llama-cpp, embedded",
    ],
    ["an unknown engine", (run: string) => scoreRun({ run, teacher: "nothing" }), "use one of"],
    ["no run", () => scoreRun({ run: join(root, "none"), teacher: "embedded" }), "there is no such folder"],
  ])("refuses %s", async (_, call, reason) => {
    const run = await makeRun("0");
    await scoreRun({ run, teacher: teacherOf().engine });
    const error: unknown = await call(run).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(String(error)).toContain(reason);
  });

  test("refuses a teacher with another vocabulary", async () => {
    const run = await makeRun("0", { model: "readable" });
    await expect(scoreRun({ run, teacher: "embedded", model: "bookshop-nano" })).rejects.toThrow(
      "their vocabularies differ",
    );
  });

  test("a changed line is found, by the next call and by an export", async () => {
    const run = await makeRun("0-1");
    await scoreRun({ run, teacher: teacherOf().engine });
    const path = join(run, "teacher-scores.jsonl");
    const lines = linesOf(run);
    lines[2] = lines[2]!.replace(/"from":(\d)/, '"from":$12');
    writeFileSync(path, lines.join("\n"));
    await expect(scoreRun({ run, teacher: teacherOf().engine })).rejects.toThrow("is not what was written");
    await expect(rowsOf(run, "slime")).rejects.toThrow("is not what was written");
    // Without the line, its episode is scored again.
    lines.splice(2, 1);
    writeFileSync(path, lines.join("\n"));
    expect(await scoreRun({ run, teacher: teacherOf().engine })).toMatchObject({ known: 3, scored: 1 });
  });

  test("scores of other tokens do not get into rows", async () => {
    const [run, other] = [await makeRun("0-1"), await makeRun("0-1", { seed: 9 })];
    await scoreRun({ run: other, teacher: teacherOf().engine });
    writeFileSync(join(run, "teacher-scores.jsonl"), readFileSync(join(other, "teacher-scores.jsonl")));
    await expect(rowsOf(run, "slime")).rejects.toThrow("scores are of other tokens");
  });

  test("records what the teacher said, bit by bit", async () => {
    const run = await makeRun("0");
    await scoreRun({ run, teacher: teacherOf().engine, topTokens: 1 });
    const reader = await readTeacherScores(run);
    expect(reader!.teacher).toEqual({ engine: "fake", model: null, weightVersion: null, topTokens: 1 });
    const [slime] = await rowsOf(run, "slime");
    const { episode_id: id } = slime!["metadata"] as { readonly episode_id: string };
    const [sample] = (await reader!.read(id))!.samples;
    expect(sample).toMatchObject({ branch: 0, scores: { weightVersion: "t1" } });
    expect([...sample!.scores!.logprobs]).toEqual(slime!["teacher_log_probs"]);
    expect(await reader!.read("nobody's")).toBeNull();
  });
});

const unscoring: Engine = {
  name: "fake",
  sample: () => Promise.reject(new Error("A teacher samples nothing.")),
  close: () => Promise.resolve(),
};
