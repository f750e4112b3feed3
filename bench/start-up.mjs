// `npm run bench -- start-up [other checkout]`: CPU that a command spends before and around its
// work, when a user starts it: processes of `node dist/cli/main.js`, user and system time of each,
// and of an empty Node and one that imports the package. With the path of another built checkout,
// both take turns and the ratio is printed; wall time is not, because machines are shared. Not a
// benchmark of rollouts: see `loop`.
//
// Options: --runs 9.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

import { root } from "../scripts/run-command.mjs";

const { values, positionals } = parseArgs({ options: { runs: { type: "string" } }, allowPositionals: true });
const runs = Number(values.runs ?? 9);
const checkouts = [...positionals.map((path) => resolve(path)), root];
const folder = await mkdtemp(join(tmpdir(), "start-up-"));
const out = join(folder, "run");
const rollout = [
  "rollout",
  "--env",
  "bookshop",
  "--engine",
  "expert",
  "--tasks",
  "0-1",
  "--group-size",
  "2",
  "--quiet",
];
/**
 * Arguments of Node, given the checkout.
 *
 * @type {Readonly<Record<string, (checkout: string) => readonly string[]>>}
 */
const commands = {
  "empty Node": () => ["--eval", "0"],
  "import the package": (checkout) => [join(checkout, "dist/index.js")],
  "--version": (checkout) => [main(checkout), "--version"],
  "--help": (checkout) => [main(checkout), "--help"],
  "rollout --help": (checkout) => [main(checkout), "rollout", "--help"],
  "rollout, 4 episodes": (checkout) => [main(checkout), ...rollout, "--out", out],
  export: (checkout) => [main(checkout), "export", out, "--format", "verl", "--output", join(folder, "rows.jsonl")],
};

try {
  process.stdout.write(`Node ${process.versions.node}, ${cpus().length} cores, median CPU of ${runs} processes\n`);
  for (const [name, argv] of Object.entries(commands)) {
    const seconds = checkouts.map(() => /** @type {number[]} */ ([]));
    for (let run = 0; run < runs; run++) {
      for (const [index, checkout] of checkouts.entries()) {
        if (name.startsWith("rollout,")) await rm(out, { recursive: true, force: true });
        await rm(join(folder, "rows.jsonl"), { force: true });
        seconds[index]?.push(await cpuOf(argv(checkout)));
      }
    }
    const [first = 0, second] = seconds.map(median);
    const shown = second === undefined ? `${first.toFixed(3)} s` : `${first.toFixed(3)} s  ${second.toFixed(3)} s`;
    const ratio = second === undefined ? "" : `  ratio ${(second / first).toFixed(2)}`;
    process.stdout.write(`${name.padEnd(20)}  ${shown}${ratio}\n`);
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** @param {string} checkout */
function main(checkout) {
  return join(checkout, "dist/cli/main.js");
}

/** @param {readonly string[]} argv */
async function cpuOf(argv) {
  // CPU times of finished children, as the shell counts them: this process has other children.
  const script = 'TIMEFORMAT="%U %S"; time "$@" > /dev/null';
  const child = spawn("bash", ["-c", script, "time", process.execPath, ...argv], {
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
  const code = await new Promise((done) => child.on("close", done));
  if (code !== 0) throw new Error(`Cannot measure "${argv.join(" ")}": it ended with ${code}: ${said}`);
  const [user = NaN, system = NaN] = (said.trim().split("\n").at(-1) ?? "").split(" ").map(Number);
  return user + system;
}

/** @param {readonly number[]} numbers */
function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN;
}
