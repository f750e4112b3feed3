// Display of a rollout in a terminal: its events as lines and progress, its signals as sentences,
// its result as a table and an exit code. `rollout`, `eval` and `start` share it.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { CircuitStatus } from "../engines/guarded/index.ts";
import type { RolloutEvent, RolloutResult, StartedRun } from "../api/rollout.ts";
import { defaultEngineWait } from "../engines/server-options.ts";
import { resumeWith } from "../api/user-code.ts";
import type { RunTotals } from "../rollout/index.ts";
import { runFiles } from "../store/writing.ts";
import { type CliContext, exitCodes } from "./cli-context.ts";
import { createProgressDisplay, loadPainter, type ProgressDisplay } from "./display/progress-display.ts";
import { runNotes, runTable } from "./display/run-table.ts";
import { coloursFor, formatCount, oneMessage } from "./display/terminal-text.ts";
import { visibleLine } from "../lib/text.ts";
import { viewerLink } from "../system/running-viewers.ts";

/**
 * Runs a rollout with its display: `run` receives the options of a public function. `command`
 * resumes the run when it is interrupted.
 */
export async function showRollout<T>(
  context: CliContext,
  command: "rollout" | "eval",
  run: (options: RolloutCallOptions) => Promise<T>,
): Promise<T> {
  const { drain, cancel, env, cwd, stderr } = context;
  const painter = await loadPainter(context);
  const shown: { display: ProgressDisplay | null; run: StartedRun | null; running: number } = {
    display: null,
    run: null,
    running: 0,
  };
  const note = (line: string): void => {
    if (shown.display === null) stderr.write(`${oneMessage(line)}\n`);
    else shown.display.note(line);
  };
  const onDrain = (): void =>
    note(
      `Interrupted: ${formatCount(shown.running)} running episodes are finished and kept, and no further one starts. ` +
        "Press Ctrl-C again to stop them where they are.",
    );
  const onCancel = (): void => {
    const later = shown.run === null ? null : resumeCommand(shown.run, context, command);
    note(
      later === null
        ? "Stopping: the running episodes are cancelled."
        : `Stopping: everything so far is in the journal. Resume with: ${later}`,
    );
  };
  const stop = (): void => {
    drain.removeEventListener("abort", onDrain);
    cancel.removeEventListener("abort", onCancel);
    shown.display?.stop();
    shown.display = null;
  };
  const onEvent = (event: RolloutEvent): void => {
    switch (event.type) {
      case "run-start": {
        shown.run = event.run;
        resumeWith(resumeCommand(event.run, context, command));
        // A person who acts as the user needs the terminal without a block that repaints itself.
        const { quiet } = event.run.settings;
        shown.display = createProgressDisplay(context, { quiet: quiet || event.run.user === "human", painter });
        if (!quiet) for (const line of startLines(event.run)) note(line);
        drain.addEventListener("abort", onDrain, { once: true });
        cancel.addEventListener("abort", onCancel, { once: true });
        return;
      }
      case "notice":
        return note(event.message);
      case "warning":
        return note(`Warning: ${event.message}`);
      case "server-change": {
        const message = circuitNote(event.change, shown.run?.settings.engineWait ?? defaultEngineWait);
        return message === null ? undefined : note(message);
      }
      case "progress": {
        const { episodesStarted, episodesFinished } = event.totals();
        shown.running = episodesStarted - episodesFinished;
        return shown.display?.update(() => ({ totals: event.totals(), activity: event.activity() }));
      }
      case "run-end":
        return stop();
      case "log":
        return void stderr.write(`${oneMessage(event.line)}\n`);
      default:
        return event satisfies never;
    }
  };
  try {
    return await run({ cwd, variables: env, drain, signal: cancel, onEvent });
  } finally {
    stop();
  }
}

type RolloutCallOptions = {
  readonly cwd: string;
  readonly variables: CliContext["env"];
  readonly drain: AbortSignal;
  readonly signal: AbortSignal;
  readonly onEvent: (event: RolloutEvent) => void;
};

