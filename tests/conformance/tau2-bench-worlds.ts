// Records of worlds of τ²-bench: reference solutions, seeded calls, telecom worlds that no task
// has, merges, hashes and result texts. A record is run in its recorded form: every observation,
// and the digests after every call that changed something.

import { createHash } from "node:crypto";
import {
  type Assertion,
  countedIds,
  type DomainData,
  type FunctionCall,
  loggedReadsOf,
  readMessages,
  resultText,
  type Tau2Task,
  Tau2World,
} from "#src/environments/tau2-bench/index.ts";
import { PythonError } from "#src/python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "#src/python-semantics/json/index.ts";

export type Played = { readonly expected: JsonValue; readonly actual: JsonValue };

type Digests = { readonly agent: string; readonly user: string | null };

export function newWorld(
  data: DomainData,
  options: { readonly isSolo?: boolean; readonly task?: Tau2Task | null } = {},
): Tau2World {
  const { isSolo = false, task = null } = options;
  const loggedReads = loggedReadsOf(task ?? { criteria: null });
  return new Tau2World(data.world, { isSolo, createId: countedIds("B"), loggedReads });
}

/** The initial world of a task. */
export function worldOf(data: DomainData, task: Tau2Task | null): Tau2World {
  const world = newWorld(data, { task });
  world.setState(task?.initial ?? null, task?.history ?? []);
  return world;
}

/** Runs seeded calls, and the reference solution of a task. */
export function playSteps(data: DomainData, task: Tau2Task | null, record: JsonObject): Played {
  const world = worldOf(data, task);
  const steps = record.get("steps") as JsonObject[];
  const final = record.has("final") ? "final" : "after_live_replay";
  const initial = digestsOf(world);
  return {
    expected: asObject({
      initial: record.get("initial")!,
      steps: steps.map(expectedStep),
      [final]: record.get(final)!,
    }),
    actual: asObject({ initial, steps: playCalls(world, steps), [final]: digestsOf(world) }),
  };
}

/** Calls of the bank, each with a digest of its observation or the observation itself. */
export function playBankCalls(data: DomainData, task: Tau2Task, record: JsonObject): Played {
  const steps = record.get("steps") as JsonObject[];
  const played = playCalls(worldOf(data, task), steps);
  return {
    expected: steps.map((step) => pick(step, ["requestor", "name", "error", "db", "content", "sha256"])),
    actual: played.map((step, at) => {
      step.delete("user_db");
      if (steps[at]!.has("sha256")) return asDigest(step);
      if (!steps[at]!.has("content")) step.delete("content");
      return step;
    }),
  };
}

/** A search of the bank's documents. */
export function playSearch(data: DomainData, record: JsonObject): Played {
  const [step] = playCalls(newWorld(data), [record]);
  return { expected: pick(record, ["requestor", "name", "error", "sha256"]), actual: asDigest(step!) };
}

function asDigest(step: JsonObject): JsonObject {
  const content = step.get("content") as string;
  step.delete("content");
  return step.set("sha256", createHash("sha256").update(content).digest("hex"));
}

/** The short form: digests, and a digest of all observations. */
export function playShortGold(data: DomainData, task: Tau2Task, record: JsonObject): Played {
  const world = worldOf(data, task);
  const initial = digestsOf(world);
  let errors = 0;
  const contents = (task.criteria?.actions ?? []).map((action) => {
    const answer = world.answer({ ...action, id: "" });
    if (answer.isError) errors++;
    return answer.content;
  });
  const actual = asObject({
    initial,
    after_live_replay: digestsOf(world),
    observations_sha256: createHash("sha256").update(contents.join("\u001e")).digest("hex"),
    errors,
  });
  return { expected: pick(record, [...actual.keys()]), actual };
}

/** The calls of a reference solution with their results, as full records have them. */
export function solutionSteps(data: DomainData, task: Tau2Task): JsonObject[] {
  const world = worldOf(data, task);
  return (task.criteria?.actions ?? []).map((action) => {
    const { content, isError } = world.answer({ ...action, id: "" });
    return asObject({
      requestor: action.requestor,
      name: action.name,
      arguments: action.arguments,
      content,
      error: isError,
    });
  });
}

/** The target of the evaluator: the reference solution without syncs; failing calls are skipped. */
export function playTarget(data: DomainData, task: Tau2Task): JsonObject {
  const world = worldOf(data, task);
  const errors: JsonValue[] = [];
  for (const { id, requestor, name, arguments: given } of task.criteria?.actions ?? []) {
    const raised = raisedBy(() => world.call(requestor, name, given));
    if (raised !== null) errors.push([id, raised.replace(/^\w+: /, "")]);
  }
  return asObject({ ...Object.fromEntries(digestsOf(world)), errors });
}

