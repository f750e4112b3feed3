// The service on a socket: many clients at once, clients that send slowly or too much, and clients
// that send every kind of request that the OpenAPI document allows or forbids.

import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { setTimeout as rest } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestService, type TestService } from "./service.test-helper.ts";

const isFull = process.env["FULL"] === "1";
let tested: TestService;
let served: { readonly url: string; close(): Promise<void> };

beforeAll(async () => {
  tested = createTestService({ limits: { concurrency: 64, maxWaiting: 100_000 } });
  served = await tested.service.listen({ port: 0 });
});
afterAll(async () => {
  await served.close();
  await tested.service.close({ wait: false });
});

const post = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(`${served.url}${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });

describe("under load", () => {
  test("clients that repeat themselves get each episode once, and none is lost", async () => {
    const [clients, episodes] = isFull ? [512, 20_000] : [32, 64];
    const rss = process.memoryUsage.rss();
    const seen = new Map<string, string>();
    let next = 0;
    const client = async (): Promise<void> => {
      for (let index = next++; index < episodes; index = next++) {
        const key = { "idempotency-key": `load ${index}` };
        const body = { task_index: index % 500, wait_seconds: 120 };
        // Every tenth request is sent twice, as after a lost answer.
        const answers = await Promise.all(
          Array.from({ length: index % 10 === 0 ? 2 : 1 }, async () => (await post("/v1/episodes", body, key)).json()),
        );
        for (const answer of answers as { readonly id: string; readonly status: string }[]) {
          expect(answer.status).toBe("ended");
          expect(seen.get(answer.id) ?? key["idempotency-key"]).toBe(key["idempotency-key"]);
          seen.set(answer.id, key["idempotency-key"]);
        }
        // The archive of this test is in memory; a real one is a file.
        for (const { id } of answers as { readonly id: string }[]) if (index > 500) tested.kept.delete(id);
        tested.groups.clear();
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
    expect(seen.size).toBe(episodes);
    if (isFull) expect(process.memoryUsage.rss() - rss).toBeLessThan(1.5 * 2 ** 30);
  });
});

/** Status of a request with headers that `fetch` does not allow. */
const statusWith = (path: string, headers: Readonly<Record<string, string>>): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    httpRequest(`${served.url}${path}`, { method: "POST", headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    })
      .on("error", reject)
      .end();
  });

describe("hostile clients", () => {
  test.each([
    ["a program of this machine", {}, 200],
    ["one that names it", { host: "localhost:8800" }, 200],
    ["a page of its own", { host: "localhost:8800", origin: "http://localhost:8800" }, 200],
    ["a page of another server of this machine", { origin: "http://127.0.0.1:3000" }, 403],
    ["a page of another site", { origin: "https://example.com" }, 403],
    ["a page without an origin of its own", { origin: "null" }, 403],
    ["a site that points its name here", { host: "rebound.example.com:8800" }, 403],
    ["a site with a name like ours", { host: "localhost.example.com" }, 403],
  ])("without a token, %s gets what is its own", async (_who, headers, status) => {
    expect(await statusWith("/v1/continue", headers)).toBe(status);
  });

  test("a body without end is refused when it is too long, not when it is read", async () => {
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 65_536;
        if (sent > 100 * 2 ** 20) controller.close();
        else controller.enqueue(new Uint8Array(65_536).fill(32));
      },
    });
    const headers = { "content-type": "application/json" };
    const init: RequestInit & { readonly duplex: "half" } = { method: "POST", body: endless, duplex: "half", headers };
    const status = await fetch(`${served.url}/v1/episodes`, init).then(
      (answer) => answer.status,
      // The service may close the connection before the client has sent the whole request.
      () => "closed",
    );
    expect([413, "closed"]).toContain(status);
    expect(sent).toBeLessThan(20 * 2 ** 20);
    expect((await fetch(`${served.url}/health`)).status).toBe(200);
  });

  test("clients that send nothing or half a request do not keep others waiting", async () => {
    const port = Number(new URL(served.url).port);
    const slow = Array.from({ length: 200 }, (_, index) => {
      const socket = connect(port, "127.0.0.1");
      socket.on("error", () => undefined);
      if (index % 2 === 0) socket.write("POST /v1/episodes HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
      return socket;
    });
    const answer = await post("/v1/episodes", { task_index: 1, wait_seconds: 60 });
    expect(await answer.json()).toMatchObject({ status: "ended" });
    for (const socket of slow) socket.destroy();
  });

  test("a client that waits is answered when its time is up, however often memory is cleaned meanwhile", async () => {
    setFlagsFromString("--expose-gc");
    const cleanMemory = runInNewContext("gc") as () => void;
    const held = createTestService();
    held.gate.close();
    const { id } = await held.sendJson<{ readonly id: string }>("/v1/episodes", { task_index: 1 });
    let answered = 0;
    const clients = Array.from({ length: 50 }, async () => {
      expect(await held.sendJson(`/v1/episodes/${id}?wait_seconds=0.1`)).toMatchObject({ status: "waiting" });
      answered++;
    });
    for (let round = 0; round < 50 && answered < clients.length; round++) {
      await rest(20);
      cleanMemory();
    }
    expect(answered).toBe(clients.length);
    await held.service.close({ wait: false });
  });

  test("a client that leaves while it waits leaves nothing behind", async () => {
    tested.gate.close();
    const leaving = new AbortController();
    const asked = fetch(`${served.url}/v1/episodes`, {
      method: "POST",
      body: JSON.stringify({ task_index: 1, wait_seconds: 60 }),
      headers: { "content-type": "application/json", "idempotency-key": "left" },
      signal: leaving.signal,
    });
    await rest(20);
    leaving.abort();
    await expect(asked).rejects.toThrow("aborted");
    tested.gate.open();
    const back = await post("/v1/episodes", { task_index: 1, wait_seconds: 60 }, { "idempotency-key": "left" });
    expect(await back.json()).toMatchObject({ status: "ended" });
  });
});

type Schema = {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly items?: Schema;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly not?: unknown;
};

/** Values that a schema of the document allows. */
function allowed(schema: Schema): fc.Arbitrary<unknown> {
  const options = schema.anyOf ?? schema.oneOf;
  if (options !== undefined) return fc.oneof(...options.map(allowed));
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  switch (schema.type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer":
      return fc.integer({ min: Math.max(schema.minimum ?? -100, -100), max: Math.min(schema.maximum ?? 600, 600) });
    case "number":
      return fc.double({
        min: schema.minimum ?? (schema.exclusiveMinimum ?? 0) + 0.01,
        max: Math.min(schema.maximum ?? 0.05, 5),
        noNaN: true,
      });
    case "string":
      return fc.string({ minLength: schema.minLength ?? 0, maxLength: Math.min(schema.maxLength ?? 20, 20) });
    case "array":
      return fc.array(fc.constant(null), { maxLength: schema.maxItems ?? 2 });
    case "object": {
      const { properties = {}, required = [] } = schema;
      const fields = Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, allowed(field)]));
      return fc.record(fields, { requiredKeys: [...required] });
    }
    default:
      return fc.jsonValue();
  }
}

type Operation = {
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly schema: Schema } } };
  readonly responses: Readonly<Record<string, unknown>>;
};

describe("the document", () => {
  const runs = isFull ? 500 : 25;

  test("whatever it allows, and whatever it does not, is answered with a status it names", async () => {
    // Small limits: the test is about parsing, not about the requested work.
    const small = createTestService({ limits: { concurrency: 2, maxWaiting: 6, maxWaitMs: 5 } });
    const document = small.service.document() as { readonly paths: Record<string, Record<string, Operation>> };
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        const schema = operation.requestBody?.content["application/json"].schema;
        const body = schema === undefined ? fc.constant(undefined) : fc.oneof(allowed(schema), fc.jsonValue());
        const id = fc.oneof(fc.constant("nothing"), fc.string({ minLength: 1, maxLength: 12 }));
        await fc.assert(
          fc.asyncProperty(body, id, async (value, name) => {
            const at = path.replaceAll("{id}", encodeURIComponent(name));
            const answer = await small.send(at, method === "post" ? (JSON.stringify(value) ?? "") : undefined);
            expect(Object.keys(operation.responses)).toContain(String(answer.status));
            // A producer would run endlessly.
            if (answer.status === 201) {
              const { id: producer } = (await answer.json()) as { readonly id: string };
              expect((await small.send(`/v1/producers/${producer}/cancel`, "")).status).toBe(200);
            } else await answer.body?.cancel();
          }),
          { numRuns: schema === undefined ? 5 : runs, seed: 11 },
        );
      }
    }
    await small.service.close({ wait: false });
  });
});
