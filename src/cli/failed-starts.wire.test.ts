// Starts that fail at each resource that they open, after those opened before it: one message, the
// exit code, and a process that ends by itself, because nothing is left open. Real processes of
// dist/; the queue's cases need a broker (NATS_SERVER).

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as rest } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bundledProgram } from "../../tests/bundled-program.ts";
import { hostileServer } from "../environments/remote/mcp/hostile-server.test-helper.ts";
import { natsServer } from "../queue/nats/broker.test-helper.ts";

/** Runs every case with `npm run test:full`; otherwise every third case of a command. */
const isFull = process.env["FULL"] === "1";

let program = "";
let root = "";
let preload = "";
/** A server that accepts connections and never answers. */
let silent: Server;
const sockets: Socket[] = [];
let made = 0;

beforeAll(async () => {
  program = await bundledProgram("dist/cli/main.js");
  root = await mkdtemp(join(tmpdir(), "failed-starts-"));
  preload = join(root, "preload.mjs");
  // Node emits "beforeExit" when nothing is open any more, but not when code ends the process.
  await writeFile(
    preload,
    'import { writeSync } from "node:fs"; process.on("beforeExit", () => writeSync(2, "\\n[nothing is open]"));',
  );
  silent = createServer((socket) => void sockets.push(socket));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  await writeFile(join(root, "throws.mjs"), 'throw new Error("no shelf");\n');
  await writeFile(join(root, "timer.mjs"), "setInterval(() => undefined, 1000);\nexport default 7;\n");
  await writeFile(join(root, "worker-only.mjs"), workerOnly);
  await writeFile(join(root, "tasks.jsonl"), '{"id": "one"}\n');
  await writeFile(join(root, "mcp-tasks.jsonl"), '{"id": "one", "instruction": "Add.", "grader": "./grader.mjs"}\n');
  await writeFile(join(root, "grader.mjs"), "export default () => 1;\n");
  await mkdir(join(root, "taken"));
  await writeFile(join(root, "taken", "something"), "");
  await mkdir(join(root, "locked"));
  const holder = { pid: process.pid, began: null, host: hostname(), since: "today" };
  await writeFile(join(root, "locked", "run.lock"), JSON.stringify(holder));
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  silent.close();
  await rm(root, { recursive: true });
});

/** An environment that loads in the started process, but not in its workers. */
const workerOnly = `
if (process.argv[1].includes("worker-process")) throw new Error("not in a worker");
const { bookshopSource } = await import(process.env.BOOKSHOP);
export default bookshopSource();
`;

type Ended = { readonly code: number | null; readonly stderr: string; readonly lingeredMs: number };

