// Who wants to know when a signal aborts. One listener for each signal, however many calls share it: a run has one signal
// and thousands of calls, Node takes eleven listeners for a leak, and removing one of its listeners looks at all of them.

const subscribers = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back when the signal aborts, until the returned function is called. The signal must not be aborted yet. */
export function subscribeToAbort(signal: AbortSignal, callback: () => void): () => void {
  let callbacks = subscribers.get(signal);
  if (callbacks === undefined) {
    const fresh = new Set<() => void>();
    callbacks = fresh;
    subscribers.set(signal, fresh);
    signal.addEventListener(
      "abort",
      () => {
        for (const call of fresh) call();
      },
      { once: true },
    );
  }
  const joined = callbacks;
  joined.add(callback);
  return () => void joined.delete(callback);
}
