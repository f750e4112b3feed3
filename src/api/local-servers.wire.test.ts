// Protection that each of our HTTP servers gives a machine with a browser and clients that
// compress: without a token, no page of another server is served, pages from other ports of this
// machine included; encoded bodies are decoded only up to a bound on their decoded size.

import { request as httpRequest } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFunctionSampler, createSglangFront, createVllmFront } from "../testing/index.ts";
import { serveEnvironment } from "./env-server.ts";
import { gateway } from "./gateway.ts";
import { rollout } from "./rollout.ts";
import { serve } from "./serve.ts";
import { view } from "./view.ts";

type Sent = {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
};
type Served = { readonly url: string; close(): Promise<unknown> };
type Server = {
  readonly name: string;
  open(): Promise<Served>;
  /** A request that every client on this machine may send. */
  readonly open200: Sent;
  /**
   * A request whose body is read, and the status of the answer, also for the same body in another
   * encoding; `null` if the server reads no body.
   */
  readonly posted: (Sent & { readonly json: object; readonly status: number }) | null;
  /** True for a server that imitates another vendor's, to which our rule does not apply. */
  readonly servesPages?: boolean;
};

let cwd = "";
const sampler = createFunctionSampler(() => ({ ids: [1, 2] }));
const message = { jsonrpc: "2.0", id: 1, method: "initialize", params: {} };
const servers: readonly Server[] = [
  {
    name: "gateway",
    open: () => gateway({ engine: "expert", listen: "127.0.0.1:0", out: "gateway", cwd }),
    open200: { path: "/health" },
    posted: {
      path: "/v1/chat/completions",
      headers: { authorization: "Bearer s1" },
      status: 200,
      json: { model: "policy", messages: [{ role: "user", content: "Hello." }] },
    },
  },
  {
    name: "service",
    open: () =>
      serve({ env: "bookshop", engine: "expert", user: "agenda", listen: "127.0.0.1:0", out: "service", cwd }),
    open200: { path: "/v1/continue", method: "POST" },
    posted: { path: "/v1/weights", json: { version: 7 }, status: 200 },
  },
  {
    name: "environment server",
    open: () => serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0", cwd }),
    open200: { path: "/health" },
    posted: { path: "/mcp", json: message, status: 200 },
  },
  {
    name: "viewer",
    open: () => view({ sources: ["run"], listen: "127.0.0.1:0", cwd, variables: {} }),
    open200: { path: "/api/runs" },
    posted: null,
  },
  {
    name: "engine",
    open: () => createSglangFront({ sampler, refusesStrangers: true }).listen(),
    open200: { path: "/health" },
    posted: { path: "/generate", json: { input_ids: [1], sampling_params: { max_new_tokens: 2 } }, status: 200 },
  },
  {
    name: "fake vLLM",
    open: () => createVllmFront({ sampler }).listen(),
    open200: { path: "/health" },
    posted: { path: "/v1/completions", json: { model: "model", prompt: [1], max_tokens: 2 }, status: 200 },
    servesPages: true,
  },
];

const opened = new Map<string, Served>();
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), "trainable-agents-"));
  await rollout({ env: "bookshop", engine: "expert", tasks: [0], out: "run", cwd, user: "agenda" });
  for (const server of servers) opened.set(server.name, await server.open());
}, 120_000);
afterAll(async () => {
  await Promise.all([...opened.values()].map((server) => server.close()));
  await rm(cwd, { recursive: true });
});

type Answered = { readonly status: number; readonly text: string; readonly headers: Readonly<Record<string, unknown>> };

