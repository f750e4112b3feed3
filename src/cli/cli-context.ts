// The context of a command as values, so that commands run in tests as they run in a terminal, and
// their reaction to Ctrl-C.

import { stuckExitCode } from "../api/user-code.ts";
import { faultAt } from "../core/index.ts";
import { subscribeToAbort } from "../lib/deadline.ts";

/** Resolves as soon as one of the signals aborts. */
export function untilAborted(...signals: readonly AbortSignal[]): Promise<void> {
  const any = AbortSignal.any([...signals]);
  return new Promise((done) => {
    if (any.aborted) done();
    else any.addEventListener("abort", () => done(), { once: true });
  });
}

/** Time in which an interrupted start may end by itself. */
const startEndMs = 3000;

/**
 * Starts a server with a signal that a first Ctrl-C aborts until it serves, and a second one from
 * then on. Rejects with a "cancelled" failure when an interrupted start does not end.
 */
export async function startServing<T>(
  { drain, cancel }: Pick<CliContext, "drain" | "cancel">,
  start: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const starting = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let end: (error: unknown) => void = () => undefined;
  const interrupted = new Promise<never>((_, reject) => (end = reject));
  let isStarting = true;
  const stop = (): void => {
    const error = faultAt("engine", "cancelled", "Cannot start: it was interrupted.");
    starting.abort(error);
    if (isStarting) timer ??= setTimeout(() => end(error), startEndMs);
  };
  const leave = subscribeToAbort(drain, stop);
  subscribeToAbort(cancel, stop);
  try {
    return await Promise.race([start(starting.signal), interrupted]);
  } finally {
    isStarting = false;
    leave();
    clearTimeout(timer);
  }
}

/** Calls `say` at the first Ctrl-C, or now if it has already come. The returned function stops this. */
export function sayWhenInterrupted(drain: AbortSignal, say: () => void): () => void {
  if (drain.aborted) say();
  drain.addEventListener("abort", say, { once: true });
  return () => drain.removeEventListener("abort", say);
}

/** Passed by the program to its commands: runs a command with the context, and keeps its exit code. */
export type RunCommand = (command: (context: CliContext) => Promise<number>) => Promise<void>;

/** A stream to write to, with `isTTY` and `columns` like Node's terminals. */
export type Output = {
  readonly isTTY?: boolean;
  readonly columns?: number | undefined;
  /** The stream that this one writes to. */
  readonly below?: Output;
  write(text: string): unknown;
};

export type CliContext = {
  /** Stream for results. */
  readonly stdout: Output;
  /** Stream for progress, warnings and errors. */
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder that relative paths start from. */
  readonly cwd: string;
  /** Aborts at the first Ctrl-C: start nothing new. */
  readonly drain: AbortSignal;
  /** Aborts at the second Ctrl-C: cancel running work. */
  readonly cancel: AbortSignal;
  /** Command that starts this program, for commands to paste: `npx trainable-agents`. */
  readonly program: string;
};

/** Exit codes of the program. */
export const exitCodes = Object.freeze({
  done: 0,
  /** Every episode failed, or a fault occurred that no setting can correct. */
  failed: 1,
  /** A flag, file, folder or server that the user can correct. */
  usage: 2,
  /**
   * Code of a user's module never yielded, or ended the process: finished episodes are kept and can
   * be resumed.
   */
  stuck: stuckExitCode,
  interrupted: 130,
});
