// What commands do about Ctrl-C: those that serve wait for it, and all say at once that they have heard it.

/** Resolves as soon as one of the signals aborts. */
export function untilAborted(...signals: readonly AbortSignal[]): Promise<void> {
  const any = AbortSignal.any([...signals]);
  return new Promise((done) => {
    if (any.aborted) done();
    else any.addEventListener("abort", () => done(), { once: true });
  });
}

/** Calls `say` at the first Ctrl-C, or now when it is past. The function that comes back ends this. */
export function sayWhenInterrupted(drain: AbortSignal, say: () => void): () => void {
  if (drain.aborted) say();
  drain.addEventListener("abort", say, { once: true });
  return () => drain.removeEventListener("abort", say);
}
