// Growth of a turn's cost, with its new tokens or with its whole context: the cost of turn 30
// against that of turn 3 of the same episodes, the null client's cost for the same bodies
// subtracted. 64 episodes advance in step; each turn looks up a customer, so prompts grow from 4 to
// about 12 thousand tokens.
// Run: npm run bench -- turn-growth [rounds]

import { Pool } from "undici";

import { createSglangEngine } from "../dist/engines/sglang/index.js";
import { runEpisode } from "../dist/rollout/index.js";
import { machine, median, reportRows, spread } from "./lib/measure.mjs";
import { callText, cannedReply, loadWorld, nullClient, shortUser, startServer } from "./lib/prepared-episodes.mjs";

const rounds = Number(process.argv[2] ?? 9);
const episodes = 64;
const turns = 32;
const compared = [
  [2, 3, 4],
  [28, 29, 30],
];
const { tokenizer, environment, renderer, strategy, taskset, lookUp } = await loadWorld();
const task = taskset.task(0);
const reply = cannedReply(callText(lookUp.name, lookUp.args), tokenizer);
const replies = {};
for (let episode = 0; episode < episodes; episode++) {
  for (let turn = 0; turn < turns; turn++) replies[`e${episode}:${turn}`] = reply;
}
const server = await startServer(replies);
const engine = createSglangEngine({ port: server.port, connections: episodes });
const parts = { environment, engine, renderer, strategy, user: shortUser };

/** Releases all episodes when all have arrived; notes the CPU time of each lap. */
function createStep() {
  const laps = [];
  let waiting = [];
  let before = process.cpuUsage();
  return {
    laps,
    arrive: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        if (waiting.length < episodes) return;
        const { user, system } = process.cpuUsage(before);
        laps.push((user + system) / episodes);
        const all = waiting;
        waiting = [];
        globalThis.gc?.();
        before = process.cpuUsage();
        for (const go of all) go();
      }),
  };
}

/** CPU microseconds of each turn, from one reply of the server to the next. */
async function ours() {
  const step = createStep();
  const played = await Promise.all(
    Array.from({ length: episodes }, (_, index) =>
      runEpisode(task, parts, {
        episodeId: `e${index}`,
        limits: { maxTurns: turns },
        onEvent: (event) => (event.type === "turn" ? step.arrive() : undefined),
      }),
    ),
  );
  if (played.some(({ stopReason }) => stopReason !== "max_turns")) throw new Error(JSON.stringify(played[0].failure));
  return step.laps;
}

await ours();
const bodies = await server.bodies();
const pool = new Pool(`http://127.0.0.1:${server.port}`, { connections: episodes, headersTimeout: 0, bodyTimeout: 0 });
const send = nullClient(pool);

async function nothing() {
  const step = createStep();
  await Promise.all(
    Array.from({ length: episodes }, async (_, episode) => {
      for (let turn = 0; turn < turns; turn++) {
        if ((await send(bodies.get(`e${episode}:${turn}`))) === 0) throw new Error("Nothing was read.");
        await step.arrive();
      }
    }),
  );
  return step.laps;
}

/**
 * Warm-up rounds, which are not counted, until V8 has compiled the code; each has 64 times 30
 * turns.
 */
const warmUp = 4;
const laps = { ours: [], nothing: [] };
for (let round = 0; round < rounds + warmUp; round++) {
  const order = round % 2 === 0 ? ["ours", "nothing"] : ["nothing", "ours"];
  for (const name of order) {
    const measured = await (name === "ours" ? ours() : nothing());
    if (round >= warmUp) laps[name].push(measured);
  }
}
const at = (name, places) => laps[name].map((lap) => median(places.map((turn) => lap[turn])));
console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- turn-growth ${rounds}`);
console.log("CPU us a turn             turn 3                       turn 30");
for (const name of ["ours", "nothing"]) {
  console.log(`${name.padEnd(8)}        ${compared.map((places) => spread(at(name, places)).padEnd(28)).join(" ")}`);
}
const net = compared.map((places) => {
  const null_ = at("nothing", places);
  return at("ours", places).map((cost, round) => cost - null_[round]);
});
console.log(`net             ${net.map((values) => spread(values).padEnd(28)).join(" ")}`);
const growth = net[1].map((cost, round) => cost / net[0][round]);
console.log(`turn 30 over turn 3, net: ${spread(growth, 2)}   (target: at most 1.3)`);
reportRows({
  what: "turn 30 over turn 3, the null client's subtracted",
  figure: spread(growth, 2),
  target: "at most 1.3",
  isMet: median(growth) <= 1.3,
});

await engine.close();
await pool.close();
server.close();
