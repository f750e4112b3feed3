import { afterEach, expect, it } from "vitest";
import { guardGlobals, restoreGlobals, unguardGlobals } from "./global-guard.ts";

type Changeable = Record<string, unknown>;
const changeable = (object: object): Changeable => object as Changeable;

afterEach(unguardGlobals);

/** Values of what is shared, by place. */
function state(): Map<string, unknown> {
  const shared = { Object, Array, JSON } as const;
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
  [
    "a part of descriptors on Object.prototype",
    () => {
      changeable(Object.prototype)["get"] = () => 1;
      changeable(JSON)["parse"] = () => 1;
    },
    "Object.prototype.get",
  ],
  [
    "another iteration of lists",
    () => Reflect.set(Array.prototype, Symbol.iterator, function* () {}),
    "Symbol.iterator",
  ],
  [
    "a method of lists that is gone",
    () => Reflect.deleteProperty(Array.prototype, "flatMap"),
    "Array.prototype.flatMap",
  ],
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

it("leaves polyfills, clocks and other globals as a module makes them", () => {
  const { now } = Date;
  guardGlobals(() => expect.unreachable());
  Reflect.defineProperty(Array.prototype, "last", { value: () => 1, configurable: true });
  Date.now = () => 5;
  restoreGlobals();
  const seen = [Reflect.has([], "last"), Date.now()];
  Date.now = now;
  Reflect.deleteProperty(Array.prototype, "last");
  expect(seen).toEqual([true, 5]);
});
