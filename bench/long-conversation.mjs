// CPU of a turn in a conversation that reaches 142,000 tokens in 43 turns, the median of published
// traces of agents: each turn is a tool call whose result is a text of about 3,300 tokens. The cost
// of a null client that sends the same bodies is subtracted.
// Run: npm run bench -- long-conversation [rounds]

import { Pool } from "undici";

import { createSglangEngine } from "../dist/engines/sglang/index.js";
import { defineEnvironment } from "../dist/environments/index.js";
import { runEpisode } from "../dist/rollout/index.js";
import { cpuOf, machine, median, reportRows, spread } from "./lib/measure.mjs";
import { callText, cannedReply, loadWorld, nullClient, shortUser, startServer } from "./lib/prepared-episodes.mjs";

const rounds = Number(process.argv[2] ?? 9);
const turns = 43;
const tokens = 142_000;
const most = 2;
const { tokenizer, renderer, strategy } = await loadWorld();

/** Different text for each turn, which a cache of pieces cannot know as a whole. */
function page(turn) {
  const line = (at) =>
    `${turn}.${at}: order #W${(turn * 7919 + at * 104_729) % 10_000_000} ships to "Elm Street ${at}"\n`;
  let text = "";
  for (let at = 0; tokenizer.encode(text).length < tokens / turns - 40; at += 4) {
    text += line(at) + line(at + 1) + line(at + 2) + line(at + 3);
  }
  return text;
}
const pages = Array.from({ length: turns }, (_, turn) => page(turn));
const environment = defineEnvironment({
  name: "pages",
  guidelines: "Read the pages.",
  tools: {
    read: {
      description: "Reads a page.",
      parameters: { type: "object", properties: { page: { type: "integer" } }, required: ["page"] },
      run: ({ page: number }) => pages[Number(number)],
    },
  },
  tasks: { test: [{ instruction: "Have the pages read.", state: {} }] },
  grade: () => 1,
});
const task = environment.taskset("test").task(0);
const replies = Object.fromEntries(
  pages.map((_, turn) => [`e0:${turn}`, cannedReply(callText("read", { page: turn }), tokenizer)]),
);
const server = await startServer(replies);
const engine = createSglangEngine({ port: server.port, connections: 1 });
const parts = { environment, engine, renderer, strategy, user: shortUser };

let reached = 0;
async function ours() {
  const { stopReason, failure, trajectory } = await runEpisode(task, parts, {
    episodeId: "e0",
    limits: { maxTurns: turns, maxToolResultChars: 1_000_000 },
  });
  if (stopReason !== "max_turns") throw new Error(JSON.stringify(failure ?? stopReason));
  reached = trajectory.turns.reduce(
    (sum, { observationTokens, sampledTokens }) => sum + observationTokens.length + sampledTokens.length,
    0,
  );
}

await ours();
if (Math.abs(reached - tokens) > tokens / 20) throw new Error(`The conversation has ${reached} tokens, not ${tokens}.`);
const bodies = await server.bodies();
const pool = new Pool(`http://127.0.0.1:${server.port}`, { connections: 1, headersTimeout: 0, bodyTimeout: 0 });
const send = nullClient(pool);
async function nothing() {
  for (let turn = 0; turn < turns; turn++) {
    if ((await send(bodies.get(`e0:${turn}`))) === 0) throw new Error("Nothing was read.");
  }
}

/** Rounds until V8 has compiled the code, which are not counted. */
const warmUp = 15;
const costs = { ours: [], nothing: [] };
for (let round = 0; round < rounds + warmUp; round++) {
  for (const [name, run] of round % 2 === 0
    ? [
        ["ours", ours],
        ["nothing", nothing],
      ]
    : [
        ["nothing", nothing],
        ["ours", ours],
      ]) {
    // prettier-ignore
    globalThis.gc?.();
    const { cpuUs } = await cpuOf(run);
    if (round >= warmUp) costs[name].push(cpuUs / turns / 1000);
  }
}
console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- long-conversation ${rounds}`);
console.log(`${reached} tokens in ${turns} turns; CPU ms a turn, median (range)`);
for (const [name, values] of Object.entries(costs)) console.log(`${name.padEnd(10)} ${spread(values, 2)}`);
const net = costs.ours.map((cost, round) => cost - costs.nothing[round]);
const isMet = median(net) <= most;
console.log(`net        ${spread(net, 2)}   (target: at most ${most}: ${isMet ? "met" : "missed"})`);
reportRows({
  what: `a conversation of ${tokens} tokens in ${turns} turns, CPU ms a turn, the null client's subtracted`,
  figure: spread(net, 2),
  target: `at most ${most}`,
  isMet,
});

await engine.close();
await pool.close();
server.close();
