// Learning rates over a phase: a short climb, a plateau, a fall along a cosine.

/** `done` and `decayFrom` are shares of the phase from 0 to 1; `step` counts from 0. The last steps keep a twentieth. */
export function learningRateAt(
  peak: number,
  at: { readonly step: number; readonly done: number; readonly decayFrom: number },
): number {
  const { step, done, decayFrom } = at;
  const climb = Math.min(1, (step + 1) / 30);
  const fallen = decayFrom < 1 ? Math.max(0, (done - decayFrom) / (1 - decayFrom)) : 0;
  return peak * climb * Math.max(0.05, 0.5 * (1 + Math.cos(Math.PI * fallen)));
}
