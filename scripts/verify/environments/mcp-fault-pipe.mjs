// A faulty connection to a server over standard input and output: starts the server, passes
// everything on, and disturbs some servers in the middle of their output, drawn by their number:
// ends the server, garbles a message, or delays everything for a moment or for ever. Appends both
// process ids to a log; a server's number is that of its line.
//
//   node mcp-fault-pipe.mjs <log> <share> <command> <argument>...

import { spawn } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

const [log = "", share = "0", command = "", ...parameters] = process.argv.slice(2);
const server = spawn(command, parameters, { stdio: ["pipe", "pipe", "inherit"] });
appendFileSync(log, `${process.pid} ${server.pid}\n`);
const number = readFileSync(log, "utf8").split("\n").length;

let state = number * 7919;
const next = () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
};
for (let warm = 0; warm < 5; warm++) next();
const faults = /** @type {const} */ (["close", "delay", "garbage", "silence"]);
const fault = next() < Number(share) ? faults[Math.floor(next() * faults.length)] : "none";
const at = 1 + Math.floor(next() * 5);
appendFileSync(log, `fault ${fault} at ${at}\n`);

process.stdin.on("data", (bytes) => server.stdin.write(bytes));
process.stdin.on("end", () => server.stdin.end());
server.stdin.on("error", () => undefined);
let said = "";
let messages = 0;
let passing = Promise.resolve();
server.stdout.setEncoding("utf8").on("data", (text) => {
  said += text;
  const lines = said.split("\n");
  said = lines.pop() ?? "";
  for (const line of lines) passing = passing.then(() => pass(line));
});
server.on("exit", () => process.exit(0));

/** @param {string} line */
async function pass(line) {
  messages++;
  const happens = messages === at ? fault : "none";
  const isHalf = happens === "garbage" || happens === "close";
  if (happens === "delay") await delay(200);
  if (happens === "silence") await new Promise(() => undefined);
  process.stdout.write(isHalf ? line.slice(0, line.length / 2) : line);
  if (happens === "close") {
    server.kill("SIGKILL");
    await new Promise(() => undefined);
  }
  process.stdout.write("\n");
}
