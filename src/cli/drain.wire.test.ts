// Servers that receive a signal to end: answers in flight are sent, new requests are refused with a
// time to retry, probes report the reason, and the process ends with code 0; answers that take
// longer than --grace are cancelled, and a second signal ends the process at once. Real processes
// of dist/.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as rest } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bundledProgram, killProcess } from "../../tests/bundled-program.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import { createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";

const tokenizer = createReadableTokenizer();
let turnMs = 0;
let program = "";
let root = "";
let engine = "";
let closeEngine = (): Promise<void> => Promise.resolve();
const children: ChildProcess[] = [];
beforeAll(async () => {
  program = await bundledProgram("dist/cli/main.js");
  const expert = createExpertSampler({ tokenizer, noise: 0 });
  const slow: typeof expert = { sample: async (asked) => rest(turnMs).then(() => expert.sample(asked)) };
  const endTokenIds = [tokenizer.tokenId("<|im_end|>") ?? 0];
  const listener = await createSglangFront({ sampler: slow, tokenizer, endTokenIds }).listen();
  engine = listener.url;
  closeEngine = () => listener.close();
});
afterAll(() => closeEngine());
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "drain-"));
});
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => killProcess(child)));
  await rm(root, { recursive: true });
});

async function start(command: string, ...flags: readonly string[]) {
  const policy = ["--engine", "sglang", "--url", engine, "--model", "readable"];
  const argv = [program, command, "--listen", "127.0.0.1:0", "--out", join(root, "run"), ...policy, ...flags];
  const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (bytes: Buffer) => (stdout += bytes.toString()));
  child.stderr.on("data", (bytes: Buffer) => (stderr += bytes.toString()));
  const ended = once(child, "exit").then(([code]) => code as number | null);
  await expect.poll(() => stdout, { timeout: 30_000 }).toContain("http://");
  return { child, ended, url: stdout.trim(), stderr: () => stderr };
}

type Answer = {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly connection: string | undefined;
  readonly body: string;
};

/** Sends with `node:http`, which shows the headers of the connection. */
function send(url: string, body?: object, agent?: Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", authorization: "Bearer some" };
    const outgoing = request(
      url,
      { method: body === undefined ? "GET" : "POST", headers, ...(agent && { agent }) },
      (incoming) => {
        let text = "";
        incoming.on("data", (bytes: Buffer) => (text += bytes.toString()));
        incoming.on("error", reject);
        incoming.on("end", () => {
          const { "retry-after": retryAfter, connection } = incoming.headers;
          resolve({ status: incoming.statusCode ?? 0, retryAfter, connection, body: text });
        });
      },
    );
    outgoing.on("error", reject);
    outgoing.end(body === undefined ? "" : JSON.stringify(body));
  });
}

const chat = (streams = false, content = "Hello."): object => ({
  model: "policy",
  messages: [{ role: "user", content }],
  stream: streams,
});
const group = { task_index: 0, group_size: 2, wait_seconds: 60 };

const servers = [
  { command: "gateway", path: "/v1/chat/completions", body: chat() },
  { command: "gateway", path: "/v1/chat/completions", body: chat(true) },
  { command: "gateway", path: "/v1/responses", body: { model: "policy", input: "Hello.", stream: true } },
  { command: "gateway", path: "/v1/messages", body: { ...chat(), max_tokens: 100 } },
  { command: "serve", path: "/v1/groups", body: group },
  { command: "serve", path: "/v1/episodes", body: { task_index: 1, wait_seconds: 60 } },
] as const;

/** Both signals with `npm run test:full`. */
const signals = process.env["FULL"] === "1" ? (["SIGTERM", "SIGINT"] as const) : (["SIGTERM"] as const);

