// Behavior that only a real connection shows: whether a client is still connected when an equal
// request arrives, and which headers were sent twice.

import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openWorld, type World } from "./gateway-world.test-helper.ts";

let world: World;
let url = "";
let close = async (): Promise<void> => undefined;
let open = (): void => undefined;
let gate: Promise<void>;
beforeEach(async () => {
  gate = new Promise((resolve) => (open = resolve));
  world = await openWorld(async (_prompt, call) => {
    await gate;
    return `answer ${call}`;
  });
  const listener = await world.gateway.listen({ port: 0 });
  url = listener.url;
  close = () => listener.close();
});
afterEach(async () => {
  open();
  await close();
  await world.close();
});

type Sent = { readonly text: Promise<string>; hangUp(): void };

function send(stream: boolean, headers: Readonly<Record<string, string>> = {}): Sent {
  const { hostname, port } = new URL(url);
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "a" }], stream });
  const given = { "content-type": "application/json", authorization: "Bearer s1", ...headers };
  const path = "/v1/chat/completions";
  const request = httpRequest({ hostname, port, path, method: "POST", headers: given, agent: false });
  const text = new Promise<string>((resolve, reject) => {
    request.on("error", reject);
    request.on("response", (answer) => {
      let read = "";
      answer.on("data", (part: Buffer) => (read += part.toString()));
      answer.on("end", () => resolve(read));
      answer.on("error", reject);
    });
  });
  text.catch(() => undefined);
  request.end(body);
  return { text, hangUp: () => request.destroy() };
}

/** Content of a whole answer, or of the joined parts of a streamed one. */
const answerIn = (text: string): string => [...text.matchAll(/"content":"([^"]*)"/g)].map(([, part]) => part).join("");
const counted = (calls: number, replayed: number): Promise<void> =>
  vi.waitFor(() => expect(world.gateway.sessions[0]?.counters).toMatchObject({ calls, replayed }), 5000);
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));

describe.each([false, true])("equal requests, streamed: %s", (stream) => {
  test("over connections that hold are turns of their own", async () => {
    const clients = [send(stream), send(stream), send(stream)];
    await counted(3, 0);
    open();
    const answers = await Promise.all(clients.map(({ text }) => text.then(answerIn)));
    expect(new Set(answers)).toHaveLength(3);
    expect(world.sampled).toHaveLength(3);
  });

  test("after connections that broke have the answers of those, each once", async () => {
    const clients = [send(stream), send(stream), send(stream)];
    await counted(3, 0);
    clients[0]!.hangUp();
    clients[2]!.hangUp();
    await settled();
    const again = [send(stream), send(stream)];
    await counted(3, 2);
    const own = send(stream);
    await counted(4, 2);
    open();
    const texts = [clients[1]!, ...again, own].map(({ text }) => text.then(answerIn));
    expect((await Promise.all(texts)).toSorted()).toEqual(["answer 0", "answer 1", "answer 2", "answer 3"]);
    expect(world.sampled).toHaveLength(4);
  });

  test("with one Idempotency-Key are one turn, while the first is there and after it was answered", async () => {
    const headers = { "idempotency-key": "k" };
    const clients = [send(stream, headers), send(stream, headers)];
    await counted(1, 1);
    open();
    const late = await clients[0]!.text.then(() => send(stream, headers).text);
    const texts = [...(await Promise.all(clients.map(({ text }) => text))), late];
    expect(new Set(texts.map(answerIn))).toEqual(new Set(["answer 0"]));
    expect(world.sampled).toHaveLength(1);
  });
});

test("a client in this process that gives up is one that has gone", async () => {
  const ask = async (signal?: AbortSignal): Promise<string> => {
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "a" }] });
    const headers = { authorization: "Bearer s1", "content-type": "application/json" };
    const init = { method: "POST", headers, body, ...(signal === undefined ? {} : { signal }) };
    return answerIn(await (await world.gateway.fetch(`${url}/v1/chat/completions`, init)).text());
  };
  const leaving = new AbortController();
  const [first, second] = [ask(leaving.signal), ask()];
  await counted(2, 0);
  leaving.abort();
  const again = ask();
  await counted(2, 1);
  open();
  expect([await second, await again].toSorted()).toEqual(["answer 0", "answer 1"]);
  await first.catch(() => undefined);
});

test("two Authorization headers that differ are refused, equal ones are one", async () => {
  open();
  const { hostname, port } = new URL(url);
  const status = (keys: readonly string[]): Promise<number> =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "a" }] });
      const lines = [
        "POST /v1/chat/completions HTTP/1.1",
        `Host: ${hostname}:${port}`,
        ...keys.map((key) => `Authorization: Bearer ${key}`),
        "Content-Type: application/json",
        `Content-Length: ${Buffer.byteLength(body)}`,
        "Connection: close",
      ];
      const socket = connect(Number(port), hostname, () => socket.write(`${lines.join("\r\n")}\r\n\r\n${body}`));
      let text = "";
      socket.on("data", (part) => (text += part.toString()));
      socket.on("error", reject);
      socket.on("close", () => resolve(Number(text.split(" ")[1])));
    });
  expect(await status(["s1", "s2"])).toBe(401);
  expect(world.gateway.sessions).toEqual([]);
  expect(await status(["s1", "s1"])).toBe(200);
  expect(await status(["s1", ""])).toBe(200);
});
