import { describe, expect, test } from "vitest";
import { ConfigurationError, type Environment, hasSplit, type Task } from "../../core/index.ts";
import { fromPlain, type JsonObject, parseJson } from "../../python-semantics/json/index.ts";
import { environmentViolations } from "../../testing/index.ts";
import { bookshopSource, kinds, levels } from "./index.ts";
import { createScenario, drawnSplit } from "./scenario.ts";

const source = bookshopSource();
const completed = { outcome: "completed" } as const;

function args(value: Record<string, unknown>): JsonObject {
  const json = fromPlain(value);
  if (!(json instanceof Map)) throw new Error("not an object");
  return json;
}

/** The first task of a case, with its scenario. */
function find(caseName: string): { readonly task: Task; readonly scenario: ReturnType<typeof createScenario> } {
  const tasks = source.taskset("train");
  for (let index = 0; index < 5000; index++) {
    const scenario = createScenario(drawnSplit("train")!, index);
    const [goal, second] = scenario.goals;
    if (second === undefined && `${goal?.kind}/${goal?.caseName}` === caseName)
      return { task: tasks.task(index), scenario };
  }
  throw new Error(`no task of case ${caseName}`);
}

/** A plain cancellation with the ids that the desk needs. */
function cancellation(): { environment: Environment; member: string; order: string; refund: string } {
  const { task, scenario } = find("cancel/plain");
  const goal = scenario.goals[0]!;
  const order = goal.gold[0]?.arguments.get("order_id");
  const member = scenario.agenda.slots[0]!.answers[0]!.slice(0, 6);
  if (typeof order !== "string") throw new Error("no order");
  return { environment: source.open(task), member, order, refund: goal.facts[0]!.said[0]! };
}

test("the bookshop keeps the environment contract", async () => {
  expect(await environmentViolations(source, { tasks: 21, calls: 60 })).toEqual([]);
});

describe("grade()", () => {
  test("gives 1 to a change that was looked up, confirmed and told", async () => {
    const { environment, member, order, refund } = cancellation();
    await environment.call({ name: "look_up", arguments: args({ id: member }) });
    await environment.call({ name: "look_up", arguments: args({ id: order }) });
    await environment.receiveUtterance(`I will cancel ${order}. Do you confirm?`);
    const result = await environment.call({ name: "cancel_order", arguments: args({ order_id: order }) });
    expect(result).toMatchObject({ isError: false, endsEpisode: false });
    expect(await environment.grade(completed)).toMatchObject({
      reward: 0,
      log: `The data is as it should be. Not told: ${refund}.`,
    });
    await environment.receiveUtterance(`You get ${refund} back.`);
    expect(await environment.grade(completed)).toMatchObject({
      reward: 1,
      metrics: { ruleViolations: 0, factsUnsaid: 0 },
    });
    expect((await environment.grade({ outcome: "truncated" })).reward).toBe(0);
  });

  test.each([
    ["without asking for a yes", "rule 3", ["member", "order"], false],
    ["without looking the order up", "rule 2", ["member"], true],
    ["without looking the member up", "rule 1", ["order"], true],
  ] as const)("gives 0 to a change %s, and names %s", async (_, rule, lookedUp, isConfirmed) => {
    const { environment, member, order, refund } = cancellation();
    for (const what of lookedUp) {
      await environment.call({ name: "look_up", arguments: args({ id: what === "member" ? member : order }) });
    }
    if (isConfirmed) await environment.receiveUtterance(`I will cancel ${order}. Do you confirm?`);
    await environment.call({ name: "cancel_order", arguments: args({ order_id: order }) });
    await environment.receiveUtterance(`You get ${refund} back.`);
    const grade = await environment.grade(completed);
    expect(grade).toMatchObject({ reward: 0, metrics: { ruleViolations: 1 } });
    expect(grade.log).toContain(`Broken: ${rule} by cancel_order.`);
  });

  test("does not count a fact that was said before a tool reported it", async () => {
    const { task, scenario } = find("question/balance");
    const environment = source.open(task);
    const [fact] = scenario.goals[0]!.facts;
    const member = scenario.agenda.slots[0]!.answers[0]!.slice(0, 6);
    const card = [...scenario.shop.cards.values()].find((one) => one.member === member)!;
    await environment.call({ name: "look_up", arguments: args({ id: member }) });
    await environment.receiveUtterance(`It is ${fact!.said[0]}.`);
    expect((await environment.grade(completed)).reward).toBe(0);
    await environment.call({ name: "look_up", arguments: args({ id: card.id }) });
    await environment.receiveUtterance(`It is ${fact!.said[0]}.`);
    expect((await environment.grade(completed)).reward).toBe(1);
  });

  test("a refused wish needs the right rule", async () => {
    const { task, scenario } = find("cancel/shipped");
    const order = [...scenario.shop.orders.keys()].find((id) => scenario.instruction.includes(id))!;
    const member = scenario.agenda.slots[0]!.answers[0]!.slice(0, 6);
    for (const rule of [4, 5]) {
      const environment = source.open(task);
      for (const id of [member, order]) await environment.call({ name: "look_up", arguments: args({ id }) });
      await environment.call({ name: "decline", arguments: args({ id: order, rule }) });
      await environment.receiveUtterance("I cannot, it has shipped.");
      expect((await environment.grade(completed)).reward).toBe(rule === 4 ? 1 : 0);
    }
  });
});

