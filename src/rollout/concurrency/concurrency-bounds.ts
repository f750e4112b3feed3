// Between what an adaptive run may move, checked once.

export type ConcurrencyBounds = {
  /** Never fewer episodes at once. */
  readonly floor: number;
  /** Never more. */
  readonly ceiling: number;
};

/** Throws a `RangeError` unless 1 <= floor <= ceiling, both whole. */
export function checkBounds({ floor, ceiling }: ConcurrencyBounds): ConcurrencyBounds {
  const isWhole = Number.isSafeInteger(floor) && Number.isSafeInteger(ceiling);
  if (!isWhole || floor < 1 || ceiling < floor) {
    throw new RangeError(
      `Cannot bound the concurrency: it is ${floor} to ${ceiling}, whole numbers with 1 <= floor <= ceiling are needed.`,
    );
  }
  return { floor, ceiling };
}

export function within(value: number, { floor, ceiling }: ConcurrencyBounds): number {
  return Math.min(ceiling, Math.max(floor, Math.round(value)));
}
