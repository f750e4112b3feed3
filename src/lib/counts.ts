// Counts by names that come from outside, such as `constructor` or `__proto__`.

/** Adds to a count; a new name starts at 0. */
export function addCount(counts: Record<string, number>, name: string, count = 1): void {
  setOwn(counts, name, (Object.hasOwn(counts, name) ? counts[name]! : 0) + count);
}

/**
 * Sets an own property of the object under any name, including those with a special meaning in
 * JavaScript.
 */
export function setOwn<T>(object: Record<string, T>, name: string, value: T): void {
  if (name !== "__proto__") object[name] = value;
  else Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}
