// Records of evaluations of τ²-bench: a conversation, and the result of each kind of evaluation.

import {
  type DomainData,
  evaluate,
  type EvaluationType,
  readMessages,
  type RewardInfo,
  type Tau2Message,
  type Tau2Task,
  type TerminationReason,
} from "#src/environments/tau2-bench/index.ts";
import { PythonError } from "#src/python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "#src/python-semantics/json/index.ts";
import { asObject, pick, type Played } from "./tau2-bench-worlds.ts";

/** Every evaluation of a conversation. */
export async function playEvaluations(data: DomainData, task: Tau2Task, record: JsonObject): Promise<Played> {
  const messages = readMessages(record.get("messages")!, "the record");
  const reason = record.get("termination_reason") as TerminationReason;
  const isSolo = record.get("solo") === true;
  const expected: JsonValue[] = [];
  const actual: JsonValue[] = [];
  for (const result of record.get("results") as JsonObject[]) {
    const type = result.get("type") as EvaluationType;
    const judged = { reason, isSolo, type, judge: judgeOf(result.get("judge") === true) };
    expected.push(expectedResult(result));
    actual.push(await resultOf(() => evaluate(data, task, messages, judged)));
  }
  return { expected, actual };
}

/**
 * The verdict on a reference solution: greeting, the user's message, one call per message, all
 * required statements, the user's stop.
 */
export async function playVerdict(data: DomainData, task: Tau2Task, record: JsonObject): Promise<JsonValue> {
  const steps = record.get("steps") as JsonObject[];
  const said = task.criteria?.communicated ?? [];
  const messages: Tau2Message[] = [
    ...task.history,
    { role: "assistant", content: "Hi! How can I help you today?", toolCalls: null },
    { role: "user", content: "Hello, I need help.", toolCalls: null },
    ...steps.flatMap((step, index): Tau2Message[] => {
      const requestor = step.get("requestor") as "assistant" | "user";
      const id = `call_${index}`;
      const call = { id, name: step.get("name") as string, arguments: step.get("arguments") as JsonObject, requestor };
      const content = step.get("content") as string;
      return [
        { role: requestor, content: null, toolCalls: [call] },
        { role: "tool", id, content, requestor, isError: step.get("error") === true },
      ];
    }),
    { role: "assistant", content: `All done. ${said.join(" ")}`, toolCalls: null },
    { role: "user", content: "Thanks. ###STOP###", toolCalls: null },
  ];
  return resultOf(() => evaluate(data, task, messages, { reason: "user_stop", judge: judgeOf(true) }));
}

/** The short form of a verdict, on the steps of the solution. */
export async function playShortVerdict(
  data: DomainData,
  task: Tau2Task,
  steps: readonly JsonObject[],
): Promise<JsonObject> {
  const record = asObject({ steps: [...steps] });
  const verdict = (await playVerdict(data, task, record)) as JsonObject;
  return pick(verdict, ["reward", "db_match", "env_assertions"]);
}

const judgeOf = (isMet: boolean) => async (_: unknown, assertions: readonly string[]) =>
  assertions.map((assertion) => ({ assertion, isMet, reason: "scripted" }));

async function resultOf(evaluation: () => Promise<RewardInfo>): Promise<JsonObject> {
  try {
    return rewardRecord(await evaluation());
  } catch (error) {
    if (error instanceof PythonError) return asObject({ raises: error.pythonType });
    throw error;
  }
}

/**
 * Expected result. Error messages of the reference contain Python objects, so only the class of an
 * error is compared.
 */
function expectedResult(result: JsonObject): JsonValue {
  const raises = result.get("raises");
  if (typeof raises === "string") return asObject({ raises: raises.replace(/:.*/s, "") });
  return result.get("reward_info")!;
}

/** Reward in the form of the golden files. */
export function rewardRecord(info: RewardInfo): JsonObject {
  const checks = info.actionChecks;
  return asObject({
    reward: new JsonFloat(info.reward),
    reward_basis: info.rewardBasis === null ? null : [...info.rewardBasis],
    reward_breakdown:
      info.breakdown &&
      asObject(Object.fromEntries(Object.entries(info.breakdown).map(([key, value]) => [key, new JsonFloat(value)]))),
    db_match: info.isDatabaseRight,
    env_assertions: info.assertions && [...info.assertions],
    action_checks: checks && checks.map(({ action, isMet, kind }) => [action.id, isMet, kind]),
    communicate_checks: info.communicated && info.communicated.map(({ text, isMet }) => [text, isMet]),
    nl_assertions: info.verdicts && info.verdicts.map(({ isMet }) => isMet),
    partial_action_reward: partialReward(checks),
    info: info.info && asPlain(info.info),
  });
}

function asPlain(value: object): JsonObject {
  return asObject(
    Object.fromEntries(
      Object.entries(value).map(([key, item]: [string, unknown]) => [
        key,
        typeof item === "object" && item !== null ? asPlain(item) : (item as JsonValue),
      ]),
    ),
  );
}

function partialReward(checks: RewardInfo["actionChecks"]): JsonValue {
  if (checks === null) return null;
  const share = (kind: string | null): JsonValue => {
    const counted = checks.filter((check) => kind === null || check.kind === kind);
    const correct = counted.filter(({ isMet }) => isMet).length;
    if (counted.length === 0) return null;
    return asObject({ correct, count: counted.length, proportion: new JsonFloat(correct / counted.length) });
  };
  return asObject({ total: share(null), read: share("read"), write: share("write") });
}
