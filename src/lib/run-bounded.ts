// Runs synchronous work that somebody else wrote (a chat template, a regular expression) for so long and no longer. V8 can be
// interrupted anywhere in JavaScript and in the middle of a backtracking match; Node's `vm` is the way to ask for it, and no
// sandbox here. Where there is no Node, in a browser, the work just runs: a page has its own watchdog.

/** The work took longer than it may; what it was changing must not be used again. */
export class TimeLimitError extends Error {}

type Bounded = {
  readonly script: { runInContext(context: object, options: { readonly timeout: number }): unknown };
  readonly context: object;
};

let current: () => void = () => undefined;
let bounded: Bounded | null = null;

/**
 * What `work` returns or throws; a {@link TimeLimitError} when that takes more than `timeoutMs`. Each call starts
 * a thread that watches.
 */
export function runBounded<T>(work: () => T, timeoutMs: number): T {
  bounded ??= createBounded();
  if (bounded === null) return work();
  const results: T[] = [];
  const outer = current;
  current = () => {
    results.push(work());
  };
  try {
    bounded.script.runInContext(bounded.context, { timeout: timeoutMs });
  } catch (error) {
    if (isTimeout(error)) throw new TimeLimitError(`It takes more than ${timeoutMs} ms.`, { cause: error });
    throw error;
  } finally {
    current = outer;
  }
  return results[0]!;
}

function createBounded(): Bounded | null {
  const vm = (globalThis as { readonly process?: NodeJS.Process }).process?.getBuiltinModule?.("node:vm");
  if (vm === undefined) return null;
  return { script: new vm.Script("run()"), context: vm.createContext({ run: () => current() }) };
}

/** Of the other context's class of errors, not of ours. */
function isTimeout(error: unknown): boolean {
  return (
    typeof error === "object" && error !== null && "code" in error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
  );
}
