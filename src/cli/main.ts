#!/usr/bin/env node
// The program: passes the process to `runCli` as values. Everything else is imported after the
// version of Node was checked.

import { basename, relative } from "node:path";
import { nodeProblem } from "./node-problem.ts";

/** Time that a process may linger after its command has ended. */
const lingerMs = 2000;

const problem = nodeProblem(process.versions.node);
if (problem !== null) {
  process.stderr.write(`${problem}\n`);
  process.exit(2);
}

const { watchSignals } = await import("./signals.ts");
let beforeExit = (): void => undefined;
const signals = watchSignals(process.argv.slice(2), {
  on: (name, listener) => process.on(name, listener),
  stderr: process.stderr,
  exit: (code) => {
    beforeExit();
    process.exit(code);
  },
});
// A reader of our output may stop reading (`inspect ... | head`); that is not a fault.
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
// A requested end is not one that user code caused.
beforeExit = endWatch;
watchProcess(redactorFor(process.env, { variables: values, urls: values }));
const code = await runCli(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  drain: signals.drain,
  cancel: signals.cancel,
  program: isInstalled ? "npx trainable-agents" : `node ${relative(process.cwd(), script)}`,
});
process.exitCode = signals.exitCode(code);
endWatch();
// Handles that a library has left open do not keep the process alive.
const end = (): void => {
  if (process.stdout.writableLength + process.stderr.writableLength === 0) process.exit(process.exitCode);
  setTimeout(end, lingerMs).unref();
};
setTimeout(end, lingerMs).unref();
