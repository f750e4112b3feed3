// Counts by names that somebody else chose, such as `constructor` or `__proto__`.

/** Adds to a count; a name that has none begins at 0. */
export function addCount(counts: Record<string, number>, name: string, count = 1): void {
  setOwn(counts, name, (ownValue(counts, name) ?? 0) + count);
}

/** A property of the object itself; `undefined` where it has none of that name. */
export function ownValue<T>(object: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/** Sets a property of the object itself, whatever its name means to JavaScript. */
export function setOwn<T>(object: Record<string, T>, name: string, value: T): void {
  if (name !== "__proto__") object[name] = value;
  else Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}
