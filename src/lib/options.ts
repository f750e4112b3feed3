// Range checks of numeric options, with uniform messages: the task, the option and its value, the
// expected range.

/** Throws a `RangeError` unless the value is a whole number of at least `least`. */
export function requireWhole(task: string, name: string, value: number, least = 1): void {
  if (Number.isInteger(value) && value >= least) return;
  throw new RangeError(`Cannot ${task}: ${name} is ${value}, expected a whole number of at least ${least}.`);
}

/** Like {@link requireWhole}; `Infinity` passes too. */
export function requireWholeOrInfinite(task: string, name: string, value: number, least = 1): void {
  if (value !== Infinity) requireWhole(task, name, value, least);
}
