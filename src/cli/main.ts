#!/usr/bin/env node
// The program: hands the process to `runCli` as values, and turns signals into them. Everything else is imported once this Node
// is known to be able to.

import { basename, relative } from "node:path";
import { nodeProblem } from "./node-problem.ts";

const problem = nodeProblem(process.versions.node);
if (problem !== null) {
  process.stderr.write(`${problem}\n`);
  process.exit(2);
}

const drain = new AbortController();
const cancel = new AbortController();
let interrupts = 0;
let interruptedAt = -Infinity;

/** What only reads has nothing to finish. */
const [command = "", ...flags] = process.argv.slice(2);
const readsOnly =
  ["inspect", "doctor", "tokens"].includes(command) ||
  (command === "eval" && flags.some((flag) => /^--from\b/.test(flag)));

process.on("SIGINT", () => {
  if (readsOnly) {
    process.stderr.write("Interrupted.\n");
    process.exit(130);
  }
  // One press may arrive twice: from the terminal, and passed on by npm.
  const isEcho = performance.now() - interruptedAt < 250;
  interruptedAt = performance.now();
  if (isEcho) return;
  interrupts++;
  if (interrupts === 1) drain.abort();
  else if (interrupts === 2) cancel.abort();
  else process.exit(130);
});
process.on("SIGTERM", () => {
  // A worker has a time to finish; whoever sends it a second one means now.
  if (command !== "worker" || drain.signal.aborted) cancel.abort();
  drain.abort();
});
// Whoever reads our output may stop reading (`inspect ... | head`); that is no fault.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

const script = process.argv[1] ?? "";
const isInstalled = basename(script).replace(/\.cmd$/, "") === "trainable-agents";

const [{ runCli }, { redactorFor }, { endWatch, watchProcess }] = await Promise.all([
  import("./run-cli.ts"),
  import("../api/secrets.ts"),
  import("../api/user-code.ts"),
]);
const values = process.argv.slice(2).flatMap((word) => [word, word.slice(word.indexOf("=") + 1)]);
watchProcess(redactorFor(process.env, { variables: values, urls: values }));
process.exitCode = await runCli(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  drain: drain.signal,
  cancel: cancel.signal,
  program: isInstalled ? "npx trainable-agents" : `node ${relative(process.cwd(), script)}`,
});
endWatch();
