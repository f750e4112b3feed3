// The external program of `npm run verify -- gateway-training`, as the runner of a training's
// episodes: a gateway on a socket, and in front of it the program of examples/, which gets the keys
// of its sessions and answers with their rewards.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { createGateway } from "../../dist/gateway/index.js";
import { deriveSeed } from "../../dist/lib/random.js";
import { episodeSamples } from "../../dist/rollout/index.js";
import { createFileRunStore } from "../../dist/store/index.js";
import { root } from "../run-command.mjs";

/** @import { Grade } from "../../dist/core/index.js" */
/** @import { Gateway } from "../../dist/gateway/index.js" */
/** @import { episodeRunner } from "../../dist/rollout/index.js" */
/** @typedef {typeof episodeRunner} MakeRunner */

/**
 * Starts a gateway on a socket, and the program in front of it. Each episode is a session; the
 * program reports its reward, and its rows come from the run folder.
 *
 * @param {string} folder
 * @param {{ groupSize: number }} options Group size of a training; evaluations have groups of one.
 */
export async function startGateway(folder, { groupSize }) {
  const manifest = /** @type {Map<string, never>} */ (new Map([["format", 4]]));
  const store = createFileRunStore(folder);
  await store.begin(manifest);
  const counters = { calls: 0, extended: 0, branched: 0, reencoded: 0 };
  /** @type {Set<string>} */
  const opened = new Set();
  /** @type {(() => Promise<unknown>)[]} */
  const started = [];

  /** @param {Gateway} gateway */
  const serve = async (gateway) => {
    const listener = await gateway.listen({ port: 0 });
    const agent = startProgram(`${listener.url}/v1`);
    started.push(async () => {
      agent.stop();
      gateway.close();
      await listener.close();
    });
    return agent;
  };
  /** @type {MakeRunner} */
  const makeRunner = ({ engine, renderer }, options) => {
    const { sampling = {}, limits = {}, seedTurns = false } = options ?? {};
    const gateway = createGateway({ engine, renderer, store }, { sampling, episode: { limits, seedTurns } });
    const serving = serve(gateway);
    return async (task, { episodeId, groupId, seed }) => {
      const agent = await serving;
      const id = unusedName(episodeId, opened);
      opened.add(id);
      const size = groupId.endsWith("@evaluation") ? 1 : groupSize;
      const { key } = await gateway.open({ id, task: task.id, group: groupId, groupSize: size, seed });
      const { split, index } = task;
      const grade = await agent.play({ key, split, index, seed: deriveSeed(seed, "user") });
      const session = gateway.sessions.find((one) => one.id === id)?.counters;
      counters.calls += session?.calls ?? 0;
      counters.extended += session?.extended ?? 0;
      counters.branched += Object.values(session?.branched ?? {}).reduce((sum, count) => sum + count, 0);
      counters.reencoded += session?.reencoded ?? 0;
      await gateway.reward(id, grade);
      await gateway.end(id);
      const episode = await store.kept(id);
      if (episode === null) throw new Error(`Cannot train on session "${id}": the run folder does not have it.`);
      return { episode, result: episodeSamples(episode), origin: "new" };
    };
  };
  return {
    makeRunner,
    counters,
    close: async () => {
      for (const stop of started) await stop();
      await store.close(manifest);
    },
  };
}

/**
 * The program of examples/, with only an address in its environment.
 *
 * @param {string} address
 */
function startProgram(address) {
  /** @type {Map<string, { resolve: (grade: Grade) => void, reject: (error: Error) => void }>} */
  const playing = new Map();
  const child = spawn(process.execPath, [join(root, "examples", "your-own-agent.mjs")], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { TRAINABLE_AGENTS_BASE_URL: address },
  });
  createInterface({ input: child.stdout }).on("line", (line) => {
    const said = /** @type {{ key: string, reward: number, metrics: Record<string, number> }} */ (JSON.parse(line));
    const { key, reward, metrics } = said;
    playing.get(key)?.resolve({ reward, metrics, log: "", info: new Map() });
    playing.delete(key);
  });
  child.once("exit", (code, signal) => {
    for (const { reject } of playing.values()) reject(new Error(`The agent program ended with ${code ?? signal}.`));
  });
  return {
    /**
     * @param {{ key: string, split: string, index: number, seed: number }} session
     * @returns {Promise<Grade>}
     */
    play: (session) =>
      new Promise((resolve, reject) => {
        if (child.exitCode !== null) throw new Error(`The agent program ended with ${child.exitCode}.`);
        playing.set(session.key, { resolve, reject });
        child.stdin.write(`${JSON.stringify(session)}\n`);
      }),
    stop: () => child.kill("SIGKILL"),
  };
}

/**
 * A name made unique, because the evaluations before and after have the same names.
 *
 * @param {string} name
 * @param {{ has(name: string): boolean }} used
 */
export function unusedName(name, used) {
  for (let time = 1; ; time++) if (!used.has(`${name}~${time}`)) return `${name}~${time}`;
}
