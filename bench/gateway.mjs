// Cost of a call through the gateway: Chat bodies of 11 kB, prompts of 4,096 ids, 64 ids sampled
// with their logprobs, 16 sessions at once, the journal on, in front of a server that answers at
// once. Three processes: only the gateway's CPU is counted. The 30 calls of a session are measured
// separately, because reading the history again must not make later calls more expensive. Then one
// streamed call at a time, in front of a server that sends tokens as they are sampled: the delay of
// its first token compared with the server itself.
// Run: npm run bench -- gateway [rounds] [peer]; "peer" also installs rllm-model-gateway from PyPI
// below build/ and measures it.

import { fork, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createSglangEngine } from "../dist/engines/sglang/index.js";
import { createGateway } from "../dist/gateway/index.js";
import { createQwenRenderer } from "../dist/renderers/index.js";
import { createFileRunStore } from "../dist/store/index.js";
import { createReadableTokenizer } from "../dist/tokenizers/index.js";
import { makeEnvironment, versionOf } from "../scripts/verify/python.mjs";
import { machine, median, spread } from "./lib/measure.mjs";

const sessions = 16;
const calls = 30;
const promptTokens = 4096;
const sampledTokens = 64;
const bodyBytes = 11_000;
/** Warm-up rounds, which are not counted: V8 is still compiling the gateway's code. */
const warmUp = 2;
/** Streaming server: tokens in a frame, and milliseconds between two frames. */
const [frameTokens, frameMs] = [4, 5];

const tokenizer = createReadableTokenizer();
const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
const agent = new Agent({ keepAlive: true, maxSockets: sessions });
const answerText = Array.from({ length: sampledTokens - 1 }, (_, place) => `w${place % 10}`).join(" ");

const roles = { server: serve, gateway: runGateway };
const role = process.argv[2] ?? "";
if (role in roles) await roles[role](process.argv[3]);
else await measure(Number(process.argv[2] ?? 8), process.argv[3] === "peer");

/**
 * Serves SGLang's /generate, whole at once or streamed, and the part of vLLM's Chat Completions
 * that a peer needs.
 */
async function serve() {
  const ids = [...tokenizer.encode(answerText)].slice(0, sampledTokens - 1).concat([...tokenizer.encode("<|im_end|>")]);
  const logged = ids.map((id) => [-0.25, id, null]);
  const chat = JSON.stringify({
    id: "x",
    object: "chat.completion",
    created: 0,
    model: "policy",
    prompt_token_ids: Array.from({ length: promptTokens }, (_, place) => 1000 + (place % 500)),
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: answerText },
        finish_reason: "stop",
        token_ids: ids,
        logprobs: { content: ids.map((id) => ({ token: `t${id}`, logprob: -0.25, bytes: null, top_logprobs: [] })) },
      },
    ],
    usage: { prompt_tokens: promptTokens, completion_tokens: ids.length, total_tokens: promptTokens + ids.length },
  });
  /** Reply with the first `count` tokens. */
  const reply = (count, prompt) =>
    JSON.stringify({
      text: "",
      output_ids: ids.slice(0, count),
      meta_info: {
        id: "x",
        prompt_tokens: prompt,
        weight_version: "1",
        completion_tokens: count,
        cached_tokens: 0,
        finish_reason: count < ids.length ? null : { type: "stop", matched: ids.at(-1) },
        output_token_logprobs: logged.slice(0, count),
      },
    });
  const stream = async (outgoing, prompt) => {
    outgoing.writeHead(200, { "content-type": "text/event-stream" });
    process.send({ first: now() });
    for (let count = 1; ; count = Math.min(ids.length, count + frameTokens)) {
      outgoing.write(`data: ${reply(count, prompt)}\n\n`);
      if (count === ids.length) break;
      await new Promise((done) => setTimeout(done, frameMs));
    }
    outgoing.end("data: [DONE]\n\n");
  };
  const server = createServer((incoming, outgoing) => {
    const parts = [];
    incoming.on("data", (part) => parts.push(part));
    incoming.on("end", () => {
      const body = Buffer.concat(parts).toString("latin1");
      const list = /"input_ids":\[([^\]]*)\]/.exec(body)?.[1] ?? "";
      const prompt = list === "" ? 0 : list.split(",").length;
      if (/"stream":true/.test(body)) {
        void stream(outgoing, prompt);
        return;
      }
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(incoming.url === "/generate" ? reply(ids.length, prompt) : chat);
    });
  });
  server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
}

