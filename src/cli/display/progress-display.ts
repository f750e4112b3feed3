// Progress of a run: a block that repaints itself in a terminal, a plain line every few seconds
// elsewhere (CI, pipes, log files). It is written to stderr, so that stdout holds only results.

import type { createLogUpdate } from "log-update";
import type { CliContext } from "../cli-context.ts";
import {
  activityText,
  elapsedText,
  passText,
  progressLine,
  remainingText,
  type RunProgress,
  speedText,
} from "./run-table.ts";
import { type Colours, coloursFor, formatCount, oneMessage, terminalText } from "./terminal-text.ts";

export interface ProgressDisplay {
  /** May be called at every event. */
  update(progress: () => RunProgress): void;
  /** Prints a permanent line above the block. */
  note(line: string): void;
  /** Shows the last state once more if that is useful, and releases the terminal. */
  stop(): void;
}

const repaintMs = 200;
/** A slow model must not look like one that hangs. */
const plainLineMs = 2_000;

/**
 * Painter of a block in a live terminal ({@link isLiveTerminal}); `null` elsewhere, where the
 * library is not loaded.
 */
export async function loadPainter({ stderr, env }: Pick<CliContext, "stderr" | "env">): Promise<Painter | null> {
  return isLiveTerminal(stderr, env) ? (await import("log-update")).createLogUpdate : null;
}

export type Painter = typeof createLogUpdate;

/** The display that suits the output; `quiet` shows only notes. */
export function createProgressDisplay(
  context: Pick<CliContext, "stderr" | "env">,
  options: { readonly quiet: boolean; readonly painter: Painter | null },
): ProgressDisplay {
  const { stderr, env } = context;
  if (options.quiet)
    return { update: () => undefined, note: (line) => stderr.write(`${oneMessage(line)}\n`), stop: () => undefined };
  const { painter } = options;
  return painter === null ? plainDisplay(stderr) : liveDisplay(stderr, coloursFor(stderr, env), painter);
}

/** True if output to this stream can be repainted. */
function isLiveTerminal(stderr: CliContext["stderr"], env: CliContext["env"]): boolean {
  // A terminal without a height (a recorded session, some CI) has nothing to repaint.
  const hasHeight = (process.stderr.rows ?? 24) > 0;
  const isTerminal = (stderr.below ?? stderr) === process.stderr && process.stderr.isTTY && hasHeight;
  return isTerminal && !isSet(env["CI"]) && env["TERM"] !== "dumb";
}

function plainDisplay(stderr: CliContext["stderr"]): ProgressDisplay {
  let latest: (() => RunProgress) | null = null;
  let shown = "";
  const show = (): void => {
    if (latest === null) return;
    const line = progressLine(latest());
    if (line !== shown) stderr.write(`${line}\n`);
    shown = line;
  };
  const timer = setInterval(show, plainLineMs);
  timer.unref();
  return {
    update: (progress) => {
      latest = progress;
    },
    note: (line) => stderr.write(`${oneMessage(line)}\n`),
    stop: () => {
      clearInterval(timer);
      // The table that follows a short run states the same.
      if (shown !== "") show();
    },
  };
}

function liveDisplay(stderr: CliContext["stderr"], colours: Colours, painter: Painter): ProgressDisplay {
  const block = painter(process.stderr, { showCursor: true });
  const shown = (text: string): string => terminalText(text, colours.isColorSupported);
  let latest: (() => RunProgress) | null = null;
  const paint = (): void => {
    if (latest !== null) block(shown(progressBlock(latest(), colours, process.stderr.columns)));
  };
  const timer = setInterval(paint, repaintMs);
  timer.unref();
  return {
    update: (progress) => {
      const isFirst = latest === null;
      latest = progress;
      if (isFirst) paint();
    },
    note: (line) => {
      block.clear();
      stderr.write(`${oneMessage(line)}\n`);
      paint();
    },
    stop: () => {
      clearInterval(timer);
      block.clear();
      block.done();
    },
  };
}

/** The block: a bar, the state of learning, the speed, the problems. */
export function progressBlock({ totals, activity }: RunProgress, colours: Colours, columns = 80): string {
  const { episodesFinished, episodesPlanned, episodesStarted, outcomes } = totals;
  const width = Math.max(10, Math.min(40, columns - 30));
  // The number of episodes until enough groups are kept is unknown, so progress counts groups.
  const share =
    totals.groupsTarget === null
      ? { done: episodesFinished / Math.max(1, episodesPlanned), begun: episodesStarted / Math.max(1, episodesPlanned) }
      : { done: totals.groupsKept / totals.groupsTarget, begun: totals.groupsKept / totals.groupsTarget };
  const done = Math.round(width * Math.min(1, share.done));
  const running = Math.round(width * Math.min(1, share.begun)) - done;
  const bar =
    colours.green("█".repeat(done)) +
    colours.yellow("▒".repeat(Math.max(0, running))) +
    colours.dim("░".repeat(Math.max(0, width - done - Math.max(0, running))));
  const failed = outcomes.failed === 0 ? "0 failed" : colours.red(`${formatCount(outcomes.failed)} failed`);
  const left = remainingText(totals);
  const problems = Object.entries(totals.problems)
    .sort(([, a], [, b]) => b - a)
    .slice(0, 4);
  const lines = [
    totals.groupsTarget === null
      ? `${bar} ${formatCount(episodesFinished)}/${formatCount(episodesPlanned)} episodes`
      : `${bar} ${formatCount(totals.groupsKept)}/${formatCount(totals.groupsTarget)} groups kept, ${formatCount(episodesFinished)} episodes`,
    `${colours.bold(`pass ${passText(totals)}`)}  mean reward ${totals.meanReward?.toFixed(3) ?? "–"}  ${failed}`,
    `${speedText(totals, activity, "  ")}  ${formatCount(episodesStarted - episodesFinished)} running  ${elapsedText(totals)}${left === null ? "" : `, ${left}`}`,
  ];
  const work = activityText(activity);
  if (work !== null) lines.push(work);
  if (problems.length > 0) {
    lines.push(colours.dim(`problems: ${problems.map(([code, count]) => `${code} ${formatCount(count)}`).join(", ")}`));
  }
  return lines.join("\n");
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "" && value !== "false" && value !== "0";
}
