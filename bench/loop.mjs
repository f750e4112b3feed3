// All targets of the loop in one table: runs the benchmarks that measure them, one after another,
// each in a process of its own so that none measures the garbage of another. The benchmark named in
// a row explains how it is computed.
// Run: npm run bench -- loop [--only name,name] [--rounds 7]

import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { machine } from "./lib/measure.mjs";

const benchmarks = ["turn-cost", "python-loop", "turn-growth", "tau-bench", "episode-memory", "concurrency"];
const { values } = parseArgs({
  args: process.argv.slice(2),
  options: { only: { type: "string" }, rounds: { type: "string", default: "7" } },
});
const chosen = values.only?.split(",") ?? benchmarks;
const unknown = chosen.find((name) => !benchmarks.includes(name));
if (unknown !== undefined) {
  process.stderr.write(`Cannot run "${unknown}" for the table: choose from ${benchmarks.join(", ")}.\n`);
  process.exit(2);
}

const rows = [];
for (const name of chosen) {
  process.stderr.write(`${name} ...\n`);
  rows.push(...(await rowsOf(name)));
}
console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- loop${chosen === benchmarks ? "" : ` --only ${chosen.join(",")}`}`);
console.log("spread    median (lowest to highest round); CPU is of the client's process alone\n");
for (const { what, figure, target, isMet } of rows) {
  console.log(`${what}\n    ${figure}`);
  if (target !== null)
    console.log(["    target ", target, ": ", isMet === null ? "not measured" : isMet ? "met" : "missed"].join(""));
}
if (rows.some(({ what }) => what.startsWith("Cannot"))) process.exitCode = 1;

/** Rows that the benchmark reports; its printed output is not shown. */
async function rowsOf(name) {
  const path = fileURLToPath(new URL(`./${name}.mjs`, import.meta.url));
  const parameters = name === "concurrency" || name === "episode-memory" ? [] : [values.rounds];
  const child = fork(path, parameters, {
    execArgv: ["--expose-gc"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const reported = [];
  child.on("message", (message) => {
    if (message.type === "rows") reported.push(...message.rows);
  });
  const code = await new Promise((resolve) => child.on("exit", resolve));
  if (code !== 0 || reported.length === 0) {
    reported.push({
      what: `Cannot measure "${name}"`,
      figure: `it ended with code ${code}`,
      target: null,
      isMet: null,
    });
  }
  return reported;
}
