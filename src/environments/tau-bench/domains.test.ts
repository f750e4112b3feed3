// Properties that hold in every domain.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { JsonFloat, type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { environmentViolations } from "../../testing/index.ts";
import { loadTauBench, tauBenchSource } from "./index.ts";

const folder = sharedFolder("tau-bench");
const completed = { outcome: "completed" } as const;

const domains = [
  {
    domain: "retail",
    freshHash: "5a4b2cb59f4d12dea7e4adff24a7f8fada510ead49372ea4a729a82bbb5f49b5",
    ids: ["#W2378156", "#W6247578", "yusuf_rossi_9620", "credit_card_9513926", "1151293680", "7706410293", "no longer needed"],
  },
  {
    domain: "airline",
    freshHash: "4587e6b48ad2b2c4f3e1fecb40aabec7bb2286513273b8f8cec3f5865222f290",
    ids: ["mia_li_3668", "NO6JO3", "HATHAT", "HAT069", "JFK", "SEA", "2024-05-20", "economy", "credit_card_4421486", "certificate_4856383", "yes"],
  },
] as const; // prettier-ignore

/** Values that no schema would allow, mixed with existing ids, so that calls get far. */
/** The full suite makes more than 100,000 hostile calls over both domains. */
const isFull = process.env["FULL"] === "1";

function hostileValue(ids: readonly string[]): fc.Arbitrary<JsonValue> {
  const scalar = fc.constantFrom<JsonValue>(
    null, true, 0, -1, 2n ** 70n, new JsonFloat(NaN), new JsonFloat(-0), new JsonFloat(1.5), "", "__proto__", "\ud800",
    "toString", "9**9**9", "(".repeat(300), ...ids, ...ids, ...ids,
  ); // prettier-ignore
  const key = fc.constantFrom("flight_number", "date", "payment_id", "amount", "price", "x");
  const record = fc.array(fc.tuple(key, scalar), { maxLength: 4 }).map((entries): JsonObject => new Map(entries));
  const anything = fc.jsonValue({ maxDepth: 3 }).map((value) => parseJson(JSON.stringify(value)));
  return fc.oneof(
    { arbitrary: scalar, weight: 4 },
    record,
    fc.array(scalar),
    fc.array(record),
    fc.array(fc.array(scalar)),
    anything,
  );
}

describe.skipIf(folder === null).each(domains)(
  "τ-bench $domain (skipped without ../shared/tau-bench)",
  async (facts) => {
    const { domain, freshHash, ids } = facts;
    const source = folder === null ? null! : await tauBenchSource({ domain, folder });

    test("keeps the contract of environments", async () => {
      expect(await environmentViolations(source)).toEqual([]);
    });

    test("a fresh environment has the reference's hash", () => {
      expect(source.open(source.taskset("test").task(0)).digest()).toBe(freshHash);
    });

    test("earns 1 for the gold actions and 0 for doing nothing, in every test task", async () => {
      const data = await loadTauBench({ domain, folder: folder! });
      for (const { task, actions, outputs } of data.tasks.get("test")!) {
        const environment = source.open(task);
        for (const output of outputs) await environment.receiveUtterance(`It is ${output}.`);
        for (const { name, kwargs } of actions) await environment.call({ name, arguments: kwargs });
        const grade = await environment.grade(completed);
        expect(grade).toMatchObject({ reward: 1, log: "", metrics: { database_right: 1 } });
        expect((await environment.grade({ outcome: "truncated" })).reward).toBe(0);
      }
    });

    test("hostile arguments never throw, and no other episode sees what they change", async () => {
      const task = source.taskset("test").task(3);
      const bystander = source.open(task);
      const call = fc.constantFrom(...source.open(task).tools).chain((tool) => {
        const parameters = (tool.definition.get("function") as JsonObject).get("parameters") as JsonObject;
        const names = [...(parameters.get("properties") as JsonObject).keys()];
        const values = fc.tuple(...names.map(() => fc.option(hostileValue(ids), { freq: 20, nil: undefined })));
        const extra = fc.option(fc.tuple(fc.constantFrom("data", "self", "__proto__", ""), hostileValue(ids)), {
          freq: 1,
          nil: null,
        });
        return fc.record({
          name: fc.constantFrom(tool.name, tool.name, tool.name, "respond"),
          names: fc.constant(names),
          values,
          extra,
        });
      });
      let calls = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 10 }), async (steps) => {
          const environment = source.open(task);
          for (const { name, names, values, extra } of steps) {
            const args: JsonObject = new Map();
            for (const [index, value] of values.entries()) if (value !== undefined) args.set(names[index]!, value);
            if (extra !== null) args.set(...extra);
            expect(typeof (await environment.call({ name, arguments: args })).text).toBe("string");
            calls++;
          }
          await environment.grade(completed);
        }),
        { seed: 17, numRuns: isFull ? 10_000 : 400 },
      );
      expect(calls).toBeGreaterThan(isFull ? 50_000 : 1500);
      expect(bystander.digest()).toBe(freshHash);
    });
  },
);
