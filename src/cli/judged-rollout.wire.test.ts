// A rollout that models grade, by command line: a judge at a real socket, its answers in a file,
// and the run repeated from only that file.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createTestCli } from "./cli.test-helper.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

type Asked = {
  readonly response_format: { readonly json_schema: { readonly schema: { readonly required: string[] } } };
};

/** Gives scores by position of the criterion: 1, 1/2, ...; answers with `fault` if it is given. */
async function serveJudge(fault: string | null = null) {
  const asked: Asked[] = [];
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      outgoing.setHeader("content-type", "application/json");
      if (incoming.url?.endsWith("/models")) return outgoing.end(JSON.stringify({ data: [{ id: "judge" }] }));
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Asked;
      asked.push(body);
      const scores = body.response_format.json_schema.schema.required.map((name, place) => {
        return [name, { reason: `it is ${name}`, score: 1 / (1 + place) }];
      });
      const content = fault ?? JSON.stringify(Object.fromEntries(scores));
      const usage = { prompt_tokens: 100, completion_tokens: 10 };
      return outgoing.end(JSON.stringify({ choices: [{ message: { content }, finish_reason: "stop" }], usage }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
}

const rubric = { criteria: [{ name: "helpful", description: "It helped.", scale: [0, 1] }] };

async function prepare() {
  const cli = await createTestCli();
  await writeFile(join(cli.folder, "rubric.json"), JSON.stringify(rubric));
  const run = (out: string, ...flags: readonly string[]) =>
    cli.run(
      ...["rollout", "--env", "bookshop", "--engine", "expert", "--tasks", "0-1", "--group-size", "2", "--out", out],
      ...["--rubric", "rubric.json", "--ranking", "on", "--judge-cache", "answers.jsonl", ...flags],
    );
  /** Episodes without times. */
  const episodes = async (out: string): Promise<unknown[]> => {
    const text = await readFile(join(cli.folder, out, "episodes.jsonl"), "utf8");
    const lines = text.trim().split("\n").toSorted();
    return lines.map(
      (line) => JSON.parse(line.replaceAll(/"(durationMs|crc32)":("[^"]*"|[\d.e-]+)/g, '"$1":0')) as unknown,
    );
  };
  return { cli, run, episodes };
}

describe("rollout --rubric --ranking", () => {
  it("asks a judge, records its answers, and plays the same run again from them without a model", async () => {
    const { cli, run, episodes } = await prepare();
    const judge = await serveJudge();
    const { code, stdout, stderr } = await run("first", "--judge-url", judge.url, "--judge-model", "judge");
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stdout).toMatch(/judge +6 calls/);
    expect(judge.asked).toHaveLength(6);
    expect((await readFile(join(cli.folder, "answers.jsonl"), "utf8")).trim().split("\n")).toHaveLength(6);
    const first = (await episodes("first")) as { reward: number; grade: { metrics: object } }[];
    // The ranking gives 1 to one episode of a group and 1/2 to the other; the rubric gives 1 to
    // all.
    expect(first.map(({ reward }) => reward).toSorted((a, b) => a - b)).toEqual([0.75, 0.75, 1, 1]);
    expect(first[0]?.grade.metrics).toMatchObject({ rubric: 1, "rubric.helpful": 1 });

    const again = await run("second");
    expect(again.code).toBe(0);
    expect(judge.asked).toHaveLength(6);
    expect(await episodes("second")).toEqual(first);

    const shown = await cli.run("inspect", "first", "1");
    expect(shown.stdout).toContain("judge judge, rubric");
    expect(shown.stdout).toContain("it is helpful");
  });

  it("ends with failures at the grader, and no reward, where the judge answers garbage", async () => {
    const { run, episodes } = await prepare();
    const judge = await serveJudge("All of them were great: 10/10!");
    const { stdout } = await run("run", "--judge-url", judge.url, "--judge-model", "judge");
    expect(stdout).toContain("grader/malformed-reply");
    for (const episode of await episodes("run")) {
      expect(episode).toMatchObject({ reward: null, failure: { cause: "All of them were great: 10/10!" } });
    }
  });

  it.each([
    [["--judge-url", "http://127.0.0.1:1/v1", "--judge-model", "m"], "Cannot reach the server of the judge's model"],
    [["--rubric", "none.json"], 'Cannot read "none.json"'],
  ])("refuses %j before anything runs", async (flags, message) => {
    const { run } = await prepare();
    const { code, stderr } = await run("run", ...flags);
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining(message) as string });
  });
});
