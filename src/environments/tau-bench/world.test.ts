import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { hashText, SharedBase, World } from "./world.ts";

type Edit = {
  readonly what: "edit" | "put";
  readonly table: string;
  readonly id: string;
  readonly value: number;
};

const names = ["a", "b"] as const;
const ids = fc.constantFrom("10", "9", "x", "\u{1f600}", "\ue000", "__proto__", "'", "é");
const records = fc.uniqueArray(ids, { maxLength: 8 });
const edits: fc.Arbitrary<Edit[]> = fc.array(
  fc.record({
    what: fc.constantFrom("edit", "put"),
    table: fc.constantFrom(...names),
    id: ids,
    value: fc.integer({ min: 0, max: 2 }),
  }),
  { maxLength: 20 },
);

function record(value: number): JsonObject {
  return new Map<string, JsonValue>([
    ["value", value],
    ["list", [new Map([["deep", value]])]],
  ]);
}

/** A Python dict of dicts: the obvious implementation. */
function apply(tables: Map<string, Map<string, JsonObject>>, { what, table, id, value }: Edit): void {
  const rows = tables.get(table)!;
  if (what === "put") rows.set(id, record(value));
  else (rows.get(id)?.get("list") as JsonObject[] | undefined)?.[0]?.set("deep", value);
}

function applyToWorld(world: World, { what, table, id, value }: Edit): void {
  if (what === "put") world.put(table, id, record(value));
  else if (world.read(table, id) !== undefined)
    (world.edit(table, id).get("list") as JsonObject[])[0]!.set("deep", value);
}

function tablesOf(rows: readonly (readonly string[])[]): Map<string, Map<string, JsonObject>> {
  return new Map(names.map((name, index) => [name, new Map(rows[index]!.map((id) => [id, record(0)]))]));
}

test("World reads, enumerates and hashes as a dict of its own would, and leaves the base as it was", () => {
  fc.assert(
    fc.property(fc.tuple(records, records), edits, edits, (rows, first, second) => {
      const base = new SharedBase(tablesOf(rows));
      const untouched = new World(base).digest();
      const model = tablesOf(rows);
      const world = new World(base);
      for (const edit of first) {
        apply(model, edit);
        applyToWorld(world, edit);
      }
      const fork = world.fork();
      const before = fork.digest();
      for (const edit of second) {
        apply(model, edit);
        applyToWorld(world, edit);
      }
      for (const name of names) {
        expect([...world.records(name)]).toEqual([...model.get(name)!]);
        for (const [id, row] of model.get(name)!) expect(world.read(name, id)).toEqual(row);
      }
      expect(world.digest()).toBe(createHash("sha256").update(hashText(model)).digest("hex"));
      expect(fork.digest()).toBe(before);
      expect(new World(base).digest()).toBe(untouched);
    }),
    { seed: 11, numRuns: 500 },
  );
});

test("World.differences() tells touched records from changed ones, as the hash does", () => {
  const base = new SharedBase(new Map([["a", parseJson('{"1": {"x": 1, "y": []}}') as Map<string, JsonObject>]]));
  const world = new World(base);
  world.edit("a", "1").set("y", new Map());
  expect(world.differences()).toEqual(new Map());
  expect(world.digest()).toBe(new World(base).digest());
  world.edit("a", "1").set("x", true);
  expect(world.differences().get("a")?.get("1")).toBe("(('x', True), ('y', ()))");
});

test("World.digest() hashes a table of many records", () => {
  const rows = Array.from({ length: 200 }, (_, index) => `id ${index}`);
  const base = new SharedBase(tablesOf([rows, []]));
  const model = tablesOf([rows, []]);
  const world = new World(base);
  for (const [index, what] of (["edit", "put", "put", "put"] as const).entries()) {
    const edit = { what, table: "a", id: `id ${index * 50}${index === 3 ? "x" : ""}`, value: 7 };
    apply(model, edit);
    applyToWorld(world, edit);
    expect(world.digest()).toBe(createHash("sha256").update(hashText(model)).digest("hex"));
  }
});