/** `said`: part of the message after which the process must end. */
async function run(
  argv: readonly string[],
  said: RegExp,
  onStart: (pid: number) => void = () => undefined,
): Promise<Ended> {
  const bookshop = pathToFileURL(join(program, "../../../../dist/environments/bookshop/index.js")).href;
  const child = spawn(process.execPath, ["--import", pathToFileURL(preload).href, program, ...argv], {
    cwd: root,
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: process.env["PATH"], HOME: root, BOOKSHOP: bookshop },
  });
  onStart(child.pid!);
  let stderr = "";
  let saidAt = performance.now();
  child.stderr.on("data", (bytes: Buffer) => {
    if (!said.test(stderr)) saidAt = performance.now();
    stderr += bytes.toString();
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
  const [code] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  return { code, stderr, lingeredMs: performance.now() - saidAt };
}

const nowhere = "http://127.0.0.1:1";
const port = (): number => (silent.address() as AddressInfo).port;
const out = (): string[] => ["--out", join(root, `run-${made++}`)];
const expert = ["--engine", "expert", "--tasks", "0"];
const sglang = ["--engine", "sglang", "--model", "readable", "--tasks", "0", "--engine-wait", "0.2"];

/** A server of tools that starts, and one task. */
const tools = (): string[] => ["--env", `mcp:${hostileServer("add").address}`, "--env-tasks", "mcp-tasks.jsonl"];

type Case = {
  readonly argv: () => readonly string[];
  readonly says: RegExp;
  /** Exit code. Default: 2. */
  readonly code?: number;
  /**
   * False if a module of the user's has left a handle open, so that the process is ended. Default:
   * true.
   */
  readonly endsByItself?: boolean;
};

const refused = /ECONNREFUSED|refused|reach|connect/i;
const parts: Readonly<Record<string, Case>> = {
  "an engine that is not there": { argv: () => [...sglang, "--url", nowhere], says: refused },
  "an engine that says nothing": {
    argv: () => [...sglang, "--url", `http://127.0.0.1:${port()}`, "--first-byte-timeout", "1", "--turn-timeout", "1"],
    says: /Cannot/,
  },
  "a model that is not there": { argv: () => ["--engine", "sglang", "--model", "./nowhere"], says: /nowhere/ },
  "an environment that throws": { argv: () => [...expert, "--env", "./throws.mjs"], says: /no shelf/ },
  "an environment that is none, and leaves a timer": {
    argv: () => [...expert, "--env", "./timer.mjs"],
    says: /timer\.mjs/,
    endsByItself: false,
  },
  "a split that is not there": { argv: () => [...expert, "--split", "nope"], says: /nope/ },
  "a server of tools that ends": {
    argv: () => [...expert, "--env", `mcp:${process.execPath} -e process.exit(3)`],
    says: /Cannot/,
  },
  "a server of tools that is not there": { argv: () => [...expert, "--env", `mcp:${nowhere}/mcp`], says: /Cannot/ },
  "a server of tools, and then a model that is not there": {
    argv: () => ["--engine", "sglang", "--model", "./nowhere", ...tools()],
    says: /nowhere/,
  },
  "an OpenEnv service that is not there": {
    argv: () => [...expert, "--env", "openenv:ws://127.0.0.1:1"],
    says: /Cannot/,
  },
  "an ORS service that is not there": { argv: () => [...expert, "--env", `ors:${nowhere}`], says: /Cannot/ },
  "a user that is not there": {
    argv: () => [...expert, "--user", "llm", "--user-url", `${nowhere}/v1`, "--user-model", "m"],
    says: refused,
  },
};

/** Cases of commands that run episodes by a plan. */
const runs: Readonly<Record<string, Case>> = {
  "a folder that is not empty": { argv: () => [...expert, "--out", "taken"], says: /not empty/ },
  "a folder that another process uses": {
    argv: () => [...expert, "--out", "locked"],
    says: /process \d+ has been using it/,
  },
  "a port of metrics that is taken": {
    argv: () => [...expert, ...out(), "--metrics", `tensorboard,prometheus:${port()}`],
    says: /the port is taken/,
  },
  "workers that cannot run it": {
    argv: () => [...expert, ...out(), "--env", "./worker-only.mjs", "--processes", "2", "--quiet"],
    says: /^Cannot(?!.*Notice)/m,
  },
  "a run to resume that is not there": { argv: () => ["--resume", "nowhere"], says: /nowhere/ },
  "a judge that is not there": {
    argv: () => [...expert, "--rubric", "Was it polite?", "--judge-model", "m", "--judge-url", `${nowhere}/v1`],
    says: /Cannot/,
  },
  "a program without a model": {
    argv: () => ["--env", "tasks.jsonl", "--agent-command", "true", ...sglang, "--url", nowhere],
    says: /Cannot/,
  },
};

const listens = (flag: string, ...more: readonly string[]): Case => ({
  argv: () => [...more, flag, flag === "--port" ? String(port()) : `127.0.0.1:${port()}`],
  says: /the port is taken/,
});

const commands: Readonly<Record<string, Readonly<Record<string, Case>>>> = {
  rollout: { ...parts, ...runs },
  eval: { ...runs, "labels that are not there": { argv: () => [...expert, "--labels", "nowhere"], says: /nowhere/ } },
  serve: {
    "a port that is taken": { ...listens("--listen"), argv: () => [...out(), "--listen", `127.0.0.1:${port()}`] },
    "a server of tools, and then a port that is taken": {
      argv: () => ["--engine", "expert", ...out(), "--listen", `127.0.0.1:${port()}`, ...tools()],
      says: /the port is taken/,
    },
    "workers, and then a port that is taken": {
      argv: () => [...out(), "--listen", `127.0.0.1:${port()}`, "--processes", "2"],
      says: /the port is taken/,
    },
    "a folder that another process uses": { argv: () => ["--out", "locked"], says: /process \d+ has been using it/ },
    "a token that is not there": { argv: () => [...out(), "--token-env", "NOT_THERE"], says: /NOT_THERE/ },
    "a model that is not there": { argv: () => [...out(), "--model", "./nowhere"], says: /nowhere/ },
  },
  gateway: {
    "a port that is taken": {
      argv: () => ["--engine", "embedded", ...out(), "--listen", `127.0.0.1:${port()}`],
      says: /the port is taken/,
    },
    "an engine that is not there": {
      argv: () => ["--engine", "sglang", "--model", "readable", "--url", nowhere, "--engine-wait", "0.2", ...out()],
      says: refused,
    },
    "a world that throws, after its engine": {
      argv: () => ["--engine", "embedded", ...out(), "--env", "./throws.mjs"],
      says: /no shelf/,
    },
    "a world of tools, and then a port that is taken": {
      argv: () => ["--engine", "expert", ...out(), ...tools(), "--listen", `127.0.0.1:${port()}`],
      says: /the port is taken/,
    },
    "a folder that another process uses": {
      argv: () => ["--engine", "embedded", "--out", "locked"],
      says: /process \d+ has been using it/,
    },
  },
  worker: {
    "a queue that is none": { argv: () => ["--queue", "http://127.0.0.1:1"], says: /Cannot/ },
    "a port of probes that is taken": {
      argv: () => ["--queue", "nats://127.0.0.1:1", "--health", `127.0.0.1:${port()}`],
      says: /EADDRINUSE/,
    },
  },
  train: {
    "a model that is not there": { argv: () => [...out(), "--model", "./nowhere"], says: /nowhere/ },
    "an environment that throws": { argv: () => [...out(), "--env", "./throws.mjs"], says: /no shelf/ },
    "curves that cannot be written, after trainer and engine": {
      argv: () => ["--metrics", "tensorboard", "--out", "with-a-file", "--model", "bookshop-nano"],
      says: /tensorboard/,
      code: 1,
    },
    "samples that are not there, after trainer and engine": {
      argv: () => [...out(), "--algorithm", "sft", "--from", "./nowhere", "--model", "bookshop-nano"],
      says: /nowhere/,
    },
    "too few tasks": { argv: () => [...out(), "--tasks", "0", "--eval-split", "train"], says: /Cannot train on/ },
    "a run to resume that is not there": { argv: () => ["--resume", "nowhere"], says: /nowhere/ },
  },
  "env-server": {
    "a port that is taken": { argv: () => ["--listen", `127.0.0.1:${port()}`], says: /the port is taken/ },
    "a server of tools, and then a port that is taken": {
      argv: () => [...tools(), "--listen", `127.0.0.1:${port()}`],
      says: /the port is taken/,
    },
    "a user that is none": { argv: () => ["--user", "nobody"], says: /nobody/ },
  },
  engine: {
    "a port that is taken": { argv: () => ["--port", String(port())], says: /the port is taken/ },
    "a model that is not there": { argv: () => ["--model", "./nowhere"], says: /nowhere/ },
  },
  view: {
    "a run that is not there": { argv: () => ["nowhere"], says: /nowhere/ },
  },
};

describe.each(Object.entries(commands))("%s ends by itself after", { timeout: 120_000 }, (command, cases) => {
  test.each(Object.entries(cases).filter((_, index) => isFull || index % 3 === 0))(
    "%s",
    async (_, { argv, says, code = 2, endsByItself = true }) => {
      await mkdir(join(root, "with-a-file"), { recursive: true });
      await writeFile(join(root, "with-a-file", "tensorboard"), "");
      const ended = await run([command, ...argv()], says);
      expect(ended.stderr).toMatch(says);
      expect(ended.stderr).not.toContain("should not happen");
      expect(ended.code, ended.stderr).toBe(code);
      expect(ended.lingeredMs).toBeLessThan(5000);
      // Exactly one message is printed.
      expect(ended.stderr.match(/^Cannot /gm) ?? [], ended.stderr).toHaveLength(1);
      expect(ended.stderr.endsWith("[nothing is open]"), ended.stderr).toBe(endsByItself);
    },
  );
});

describe.skipIf(natsServer === undefined)("a broker (needs NATS_SERVER)", { timeout: 120_000 }, () => {
  const withBroker = async (config: string, use: (queue: string) => Promise<void>): Promise<void> => {
    const probe = createServer();
    await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
    const at = (probe.address() as AddressInfo).port;
    await new Promise((resolve) => probe.close(resolve));
    const place = await mkdtemp(join(root, "broker-"));
    await writeFile(join(place, "nats.conf"), `listen: "127.0.0.1:${at}"\n${config.replaceAll("STORE", place)}\n`);
    const broker = spawn(natsServer!, ["-c", join(place, "nats.conf")], { stdio: "ignore" });
    try {
      await use(`nats://127.0.0.1:${at}`);
    } finally {
      broker.kill("SIGKILL");
    }
  };
  const jetstream = 'jetstream { store_dir: "STORE" }';

  test.each(["rollout", "eval"])("%s: one that takes short messages only", (command) =>
    withBroker(`${jetstream}\nmax_payload: 1024`, async (queue) => {
      const ended = await run([command, ...expert, ...out(), "--queue", queue], /Cannot send a message/);
      expect([ended.code, ended.stderr]).toEqual([1, expect.stringMatching(/takes 1024; raise max_payload/)]);
      expect(ended.lingeredMs).toBeLessThan(5000);
      expect(ended.stderr).toMatch(/\[nothing is open\]$/);
    }),
  );

  test("serve: one that takes short messages only", () =>
    withBroker(`${jetstream}\nmax_payload: 1024`, async (queue) => {
      const ended = await run(["serve", ...out(), "--queue", queue], /Cannot send a message/);
      expect(ended.code).toBe(1);
      expect(ended.stderr).toMatch(/\[nothing is open\]$/);
    }));

  test.each(["rollout", "worker"])(
    "%s: two SIGTERM end it while it waits for JetStream, and for a broker",
    async (command) => {
      const flags = command === "worker" ? [] : [...expert, "--quiet"];
      const wait = async (queue: string): Promise<void> => {
        const own = command === "worker" ? [] : out();
        const ended = await run([command, ...flags, ...own, "--queue", queue], /Interrupted|Waiting/, (pid) => {
          void (async () => {
            await rest(4000);
            for (let sent = 0; sent < 2; sent++) {
              if (!existsSync(`/proc/${pid}`)) return;
              process.kill(pid, "SIGTERM");
              await rest(300);
            }
          })();
        });
        expect([130, 143], ended.stderr).toContain(ended.code);
      };
      await withBroker("", wait);
      await wait("nats://127.0.0.1:1");
    },
  );
});
