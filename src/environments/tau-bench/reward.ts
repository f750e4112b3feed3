// The reward of the reference: 1 if the data equal the result of the gold actions and every output
// was said, else 0. The data are compared by the records that differ from fresh data, which is
// equivalent to comparing hashes of all data.

import { PythonError, pythonLower } from "../../python-semantics/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { actionRecord, type DomainData, type TauTask } from "./domain-data.ts";
import { attributeError } from "../tables/index.ts";
import { callAction, respondName, type TauAction } from "./domain.ts";
import { World } from "./world.ts";

/**
 * The expected end state of a task: its gold actions run on fresh data, once per process and task.
 * Failing calls in gold lists also fail here; calls that end an episode are skipped, as in the
 * reference.
 */
type Gold = {
  /** The end state, only to be read and forked. */
  readonly world: World;
  /** The executed actions. */
  readonly actions: readonly TauAction[];
  /** Hash texts of the records that actually differ from fresh data. */
  readonly differences: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** The data hash, computed at the first call. */
  digest(): string;
};

const golds = new WeakMap<TauTask, Gold>();

export function goldOf(data: DomainData, task: TauTask): Gold {
  let gold = golds.get(task);
  if (gold === undefined) {
    gold = runGold(data, task);
    golds.set(task, gold);
  }
  return gold;
}

function runGold(data: DomainData, task: TauTask): Gold {
  const { domain } = data;
  const world = new World(data.base);
  const actions = task.actions.filter(({ name }) => !domain.terminating.has(name));
  for (const action of actions) callAction(domain, world, action);
  let digest: string | null = null;
  return {
    world,
    actions,
    differences: world.differences(),
    digest: () => (digest ??= world.digest()),
  };
}

export type TauReward = {
  readonly reward: 0 | 1;
  /** Records that differ from the expected ones, as `table id`. */
  readonly wrongRecords: readonly string[];
  /** The same records with the differing fields, for viewers: see `Grade.info`. */
  readonly difference: readonly JsonObject[];
  /** True for each output that was said; duplicates are merged. */
  readonly outputs: ReadonlyMap<string, boolean>;
  /** `reward_info` of the reference. */
  readonly info: JsonObject;
};

/**
 * Computes the reward. Throws a `PythonError` where the reference lets one escape: for a message to
 * the customer that is not a string, but only if the task has outputs and an output was not found
 * before that message.
 */
export function rewardOf(
  episode: { readonly world: World; readonly actions: readonly TauAction[] },
  task: TauTask,
  gold: Gold,
): TauReward {
  const wrongRecords = findWrongRecords(episode.world, gold);
  const isRight = wrongRecords.length === 0;
  const outputs = new Map(task.outputs.map((output) => [output, wasSaid(episode.actions, output)]));
  const isAllSaid = [...outputs.values()].every((said) => said);
  const reward = isRight && isAllSaid ? 1 : 0;
  // A task with outputs does not show the result of the data, even if that is why the reward is 0.
  const details: [string, JsonValue][] =
    task.outputs.length > 0
      ? [
          ["r_outputs", flag(isAllSaid)],
          ["outputs", new Map(outputs)],
        ]
      : [
          ["r_actions", flag(isRight)],
          ["gt_data_hash", gold.digest()],
        ];
  const actions = task.actions.filter(({ name }) => name !== respondName).map(actionRecord);
  const info: JsonObject = new Map<string, JsonValue>([
    ["reward", flag(reward === 1)],
    ["info", new Map(details)],
    ["actions", actions],
  ]);
  const difference = wrongRecords.map((name) => {
    const [table, id] = splitName(name);
    const [expected, found] = [gold.world.read(table, id), episode.world.read(table, id)];
    return new Map<string, JsonValue>([
      ["record", name],
      ["expected", differingFields(expected, found)],
      ["found", differingFields(found, expected)],
    ]);
  });
  return { reward, wrongRecords, difference, outputs, info };
}

function splitName(name: string): readonly [table: string, id: string] {
  const space = name.indexOf(" ");
  return [name.slice(0, space), name.slice(space + 1)];
}

/** Maximum number of characters shown of a field. */
const mostShown = 300;

/** The fields of a record that differ in another record; `null` if the record does not exist. */
function differingFields(record: JsonObject | undefined, other: JsonObject | undefined): string | null {
  if (record === undefined) return null;
  const fields = [...record].filter(([key, value]) => {
    const found = other?.get(key);
    return found === undefined || dumpJson(found) !== dumpJson(value);
  });
  return fields.map(([key, value]) => `${key}: ${dumpJson(value).slice(0, mostShown)}`).join(", ");
}

function findWrongRecords(world: World, gold: Gold): string[] {
  const actual = world.differences();
  const wrong: string[] = [];
  for (const table of new Set([...gold.differences.keys(), ...actual.keys()])) {
    const expected = gold.differences.get(table) ?? new Map<string, string | null>();
    const found = actual.get(table) ?? new Map<string, string | null>();
    for (const id of new Set([...expected.keys(), ...found.keys()])) {
      if (expected.get(id) !== found.get(id)) wrong.push(`${table} ${id}`);
    }
  }
  return wrong;
}

/**
 * True if a single message of the agent contains the output, regardless of case; commas are removed
 * from the message, not from the output.
 */
function wasSaid(actions: readonly TauAction[], output: string): boolean {
  const expected = pythonLower(output);
  return actions.some(({ name, kwargs }) => {
    if (name !== respondName) return false;
    const content = kwargs.get("content");
    if (content === undefined) throw new PythonError("KeyError", "'content'");
    if (typeof content !== "string") throw attributeError(content, "lower");
    return pythonLower(content).replaceAll(",", "").includes(expected);
  });
}

function flag(value: boolean): JsonFloat {
  return new JsonFloat(value ? 1 : 0);
}

/**
 * The reference's `info` after a reset, and after a step before `user_cost` and `reward_info` are
 * known.
 */
export function stepInfo(task: TauTask, source: string): JsonObject {
  return new Map<string, JsonValue>([
    ["task", task.info],
    ["source", source],
    ["user_cost", null],
    ["reward_info", null],
  ]);
}
