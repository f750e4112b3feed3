// `serve` with a producer, killed as a machine kills it and restarted in the same folder: its
// trainer takes the batches that it would have taken without the kills, and the folder holds each
// group once. The process runs from dist/.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bundledProgram, killProcess } from "../../tests/bundled-program.ts";
import { openRunFolder } from "../store/index.ts";
import { runServer } from "./cli.test-helper.ts";

const isFull = process.env["FULL"] === "1";

let program = "";
let root = "";
let child: ChildProcess | null = null;
beforeEach(async () => {
  program = await bundledProgram("dist/cli/main.js");
  root = await mkdtemp(join(tmpdir(), "serve-kill-"));
});
afterEach(async () => {
  await killProcess(child);
  await rm(root, { recursive: true });
});

const argv = (folder: string): readonly string[] => [
  "serve",
  "--listen",
  "127.0.0.1:0",
  "--out",
  folder,
  "--concurrency",
  "4",
  "--write-samples",
];

/** Starts the service in the folder; resolves with its address. */
async function serve(folder: string): Promise<string> {
  const started = spawn(process.execPath, [program, ...argv(folder)], { stdio: ["ignore", "pipe", "pipe"] });
  child = started;
  let errors = "";
  started.stderr.on("data", (bytes: Buffer) => (errors += bytes.toString()));
  for await (const line of createInterface(started.stdout)) return line.trim();
  throw new Error(`The service ended: ${errors}`);
}

type Batch = {
  readonly status: string;
  readonly groups: readonly { readonly id: string; readonly episodes: readonly { readonly id: string }[] }[];
};

async function ask<T>(url: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<T> {
  const answer = await fetch(url, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
  return (await answer.json()) as T;
}

const wanted = { samples: 3, batch_groups: 2, max_staleness: 0, filters: ["zero-signal"], seed: 3 };

/**
 * Takes this many batches. `killsAt`: true to kill the service while it answers this request, or
 * before the answer is read.
 */
async function train(
  start: () => Promise<string>,
  { steps, killsAt }: { readonly steps: number; readonly killsAt: (request: number) => boolean },
): Promise<Batch[]> {
  let url = await start();
  let [requests, kills] = [0, 0];
  const send = async <T>(path: string, body: unknown): Promise<T> => {
    for (;;) {
      const answer = ask<T>(`${url}${path}`, body, { "idempotency-key": "the training" });
      if (!killsAt(requests++)) return answer;
      const isUnread = kills++ % 2 === 0;
      // A server that is killed while it answers may have answered in time.
      const heard = answer.catch(() => null);
      if (isUnread) await heard;
      await killProcess(child);
      await heard;
      url = await start();
    }
  };
  const batches: Batch[] = [];
  const { id } = await send<{ readonly id: string }>("/v1/producers", wanted);
  while (batches.length < steps) {
    const batch = await send<Batch>(`/v1/producers/${id}/batches/${batches.length}`, { wait_seconds: 60 });
    expect(batch.status).toBe("ready");
    batches.push(batch);
    await send("/v1/weights", { version: batches.length });
  }
  for (const [number, { groups }] of batches.entries()) {
    expect((await send<Batch>(`/v1/producers/${id}/batches/${number}`, {})).groups).toEqual(groups);
  }
  return batches;
}

async function recordsOf(folder: string) {
  const decided = new Map<string, string>();
  for await (const { groupId, decision, reason } of openRunFolder(folder).groups()) {
    expect(decided.has(groupId)).toBe(false);
    decided.set(groupId, reason ?? decision);
  }
  const played = new Set<string>();
  for await (const { id } of openRunFolder(folder).episodes()) {
    expect(played.has(id)).toBe(false);
    played.add(id);
  }
  const text = await readFile(join(folder, "samples.jsonl"), "utf8");
  return { decided, rows: text.split("\n").filter((line) => line !== "") };
}

test(
  "a service that is killed while its trainer asks hands over the batches of one that is not",
  { timeout: 300_000 },
  async () => {
    const steps = isFull ? 12 : 2;
    const [calm, hard] = [join(root, "calm"), join(root, "hard")];
    let batches: Batch[] = [];
    await runServer(
      async (url) => {
        batches = await train(async () => url, { steps, killsAt: () => false });
      },
      { argv: argv(calm) },
    );
    const killsAt = (request: number): boolean => (isFull ? request % 2 === 1 : [1, 4].includes(request));
    const killed = await train(() => serve(hard), { steps, killsAt });
    await killProcess(child);
    expect(killed.map(({ groups }) => groups)).toEqual(batches.map(({ groups }) => groups));
    const [one, two] = [await recordsOf(calm), await recordsOf(hard)];
    for (const { id } of batches.flatMap(({ groups }) => groups)) {
      expect([one.decided.get(id), two.decided.get(id)]).toEqual(["kept", "kept"]);
    }
    const kept = batches.length * wanted.batch_groups;
    expect([...two.decided.values()].filter((decision) => decision === "kept")).toHaveLength(kept);
    expect(two.rows.toSorted()).toEqual(one.rows.toSorted());
  },
);
