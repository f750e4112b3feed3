import { expect, test } from "vitest";
import { goalCases } from "./goals/index.ts";
import { bookshopSource } from "./index.ts";
import { createScenario, cycleLength, drawnSplit, placeInCycle } from "./scenario.ts";

const sample = { train: 3150, validation: 2100, test: 2100, "fresh:1": 2100, "fresh:987654321": 2100 } as const;
const names = Object.keys(sample) as readonly (keyof typeof sample)[];

function gather(
  split: keyof typeof sample,
): Record<"ids" | "names" | "titles" | "streets" | "goals" | "pairs", Set<string>> {
  const found = { ids: set(), names: set(), titles: set(), streets: set(), goals: set(), pairs: set() };
  for (let number = 0; number < sample[split]; number++) {
    const { shop, goals, agenda } = createScenario(drawnSplit(split)!, number);
    const records = [shop.members, shop.editions, shop.orders, shop.cards];
    for (const id of records.flatMap((byId) => [...byId.keys()])) found.ids.add(id);
    for (const { name } of shop.members.values()) found.names.add(name);
    for (const { title } of shop.editions.values()) found.titles.add(title);
    for (const { address } of shop.orders.values()) found.streets.add(address.slice(3));
    for (const [, street] of JSON.stringify(agenda).matchAll(/\d\d ([A-Z]\w+ (?:Road|Lane|Street|Square|Hill|Row))/g)) {
      found.streets.add(street ?? "");
    }
    for (const goal of goals) found.goals.add(`${goal.kind}/${goal.caseName}: ${goal.combination}`);
    if (goals.length === 2)
      found.pairs.add(
        goals
          .map((goal) => `${goal.kind}/${goal.caseName}`)
          .sort()
          .join(" + "),
      );
  }
  return found;
}

function set(): Set<string> {
  return new Set();
}

test("no two splits share an id, name, title, street, goal or pair of goals; nor does fresh share any with the others", () => {
  const found = names.map((name) => [name, gather(name)] as const);
  for (const key of ["ids", "names", "titles", "streets", "goals", "pairs"] as const) {
    for (const [first, { [key]: firsts }] of found) {
      expect(firsts.size, `${first} ${key}`).toBeGreaterThan(first === "train" ? 50 : 14);
      for (const [second, { [key]: seconds }] of found) {
        if (first === second || (first.startsWith("fresh") && second.startsWith("fresh"))) continue;
        expect(
          [...firsts].filter((one) => seconds.has(one)),
          `${key} of ${first} and ${second}`,
        ).toEqual([]);
      }
    }
  }
});

test("every case of every kind comes up in every split, and any 21 tasks in a row hold each kind and level once", () => {
  for (const split of names) {
    const seen = new Set<string>();
    for (let number = 0; number < 1050; number++) {
      for (const goal of createScenario(drawnSplit(split)!, number).goals) seen.add(`${goal.kind}/${goal.caseName}`);
    }
    expect(seen.size).toBe(goalCases.length);
  }
  const places = Array.from({ length: cycleLength }, (_, number) => JSON.stringify(placeInCycle(number)));
  expect(new Set(places).size).toBe(21);
});

test("tasks are many, and no two are the same", () => {
  const source = bookshopSource();
  expect(source.taskset("train").size).toBe(50_400);
  expect(source.taskset("validation").size).toBe(5_040);
  expect(source.taskset("test").size).toBe(5_040);
  expect(source.taskset("fresh:5").size).toBe(10_080);
  const hashes = new Set<string>();
  for (let index = 0; index < 3000; index++) hashes.add(source.taskset("train").task(index * 16).contentHash);
  expect(hashes.size).toBe(3000);
});
