// Shutdown of a server: work in flight may finish within a time limit, and a second call ends it at
// once. This file does not know what that work is.

import { subscribeToAbort } from "../lib/deadline.ts";
import { milliseconds } from "../parts/setting.ts";

export type CloseOptions = {
  /** True to let work in flight finish first, for the time of `--grace`. @default true */
  readonly wait?: boolean;
};

/**
 * Closes once: `finish` may take `graceSeconds`, until its signal aborts; then `end` runs. A call
 * without `wait` shortens the wait of an earlier call; every call resolves when `end` has.
 */
export function closeWithGrace(
  graceSeconds: number,
  parts: { readonly finish: (signal: AbortSignal) => Promise<void>; readonly end: () => Promise<void> },
): (options?: CloseOptions) => Promise<void> {
  const cut = new AbortController();
  let closing: Promise<void> | null = null;
  const close = async (): Promise<void> => {
    const timer = setTimeout(() => cut.abort(new Error("The time to finish has run out.")), milliseconds(graceSeconds));
    let leave = (): void => undefined;
    try {
      const isCut = new Promise<void>((resolve) => (leave = subscribeToAbort(cut.signal, resolve)));
      await Promise.race([parts.finish(cut.signal), isCut]);
    } finally {
      clearTimeout(timer);
      leave();
      await parts.end();
    }
  };
  return ({ wait = true } = {}) => {
    if (!wait) cut.abort(new Error("It is closed at once."));
    return (closing ??= close());
  };
}
