// Counts by names that somebody else chose, such as `constructor` or `__proto__`.

/** Adds to a count; a name that has none begins at 0. */
export function addCount(counts: Record<string, number>, name: string, count = 1): void {
  setOwn(counts, name, (Object.hasOwn(counts, name) ? counts[name]! : 0) + count);
}

/** Sets a property of the object itself, whatever its name means to JavaScript. */
export function setOwn<T>(object: Record<string, T>, name: string, value: T): void {
  if (name !== "__proto__") object[name] = value;
  else Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}
