// Cost of a call to a remote environment compared with one in this process, and time saved by
// waiting processes. The bookshop's `look_up` in process, over our env-server in another process,
// and a server's smallest tool over standard input and output; then the opening of episodes whose
// server is a process, each with its own, with none waiting and with four. Run: npm run bench --
// environments [rounds]

import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

import { bookshopSource } from "../dist/environments/bookshop/index.js";
import { mcpEnvironment } from "../dist/environments/remote/mcp/index.js";
import { serveEnvironment } from "../dist/index.js";
import { cpuOf, machine, spread } from "./lib/measure.mjs";

const callsOfARound = 300;
const episodes = 24;
const atATime = 4;
/** Sampling time of an episode's policy in milliseconds, during which a process can start. */
const thinkMs = 400;

const options = { signal: new AbortController().signal, seed: 0 };
const echoServer = `${process.execPath} ${fileURLToPath(new URL("lib/mcp-server.mjs", import.meta.url))}`;
const task = {
  id: "echo",
  split: "test",
  instruction: "Echo.",
  agenda: null,
  guidelines: null,
  files: {},
  data: null,
  contentHash: "0",
  grader: () => 1,
};

if (process.argv[2] === "serve") {
  const { url } = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0" });
  process.send?.(url);
} else await measure(Number(process.argv[2] ?? 5));

async function measure(rounds) {
  process.stdout.write(`${machine()}\n`);
  const server = fork(fileURLToPath(import.meta.url), ["serve"]);
  const url = await new Promise((resolve) => server.once("message", resolve));
  const remote = await mcpEnvironment({ address: `${url}/mcp` });
  const piped = await mcpEnvironment({ address: echoServer, tasks: [task], warm: 0 });
  try {
    const lookUp = { name: "look_up", arguments: new Map([["id", "#W1042"]]) };
    const echo = { name: "echo", arguments: new Map([["text", "hello"]]) };
    const local = await measureCalls(bookshopSource(), "train", lookUp, rounds);
    const rows = [
      ["in this process", local],
      ["MCP over HTTP, an env-server", await measureCalls(remote, "train", lookUp, rounds)],
      ["MCP over standard input and output", await measureCalls(piped, "test", echo, rounds)],
    ];
    process.stdout.write(`\nOne call, of ${callsOfARound} one after another, microseconds\n`);
    for (const [name, { wall, cpu }] of rows) {
      process.stdout.write(
        `  ${name.padEnd(36)} wall ${spread(wall, 0).padEnd(22)} CPU of this process ${spread(cpu, 0)}\n`,
      );
    }
  } finally {
    await piped.close();
    server.kill();
  }
  process.stdout.write(
    `\nOpening an episode, ${episodes} of them, ${atATime} at a time, ${thinkMs} ms each, milliseconds\n`,
  );
  for (const warm of [0, 4, 8]) {
    const opened = await measureOpenings(warm);
    process.stdout.write(
      `  ${warm} waiting${" ".repeat(10)} ${spread(opened, 1)}, mean ${(opened.reduce((a, b) => a + b) / opened.length).toFixed(1)}\n`,
    );
  }
}

async function measureCalls(source, split, call, rounds) {
  const world = await source.open(source.taskset(split).task(0), options);
  const [wall, cpu] = [[], []];
  for (let round = -2; round < rounds; round++) {
    const began = performance.now();
    const { cpuUs } = await cpuOf(async () => {
      for (let count = 0; count < callsOfARound; count++) await world.call(call, options);
    });
    if (round < 0) continue;
    wall.push(((performance.now() - began) * 1000) / callsOfARound);
    cpu.push(cpuUs / callsOfARound);
  }
  await world.close?.();
  return { wall, cpu };
}

async function measureOpenings(warm) {
  const source = await mcpEnvironment({ address: echoServer, tasks: [task], warm });
  const opened = [];
  let left = episodes;
  const worker = async () => {
    while (left-- > 0) {
      const began = performance.now();
      const world = await source.open(source.taskset("test").task(0), options);
      opened.push(performance.now() - began);
      await new Promise((resolve) => setTimeout(resolve, thinkMs));
      await world.close?.();
    }
  };
  await Promise.all(Array.from({ length: atATime }, worker));
  await source.close();
  return opened;
}