async function runGateway(port) {
  const folder = mkdtempSync(join(tmpdir(), "gateway-bench-"));
  const store = createFileRunStore(join(folder, "run"));
  await store.begin(new Map([["format", 4]]));
  const engine = createSglangEngine({ url: `http://127.0.0.1:${port}`, connections: sessions });
  const gateway = createGateway({ engine, renderer, store });
  const listener = await gateway.listen({ port: 0 });
  process.send({ port: Number(new URL(listener.url).port) });
  process.on("message", (message) => {
    if (message === "cpu") process.send({ cpu: process.cpuUsage() });
    if (message !== "end") return;
    for (const { counters } of gateway.sessions) {
      if (counters.extended !== calls - 1) throw new Error(JSON.stringify(counters));
    }
    rmSync(folder, { recursive: true, force: true });
    process.exit(0);
  });
}

async function measure(rounds, withPeer) {
  const server = await child("server");
  const gateway = await child("gateway", server.port);
  const peer = withPeer ? await startPeer(server.port) : null;
  const system = promptOf();
  /** CPU milliseconds per call, by the call's position in its session. */
  const costs = Array.from({ length: calls }, () => []);
  const peerCosts = [];
  for (let round = 0; round < rounds; round++) {
    const histories = Array.from({ length: sessions }, () => beginning(system));
    for (let place = 0; place < calls; place++) {
      const before = await gateway.cpu();
      await Promise.all(histories.map((messages, index) => call(gateway.port, `/s/r${round}-s${index}`, messages)));
      costs[place].push(((await gateway.cpu()) - before) / 1000 / sessions);
    }
    if (peer === null) continue;
    const before = peer.cpu();
    const again = Array.from({ length: sessions }, () => beginning(system));
    for (let place = 0; place < calls; place++) {
      await Promise.all(again.map((messages, index) => call(peer.port, `/sessions/r${round}-s${index}`, messages)));
    }
    peerCosts.push((peer.cpu() - before) / sessions / calls);
  }
  const added = await firstTokens({ server, gateway, system });
  gateway.process.send("end");
  server.process.kill();
  peer?.stop();
  agent.destroy();
  const isWarm = Math.min(warmUp, rounds - 1);
  const warm = costs.map((ofPlace) => median(ofPlace.slice(isWarm)));
  const around = (place) => median(warm.slice(place - 2, place + 1));
  const cost = median(warm);
  console.log(machine());
  console.log(
    `${sessions} sessions at once, ${calls} calls each, ${rounds} rounds; ${Buffer.byteLength(JSON.stringify({ messages: [{ role: "system", content: system }] }))} bytes, ${promptTokens} ids in the first prompt, ${sampledTokens} sampled`,
  );
  console.log(
    `CPU a call: ${cost.toFixed(2)} ms (calls 2 to 4: ${around(4).toFixed(2)}, calls 28 to 30: ${around(30).toFixed(2)}, ratio ${(around(30) / around(4)).toFixed(2)})`,
  );
  if (peer !== null) {
    const other = median(peerCosts.slice(isWarm));
    console.log(
      `CPU a call of rllm-model-gateway ${peer.version}: ${other.toFixed(2)} ms, ${(other / cost).toFixed(1)} times`,
    );
  }
  console.log(
    `First token, streamed, later than from the server itself: ${spread(added.fromToken)} ms after it was sampled, ${spread(added.fromRequest)} ms after the request, of ${calls} calls`,
  );
}

