// Bounds of numeric options, in one grammar: cannot do what, which option has which value, what is needed.

/** Throws a `RangeError` unless the value is a whole number of at least `least`. */
export function requireWhole(task: string, name: string, value: number, least = 1): void {
  if (Number.isInteger(value) && value >= least) return;
  throw new RangeError(`Cannot ${task}: ${name} is ${value}, a whole number of at least ${least} is needed.`);
}

/** As {@link requireWhole}; `Infinity` is no bound. */
export function requireWholeOrInfinite(task: string, name: string, value: number, least = 1): void {
  if (value !== Infinity) requireWhole(task, name, value, least);
}
