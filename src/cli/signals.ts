// SIGINT and SIGTERM as signals for a command: drain, cancel, and then the end of the process,
// which nothing can delay. Imports nothing, so that it watches before anything else is loaded.
//
//   SIGINT ──────► drain ─ again ─► cancel, and the end after `cancelMs` ─ again ─► the end
//   SIGTERM ─┬───► drain ─ again ─► the same                                          for commands that drain
//            └───────────► cancel ─ again ─► the end                                  for the others

/** Time in which npm repeats a signal that the terminal has already sent. */
const echoMs = { SIGINT: 250, SIGTERM: 50 };
/** Longest time that a cancelled command has to close its files. */
const cancelMs = 5000;

/** Commands that answer requests: work in flight is finished first. */
const draining: readonly string[] = ["worker", "serve", "gateway"];
/** Commands that have nothing to finish. */
const reading: readonly string[] = ["inspect", "doctor", "tokens"];

type SignalName = keyof typeof echoMs;

/** The part of a process that this module uses. */
export type SignalledProcess = {
  on(signal: SignalName, listener: () => void): unknown;
  readonly stderr: { write(text: string): unknown };
  exit(code: number): void;
};

export type WatchedSignals = {
  /** Aborts when nothing new may start. */
  readonly drain: AbortSignal;
  /** Aborts when running work must end. */
  readonly cancel: AbortSignal;
  /**
   * The exit code for a command that ended with `code`: 128 plus the number of a signal that came
   * twice.
   */
  exitCode(code: number): number;
};

const numbers = { SIGINT: 2, SIGTERM: 15 };

/** Watches from now on. `argv` excludes program and script. */
export function watchSignals(argv: readonly string[], process: SignalledProcess): WatchedSignals {
  const [command = "", ...flags] = argv;
  const readsOnly = reading.includes(command) || (command === "eval" && flags.some((flag) => /^--from\b/.test(flag)));
  const drain = new AbortController();
  const cancel = new AbortController();
  const counts = { SIGINT: 0, SIGTERM: 0 };
  const lastAt = { SIGINT: -Infinity, SIGTERM: -Infinity };
  let level = 0;
  const onSignal = (name: SignalName): void => {
    const end = (): void => process.exit(128 + numbers[name]);
    if (readsOnly) {
      process.stderr.write("Interrupted.\n");
      return end();
    }
    const isEcho = performance.now() - lastAt[name] < echoMs[name];
    lastAt[name] = performance.now();
    if (isEcho) return;
    counts[name]++;
    const isFirst = level === 0;
    level += name === "SIGTERM" && isFirst && !draining.includes(command) ? 2 : 1;
    if (level > 2) return end();
    if (level === 2) cancel.abort();
    drain.abort();
    if (level === 2 && !isFirst) setTimeout(end, cancelMs).unref();
  };
  process.on("SIGINT", () => onSignal("SIGINT"));
  process.on("SIGTERM", () => onSignal("SIGTERM"));
  return {
    drain: drain.signal,
    cancel: cancel.signal,
    exitCode: (code) => {
      const twice = (["SIGTERM", "SIGINT"] as const).find((name) => counts[name] > 1);
      return twice === undefined || ![0, 128 + numbers.SIGINT].includes(code) ? code : 128 + numbers[twice];
    },
  };
}
