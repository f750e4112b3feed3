// Many programs at once, and a gateway that is killed repeatedly: every answer that a program
// received is exactly one trained turn of its episode, in order; nothing is lost or duplicated.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { killProcess } from "../../tests/bundled-program.ts";
import { episodeSamples } from "../rollout/index.ts";
import { openRunFolder } from "../store/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";

const isFull = process.env["FULL"] === "1";
const sessions = isFull ? 512 : 12;
const calls = isFull ? 40 : 12;
const killEveryMs = isFull ? 5000 : 400;
const pauseMs = isFull ? 500 : 120;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

type Message = { readonly role: string; readonly content: string };

/** Repeats the same request until it is answered, like clients do. */
async function ask(url: string, key: string, messages: readonly Message[]): Promise<string> {
  const body = JSON.stringify({ model: "policy", messages });
  for (;;) {
    try {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
      const { choices } = (await answer.json()) as { readonly choices: readonly [{ readonly message: Message }] };
      if (answer.status === 200) return choices[0].message.content;
      if (answer.status < 429) throw new Error(`${answer.status}: ${body}`);
    } catch (error) {
      if (error instanceof Error && /^4\d\d/.test(error.message)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("gives every program each of its answers once, however often it is killed", { timeout: 600_000 }, async () => {
  const root = await mkdtemp(join(tmpdir(), "gateway-chaos-"));
  const folder = join(root, "run");
  const port = await freePort();
  const over = new AbortController();
  let kills = 0;
  let child: ChildProcess | null = null;
  const start = async (): Promise<void> => {
    const program = new URL("../../tests/chaos/gateway-child.mjs", import.meta.url);
    const started = spawn(process.execPath, [program.pathname, folder, String(port)]);
    child = started;
    let errors = "";
    started.stderr.on("data", (bytes: Buffer) => (errors += bytes.toString()));
    for await (const line of createInterface(started.stdout)) if (line !== "") return;
    throw new Error(errors);
  };
  await start();
  const killer = (async () => {
    while (!over.signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, killEveryMs));
      if (over.signal.aborted) return;
      await killProcess(child);
      kills++;
      await start();
    }
  })();
  const url = `http://127.0.0.1:${port}`;
  const heard = await Promise.all(
    Array.from({ length: sessions }, async (_, index) => {
      const messages: Message[] = [];
      for (let at = 0; at < calls; at++) {
        messages.push({ role: "user", content: `question ${index * calls + at}` });
        messages.push({ role: "assistant", content: await ask(url, `s${index}`, messages) });
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      return messages.filter(({ role }) => role === "assistant").map(({ content }) => content);
    }),
  );
  over.abort();
  await killer;
  await Promise.all(
    heard.map((_, index) =>
      fetch(`${url}/v1/sessions/s${index}/end`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ reward: 1 }),
      }),
    ),
  );
  await killProcess(child);
  expect(kills).toBeGreaterThan(0);
  const tokenizer = createReadableTokenizer();
  let episodes = 0;
  let complete = 0;
  for await (const episode of openRunFolder(folder).episodes()) {
    episodes++;
    const index = Number(episode.id.slice(1));
    expect(heard[index]).toEqual(Array.from({ length: calls }, (_, at) => `Answer to question ${index * calls + at}.`));
    // Throws if a token is lost or trained twice.
    const { samples } = episodeSamples(episode);
    const trained = samples.flatMap(({ tokens, lossMask, weightRanges }) =>
      weightRanges.flatMap(({ start: from, end }) =>
        lossMask[from] === 1 ? [tokenizer.decode(tokens.subarray(from, end), { skipSpecialTokens: true })] : [],
      ),
    );
    // If the last answer was sent right before a kill, its delivery may not be recorded: it is
    // dropped with a reason.
    expect([heard[index], heard[index]!.slice(0, -1)]).toContainEqual(trained);
    if (trained.length === calls) complete++;
  }
  expect(episodes).toBe(sessions);
  expect(complete).toBeGreaterThan(0);
  await rm(root, { recursive: true });
});