/** Runs initialization actions, calls, then every assertion with its value or its error. */
export function playTelecomWorld(data: DomainData, record: JsonObject): Played {
  const world = newWorld(data);
  const actions = (record.get("initialization_actions") as JsonObject[]).map(readFunction);
  const raised = raisedBy(() => world.setState({ agentData: null, userData: null, actions }, []));
  const initial = digestsOf(world);
  const steps = record.get("steps") as JsonObject[];
  const played = playCalls(world, steps);
  const final = digestsOf(world);
  const assertions = (record.get("assertions") as JsonObject[]).map((assertion) => {
    let value: JsonValue = null;
    const error = raisedBy(() => {
      value = world.run(readFunction(assertion)) as JsonValue;
    });
    const result = new Map(assertion);
    result.delete("value");
    result.delete("raises");
    return error === null ? result.set("value", value) : result.set("raises", error);
  });
  const actual = asObject({ initial, steps: played, final, assertions });
  if (raised !== null) actual.set("init_raises", raised);
  const expected = pick(record, ["initial", "final", "assertions", "init_raises"]);
  return { expected: expected.set("steps", steps.map(expectedStep)), actual };
}

export function playMerge(data: DomainData, record: JsonObject): Played {
  const world = newWorld(data);
  const update = record.get("update") as JsonObject;
  const raised = raisedBy(() => {
    world.agent = world.agent.merged(update);
  });
  if (raised !== null) {
    return { expected: pick(record, ["raises"]), actual: asObject({ raises: raised.replace(/:.*/s, "") }) };
  }
  const actual = asObject({ after: world.agent.dump(), db: world.agent.digest() });
  return { expected: pick(record, ["after", "db"]), actual };
}

export function playHash(data: DomainData, record: JsonObject): Played {
  const world = newWorld(data);
  const database = record.get("side") === "user_db" ? world.user : world.agent;
  return { expected: pick(record, ["sha256"]), actual: asObject({ sha256: database.digest() }) };
}

/**
 * Values by the case's name, as in the golden file's README; `null`: a value that JSON does not
 * have.
 */
const results: Readonly<Record<string, () => string>> = {
  str: () => resultText("plain Zoë"),
  "empty str": () => resultText(""),
  none: () => resultText(null),
  int: () => resultText(5),
  float: () => resultText(new JsonFloat(5)),
  bool: () => resultText(true),
  list: () => resultText([1, new JsonFloat(2), "x", null, true]),
  nested: () =>
    resultText(
      new Map<string, never>([
        ["a", 1 as never],
        ["b", [new JsonFloat(2.5), false] as never],
        ["c", null as never],
        ["d", new Map([["e", "é"]]) as never],
      ]),
    ),
};

/** Runs a result text; `null` for a case of Python objects that no tool returns. */
export function playResultText(record: JsonObject): Played | null {
  const make = results[record.get("case") as string];
  return make === undefined ? null : { expected: pick(record, ["text"]), actual: asObject({ text: make() }) };
}

export function playCalculation(data: DomainData, record: JsonObject): Played {
  const call = { id: "", name: "calculate", requestor: "assistant" as const };
  const answer = newWorld(data).answer({ ...call, arguments: pick(record, ["expression"]) });
  return {
    expected: pick(record, ["content", "error"]),
    actual: asObject({ content: answer.content, error: answer.isError }),
  };
}

function playCalls(world: Tau2World, steps: readonly JsonObject[]): JsonObject[] {
  let before = world.digests();
  return steps.map((step) => {
    const [call] = readMessages([asObject({ role: "assistant", tool_calls: [step] })], "the record");
    if (call?.role !== "assistant" || call.toolCalls === null) throw new Error("Cannot run a step that is not a call.");
    const { content, isError } = world.answer(call.toolCalls[0]!);
    const after = world.digests();
    const result = pick(step, ["requestor", "name"]).set("error", isError);
    // Texts that CPython or pydantic wrote may differ.
    if (step.get("python_text") !== true) result.set("content", content);
    if (after.agent !== before.agent) result.set("db", after.agent);
    if (after.user !== before.user) result.set("user_db", after.user);
    before = after;
    return result;
  });
}

function expectedStep(step: JsonObject): JsonObject {
  const keys = ["requestor", "name", "error", "db", "user_db"];
  return pick(step, step.get("python_text") === true ? keys : [...keys, "content"]);
}

function readFunction(record: JsonObject): FunctionCall | Assertion {
  return {
    side: record.get("env_type") as FunctionCall["side"],
    name: record.get("func_name") as string,
    arguments: record.get("arguments") as JsonObject,
  };
}

function raisedBy(action: () => unknown): string | null {
  try {
    action();
    return null;
  } catch (error) {
    if (error instanceof PythonError) return `${error.pythonType}: ${error.message}`;
    throw error;
  }
}

export function digestsOf(world: Tau2World): JsonObject {
  const { agent, user }: Digests = world.digests();
  return asObject({ db: agent, user_db: user });
}

export function pick(record: JsonObject, keys: readonly string[]): JsonObject {
  return new Map(keys.filter((key) => record.has(key)).map((key) => [key, record.get(key)!]));
}

export function asObject(fields: Readonly<Record<string, JsonValue>>): JsonObject {
  return new Map(Object.entries(fields));
}
