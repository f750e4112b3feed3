// Cost of one very long request, to itself and to other sessions: Chat bodies of 20,000 and of
// 100,000 small messages to the gateway command with the tokenizer and the template of
// models/bookshop-1m, in front of a server that answers at once. Its CPU must grow with the
// messages (under 7 times for 5 times as many), the requests of other sessions must be answered
// meanwhile (p99 under 250 ms), and SIGTERM must end the process. Three processes: only the
// gateway's CPU is counted. Exits with 1 if one of the three checks fails.
// Run: npm run bench -- long-requests [rounds] [messages]

import { fork, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { machine, median, spread } from "./lib/measure.mjs";

const limits = { ratio: 7, otherMs: 250, exitMs: 5000 };
const others = 8;
/** Pause between two requests of another session, in milliseconds. */
const pauseMs = 20;

const root = fileURLToPath(new URL("..", import.meta.url));
const agent = new Agent({ keepAlive: true });

if (process.argv[2] === "server") serve();
else await measure(Number(process.argv[2] ?? 3), Number(process.argv[3] ?? 100_000));

/** Serves SGLang's answers, prepared except for the length of the prompt. */
function serve() {
  const ids = Array.from({ length: 16 }, (_, place) => 40 + place);
  const reply = (promptTokens) =>
    JSON.stringify({
      text: "",
      output_ids: ids,
      meta_info: {
        id: "x",
        prompt_tokens: promptTokens,
        weight_version: "1",
        completion_tokens: ids.length,
        cached_tokens: 0,
        finish_reason: { type: "length", length: ids.length },
        output_token_logprobs: ids.map((id) => [-0.25, id, null]),
      },
    });
  const server = createServer((incoming, outgoing) => {
    const parts = [];
    incoming.on("data", (part) => parts.push(part));
    incoming.on("end", () => {
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(incoming.url === "/generate" ? reply(idsIn(Buffer.concat(parts))) : "{}");
    });
  });
  server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
}

function idsIn(body) {
  const start = body.indexOf('"input_ids":[');
  const list = body.subarray(start, body.indexOf("]", start));
  let count = 1;
  for (let at = list.indexOf(0x2c); at !== -1; at = list.indexOf(0x2c, at + 1)) count++;
  return count;
}

async function measure(rounds, most) {
  const server = fork(fileURLToPath(import.meta.url), ["server"]);
  const { port: serverPort } = await new Promise((done) => server.once("message", done));
  const folder = mkdtempSync(join(tmpdir(), "long-requests-"));
  try {
    const gateway = await startGateway(serverPort, join(folder, "run"));
    const sizes = [most / 5, most];
    /** CPU milliseconds by size. */
    const costs = sizes.map(() => []);
    for (let round = 0; round <= rounds; round++) {
      for (const [place, size] of sizes.entries()) {
        const before = gateway.cpuMs();
        await chat(gateway.port, `long-${round}-${size}`, messagesOf(size));
        // The first round is not counted: V8 is still compiling the code.
        if (round > 0) costs[place].push(gateway.cpuMs() - before);
      }
    }
    const alone = await latencies(gateway.port, sleep(2000));
    const beside = await latencies(gateway.port, chat(gateway.port, "beside", messagesOf(most)));
    const exitMs = await endWithin(gateway, messagesOf(most));
    report({ sizes, costs, alone, beside, exitMs });
  } finally {
    server.kill();
    agent.destroy();
    rmSync(folder, { recursive: true, force: true });
  }
}

function report({ sizes, costs, alone, beside, exitMs }) {
  const ratio = median(costs[1]) / median(costs[0]);
  const verdict = (isMet, limit) => (isMet ? `ok, under ${limit}` : `TOO MUCH, under ${limit} expected`);
  const met = [ratio < limits.ratio, beside.p99 < limits.otherMs, exitMs < limits.exitMs];
  console.log(machine());
  for (const [place, size] of sizes.entries()) {
    console.log(`CPU of a request with ${size} messages: ${spread(costs[place], 0)} ms`);
  }
  console.log(`Ratio: ${ratio.toFixed(2)} for 5 times as many (${verdict(met[0], limits.ratio)})`);
  console.log(
    `Requests of ${others} other sessions: p99 ${alone.p99.toFixed(0)} ms without it, of ${alone.count}; ` +
      `${beside.p99.toFixed(0)} ms meanwhile, of ${beside.count} (${verdict(met[1], limits.otherMs)} ms)`,
  );
  console.log(
    `SIGTERM meanwhile: the process ended after ${exitMs.toFixed(0)} ms (${verdict(met[2], limits.exitMs)} ms)`,
  );
  if (met.includes(false)) process.exitCode = 1;
}

function messagesOf(count) {
  return Array.from({ length: count }, (_, place) => ({
    role: place % 2 === 0 || place === count - 1 ? "user" : "assistant",
    content: `m ${place}`,
  }));
}

/**
 * Durations of requests of other sessions until `work` is done: closed loops, each with a short
 * pause.
 */
async function latencies(port, work) {
  let isDone = false;
  const durations = [];
  const loop = async (name) => {
    const messages = [{ role: "user", content: "hello" }];
    // oxlint-disable-next-line no-unmodified-loop-condition -- the work that is waited for sets it
    while (!isDone) {
      const start = performance.now();
      messages.push(
        { role: "assistant", content: await chat(port, name, messages) },
        { role: "user", content: "go on" },
      );
      durations.push(performance.now() - start);
      // Conversations stay short, so that their own cost is not measured.
      if (messages.length > 20) messages.length = 1;
      await sleep(pauseMs);
    }
  };
  const loops = Array.from({ length: others }, (_, place) => loop(`other-${place}`));
  await work;
  isDone = true;
  await Promise.all(loops);
  const sorted = durations.toSorted((a, b) => a - b);
  return { p99: sorted[Math.floor(sorted.length * 0.99)] ?? 0, count: sorted.length };
}

/**
 * Sends the signal while a long request is in progress.
 *
 * @returns milliseconds until the process has ended
 */
async function endWithin(gateway, messages) {
  const answered = chat(gateway.port, "ended", messages).catch(() => null);
  await sleep(500);
  const ended = new Promise((done) => gateway.process.once("exit", done));
  const start = performance.now();
  gateway.process.kill("SIGTERM");
  const isEnded = await Promise.race([ended.then(() => true), sleep(60_000).then(() => false)]);
  if (!isEnded) gateway.process.kill("SIGKILL");
  await answered;
  return isEnded ? performance.now() - start : Infinity;
}

async function chat(port, session, messages) {
  const bytes = Buffer.from(JSON.stringify({ model: "policy", messages }));
  const headers = { "content-type": "application/json", "content-length": bytes.length };
  const path = `/s/${session}/v1/chat/completions`;
  const answer = await new Promise((done, fail) => {
    let text = "";
    const sent = request({ port, path, agent, headers, host: "127.0.0.1", method: "POST" }, (incoming) => {
      incoming
        .setEncoding("utf8")
        .on("data", (part) => (text += part))
        .on("end", () => done(text))
        .on("error", fail);
    });
    sent.on("error", fail);
    sent.end(bytes);
  });
  const { choices, error } = JSON.parse(answer);
  if (choices === undefined) throw new Error(error?.message ?? answer);
  return choices[0].message.content ?? "";
}

async function startGateway(serverPort, folder) {
  const model = [
    "--engine",
    "sglang",
    "--url",
    `http://127.0.0.1:${serverPort}`,
    "--model",
    join(root, "models", "bookshop-1m"),
  ];
  const flags = ["gateway", ...model, "--listen", "127.0.0.1:0", "--out", folder];
  const child = spawn(process.execPath, [join(root, "dist", "cli", "main.js"), ...flags], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const port = await new Promise((done, fail) => {
    const read = (part) => {
      output += part;
      const [, found] = /http:\/\/127\.0\.0\.1:(\d+)/.exec(output.replaceAll(`127.0.0.1:${serverPort}`, "")) ?? [];
      if (found !== undefined) done(Number(found));
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", () => fail(new Error(output)));
  });
  const cpuMs = () => {
    // Linux counts CPU time in ticks of 10 ms, separately for user and system mode.
    const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1].split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10;
  };
  return { process: child, port, cpuMs };
}
