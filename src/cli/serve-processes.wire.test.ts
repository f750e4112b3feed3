// A service whose episodes run in two processes, or on a broker: requests over HTTP while workers
// die, while a trainer pauses for longer than any lease, and after the service itself was killed.
// The processes run from dist/.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as rest } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { bundledProgram, killProcess } from "../../tests/bundled-program.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import { type Broker, natsServer, startBroker } from "../queue/nats/broker.test-helper.ts";
import { createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";

const tokenizer = createReadableTokenizer();
const expert = createExpertSampler({ tokenizer, noise: 0.2 });
let calls = 0;
const slow: typeof expert = {
  sample: async (request) => {
    calls++;
    await rest(100);
    return expert.sample(request);
  },
};
const leaseMs = 3000;

let program = "";
let root = "";
let engine = "";
let closeFront = (): Promise<void> => Promise.resolve();
const running = new Set<ChildProcess>();
let broker: Broker | null = null;
beforeAll(async () => {
  program = await bundledProgram("dist/cli/main.js");
  root = await mkdtemp(join(tmpdir(), "serve-processes-"));
  const endTokenIds = [tokenizer.tokenId("<|im_end|>") ?? 0];
  const listener = await createSglangFront({ sampler: slow, tokenizer, endTokenIds }).listen();
  engine = listener.url;
  closeFront = () => listener.close();
});
afterEach(async () => {
  for (const child of running) await killProcess(child);
  await broker?.remove();
  broker = null;
});
afterAll(async () => {
  await closeFront();
  await rm(root, { recursive: true });
});

type Process = { readonly child: ChildProcess; readonly ended: Promise<number | null>; readonly said: () => string };

function start(...flags: readonly string[]): Process {
  const child = spawn(process.execPath, [program, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes: Buffer) => (said += bytes.toString()));
  const ended = new Promise<number | null>((resolve) => {
    child.once("exit", (code) => {
      running.delete(child);
      resolve(code);
    });
  });
  return { child, ended, said: () => said };
}

type Service = Process & { readonly url: string };

async function serve(out: string, workers: readonly string[]): Promise<Service> {
  const policy = ["--engine", "sglang", "--model", "readable", "--url", engine, "--seed-turns"];
  const lease = ["--queue-lease", String(leaseMs / 1000)];
  const service = start("serve", "--listen", "127.0.0.1:0", "--out", out, ...policy, ...workers, ...lease);
  const address = /http:\/\/127\.0\.0\.1:\d+/;
  const isUp = (): boolean =>
    service
      .said()
      .split("\n")
      .some((line) => address.test(line.replace(engine, "")));
  await expect.poll(isUp, { timeout: 60_000, message: service.said() }).toBe(true);
  return { ...service, url: address.exec(service.said().replaceAll(engine, ""))![0] };
}

type Group = {
  readonly id: string;
  readonly status: string;
  readonly episodes: readonly { readonly outcome: string; readonly reward: number | null }[];
};

async function send<T = Group>(url: string, body?: unknown, key?: string): Promise<T> {
  const headers = { "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": key }) };
  const answer = await fetch(
    url,
    body === undefined ? { headers } : { method: "POST", body: JSON.stringify(body), headers },
  );
  return (await answer.json()) as T;
}

/** Resolves with the group once it has ended. */
async function endedGroup(url: string, id: string): Promise<Group> {
  for (;;) {
    const group = await send(`${url}/v1/groups/${id}?wait_seconds=20`);
    if (group.status === "ended") return group;
  }
}

const group = (samples: number, wait: number) => ({ task_index: 2, samples, wait_seconds: wait });
const completed = (count: number): string[] => Array.from({ length: count }, () => "completed");
const outcomes = ({ episodes }: Group): string[] => episodes.map(({ outcome }) => outcome);

describe.each(["processes", "queue"] as const)("serve with %s", (kind) => {
  const atWork = async (
    name: string,
  ): Promise<{ readonly flags: readonly string[]; readonly workers: () => number[] }> => {
    if (kind === "processes") {
      const workers = (): number[] => {
        const [service] = [...running];
        const found = execFileSync("pgrep", ["-P", String(service!.pid!)], { encoding: "utf8" });
        return found.trim().split("\n").map(Number);
      };
      return { flags: ["--processes", "2"], workers };
    }
    broker = await startBroker();
    const flags = ["--queue", `nats://127.0.0.1:${broker.port}/${name}`];
    const workers = ["w1", "w2"].map((worker) => start("worker", ...flags, "--dir", root, "--name", worker));
    return { flags, workers: () => workers.map(({ child }) => child.pid!) };
  };

  test.skipIf(kind === "queue" && natsServer === undefined)(
    "workers that die change no answer, and a killed service goes on with what was requested",
    { timeout: 240_000 },
    async () => {
      const out = join(root, `killed-${kind}`);
      const { flags, workers } = await atWork("killed");
      let service = await serve(out, flags);
      const calm = await endedGroup(service.url, (await send(`${service.url}/v1/groups`, group(6, 0))).id);
      expect(outcomes(calm)).toEqual(completed(6));

      const first = await send(`${service.url}/v1/groups`, { ...group(8, 0), task_index: 3 }, "first");
      await rest(300);
      process.kill(workers()[0]!, "SIGKILL");
      const whole = await endedGroup(service.url, first.id);
      expect(outcomes(whole)).toEqual(completed(8));

      const second = await send(`${service.url}/v1/groups`, { ...group(8, 0), task_index: 4 }, "second");
      await rest(300);
      await killProcess(service.child);
      service = await serve(out, flags);
      // The same key gives the same group, before and after the restart.
      expect(await send(`${service.url}/v1/groups`, { ...group(8, 0), task_index: 3 }, "first")).toEqual(whole);
      const again = await send(`${service.url}/v1/groups`, { ...group(8, 0), task_index: 4 }, "second");
      expect(again.id).toBe(second.id);
      expect(outcomes(await endedGroup(service.url, second.id))).toEqual(completed(8));
      service.child.kill("SIGTERM");
      expect(await service.ended, service.said()).toBe(0);
    },
  );

  test.skipIf(kind === "queue" && natsServer === undefined)(
    "a trainer that pauses for longer than leases finds its episodes where they were, and one that never continues hinders no end",
    { timeout: 240_000 },
    async () => {
      const { flags, workers } = await atWork("paused");
      const service = await serve(join(root, `paused-${kind}`), flags);
      const { id } = await send(`${service.url}/v1/groups`, group(8, 0));
      await rest(500);
      const before = workers();
      expect(await send(`${service.url}/v1/pause`, {})).toMatchObject({ status: "paused" });
      await rest(3 * leaseMs);
      const paused = calls;
      expect(paused).toBeGreaterThan(0);
      expect((await send(`${service.url}/v1/groups/${id}`)).status).not.toBe("ended");
      await rest(leaseMs);
      expect(calls).toBe(paused);
      expect((await fetch(`${service.url}/health`)).status).toBe(200);
      expect(workers()).toEqual(before);
      await send(`${service.url}/v1/continue`, {});
      expect(outcomes(await endedGroup(service.url, id))).toEqual(completed(8));

      await send(`${service.url}/v1/groups`, { ...group(4, 0), task_index: 5 });
      await send(`${service.url}/v1/pause`, {});
      await rest(2 * leaseMs);
      service.child.kill("SIGTERM");
      expect(await service.ended, service.said()).toBe(0);
    },
  );
});
