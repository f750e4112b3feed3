// Properties that hold in every domain, for the tools of both sides.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { JsonFloat, type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { countedIds, loadTau2Data, tau2Domains, Tau2World } from "./index.ts";

const folder = sharedFolder("tau2-bench");

const isFull = process.env["FULL"] === "1";
/** Number of runs per domain; the full suite makes more than 100,000 hostile calls. */
const runs = isFull ? 1500 : 60;

/** Number of calls and of error answers, by side and tool. */
const counts = new Map<string, { calls: number; errors: number }>();
/** Existing ids, so that calls get far. */
const ids = [
  ...["#W2378156", "#W6247578", "yusuf_rossi_9620", "credit_card_9513926", "1151293680", "no longer needed"],
  ...["mia_li_3668", "4WQ150", "HAT069", "JFK", "2024-05-20", "economy", "certificate_4856383", "yes", "one_way"],
  ...["C1001", "L1002", "B1001", "555-123-2002", "messaging", "sms", "4g_only", "John Smith", "1985-06-15"],
  ...["user_1", "task_1", "notif_1", "completed"],
];

function hostileValue(): fc.Arbitrary<JsonValue> {
  const scalar = fc.constantFrom<JsonValue>(
    null, true, 0, -1, 2n ** 70n, new JsonFloat(NaN), new JsonFloat(Infinity), new JsonFloat(-0), new JsonFloat(1.5), "",
    "__proto__", "\ud800", "toString", "9**9**9", "(".repeat(300), ...ids, ...ids,
  ); // prettier-ignore
  const key = fc.constantFrom("flight_number", "date", "payment_id", "amount", "first_name", "apn_name", "x");
  const record = fc.array(fc.tuple(key, scalar), { maxLength: 4 }).map((entries): JsonObject => new Map(entries));
  const anything = fc.jsonValue({ maxDepth: 3 }).map((value) => parseJson(JSON.stringify(value)));
  return fc.oneof({ arbitrary: scalar, weight: 4 }, record, fc.array(scalar), fc.array(record), anything);
}

describe.skipIf(folder === null).each(tau2Domains)("τ²-bench %s (skipped without ../shared/tau2-bench)", (domain) => {
  test("hostile arguments are answered with a text, and no other episode sees what they change", async () => {
    const data = await loadTau2Data({ domain, folder: folder! });
    const task = (await data.tasks(data.splits.includes("base") ? "base" : data.splits[0]!))[0]!;
    const open = (): Tau2World => {
      const world = new Tau2World(data.world, { isSolo: false, createId: countedIds("B") });
      world.setState(task.initial, task.history);
      return world;
    };
    const bystander = open();
    const before = bystander.digests();
    const tools = [
      ...data.tools.map((tool) => ({ tool, requestor: "assistant" as const })),
      ...data.userTools.map((tool) => ({ tool, requestor: "user" as const })),
    ];
    const call = fc.constantFrom(...tools).chain(({ tool, requestor }) => {
      const parameters = (tool.definition.get("function") as JsonObject).get("parameters") as JsonObject;
      const names = [...(parameters.get("properties") as JsonObject).keys(), "self", "x"];
      const values = fc.tuple(
        ...names.map((name) => fc.option(hostileValue(), { freq: name.length < 5 ? 1 : 20, nil: undefined })),
      );
      return values.map((given) => {
        const pairs = names.flatMap((name, index) =>
          given[index] === undefined ? [] : [[name, given[index]] as const],
        );
        return { id: "", name: tool.name, requestor, arguments: new Map<string, JsonValue>(pairs) };
      });
    });
    fc.assert(
      fc.property(fc.array(call, { minLength: isFull ? 15 : 1, maxLength: 30 }), (calls) => {
        const world = open();
        for (const one of calls) {
          const answer = world.answer(one);
          expect(typeof answer.content).toBe("string");
          expect(answer.isError).toBe(answer.content.startsWith("Error: ") && answer.isError);
          const place = `${domain} ${one.requestor} ${one.name}`;
          const count = counts.get(place) ?? { calls: 0, errors: 0 };
          counts.set(place, { calls: count.calls + 1, errors: count.errors + Number(answer.isError) });
        }
        world.digests();
      }),
      { seed: 7, numRuns: runs },
    );
    expect(bystander.digests()).toEqual(before);
    expect(open().digests()).toEqual(before);
  });

  test("an unknown tool, and one of the other side, is an error that the caller reads", async () => {
    const data = await loadTau2Data({ domain, folder: folder! });
    const world = new Tau2World(data.world, { isSolo: false, createId: countedIds("B") });
    const answer = (name: string, requestor: "assistant" | "user") =>
      world.answer({ id: "", name, requestor, arguments: new Map() });
    expect(answer("fly", "assistant")).toEqual({ content: "Error: Tool 'fly' not found.", isError: true });
    const content =
      data.userTools.length === 0 ? "Error: User tools not available" : "Error: Tool 'calculate' not found.";
    expect(answer("calculate", "user")).toEqual({ content, isError: true });
    // Reserved names of the reference; Python reports the first one that it notices.
    const given = (...names: string[]) => new Map(names.map((name) => [name, 1] as const));
    const taken = (...names: string[]) =>
      world.answer({ id: "", name: "fly", requestor: "assistant", arguments: given(...names) }).content;
    const place = "Environment.make_tool_call() got multiple values for";
    expect(taken("x", "tool_name", "self")).toBe(`Error: ${place} argument 'tool_name'`);
    expect(taken("self", "tool_name")).toBe(`Error: ${place} argument 'self'`);
    expect(taken("self", "requestor")).toBe(
      `Error: tau2.environment.environment.${place} keyword argument 'requestor'`,
    );
  });
});

test.skipIf(folder === null)("how many there were, of which tools", () => {
  const all = [...counts.values()];
  const sum = (name: "calls" | "errors"): number => all.reduce((total, count) => total + count[name], 0);
  const least = all.reduce((fewest, { calls }) => Math.min(fewest, calls), Infinity);
  process.stdout.write(
    `${sum("calls")} hostile calls, ${sum("errors")} of them answered by an error; ${counts.size} tools of both sides, ` +
      `each called ${least} times at least\n`,
  );
  expect(sum("calls")).toBeGreaterThan(isFull ? 100_000 : 1000);
});
