// `worker`: parses flags, calls work(), prints.

import { Command } from "commander";
import { work, type WorkerProgress, type WorkOptions, workerSettings } from "../../api/work.ts";
import { type CliContext, exitCodes, type RunCommand, sayWhenInterrupted } from "../cli-context.ts";
import { formatCount, oneMessage } from "../display/terminal-text.ts";
import { addSettings } from "../flags.ts";

export function workerCommand(runCommand: RunCommand): Command {
  const command = new Command("worker")
    .summary("run episodes for runs that other processes coordinate, over a queue")
    .description(
      "Takes jobs from the broker that a rollout, an evaluation or a service was given with --queue, runs their episodes and writes " +
        "them below the run folder. It gets the settings from the queue, and keys from its own environment variables. Anyone who " +
        "can write to the broker decides what its workers run: protect it with a password.",
    );
  addSettings(command, workerSettings);
  return command
    .addHelpText("after", examples)
    .action(async (flags: WorkOptions) => runCommand((context) => run(flags, context)));
}

const examples = `
Exit codes: 0 drained, 1 the broker is permanently gone, 2 a setting or version to correct, such as a version other than the coordinator's, 130 interrupted.

Examples:
  # A broker, a worker and a run, in three terminals.
  $ nats-server -js
  $ npx trainable-agents worker --queue nats://127.0.0.1:4222 --capacity 64
  $ npx trainable-agents rollout --queue nats://127.0.0.1:4222 --group-size 8

  # On another machine that sees the run folders at /mnt/runs.
  $ NATS_PASSWORD=... npx trainable-agents worker --queue tls://worker@nats.example:4222/run-7 --queue-token-env NATS_PASSWORD \\
      --dir /mnt/runs --data ./tau-bench --model ./Qwen3-4B-Instruct-2507`;

/** Time between two lines of progress. */
const lineMs = 60_000;

async function run(flags: WorkOptions, context: CliContext): Promise<number> {
  const { cwd, env, stderr, drain, cancel } = context;
  const onNotice = (message: string): void => void stderr.write(`${oneMessage(message)}\n`);
  let saidAt = performance.now();
  let said = -1;
  const onProgress = ({ held, capacity, done }: WorkerProgress): void => {
    if (performance.now() - saidAt < lineMs || done === said) return;
    saidAt = performance.now();
    said = done;
    onNotice(`${formatCount(done)} episodes done, ${held} of ${capacity} running.`);
  };
  const silence = sayWhenInterrupted(drain, () =>
    onNotice(
      "Draining: no further jobs are taken, running episodes may finish. Ctrl-C again returns them to the queue now.",
    ),
  );
  const { name, done } = await work({ ...flags, cwd, variables: env, drain, signal: cancel, onNotice, onProgress });
  silence();
  onNotice(`Worker ${name} has left; ${formatCount(done)} episodes done.`);
  if (cancel.aborted) return exitCodes.interrupted;
  return drain.aborted ? exitCodes.done : exitCodes.failed;
}
