// Episodes of a remote environment and their invariants: each has one outcome, one that a fault
// ended has neither a reward nor a row, and a finished one equals the episode over a reliable
// connection, token for token.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { rollout } from "../../../dist/index.js";
import { episodeSamples } from "../../../dist/rollout/index.js";
import { readEpisodes } from "../../../dist/store/index.js";

/** @typedef {Map<string, { readonly outcome: string, readonly reward: number | null, readonly tokens: string, readonly code: string | null }>} Played */

/**
 * @param {object} wanted
 * @param {string | import("../../../dist/core/index.js").EnvironmentSource} wanted.env
 * @param {string | null} wanted.envTasks
 * @param {string} wanted.policy Address of the policy's server.
 * @param {number} wanted.tasks
 * @param {number} [wanted.groupSize]
 * @param {string} [wanted.out] Run folder that stays.
 * @param {Record<string, unknown>} [wanted.more]
 * @returns {Promise<Played>}
 */
export async function play({ env, envTasks, policy, tasks, groupSize = 2, more = {} }) {
  const out = mkdtempSync(join(tmpdir(), "verify-environments-"));
  try {
    await rollout({
      env,
      envTasks,
      url: policy,
      model: "readable",
      tasks: `0-${tasks - 1}`,
      groupSize,
      concurrency: 16,
      out: join(out, "run"),
      maxTurns: 12,
      environmentTimeout: 2,
      ...more,
    });
    return await readPlayed(join(out, "run"));
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/**
 * Throws for a duplicate episode, and for one that a fault ended and that has rows to train.
 *
 * @param {string} folder
 */
export async function readPlayed(folder) {
  /** @type {Played} */
  const played = new Map();
  for await (const episode of readEpisodes(folder)) {
    const { id, outcome, reward, failure } = episode;
    if (played.has(id)) throw new Error(`episode ${id} ended twice`);
    const { samples } = episodeSamples(episode);
    if (failure !== null && (reward !== null || samples.length > 0)) {
      throw new Error(`episode ${id} failed with ${failure.code}, and has a reward or a row`);
    }
    // A grader may look at the world, over the same connection.
    const isWorld = failure?.boundary === "grader" && /^(remote-|timeout)/.test(failure.code);
    if (failure !== null && failure.boundary !== "environment" && !isWorld) {
      throw new Error(`episode ${id} failed at "${failure.boundary}" with ${failure.code}: ${failure.message}`);
    }
    if (failure === null && samples.length === 0) throw new Error(`episode ${id} is whole and has no row`);
    // Only trained rows are compared: a restarted episode also holds the turns of its first start,
    // which are in no row.
    const rows = samples.map(({ tokens, lossMask }) => `${tokens.join(" ")} | ${lossMask.join("")}`);
    played.set(id, { outcome, reward, tokens: rows.join(" / "), code: failure?.code ?? null });
  }
  return played;
}

/**
 * Counts; throws if an episode is missing or differs from the one over a reliable connection.
 *
 * @param {Played} played
 * @param {Played} quiet
 */
export function compared(played, quiet) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const [id, { outcome, reward, tokens }] of quiet) {
    const same = played.get(id);
    if (same === undefined) throw new Error(`episode ${id} has no outcome`);
    const name = same.code ?? same.outcome;
    counts[name] = (counts[name] ?? 0) + 1;
    if (same.code !== null) continue;
    if (same.outcome !== outcome || same.reward !== reward || same.tokens !== tokens) {
      throw new Error(`episode ${id} differs: ${same.outcome}, ${same.reward} in place of ${outcome}, ${reward}`);
    }
  }
  if (played.size !== quiet.size) throw new Error(`${played.size} episodes in place of ${quiet.size}`);
  return Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(", ");
}
