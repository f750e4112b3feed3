// Guards what every record passes through against code of users: a name on `Object.prototype` or
// `Array.prototype` that all data would then have, or another `JSON.stringify`. `guardGlobals()`
// remembers them once a user's module is loaded, and `restoreGlobals()` restores them whenever user
// code has run, so that an episode never changes what later ones record. Not a sandbox: all other
// globals are the user's to change (a fake clock, a seeded `Math.random`, polyfills).

const { ownKeys, getOwnPropertyDescriptor, defineProperty, deleteProperty, setPrototypeOf } = Reflect;
const { is } = Object;
const text = String;

type Kept = {
  readonly name: string;
  readonly object: object;
  /** True if all added properties are removed, false if only those that a `for` loop would find. */
  readonly isStrict: boolean;
  readonly keys: readonly PropertyKey[];
  /** Without a prototype, so that a name on `Object.prototype` is not taken for a part of them. */
  readonly properties: readonly PropertyDescriptor[];
};

let kept: readonly Kept[] = [];
let reported = new Set<string>();
let notify: (message: string) => void = () => undefined;

/**
 * Guards the current state. `onChange` receives a sentence for each change that is undone, the
 * first time.
 */
export function guardGlobals(onChange: (message: string) => void): void {
  notify = onChange;
  const keep = (name: string, object: object, isStrict: boolean): Kept => {
    const keys = ownKeys(object);
    const properties = keys.map((key) => {
      const property = getOwnPropertyDescriptor(object, key)!;
      setPrototypeOf(property, null);
      return property;
    });
    return { name, object, isStrict, keys, properties };
  };
  kept = [
    keep("Object.prototype", Object.prototype, true),
    keep("Array.prototype", Array.prototype, false),
    keep("JSON", JSON, false),
  ];
}

/** Until they are guarded again: what a module does while it is loaded is refused or kept, not undone. */
export function unguardGlobals(): void {
  kept = [];
}

/**
 * Undoes changes. Throws a `TypeError` for a name that Object.prototype or Array.prototype has in
 * spite of that. Loops by index, since iteration may have been replaced.
 */
export function restoreGlobals(): void {
  let changes = "";
  for (let at = 0; at < kept.length; at++) changes += restored(kept[at]!);
  if (changes !== "" && !reported.has(changes)) {
    reported = new Set([...reported, changes]);
    notify(`Code of a module changed ${changes.slice(2)}; the change was undone, because other episodes would see it.`);
  }
  checkPrototypes();
}

/** Names of changed properties of one object; empty if it is unchanged. */
function restored({ name, object, isStrict, keys, properties }: Kept): string {
  let changes = "";
  const now = ownKeys(object);
  for (let at = 0; at < now.length; at++) {
    const key = now[at]!;
    // An unchanged object has its keys in their places.
    if (key === keys[at] || has(keys, key)) continue;
    if (!isStrict && getOwnPropertyDescriptor(object, key)!.enumerable !== true) continue;
    if (deleteProperty(object, key)) changes += `, ${name}.${text(key)}`;
  }
  for (let at = 0; at < keys.length; at++) {
    const before = properties[at]!;
    const found = getOwnPropertyDescriptor(object, keys[at]!);
    if (found !== undefined && isSame(found, before)) continue;
    if (defineProperty(object, keys[at]!, before)) changes += `, ${name}.${text(keys[at])}`;
  }
  return changes;
}

function isSame(now: PropertyDescriptor, before: PropertyDescriptor): boolean {
  setPrototypeOf(now, null);
  const isValue = is(now.value, before.value) && now.get === before.get && now.set === before.set;
  return isValue && now.enumerable === before.enumerable;
}

function has(keys: readonly PropertyKey[], key: PropertyKey): boolean {
  for (let at = 0; at < keys.length; at++) if (keys[at] === key) return true;
  return false;
}

/** Throws for names that code of the user's has given to every object: what reads data would take them for data. */
export function checkPrototypes(): void {
  for (const name in {}) throw new TypeError(`it adds "${name}" to Object.prototype, so that all objects have it`);
  // oxlint-disable-next-line no-for-in-array
  for (const name in []) throw new TypeError(`it adds "${name}" to Array.prototype, so that all lists have it`);
}