/** Sends any header, which `fetch` does not allow. */
function send(name: string, { path, method = "GET", headers = {}, body }: Sent): Promise<Answered> {
  const { hostname, port } = new URL(opened.get(name)!.url);
  return new Promise((resolve, reject) => {
    const request = httpRequest({ hostname, port, path, method, headers, agent: false }, (answer) => {
      let text = "";
      answer.on("data", (part: Buffer) => (text += part.toString()));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

const guarded = servers.filter(({ servesPages = false }) => !servesPages);

describe.each(guarded)("without a token, $name", ({ name, open200 }) => {
  it("serves programs and its own page, and no page of another server of this machine or elsewhere", async () => {
    const { port } = new URL(opened.get(name)!.url);
    const own = `127.0.0.1:${port}`;
    for (const headers of [
      {},
      { origin: `http://${own}` },
      { host: `localhost:${port}`, origin: `http://localhost:${port}` },
    ]) {
      expect((await send(name, { ...open200, headers })).status).toBe(200);
    }
    const hosts = fc.constantFrom("localhost", "127.0.0.1", "[::1]", "127.0.0.2", "app.localhost", "example.com");
    const origin = fc
      .tuple(fc.constantFrom("http", "https", "file", "chrome-extension"), hosts, fc.integer({ min: 0, max: 65_535 }))
      .map(([scheme, host, at]) => `${scheme}://${host}${at === 0 ? "" : `:${at}`}`);
    await fc.assert(
      fc.asyncProperty(fc.oneof(origin, fc.constantFrom("null", own, `http://${own}.evil.example`)), async (page) => {
        fc.pre(page !== `http://${own}` && page !== `https://${own}`);
        const { status, text } = await send(name, { ...open200, headers: { origin: page } });
        expect(status, `${page}: ${text}`).toBe(403);
      }),
      { numRuns: 40 },
    );
    expect((await send(name, { ...open200, headers: { host: "rebound.example.com" } })).status).toBe(403);
  });
});

it("a WebSocket of the environment server is opened by no page of another port", async () => {
  const { port } = new URL(opened.get("environment server")!.url);
  const handshake = (origin: string) => ({
    connection: "Upgrade",
    upgrade: "websocket",
    origin,
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  });
  const refused = await send("environment server", { path: "/ws", headers: handshake("http://127.0.0.1:3000") });
  expect(refused.status).toBe(403);
  const { hostname } = new URL(opened.get("environment server")!.url);
  const headers = handshake(`http://127.0.0.1:${port}`);
  const upgraded = await new Promise<number | undefined>((resolve, reject) => {
    const request = httpRequest({ hostname, port, path: "/ws", headers });
    request.on("upgrade", ({ statusCode }, socket) => {
      socket.destroy();
      resolve(statusCode);
    });
    request.on("response", ({ statusCode }) => resolve(statusCode));
    request.on("error", reject);
    request.end();
  });
  expect(upgraded).toBe(101);
});

const encodings = [
  ["gzip", gzipSync],
  ["deflate", deflateSync],
  ["deflate", deflateRawSync],
  ["br", brotliCompressSync],
  ["gzip, br", (bytes: Buffer) => brotliCompressSync(gzipSync(bytes))],
] as const;

/** Half a gigabyte when decoded: consecutive members form one body. */
const bomb = Buffer.concat(Array.from<Buffer>({ length: 32 }).fill(gzipSync(Buffer.alloc(2 ** 24, " "))));

describe.each(servers.filter(({ posted }) => posted !== null))("a body that $name reads", ({ name, posted }) => {
  const { json, status, headers, path } = posted!;
  const post = (body: Buffer, more: Readonly<Record<string, string>> = {}): Promise<Answered> =>
    send(name, { path, method: "POST", body, headers: { "content-type": "application/json", ...headers, ...more } });
  const plain = Buffer.from(JSON.stringify(json));

  it("is decoded, as one that was sent as it is", async () => {
    expect((await post(plain)).status).toBe(status);
    for (const [encoding, pack] of encodings) {
      const answer = await post(pack(plain), { "content-encoding": encoding });
      expect(answer.status, `${encoding}: ${answer.text}`).toBe(status);
    }
  });

  it("is refused by name where it is encoded otherwise, cut short, or unpacks to more than the bound", async () => {
    const unknown = await post(plain, { "content-encoding": "lzma" });
    expect(unknown).toMatchObject({ status: 415, text: expect.stringContaining("gzip, deflate, br") as unknown });
    expect(unknown.text).toContain('\\"lzma\\"');
    const cut = await post(gzipSync(plain).subarray(0, -9), { "content-encoding": "gzip" });
    expect(cut).toMatchObject({ status: 400, text: expect.stringContaining("not encoded as gzip") as unknown });
    expect((await post(bomb, { "content-encoding": "gzip" })).status).toBe(413);
    expect((await post(plain)).status).toBe(status);
  });
});
