// A run over a queue while everything is killed: workers, the broker, the broker with its disk, the
// coordinator, each at random moments and each restarted; and workers that are stopped for longer
// than their lease. The result must equal that of an undisturbed run in one process: the same
// groups, decisions and rewards, every episode once with the same sampled tokens, and no messages
// left in the streams.

import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";

import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { createRandom } from "../../../dist/lib/random.js";
import { coordinateNats } from "../../../dist/queue/nats/index.js";
import { openRunFolder } from "../../../dist/store/index.js";
import { root } from "../../run-command.mjs";
import { startNats } from "./nats-server.mjs";

const program = join(root, "dist", "cli", "main.js");
const workers = 3;
const leaseSeconds = 4;
/** Kills in one run; each of its processes takes a while to start. */
const killsOfOneRun = 30;
const seed = 7;

/** @typedef {"worker" | "stopped worker" | "coordinator" | "broker" | "wiped broker"} Victim */

/** Victims; workers die most often, as there are most of them. @type {readonly Victim[]} */
const victims = ["worker", "worker", "worker", "stopped worker", "coordinator", "broker", "wiped broker"];

/**
 * @param {object} options
 * @param {import("./nats-server.mjs").NatsVersion} options.version
 * @param {string} options.folder
 * @param {number} options.kills
 * @param {number} options.tasks
 * @returns {Promise<string>} The figures. Rejects with the first difference.
 */
