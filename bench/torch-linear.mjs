// Linear layers of a small model on the CPU, for the few rows of a decoding step and for more: torch's own against the layer that
// the torch server uses. BENCH_PYTHON names a Python with torch and peft.
// Run: npm run bench -- torch-linear [rounds]

import { spawnSync } from "node:child_process";
import { join } from "node:path";

import { machine } from "./lib/measure.mjs";
import { root } from "../scripts/run-command.mjs";

const rounds = process.argv[2] ?? "5";
const { status, stdout, stderr } = spawnSync(
  process.env["BENCH_PYTHON"] ?? "python3",
  [join(root, "bench", "python", "linear.py"), rounds],
  { encoding: "utf8", env: { ...process.env, PYTHONPATH: join(root, "python") } },
);
if (status !== 0) {
  const problem = stderr.includes("ModuleNotFoundError")
    ? "Python lacks torch or peft"
    : `Python ended: ${stderr.trim()}`;
  console.log(`Skipped: ${problem}; name a Python with BENCH_PYTHON.`);
  process.exit(0);
}

/** @typedef {{ readonly inputs: number, readonly outputs: number, readonly rows: number, readonly torch: number, readonly ours: number }} Line */
const lines = stdout
  .trim()
  .split("\n")
  .map((line) => /** @type {Line} */ (JSON.parse(line)));
console.log(`${machine()}, ${rounds} rounds\n`);
console.log("inputs  outputs  rows  torch ms  ours ms  ratio");
for (const { inputs, outputs, rows, torch, ours } of lines) {
  const cells = [inputs, outputs, rows, (torch * 1e3).toFixed(2), (ours * 1e3).toFixed(2), (torch / ours).toFixed(2)];
  console.log(cells.map((cell, at) => String(cell).padStart([6, 7, 4, 8, 7, 5][at] ?? 0)).join("  "));
}
