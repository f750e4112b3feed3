// Programs whose disk fills up while they work, and has room again later: servers refuse requests
// meanwhile and serve the same ones afterwards, runs wait and have the same result as without it,
// and one that ends while the disk is full is resumed. The disk is a small one of its own; mounting
// it needs Linux and root. The processes run from dist/.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as rest } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bundledProgram, killProcess } from "../../tests/bundled-program.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import { openRunFolder } from "../store/index.ts";
import { createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { conservationViolations, episodeSamples } from "../trajectories/index.ts";

/** Reason why no disk of our own can be mounted; `null` if one can. */
const obstacle = ((): string | null => {
  if (process.platform !== "linux") return "it needs Linux";
  if (process.getuid?.() !== 0) return "it needs root, to mount a disk";
  return spawnSync("unshare", ["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0 ? null : "mount is refused";
})();

const tokenizer = createReadableTokenizer();
const expert = createExpertSampler({ tokenizer, noise: 0.2 });
let turnMs = 0;
let program = "";
let root = "";
let engine = "";
let closeEngine = (): Promise<void> => Promise.resolve();
/** Mount point of the disk, and the file that fills it. */
let disk = "";
const filler = (): string => join(disk, "filler");
const children: ChildProcess[] = [];

beforeAll(async () => {
  program = await bundledProgram("dist/cli/main.js");
  root = await mkdtemp(join(tmpdir(), "full-disk-"));
  const slow: typeof expert = { sample: async (request) => rest(turnMs).then(() => expert.sample(request)) };
  const endTokenIds = [tokenizer.tokenId("<|im_end|>") ?? 0];
  const listener = await createSglangFront({ sampler: slow, tokenizer, endTokenIds }).listen();
  engine = listener.url;
  closeEngine = () => listener.close();
});
afterAll(async () => {
  await closeEngine();
  await rm(root, { recursive: true });
});
beforeEach(async () => {
  disk = await mkdtemp(join(root, "disk-"));
  if (obstacle === null) execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", disk]);
});
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => killProcess(child)));
  if (obstacle === null) execFileSync("umount", [disk]);
});

async function fill(): Promise<void> {
  // Writes until the last page is used.
  await writeFile(filler(), Buffer.alloc(64 << 20)).catch(() => undefined);
}

const makeRoom = (): Promise<void> => rm(filler(), { force: true });

function start(...argv: readonly string[]) {
  const child = spawn(process.execPath, [program, ...argv], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  const written = { stdout: "", stderr: "" };
  child.stdout.on("data", (bytes: Buffer) => (written.stdout += bytes.toString()));
  child.stderr.on("data", (bytes: Buffer) => (written.stderr += bytes.toString()));
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, ...written }));
  const says = async (text: RegExp): Promise<RegExpExecArray> => {
    await expect.poll(() => text.test(written.stdout + written.stderr), { timeout: 30_000, interval: 10 }).toBe(true);
    return text.exec(written.stdout + written.stderr)!;
  };
  return { child, written, ended, says, url: async () => (await says(/http:\/\/127\.0\.0\.1:\d+/))[0] };
}

type Answer = { readonly status: number; readonly retryAfter: string | null; readonly body: Record<string, unknown> };

async function send(url: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const answer = await fetch(url, {
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    headers: { "content-type": "application/json", ...headers },
  });
  const retryAfter = answer.headers.get("retry-after");
  return { status: answer.status, retryAfter, body: (await answer.json()) as Record<string, unknown> };
}

/** Every episode that counts, exactly once, complete and with all tokens accounted for, by id. */
async function episodesOf(folder: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for await (const episode of openRunFolder(folder).episodes()) {
    expect(found.has(episode.id)).toBe(false);
    expect(conservationViolations(episode.trajectory, episodeSamples(episode))).toEqual([]);
    const sampled = episode.trajectory.turns.map(({ sampledTokens }) => Array.from(sampledTokens).join(" "));
    found.set(episode.id, JSON.stringify([episode.outcome, episode.reward, episode.failure, sampled]));
  }
  return new Map([...found].toSorted(([left], [right]) => (left < right ? -1 : 1)));
}

