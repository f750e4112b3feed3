// Counts by names that come from outside, such as `constructor` or `__proto__`.

/** Adds to a count; a new name starts at 0. */
export function addCount(counts: Record<string, number>, name: string, count = 1): void {
  setOwn(counts, name, (ownValue(counts, name) ?? 0) + count);
}

/** A property of the object itself; `undefined` where it has none of that name. */
export function ownValue<T>(object: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/**
 * Sets an own property of the object under any name, including those with a special meaning in
 * JavaScript.
 */
export function setOwn<T>(object: Record<string, T>, name: string, value: T): void {
  if (name !== "__proto__") object[name] = value;
  else Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}
