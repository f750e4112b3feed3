import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, it } from "vitest";
import { z } from "zod";
import { anyNames } from "./any-names.ts";
import { addCount, ownValue, setOwn } from "./counts.ts";

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

it("anyNames() reads JSON as it is, at every depth and with every name", () => {
  const anyJson = z.lazy((): z.ZodType => anyNames(anyJson).or(z.array(anyJson)).or(z.unknown()));
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { depthSize: "small" },
      fc.jsonValue().map((value) => JSON.stringify(value)),
      fc
        .array(fc.tuple(fc.oneof(fc.constantFrom(...names), fc.string()), tie("tree")))
        .map((all) => `{${all.map(([name, value]) => `${JSON.stringify(name)}:${value as string}`).join(",")}}`),
      fc.array(tie("tree")).map((all) => `[${all.join(",")}]`),
    ),
  })) as { tree: fc.Arbitrary<string> };
  fc.assert(
    fc.property(tree, (text) => {
      const value: unknown = JSON.parse(text);
      expect(JSON.stringify(anyJson.parse(value))).toBe(JSON.stringify(value));
    }),
  );
});

it("anyNames() reports the place and the code of each issue, and refuses names", () => {
  const short = anyNames(z.array(z.int()), { name: z.string().max(3, "too long"), error: "a table" });
  const wrong = short.safeParse({ a: [1, "b"], long: [2] }, { reportInput: true }).error?.issues;
  expect(wrong).toMatchObject([
    { code: "invalid_type", path: ["a", 1], input: "b" },
    { code: "invalid_key", path: ["long"], issues: [{ message: "too long" }] },
  ]);
  for (const value of [new Map(), new Date(), [], null])
    expect(short.safeParse(value).error?.issues[0]?.message).toBe("a table");
  expect(short.parse(Object.create(null))).toEqual({});
});

/** Descriptions of what we send, which read nothing, and an imitation of a server, which hands nothing on. */
const described = [
  "src/service/responses.ts",
  "src/service/episode-view.ts",
  "src/testing/sglang/read-request.ts",
  "src/testing/sglang/router-front.ts",
];

it("no schema of the sources is of a kind with which zod drops a name", () => {
  const files = execFileSync("git", ["ls-files", "src/*.ts"], { encoding: "utf8" }).trim().split("\n");
  const sources = files.filter((file) => !/\.test(-helper)?\.ts$/.test(file));
  expect(sources.length).toBeGreaterThan(400);
  const dropping = sources.filter((file) =>
    /\bz\s*\.(?:record|partialRecord|looseRecord|looseObject|json)\(|\.(?:catchall|passthrough|loose)\(/.test(
      readFileSync(file, "utf8"),
    ),
  );
  expect(dropping.toSorted()).toEqual(described.toSorted());
});

it("counts and properties of any name are those of the object itself", () => {
  const counts: Record<string, number> = {};
  for (const name of [...names, ...names]) addCount(counts, name);
  addCount(counts, "__proto__", 3);
  expect(Object.entries(counts)).toEqual([...names.map((name) => [name, name === "__proto__" ? 5 : 2])]);
  const lists: Record<string, readonly number[]> = {};
  setOwn(lists, "__proto__", [1]);
  expect(Object.keys(lists)).toEqual(["__proto__"]);
  expect([ownValue(lists, "__proto__"), ownValue(lists, "constructor")]).toEqual([[1], undefined]);
  expect(({} as { 0?: number })[0]).toBe(undefined);
});
