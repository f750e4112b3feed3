// What a call through the gateway costs: Chat bodies of 11 kB, prompts of 4,096 ids, 64 ids sampled with their logprobs, 16 sessions
// at once, the journal on, before a server that answers at once. Three processes: only the gateway's CPU is counted. The 30 calls
// of a session are measured apart, because a history that is read again must not make later calls dearer.
// Run: npm run bench -- gateway [rounds]

import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createSglangEngine } from "../dist/engines/sglang/index.js";
import { createGateway } from "../dist/gateway/index.js";
import { createQwenRenderer } from "../dist/renderers/index.js";
import { createFileRunStore } from "../dist/store/index.js";
import { createReadableTokenizer } from "../dist/tokenizers/index.js";
import { machine, median } from "./lib/measure.mjs";

const sessions = 16;
const calls = 30;
const promptTokens = 4096;
const sampledTokens = 64;
const bodyBytes = 11_000;

const tokenizer = createReadableTokenizer();
const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
const agent = new Agent({ keepAlive: true, maxSockets: sessions });
const answerText = Array.from({ length: sampledTokens - 1 }, (_, place) => `w${place % 10}`).join(" ");

const roles = { server: serve, gateway: runGateway };
const role = process.argv[2] ?? "";
if (role in roles) await roles[role](process.argv[3]);
else await measure(Number(process.argv[2] ?? 5));

/** SGLang's /generate, answering at once. */
async function serve() {
  const ids = [...tokenizer.encode(answerText)].slice(0, sampledTokens - 1).concat([...tokenizer.encode("<|im_end|>")]);
  const logged = ids.map((id) => [-0.25, id, null]);
  const server = createServer((incoming, outgoing) => {
    const parts = [];
    incoming.on("data", (part) => parts.push(part));
    incoming.on("end", () => {
      const body = Buffer.concat(parts).toString("latin1");
      const list = /"input_ids":\[([^\]]*)\]/.exec(body)?.[1] ?? "";
      const prompt = list === "" ? 0 : list.split(",").length;
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(
        JSON.stringify({
          text: "",
          output_ids: ids,
          meta_info: {
            ...{
              id: "x",
              finish_reason: { type: "stop", matched: ids.at(-1) },
              prompt_tokens: prompt,
              weight_version: "1",
            },
            ...{ completion_tokens: ids.length, cached_tokens: 0, output_token_logprobs: logged },
          },
        }),
      );
    });
  });
  server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
}

async function runGateway(port) {
  const folder = mkdtempSync(join(tmpdir(), "gateway-bench-"));
  const store = createFileRunStore(join(folder, "run"));
  await store.begin(new Map([["format", 2]]));
  const engine = createSglangEngine({ url: `http://127.0.0.1:${port}`, connections: sessions });
  const gateway = createGateway({ engine, renderer, store });
  const listener = await gateway.listen({ port: 0 });
  process.send({ port: Number(new URL(listener.url).port) });
  process.on("message", (message) => {
    if (message === "cpu") process.send({ cpu: process.cpuUsage() });
    if (message !== "end") return;
    const { counters } = gateway.sessions[0];
    if (counters.extended !== calls - 1) throw new Error(JSON.stringify(counters));
    rmSync(folder, { recursive: true, force: true });
    process.exit(0);
  });
}

async function measure(rounds) {
  const server = await child("server");
  const gateway = await child("gateway", server.port);
  const system = promptOf();
  /** Milliseconds of CPU a call, by the call's place in its session. */
  const costs = Array.from({ length: calls }, () => []);
  for (let round = 0; round < rounds; round++) {
    const histories = Array.from({ length: sessions }, () => [
      { role: "system", content: system },
      { role: "user", content: "begin" },
    ]);
    for (let place = 0; place < calls; place++) {
      const before = await gateway.cpu();
      await Promise.all(histories.map((messages, index) => call(gateway.port, `r${round}-s${index}`, messages)));
      costs[place].push(((await gateway.cpu()) - before) / 1000 / sessions);
    }
  }
  gateway.process.send("end");
  server.process.kill();
  // The first round warms the machine code up.
  const warm = costs.map((ofPlace) => median(ofPlace.slice(rounds > 1 ? 1 : 0)));
  const around = (place) => median(warm.slice(place - 2, place + 1));
  console.log(machine());
  console.log(
    `${sessions} sessions at once, ${calls} calls each, ${rounds} rounds; ${Buffer.byteLength(JSON.stringify({ messages: [{ role: "system", content: system }] }))} bytes, ${promptTokens} ids in the first prompt, ${sampledTokens} sampled`,
  );
  console.log(
    `CPU a call: ${median(warm).toFixed(2)} ms (calls 2 to 4: ${around(4).toFixed(2)}, calls 28 to 30: ${around(30).toFixed(2)}, ratio ${(around(30) / around(4)).toFixed(2)})`,
  );
}

/** A system message that makes a prompt of so many ids and a body of so many bytes. */
function promptOf() {
  const shown = (content) =>
    renderer.renderPrompt(
      [
        { role: "system", content },
        { role: "user", content: "begin" },
      ],
      [],
    ).tokens.length;
  const base = shown("a");
  let words = promptTokens - base;
  const text = (count, length) =>
    Array.from({ length: count }, (_, place) => "abcdefgh".slice(0, length) + (place % 10)).join(" ");
  const perWord = shown(text(1001, 1)) - shown(text(1, 1));
  words = Math.floor(words / (perWord / 1000));
  const most = Math.max(1, Math.min(8, Math.floor(bodyBytes / words) - 2));
  return text(words, most);
}

async function call(port, session, messages) {
  const body = Buffer.from(JSON.stringify({ model: "policy", messages }));
  const answer = await new Promise((done, fail) => {
    const sent = request(
      {
        port,
        host: "127.0.0.1",
        path: "/v1/chat/completions",
        method: "POST",
        agent,
        headers: {
          authorization: `Bearer ${session}`,
          "content-type": "application/json",
          "content-length": body.length,
        },
      },
      (incoming) => {
        const parts = [];
        incoming.on("data", (part) => parts.push(part));
        incoming.on("end", () => done(Buffer.concat(parts).toString()));
      },
    );
    sent.on("error", fail);
    sent.end(body);
  });
  const { choices, error } = JSON.parse(answer);
  if (error !== undefined) throw new Error(answer);
  messages.push({ role: "assistant", content: choices[0].message.content }, { role: "user", content: "go on" });
}

async function child(name, ...parameters) {
  const process_ = fork(new URL(import.meta.url), [name, ...parameters.map(String)]);
  const next = () => new Promise((done) => process_.once("message", done));
  const { port } = await next();
  return {
    ...{ process: process_, port },
    cpu: async () => {
      const answer = next();
      process_.send("cpu");
      const { cpu } = await answer;
      return cpu.user + cpu.system;
    },
  };
}
