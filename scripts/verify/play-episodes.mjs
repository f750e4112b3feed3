// Episodes by the command line against a server, as users run them, and their outcomes.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { readEpisodes } from "../../dist/store/index.js";
import { root } from "../run-command.mjs";

const program = join(root, "dist", "cli", "main.js");

/**
 * Rejects if the command fails, or an episode fails or is aborted.
 *
 * @param {readonly string[]} flags Flags of `rollout`.
 * @param {object} options
 * @param {number} options.episodes
 * @param {() => Promise<void>} [options.inTheMiddle] Called when a quarter of the episodes has ended.
 * @returns {Promise<{ readonly figure: string, readonly retries: number, readonly before: number }>}
 */
export async function playEpisodes(flags, { episodes, inTheMiddle = async () => {} }) {
  const work = mkdtempSync(join(tmpdir(), "verify-rollout-"));
  const out = join(work, "run");
  const ended = () => {
    try {
      return readFileSync(join(out, "episodes.jsonl"), "utf8").split("\n").length - 1;
    } catch {
      return 0;
    }
  };
  try {
    const child = spawn(process.execPath, [program, "rollout", ...flags, "--quiet", "--out", out], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    let words = "";
    child.stderr.setEncoding("utf8").on("data", (text) => (words += text));
    const exit = new Promise((resolve) => child.on("exit", resolve));
    while (child.exitCode === null && ended() < episodes / 4) await delay(20);
    const before = ended();
    await inTheMiddle();
    await exit;
    if (child.exitCode !== 0) throw new Error(`the rollout ended with ${child.exitCode}: ${words.slice(-500)}`);
    const outcomes = /** @type {Record<string, number>} */ ({});
    let [retries, turns, tokens] = [0, 0, 0];
    for await (const { outcome, events } of readEpisodes(out)) {
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      for (const event of events) {
        if (event.type !== "turn") continue;
        retries += event.attempts.length;
        turns++;
        tokens += event.turn.sampledTokens.length;
      }
    }
    const named = Object.entries(outcomes).map(([outcome, count]) => `${count} ${outcome}`);
    const figure = `${named.join(", ")}, ${turns} turns with ${tokens} sampled tokens, ${retries} calls repeated`;
    const count = Object.values(outcomes).reduce((sum, one) => sum + one, 0);
    if (count !== episodes || (outcomes["failed"] ?? 0) + (outcomes["aborted"] ?? 0) > 0) throw new Error(figure);
    return { figure, retries, before };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