export async function runChaos({ version, folder, kills, tasks }) {
  const random = createRandom(seed);
  mkdirSync(join(folder, "runs"), { recursive: true });
  const calm = join(folder, "runs", "calm");
  await startRun(["--out", calm, ...planFlags(tasks)], join(folder, "calm.log")).ended;
  const expected = await resultOf(calm);
  const broker = await startNats({ version, folder: join(folder, "broker") });
  const queue = ["--queue", `${broker.url}/chaos`];
  const began = performance.now();
  /** @type {Record<string, number>} */
  const killed = {};
  let [done, runs] = [0, 0];
  /** @type {Map<number, Running>} */
  const alive = new Map();
  let lives = 0;
  const startWorker = (/** @type {number} */ place) => {
    const name = `w${place}-${lives++}`;
    const flags = ["worker", ...queue, "--dir", join(folder, "runs"), "--capacity", "8", "--name", name];
    alive.set(place, start(flags, join(folder, `${name}.log`)));
  };
  for (let place = 0; place < workers; place++) startWorker(place);
  try {
    while (done < kills) {
      const out = join(folder, "runs", `run-${runs++}`);
      const log = join(folder, `run-${runs}.log`);
      const lease = ["--queue-lease", String(leaseSeconds)];
      let run = startRun(["--out", out, ...planFlags(tasks), ...queue, ...lease], log);
      const last = Math.min(kills, done + killsOfOneRun);
      while (done < last) {
        const isOver = await Promise.race([run.ended.then(() => true), sleep(300 + random.next() * 1500, false)]);
        if (isOver) break;
        const victim = victims[Math.floor(random.next() * victims.length)] ?? "worker";
        const place = Math.floor(random.next() * workers);
        switch (victim) {
          case "worker":
            await alive.get(place)?.kill();
            startWorker(place);
            break;
          case "stopped worker": {
            const stopped = alive.get(place);
            stopped?.signal("SIGSTOP");
            setTimeout(() => stopped?.signal("SIGCONT"), 2 * leaseSeconds * 1000);
            break;
          }
          case "coordinator":
            // Without a run folder there is nothing to resume.
            if (!existsSync(join(out, "run.json"))) continue;
            await run.kill();
            run = startRun(["--resume", out, ...queue, ...lease], log);
            break;
          case "broker":
            await broker.kill();
            await broker.start();
            break;
          default:
            await broker.wipe();
        }
        killed[victim] = (killed[victim] ?? 0) + 1;
        done++;
      }
      const code = await Promise.race([run.ended, sleep(180_000, "not within three minutes")]);
      if (code !== 0) throw new Error(`the run ended with ${code}; its last lines: ${lastLines(log)}`);
      compare(expected, await resultOf(out), out);
      if (kills > done) process.stderr.write(`${done} of ${kills} kills, ${runs} runs equal to the undisturbed one\n`);
    }
    // Workers also shut down properly: a stopped worker has resumed by now, or is resumed here.
    for (const one of alive.values()) one.signal("SIGCONT");
    for (const one of alive.values()) one.signal("SIGTERM");
    const codes = await Promise.all([...alive.values()].map(({ ended }) => ended));
    if (codes.some((code) => code !== 0)) throw new Error(`workers ended with ${codes.join(", ")}`);
    await expectNothingLeft(broker.url, new Set(expected.ids));
  } finally {
    for (const one of alive.values()) await one.kill();
    await broker.kill();
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(0);
  const counts = Object.entries(killed).map(([what, count]) => `${count} ${what}`);
  return `${done} kills (${counts.join(", ")}) in ${runs} runs of ${expected.episodes.length} episodes, ${seconds} s`;
}

/** @param {number} tasks */
function planFlags(tasks) {
  const plan = ["--env", "bookshop", "--engine", "expert", "--tasks", `0-${tasks - 1}`, "--group-size", "4"];
  return [...plan, "--seed", String(seed), "--concurrency", "24", "--filter", "zero-signal"];
}

/**
 * @typedef {object} Running
 * @property {Promise<number | string>} ended Resolves with its code, or the signal that ended it.
 * @property {(name: NodeJS.Signals) => void} signal
 * @property {() => Promise<unknown>} kill
 */

/** @param {readonly string[]} flags @param {string} log */
function startRun(flags, log) {
  return start(["rollout", "--fsync", "never", ...flags], log);
}

/** @param {readonly string[]} parameters @param {string} log @returns {Running} */
function start(parameters, log) {
  const output = openSync(log, "a");
  const child = spawn(process.execPath, [program, ...parameters], { stdio: ["ignore", output, output] });
  closeSync(output);
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  /** @type {Promise<number | string>} */
  const ended = new Promise((resolve) => {
    child.once("exit", (code, signal) => {
      process.off("exit", kill);
      resolve(code ?? signal ?? "nothing");
    });
  });
  return {
    ended,
    signal: (name) => void child.kill(name),
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Results that must not depend on timing, in a fixed order. @param {string} folder */
async function resultOf(folder) {
  const reader = openRunFolder(folder);
  /** @type {unknown[]} */
  const episodes = [];
  const ids = new Set();
  for await (const { id, outcome, stopReason, reward, trajectory } of reader.episodes()) {
    if (ids.has(id)) throw new Error(`episode "${id}" is twice in ${folder}`);
    ids.add(id);
    const tokens = trajectory.turns.map(({ sampledTokens }) => [...sampledTokens]);
    episodes.push([id, outcome, stopReason, reward, tokens]);
  }
  /** @type {unknown[]} */
  const groups = [];
  for await (const { groupId, decision, reason, episodeIds, rewards } of reader.groups()) {
    const members = episodeIds.map((id, index) => JSON.stringify([id, rewards[index]]));
    groups.push([groupId, decision, reason, members.toSorted()]);
  }
  return { ids: [...ids], episodes: inOrder(episodes), groups: inOrder(groups) };
}

/** @param {readonly unknown[]} rows */
function inOrder(rows) {
  return rows.map((row) => JSON.stringify(row)).toSorted();
}

/** @typedef {Awaited<ReturnType<typeof resultOf>>} Result */

/** @param {Result} expected @param {Result} found @param {string} folder */
function compare(expected, found, folder) {
  for (const what of /** @type {const} */ (["groups", "episodes"])) {
    if (isDeepStrictEqual(expected[what], found[what])) continue;
    const odd = found[what].find((line) => !expected[what].includes(line)) ?? "fewer";
    throw new Error(
      `${what} of ${folder} are others: ${found[what].length} in place of ${expected[what].length}, first ${odd.slice(0, 300)}`,
    );
  }
}

/**
 * Expects that neither jobs nor states are left. A worker's receipt for an episode that another
 * worker has ended meanwhile waits for the next coordinator of the queue, if it arrives after the
 * run has ended; it belongs to an episode that counts, so the coordinator accepts it.
 * @param {string} url
 * @param {ReadonlySet<string>} ids Ids of the episodes that count.
 */
async function expectNothingLeft(url, ids) {
  const left = await messagesLeft(url);
  const problem = Object.entries(left).find(([stream, count]) => count > 0 && !stream.endsWith("_RECEIPTS"));
  if (problem !== undefined) throw new Error(`${problem[1]} messages are left in ${problem[0]}`);
  /** @type {string[]} */
  const late = [];
  const ignored = () => undefined;
  const handlers = { onReport: ignored, onForgotten: ignored, onNotice: ignored };
  const next = await coordinateNats(
    { ...handlers, onReceipt: async ({ episodeId }) => void late.push(episodeId) },
    { address: `${url}/chaos` },
  );
  try {
    for (let tries = 0; Object.values(await messagesLeft(url)).some((count) => count > 0); tries++) {
      if (tries === 100) throw new Error(`receipts are left at the broker: ${JSON.stringify(await messagesLeft(url))}`);
      await sleep(100);
    }
  } finally {
    await next.close();
  }
  const odd = late.find((id) => !ids.has(id));
  if (odd !== undefined) throw new Error(`a late receipt is of episode "${odd}", which does not count`);
}

/** Number of messages left, by the name of the stream. @param {string} url */
async function messagesLeft(url) {
  const nc = await connect({ servers: url.replace("nats://", "") });
  /** @type {Record<string, number>} */
  const left = {};
  for await (const { config, state } of (await jetstreamManager(nc)).streams.list()) left[config.name] = state.messages;
  await nc.close();
  return left;
}

/** @param {string} log */
function lastLines(log) {
  return readFileSync(log, "utf8").trim().split("\n").slice(-5).join(" | ");
}
