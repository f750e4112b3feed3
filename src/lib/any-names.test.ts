import { expect, it } from "vitest";
import { z } from "zod";
import { anyNames } from "./any-names.ts";
import { addCount, setOwn } from "./counts.ts";

const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "a"];
const given = JSON.parse(`{${names.map((name, at) => `${JSON.stringify(name)}: ${at}`).join(", ")}}`) as object;

it("anyNames() keeps every name, and changes no prototype", () => {
  const read = anyNames(z.number()).parse(given);
  expect(Object.entries(read)).toEqual(names.map((name, at) => [name, at]));
  expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
  expect(anyNames(z.number()).optional().parse(undefined)).toBe(undefined);
  for (const wrong of [[], null, 5, "a", { a: "x" }, JSON.parse('{"__proto__": "x"}')]) {
    expect(anyNames(z.number()).safeParse(wrong).success).toBe(false);
  }
  expect(z.object({ metrics: anyNames(z.number()) }).safeParse({ metrics: { a: "x" } }).error?.issues[0]?.path).toEqual(["metrics", "a"]); // prettier-ignore
});

it("counts and properties of any name are those of the object itself", () => {
  const counts: Record<string, number> = {};
  for (const name of [...names, ...names]) addCount(counts, name);
  addCount(counts, "__proto__", 3);
  expect(Object.entries(counts)).toEqual([...names.map((name) => [name, name === "__proto__" ? 5 : 2])]);
  const lists: Record<string, readonly number[]> = {};
  setOwn(lists, "__proto__", [1]);
  expect(Object.keys(lists)).toEqual(["__proto__"]);
  expect(({} as { 0?: number })[0]).toBe(undefined);
});