describe.each(signals)("%s", { timeout: 90_000 }, (signal) => {
  test.each(servers)(
    "$command finishes $path, refuses what comes then, and ends with 0",
    async ({ command, path, body }) => {
      turnMs = command === "gateway" ? 2500 : 400;
      const { child, ended, url } = await start(command);
      const agent = new Agent({ keepAlive: true });
      expect((await send(`${url}/health`, undefined, agent)).status).toBe(200);
      const inFlight = send(`${url}${path}`, body);
      await rest(500);
      child.kill(signal);
      await rest(300);
      // Requests on a new connection, and on one that was open.
      for (const [own, refusedPath] of [
        [undefined, path],
        [agent, path],
        [undefined, "/v1/sessions"],
      ] as const) {
        const refused = await send(`${url}${refusedPath}`, body, own);
        expect(refused).toMatchObject({ status: 503, retryAfter: "5", connection: "close" });
        expect(refused.body).toContain("shutting down");
      }
      for (const probe of ["/health", "/healthz", "/ready", "/readyz"]) {
        const answer = await send(`${url}${probe}`);
        expect([answer.status, JSON.parse(answer.body)]).toMatchObject([503, { status: "draining" }]);
      }
      const answer = await inFlight;
      expect(answer.status).toBe(200);
      if ("stream" in body && body.stream) expect(answer.body).toMatch(/\[DONE\]|response\.completed/);
      if (command === "serve") expect(JSON.parse(answer.body)).toMatchObject({ status: "ended" });
      expect(await ended).toBe(0);
      agent.destroy();
    },
  );
});

test("an idle server ends at once", { timeout: 60_000 }, async () => {
  for (const command of ["gateway", "serve"]) {
    const { child, ended } = await start(command);
    const begun = performance.now();
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
    expect(performance.now() - begun).toBeLessThan(5000);
    await rm(join(root, "run"), { recursive: true });
  }
});

test(
  "what takes longer than --grace is cut, and resumed or answered by the next process",
  { timeout: 60_000 },
  async () => {
    turnMs = 20_000;
    const { child, ended, url } = await start("gateway", "--grace", "0.5");
    const inFlight = send(`${url}/v1/chat/completions`, chat()).catch((error: unknown) => (error as Error).message);
    await rest(300);
    const begun = performance.now();
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
    expect(performance.now() - begun).toBeLessThan(5000);
    expect(await inFlight).toMatch(/hang up|reset|aborted/i);
    expect(await readFile(join(root, "run", "run.json"), "utf8")).toContain('"interrupted"');
    await rm(join(root, "run"), { recursive: true });

    turnMs = 100;
    const service = await start("serve", "--grace", "0.2");
    const key = { ...group, group_size: 8 };
    const waiting = send(`${service.url}/v1/groups`, key).catch((error: unknown) => (error as Error).message);
    await rest(400);
    service.child.kill("SIGTERM");
    expect(await service.ended).toBe(0);
    await waiting;
    const again = await start("serve");
    await expect.poll(again.stderr).toMatch(/Resuming: \d+ episodes have ended/);
    again.child.kill("SIGTERM");
    await again.ended;
  },
);

test.each(["gateway", "serve"])(
  "%s: a second signal ends it at once, with the code of the signal",
  { timeout: 60_000 },
  async (command) => {
    for (const [signal, code] of [
      ["SIGTERM", 143],
      ["SIGINT", 130],
    ] as const) {
      turnMs = 20_000;
      const { child, ended, url, stderr } = await start(command);
      const body = command === "gateway" ? chat() : group;
      void send(`${url}${command === "gateway" ? "/v1/chat/completions" : "/v1/groups"}`, body).catch(() => undefined);
      await rest(500);
      child.kill(signal);
      await expect.poll(stderr, { timeout: 10_000 }).toContain("Closing");
      // Two presses of Ctrl-C at once count as one: npm repeats the signal that the terminal has
      // already sent.
      await rest(400);
      expect(child.exitCode).toBe(null);
      const begun = performance.now();
      child.kill(signal);
      expect(await ended).toBe(code);
      expect(performance.now() - begun).toBeLessThan(6000);
      await rm(join(root, "run"), { recursive: true });
    }
  },
);
