// Guards the objects that all code shares against code of users: a name on `Object.prototype` that
// every record would then have, or another `JSON.stringify`. `guardGlobals()` remembers them once a
// user's module is loaded, and `restoreGlobals()` restores them whenever user code has run, so that
// an episode never changes what later ones record. Not a sandbox: other globals stay changed, and a
// function that our own code already holds is not checked.

const { ownKeys, getOwnPropertyDescriptor, defineProperty, deleteProperty } = Reflect;
const { is } = Object;
const text = String;

type Kept = {
  readonly name: string;
  readonly object: object;
  /** True if added properties are removed: those that all objects of a kind inherit. */
  readonly isPrototype: boolean;
  readonly keys: readonly PropertyKey[];
  readonly properties: readonly PropertyDescriptor[];
};

const prototypes = ["Object", "Function", "Array", "String", "Number", "Boolean", "BigInt", "RegExp", "Map", "Set", "WeakMap", "Promise", "Date", "Error", "Uint8Array", "Symbol"] as const; // prettier-ignore
const withStatics = ["Object", "Array", "String", "Number", "Promise", "Date", "JSON", "Math", "Reflect"] as const;
const names = [...new Set<string>([...prototypes, ...withStatics, "Proxy", "Uint32Array", "Float32Array", "Int32Array", "parseInt", "parseFloat", "isNaN", "setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate", "queueMicrotask", "structuredClone"])]; // prettier-ignore

let kept: readonly Kept[] = [];
let said = "";
let notify: (message: string) => void = () => undefined;

/**
 * Guards the current state. `onChange` receives a sentence for each change that is undone, the
 * first time.
 */
export function guardGlobals(onChange: (message: string) => void): void {
  notify = onChange;
  const globals = globalThis as unknown as Readonly<Record<string, { readonly prototype: object } & object>>;
  const keep = (name: string, object: object, isPrototype: boolean, keys = ownKeys(object)): Kept => ({
    name,
    object,
    isPrototype,
    keys,
    properties: keys.map((key) => getOwnPropertyDescriptor(object, key)!),
  });
  kept = [
    keep("globalThis", globalThis, false, names.filter((name) => Object.hasOwn(globalThis, name))), // prettier-ignore
    ...withStatics.map((name) => keep(name, globals[name]!, false)),
    ...prototypes.map((name) => keep(`${name}.prototype`, globals[name]!.prototype, true)),
    keep("the prototype of typed arrays", Object.getPrototypeOf(Uint8Array.prototype) as object, true),
    keep("the prototype of iterators of arrays", Object.getPrototypeOf([][Symbol.iterator]()) as object, true),
  ];
}

/** Until they are guarded again: what a module does while it is loaded is refused or kept, not undone. */
export function unguardGlobals(): void {
  kept = [];
}

/**
 * Undoes what was changed. Throws a `TypeError` for a name that Object.prototype or Array.prototype has in spite of that. Loops by
 * index, since what iterates may have been replaced.
 */
export function restoreGlobals(): void {
  let changes = "";
  for (let at = 0; at < kept.length; at++) changes += restored(kept[at]!);
  if (changes !== "" && changes !== said) {
    said = changes;
    notify(`Code of a module changed ${changes.slice(2)}; it was changed back, since other episodes would see it.`);
  }
  checkPrototypes();
}

/** Names of changed properties of one object; empty if it is unchanged. */
function restored({ name, object, isPrototype, keys, properties }: Kept): string {
  let changes = "";
  if (isPrototype) {
    const now = ownKeys(object);
    if (now.length !== keys.length)
      for (let at = 0; at < now.length; at++)
        if (!has(keys, now[at]!) && deleteProperty(object, now[at]!)) changes += `, ${name}.${text(now[at])}`;
  }
  for (let at = 0; at < keys.length; at++) {
    const before = properties[at]!;
    const now = getOwnPropertyDescriptor(object, keys[at]!);
    if (now !== undefined && is(now.value, before.value) && now.get === before.get && now.set === before.set) continue;
    defineProperty(object, keys[at]!, before);
    changes += `, ${name}.${text(keys[at])}`;
  }
  return changes;
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
