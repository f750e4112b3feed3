// A training: a shipped model learns from its own episodes, on this machine. Equivalent to the
// command `train`; here two steps of few episodes, so that it ends in seconds and proves nothing.
// Example 09 shows the parts of a step.
// Run: npx trainable-agents example 05

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { train } from "trainable-agents";
import type { StepMetrics } from "trainable-agents/learner";

const cwd = await mkdtemp(join(tmpdir(), "example-"));
let told = 0;
const { end, comparison } = await train({
  env: "bookshop",
  model: "bookshop-nano",
  steps: 2,
  groups: 2,
  groupSize: 4,
  maxGroups: 2,
  maxTurns: 6,
  evalEvery: 0,
  evalTasks: 4,
  finalTasks: 6,
  seed: 3,
  cwd,
  out: "training",
  onEvent: (event) => {
    if (event.type === "notice") console.log(event.message);
    else report(event.progress.metrics);
  },
});
console.log(`${end.reason}; pass rate in per cent on held-out tasks, with intervals at 95 %:`);
for (const { scope, kind, before, after, beforeInterval, afterInterval } of comparison ?? []) {
  if (scope === "case") continue;
  console.log(`  ${kind.padEnd(22)} ${percent(before, beforeInterval)}  ->  ${percent(after, afterInterval)}`);
}
await rm(cwd, { recursive: true });

/** Prints one line for each step. */
function report(metrics: StepMetrics | null): void {
  const { step = 0, pass_rate: passRate, loss, gradient_norm: norm } = metrics ?? {};
  if (step === null || step <= told) return;
  told = step;
  const digits = (value: number | null | undefined): string => value?.toFixed(3) ?? "–";
  console.log(`step ${step}: pass rate ${digits(passRate)}, loss ${digits(loss)}, gradient norm ${digits(norm)}`);
}

function percent(rate: number, interval: { readonly low: number; readonly high: number } | null): string {
  const show = (share: number): string => (100 * share).toFixed(0);
  return `${show(rate).padStart(3)}${interval === null ? "" : ` (${show(interval.low)} to ${show(interval.high)})`}`;
}
