import { afterEach, expect, it } from "vitest";
import { guardGlobals, restoreGlobals, unguardGlobals } from "./global-guard.ts";

type Changeable = Record<string, unknown>;
const changeable = (object: object): Changeable => object as Changeable;

afterEach(unguardGlobals);

/** Values of what is shared, by place. */
function state(): Map<string, unknown> {
  const shared = { Object, Array, JSON, Date, Map, Function, globalThis } as const;
  const of = (name: string, object: object): [string, unknown][] =>
    Reflect.ownKeys(object).map((key) => {
      const property = Object.getOwnPropertyDescriptor(object, key)!;
      return [`${name}.${String(key)}`, "value" in property ? (property.value as unknown) : "an accessor"];
    });
  return new Map(
    Object.entries(shared).flatMap(([name, object]) => [
      ...of(name, object),
      ...("prototype" in object ? of(`${name}.prototype`, object.prototype) : []),
    ]),
  );
}

it.each([
  ["a name on Object.prototype", () => (changeable(Object.prototype)["extra"] = 1), "Object.prototype.extra"],
  [
    "a hidden one",
    () => Reflect.defineProperty(Object.prototype, "toJSON", { value: () => "x", configurable: true }),
    "Object.prototype.toJSON",
  ],
  ["a name on Array.prototype", () => (changeable(Array.prototype)["extra"] = 1), "Array.prototype.extra"],
  ["another method of lists", () => (changeable(Array.prototype)["map"] = () => []), "Array.prototype.map"],
  ["another JSON.stringify", () => (changeable(JSON)["stringify"] = () => "{}"), "JSON.stringify"],
  ["another clock", () => (changeable(Date)["now"] = () => 0), "Date.now"],
  ["another global", () => (changeable(globalThis)["Map"] = class extends Map {}), "globalThis.Map"],
  ["a global that is gone", () => Reflect.deleteProperty(globalThis, "structuredClone"), "globalThis.structuredClone"],
  [
    "another iteration of lists",
    () => Reflect.set(Array.prototype, Symbol.iterator, function* () {}),
    "Symbol.iterator",
  ],
  ["another apply", () => (changeable(Function.prototype)["apply"] = () => null), "Function.prototype.apply"],
  ["a method of Map that is gone", () => Reflect.deleteProperty(Map.prototype, "get"), "Map.prototype.get"],
])("%s is undone and said once", (_, change, named) => {
  const said: string[] = [];
  guardGlobals((message) => said.push(message));
  const before = state();
  for (let times = 0; times < 3; times++) {
    change();
    restoreGlobals();
  }
  expect(said).toHaveLength(1);
  expect(said[0]).toContain(named);
  const after = state();
  expect([...after.keys()].toSorted()).toEqual([...before.keys()].toSorted());
  expect([...after.keys()].filter((key) => !Object.is(after.get(key), before.get(key)))).toEqual([]);
});

it("what cannot be undone is an error, and what nobody guards is left as it is", () => {
  const { now } = Date;
  let message = "";
  changeable(Object.prototype)["extra"] = 1;
  Date.now = () => 5;
  try {
    restoreGlobals();
  } catch (error) {
    message = (error as Error).message;
  }
  const shown = Date.now();
  Date.now = now;
  Reflect.deleteProperty(Object.prototype, "extra");
  expect([message, shown]).toEqual(['it adds "extra" to Object.prototype, so that all objects have it', 5]);
});