describe.skipIf(obstacle !== null)(`a full disk (skipped: ${obstacle ?? "no"})`, { timeout: 120_000 }, () => {
  const policy = (): string[] => ["--engine", "sglang", "--url", engine, "--model", "readable", "--seed-turns"];

  test("serve refuses requests with 503, and serves the same ones once there is room, also after a kill", async () => {
    turnMs = 20;
    const argv = ["serve", "--listen", "127.0.0.1:0", "--out", join(disk, "run"), ...policy()];
    let server = start(...argv);
    let url = await server.url();
    const group = (index: number, key: string): Promise<Answer> =>
      send(`${url}/v1/groups`, { task_index: index, group_size: 4, wait_seconds: 60 }, { "idempotency-key": key });
    expect((await group(0, "zero")).status).toBe(200);
    // Slow turns, so that no episode ends before the disk is full.
    turnMs = 1000;
    const inFlight = group(1, "one");
    await rest(100);
    await fill();
    turnMs = 20;
    for (const refused of [await inFlight, await group(2, "two")]) {
      expect([refused.status, refused.retryAfter]).toEqual([503, "5"]);
      expect(JSON.stringify(refused.body)).toContain("make room on the disk");
    }
    const health = await send(`${url}/healthz`);
    expect([health.status, health.body["status"]]).toEqual([503, "degraded"]);
    expect(health.body["reason"]).toContain("ENOSPC");
    await makeRoom();
    expect(await send(`${url}/health`)).toMatchObject({ status: 200, body: { status: "open" } });
    expect((await group(1, "one")).status).toBe(200);
    turnMs = 1000;
    const next = group(3, "three");
    await rest(100);
    await fill();
    turnMs = 20;
    expect((await next).status).toBe(503);
    server.child.kill("SIGKILL");
    await server.ended;
    await makeRoom();
    server = start(...argv);
    url = await server.url();
    for (const [index, key] of [
      [1, "one"],
      [2, "two"],
      [3, "three"],
    ] as const) {
      const { status, body } = await group(index, key);
      expect(status).toBe(200);
      for (const { outcome } of body["episodes"] as { readonly outcome: string }[]) expect(outcome).toBe("completed");
    }
    server.child.kill("SIGTERM");
    expect((await server.ended).code).toBe(0);
    expect((await episodesOf(join(disk, "run"))).size).toBe(16);
  });

  test("gateway refuses calls with 503, loses no session, and opens each once", async () => {
    turnMs = 20;
    const argv = ["gateway", "--listen", "127.0.0.1:0", "--out", join(disk, "run"), ...policy()];
    let server = start(...argv);
    let url = await server.url();
    const chat = (session: string, ...said: readonly string[]): Promise<Answer> =>
      send(
        `${url}/v1/chat/completions`,
        { model: "policy", messages: said.map((content) => ({ role: "user", content })) },
        { authorization: `Bearer ${session}` },
      );
    expect((await chat("one", "Hello.")).status).toBe(200);
    await fill();
    const full = async (ask: () => Promise<Answer>): Promise<void> => {
      const refused = await ask();
      expect([refused.status, refused.retryAfter]).toEqual([503, "5"]);
      expect(JSON.stringify(refused.body)).toContain("make room on the disk");
    };
    const named = (): Promise<Answer> => send(`${url}/v1/sessions`, { id: "named" });
    const unnamed = (): Promise<Answer> => send(`${url}/v1/sessions`, { task: "some" });
    // The first requests may still fit into the last page of the disk.
    await expect.poll(async () => (await chat("one", "Hello.", "Again.")).status).toBe(503);
    for (const ask of [named, unnamed, () => chat("two", "Hello.")]) await full(ask);
    expect((await send(`${url}/health`)).body).toMatchObject({ status: "degraded" });
    await makeRoom();
    expect((await send(`${url}/health`)).body).toMatchObject({ status: "ok" });
    expect((await chat("one", "Hello.", "Again.")).status).toBe(200);
    expect([(await named()).status, (await unnamed()).status]).toEqual([200, 200]);
    // The server begins to refuse in the middle of a call, and is killed then.
    await fill();
    await expect.poll(async () => (await chat("three", "Hello.")).status).toBe(503);
    server.child.kill("SIGKILL");
    await server.ended;
    await makeRoom();
    server = start(...argv);
    url = await server.url();
    expect((await chat("three", "Hello.")).status).toBe(200);
    for (const id of ["one", "three", "named"]) {
      expect((await send(`${url}/v1/sessions/${id}/end`, { reward: 1 })).status).toBe(200);
    }
    server.child.kill("SIGTERM");
    expect((await server.ended).code).toBe(0);
    expect([...(await episodesOf(join(disk, "run"))).keys()]).toEqual(["named", "one", "three"]);
  });

  const plan = (folder: string): string[] => [
    ...["rollout", ...policy(), "--tasks", "0-7", "--group-size", "4", "--seed", "4", "--quiet"],
    ...["--concurrency", "8", "--out", folder],
  ];

  test.each(["one process", "workers"])("rollout (%s) waits for it, or stops and is resumed", async (kind) => {
    turnMs = 10;
    const calm = start(...plan(join(root, `calm-${kind.length}`)));
    expect((await calm.ended).code).toBe(0);
    const expected = await episodesOf(join(root, `calm-${kind.length}`));
    turnMs = 60;
    const workers = kind === "workers" ? ["--processes", "2", "--queue-lease", "3"] : [];
    const folder = join(disk, "waits");
    const waiting = start(...plan(folder), ...workers);
    await expect
      .poll(
        () =>
          episodesOf(folder).then(
            ({ size }) => size,
            () => 0,
          ),
        { timeout: 30_000 },
      )
      .toBeGreaterThan(2);
    await fill();
    await waiting.says(/make room on the disk/);
    await rest(1500);
    await makeRoom();
    const waited = await waiting.ended;
    expect(waited.code, waited.stderr).toBe(0);
    expect(await episodesOf(folder)).toEqual(expected);
    await rm(folder, { recursive: true });
    if (kind === "workers") return;

    const stopping = start(...plan(folder), "--disk-wait", "1");
    await expect
      .poll(
        () =>
          episodesOf(folder).then(
            ({ size }) => size,
            () => 0,
          ),
        { timeout: 30_000 },
      )
      .toBeGreaterThan(2);
    await fill();
    const stopped = await stopping.ended;
    expect(stopped.code).toBe(1);
    expect(stopped.stderr).toMatch(/Cannot .*ENOSPC.*make room on the disk/);
    expect(stopped.stderr).not.toContain("should not happen");
    await makeRoom();
    const resumed = await start("rollout", "--resume", folder).ended;
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(await episodesOf(folder)).toEqual(expected);
  });

  test("train waits for it, or stops and is resumed", async () => {
    // Room for two runs, each with two checkpoints and their optimizers.
    execFileSync("mount", ["-o", "remount,size=32m", disk]);
    const flags = ["train", "--model", "bookshop-nano", "--groups", "2", "--group-size", "2", "--final-tasks", "3"];
    const short = ["--eval-tasks", "3", "--eval-every", "0", "--max-turns", "2", "--max-new-tokens", "8"];
    const argv = [...flags, ...short, "--threads", "1", "--checkpoint-every", "1", "--steps", "2", "--out"];
    const waiting = start(...argv, join(disk, "waiting"));
    await waiting.says(/before: /);
    await fill();
    await waiting.says(/make room on the disk/);
    await makeRoom();
    const waited = await waiting.ended;
    expect(waited.code, waited.stderr).toBe(0);

    // The first evaluation cannot be stored, and later the checkpoint of the second step.
    const folder = join(disk, "stopping");
    const stopping = start(...argv, folder, "--disk-wait", "1");
    await stopping.says(/writing to/);
    await fill();
    const refused = /Cannot keep the training in .*ENOSPC.*make room on the disk/;
    const stopped = await stopping.ended;
    expect([stopped.code, stopped.stderr]).toEqual([1, expect.stringMatching(refused)]);
    await makeRoom();
    const begun = await start("train", "--resume", folder, "--steps", "1").ended;
    expect(begun.code, begun.stderr).toBe(0);
    await fill();
    const again = await start("train", "--resume", folder, "--steps", "2").ended;
    expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(refused)]);
    await makeRoom();
    const resumed = await start("train", "--resume", folder, "--steps", "2").ended;
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain("2 steps are done");
  });

  test("a start on a full disk, and on one that is read-only, says so with a remedy and leaves nothing running", async () => {
    await mkdir(join(disk, "made"));
    await fill();
    for (const argv of [plan(join(disk, "run")), ["gateway", "--engine", "expert", "--out", join(disk, "run")]]) {
      const { code, stderr } = await start(...argv).ended;
      expect([code, stderr]).toEqual([2, expect.stringContaining("make room on the disk")]);
      expect(stderr).not.toContain("should not happen");
    }
    await makeRoom();
    execFileSync("mount", ["-o", "remount,ro", disk]);
    for (const argv of [plan(join(disk, "run")), ["train", "--minutes", "1", "--out", join(disk, "training")]]) {
      const { code, stderr } = await start(...argv).ended;
      expect([code === 0, stderr]).toEqual([false, expect.stringContaining("read-only")]);
      expect(stderr).not.toContain("should not happen");
    }
    execFileSync("mount", ["-o", "remount,rw", disk]);
  });
});