test("call() answers every argument with a text and leaves the data alone when it makes no sense", async () => {
  const { environment, order, member } = cancellation();
  const before = environment.digest();
  const hostile: readonly unknown[] = [
    null,
    true,
    -1,
    0,
    1.5,
    1e308,
    NaN,
    "",
    " ",
    "#W",
    "#W0000",
    "__proto__",
    "constructor",
    "x".repeat(100_000),
    "\u0000",
    "\ud800",
    [],
    [order],
    { id: order },
    [[[[]]]],
  ];
  const names = [...environment.tools.map((tool) => tool.name), "", "no_such_tool", "__proto__", "toString"];
  for (const name of names) {
    for (const value of hostile) {
      const all = { id: value, order_id: value, address: value, book_id: value, new_book_id: value, card_id: value };
      for (const given of [
        { ...all, amount: value, rule: value, member_id: value },
        { order_id: order, amount: value },
        {},
      ]) {
        const result = await environment.call({ name, arguments: args(given) });
        const isCancellation = name === "cancel_order" && "amount" in given && !("id" in given);
        if (isCancellation) continue;
        expect(result.isError, `${name} ${JSON.stringify(value)}`).toBe(true);
        expect(result.text.length).toBeLessThan(120);
        expect(result.endsEpisode).toBe(false);
      }
    }
  }
  const big = parseJson('{"card_id": "#C1", "amount": 1e400, "rule": 99999999999999999999, "id": "#W1"}');
  if (!(big instanceof Map)) throw new Error("not an object");
  for (const name of names) expect(await environment.call({ name, arguments: big })).toMatchObject({ isError: true });
  expect(environment.digest()).not.toBe(before);
  const untouched = cancellation().environment;
  await untouched.call({ name: "look_up", arguments: args({ id: member }) });
  await untouched.call({ name: "cancel_order", arguments: args({ order_id: "#W0000" }) });
  expect(untouched.digest()).toBe(before);
});

describe("bookshopSource()", () => {
  test("opens a task that went through JSON, and refuses one of another version or environment", () => {
    const task = source.taskset("test").task(12);
    const read = JSON.parse(JSON.stringify(task)) as Task;
    expect(bookshopSource().open(read).digest()).toBe(source.open(task).digest());
    expect(() => source.open({ ...read, contentHash: "0" })).toThrow(ConfigurationError);
    for (const id of [
      "bookshop:test:5040",
      "bookshop:dev:1",
      "bookshop:fresh:1",
      "bookshop:fresh:01:1",
      "bookshop:fresh:1:10080",
      "bookshop:test:-1",
      "other:test:1",
      "",
      "bookshop:test:1e3",
    ]) {
      expect(() => source.open({ ...read, id }), id).toThrow(ConfigurationError);
    }
  });

  test("gives every split and every seed its own tasks", () => {
    const hashOf = (split: string): string => source.taskset(split).task(5).contentHash;
    expect(source.taskset("fresh:3").size).toBeGreaterThanOrEqual(10_000);
    expect(new Set(["fresh:3", "fresh:4", "test", "validation", "train"].map(hashOf)).size).toBe(5);
    const fresh = source.taskset("fresh:3").task(5);
    const read = JSON.parse(JSON.stringify(fresh)) as Task;
    expect(bookshopSource().open(read).digest()).toBe(source.open(fresh).digest());
    for (const split of ["fresh", "fresh:", "fresh:01", "fresh:-1", "fresh:1e3", "fresh:1234567890123456"]) {
      expect(() => source.taskset(split), split).toThrow(ConfigurationError);
      expect(hasSplit(source, split), split).toBe(false);
    }
    expect(hasSplit(source, "fresh:3")).toBe(true);
  });

  test("keeps the ids of tasks when kinds and levels are chosen", () => {
    const all = source.taskset("train");
    const some = bookshopSource({ kinds: ["cancel", "swap"], levels: [1] }).taskset("train");
    expect(some.size).toBe(4800);
    for (let index = 0; index < 40; index++) {
      const task = some.task(index);
      const number = Number(task.id.split(":")[2]);
      expect({ ...task, index: number }).toEqual(all.task(number));
      expect(createScenario(drawnSplit("train")!, number)).toMatchObject({ level: 1 });
      expect(["cancel", "swap"]).toContain(createScenario(drawnSplit("train")!, number).kind);
    }
    const sizes = kinds.map((kind) => bookshopSource({ kinds: [kind], levels: [...levels] }).taskset("test").size);
    expect(sizes).toEqual(kinds.map(() => 720));
  });

  test("refuses unknown splits, indexes and options", () => {
    expect(() => source.taskset("dev")).toThrow('expected one of "train", "validation" and "test"');
    expect(() => source.taskset("test").task(5040)).toThrow("indexes go from 0 to 5039");
    expect(() => source.taskset("test").task(0.5)).toThrow(RangeError);
    expect(() => bookshopSource({ kinds: [] })).toThrow(ConfigurationError);
    expect(() => bookshopSource({ levels: [4 as 3] })).toThrow('option "levels": it is [4]');
  });
});
