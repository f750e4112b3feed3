// What a command that serves does while it serves: nothing, until somebody ends it.

/** Resolves as soon as one of the signals aborts. */
export function untilAborted(...signals: readonly AbortSignal[]): Promise<void> {
  const any = AbortSignal.any([...signals]);
  return new Promise((done) => {
    if (any.aborted) done();
    else any.addEventListener("abort", () => done(), { once: true });
  });
}