function startLines({ environment, split, tasks, groupSize, policy, user, folder, earlier }: StartedRun): string[] {
  const size = `${formatCount(tasks)} tasks x ${formatCount(groupSize)} episodes`;
  const lines = [`${environment} (${split}): ${size}, ${policy}, user ${user}`, `writing to ${folder}`];
  if (earlier === null) return lines;
  const [ended, inFlight] = [formatCount(earlier.ended), formatCount(earlier.inFlight)];
  return [...lines, `resuming: ${ended} episodes have ended, ${inFlight} resume at the turn where they stopped`];
}

/** Returns `null` for a preset, whose loop keeps no journal. */
function resumeCommand(
  { isResumable, folder }: Pick<StartedRun, "isResumable" | "folder">,
  { program }: CliContext,
  command: string,
): string | null {
  return isResumable ? `${program} ${command} --resume ${quoted(folder)}` : null;
}

/** Note about a server that fails or recovers; `null` if there is nothing to report. */
function circuitNote({ server, state, failures, message }: CircuitStatus, engineWait: number): string | null {
  if (state === "half-open") return null;
  if (state === "closed") return `The server at ${server} is back.`;
  return (
    `The server at ${server} failed ${formatCount(failures)} times in a row and is left alone until it is back; its episodes ` +
    `move to other servers or wait, ${formatCount(engineWait)} seconds at most. ${message ?? ""}`
  );
}

/** The closing table of a rollout on standard output. */
export function showTable(result: RolloutResult, context: CliContext): void {
  const { folder, totals, environment, split, status, isResumable } = result;
  const { stdout, env, program } = context;
  if (status === "complete") {
    stdout.write(
      `The run in ${folder} is complete: ${formatCount(totals.episodesFinished)} episodes; there is nothing to resume.\n` +
        `  ${program} inspect ${quoted(folder)}\n`,
    );
    return;
  }
  const colours = coloursFor(stdout, env);
  const isInterrupted = status === "interrupted";
  const lines = [
    "",
    colours.bold(visibleLine(`${environment} (${split})${isInterrupted ? ", interrupted" : ""}`)),
    ...runTable(totals, colours, stdout.columns),
    ...noteLines(result, context),
    "",
    `  ${colours.dim("files")}  ${folder}/ ${writtenFiles(resolve(context.cwd, folder))}`,
    ...(isInterrupted && isResumable
      ? [`  ${colours.dim("resume")} ${resumeCommand({ isResumable, folder }, context, "rollout")}`]
      : []),
    `  ${colours.dim("next")}   ${program} inspect ${quoted(folder)}`,
    "",
  ];
  stdout.write(`${lines.join("\n")}\n`);
}

/** Notes under a table, after a blank line. */
export function noteLines({ totals, redact }: Pick<RolloutResult, "totals" | "redact">, context: CliContext): string[] {
  const { yellow } = coloursFor(context.stdout, context.env);
  const notes = runNotes(totals).map((note) => `  ${yellow(visibleLine(redact(note)))}`);
  return notes.length === 0 ? [] : ["", ...notes];
}

export function exitCodeOf({ status, totals }: { readonly status: string; readonly totals: RunTotals }): number {
  if (status === "interrupted") return exitCodes.interrupted;
  const { failed } = totals.outcomes;
  const isFailed = status === "done" && failed > 0 && failed === totals.episodesFinished;
  return isFailed ? exitCodes.failed : exitCodes.done;
}

/** The files of a finished run, for its closing table. */
export function writtenFiles(place: string): string {
  const { manifest, episodes, index, shards, groups, samples } = runFiles;
  const written = [manifest, episodes, `${shards}/`, index, groups, samples];
  return written.filter((name) => existsSync(join(place, name))).join(", ");
}

/** The word quoted for a shell. */
export function quoted(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * Prints the address of the named run or episode in a running viewer; prints nothing if no viewer
 * shows the run.
 */
export async function sayLink(
  folder: string,
  episode: { readonly name: string; readonly asTokens: boolean } | null,
  { cwd, env, stderr }: Pick<CliContext, "cwd" | "env" | "stderr">,
): Promise<void> {
  const link = await viewerLink(resolve(cwd, folder), episode, env);
  if (link !== null) stderr.write(`View: ${link}\n`);
}