/** Current time in milliseconds, common to all processes of this machine. */
function now() {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

/** Sequential calls: delay of the first token compared with that without the gateway. */
async function firstTokens({ server, gateway, system }) {
  const messages = beginning(system);
  const input = [...renderer.renderPrompt(messages, []).tokens];
  const [fromToken, fromRequest] = [[], []];
  for (let place = 0; place < calls; place++) {
    const direct = { input_ids: input, stream: true, return_logprob: true, sampling_params: {} };
    const alone = await streamed(server, server.port, { path: "/generate", body: direct, token: /"output_ids":\[\d/ });
    const chat = { model: "policy", messages, stream: true };
    const path = "/s/streamed/v1/chat/completions";
    const through = await streamed(server, gateway.port, { path, body: chat, token: /"content":"[^"]/ });
    const content = through.text.matchAll(/"content":("(?:[^"\\]|\\.)*")/g);
    const answer = [...content].map(([, part]) => JSON.parse(part)).join("");
    messages.push({ role: "assistant", content: answer }, { role: "user", content: "go on" });
    fromToken.push(through.seen - through.sampled - (alone.seen - alone.sampled));
    fromRequest.push(through.seen - through.sent - (alone.seen - alone.sent));
  }
  // The first calls of a process compile the code that they run.
  return { fromToken: fromToken.slice(3), fromRequest: fromRequest.slice(3) };
}

/**
 * Times at which a streamed request was sent, its server had the first token, and the client
 * received one.
 */
async function streamed(server, port, { path, body, token }) {
  const sampled = new Promise((done) => server.process.once("message", ({ first }) => done(first)));
  const sent = now();
  let [text, seen] = ["", null];
  await exchange({ port, path, body }, (part) => {
    text += part;
    if (seen === null && token.test(text)) seen = now();
  });
  if (seen === null) throw new Error(text);
  return { text, sent, seen, sampled: await sampled };
}

function beginning(system) {
  return [
    { role: "system", content: system },
    { role: "user", content: "begin" },
  ];
}

/**
 * A system message that gives a prompt of the required number of ids and a body of the required
 * number of bytes.
 */
function promptOf() {
  const shown = (content) => renderer.renderPrompt(beginning(content), []).tokens.length;
  const base = shown("a");
  let words = promptTokens - base;
  const text = (count, length) =>
    Array.from({ length: count }, (_, place) => "abcdefgh".slice(0, length) + (place % 10)).join(" ");
  const perWord = shown(text(1001, 1)) - shown(text(1, 1));
  words = Math.floor(words / (perWord / 1000));
  const most = Math.max(1, Math.min(8, Math.floor(bodyBytes / words) - 2));
  return text(words, most);
}

/** Sends one call; `address` is that of a session. */
async function call(port, address, messages) {
  let answer = "";
  const body = { model: "policy", messages };
  await exchange({ port, path: `${address}/v1/chat/completions`, body }, (part) => (answer += part));
  const { choices, error } = JSON.parse(answer);
  if (choices === undefined || error !== undefined) throw new Error(answer);
  messages.push({ role: "assistant", content: choices[0].message.content }, { role: "user", content: "go on" });
}

function exchange({ port, path, body }, onText) {
  const bytes = Buffer.from(JSON.stringify(body));
  const headers = { "content-type": "application/json", "content-length": bytes.length };
  return new Promise((done, fail) => {
    const sent = request({ port, path, agent, headers, host: "127.0.0.1", method: "POST" }, (incoming) => {
      incoming.setEncoding("utf8").on("data", onText).on("end", done).on("error", fail);
    });
    sent.on("error", fail);
    sent.end(bytes);
  });
}

/**
 * rllm-model-gateway with its default settings: SQLite, requests and replies of the client.
 *
 * @returns its CPU in milliseconds
 */
async function startPeer(serverPort) {
  const { bin } = makeEnvironment({ name: "rllm-model-gateway", packages: ["rllm-model-gateway==0.1.0"] });
  const folder = mkdtempSync(join(tmpdir(), "gateway-peer-"));
  const port = await freePort();
  const options = ["--host", "127.0.0.1", "--port", String(port), "--db-path", join(folder, "traces.db")];
  const worker = ["--worker", `http://127.0.0.1:${serverPort}/v1`, "--log-level", "warning"];
  const process_ = spawn(bin("rllm-model-gateway"), [...options, ...worker], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder },
    stdio: ["ignore", "ignore", "inherit"],
  });
  for (let tries = 0; ; tries++) {
    const isUp = await fetch(`http://127.0.0.1:${port}/health`).then(({ ok }) => ok, () => false); // prettier-ignore
    if (isUp) break;
    if (tries === 100) throw new Error("rllm-model-gateway did not start within 20 s.");
    await new Promise((done) => setTimeout(done, 200));
  }
  return {
    port,
    version: versionOf(bin("python"), "rllm-model-gateway"),
    cpu: () => {
      // Linux counts CPU time in ticks of 10 ms, separately for user and system mode.
      const fields = readFileSync(`/proc/${process_.pid}/stat`, "utf8").split(") ")[1].split(" ");
      return (Number(fields[11]) + Number(fields[12])) * 10;
    },
    stop: () => {
      process_.kill();
      process_.once("exit", () => rmSync(folder, { recursive: true, force: true }));
    },
  };
}

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

async function child(name, ...parameters) {
  const process_ = fork(new URL(import.meta.url), [name, ...parameters.map(String)]);
  const next = () => new Promise((done) => process_.once("message", done));
  const { port } = await next();
  return {
    process: process_,
    port,
    cpu: async () => {
      const answer = next();
      process_.send("cpu");
      const { cpu } = await answer;
      return cpu.user + cpu.system;
    },
  };
}
