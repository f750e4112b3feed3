// Writes and reads upstream's files of simulations: one JSON file with all of them, or a folder
// with a file per simulation. Upstream's own evaluator accepts the written files; files to read may
// come from upstream. Rewards are written as given, never computed here.

import { createHash } from "node:crypto";
import { ConfigurationError } from "../../core/failure.ts";
import {
  dumpJson,
  JsonFloat,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
} from "../../python-semantics/json/index.ts";
import type { DomainData } from "./domain-data.ts";
import { type RewardInfo, type TerminationReason, terminationReasons } from "./evaluate.ts";
import type { Tau2Message } from "./messages.ts";
import { readMessages, readTasks, type Tau2Task } from "./tasks.ts";

/** One conversation with its result. */
export type Tau2Simulation = {
  /** Id, unique within a file. */
  readonly id: string;
  readonly taskId: string;
  /** Index of the trial, from 0. */
  readonly trial: number;
  readonly seed: number | null;
  readonly reason: TerminationReason;
  readonly messages: readonly Tau2Message[];
  /** Costs of messages by index. @default unknown */
  readonly spent?: ReadonlyMap<number, MessageCost>;
  /** The evaluation; `null` if not graded. */
  readonly reward: RewardInfo | null;
  /**
   * Start and end in milliseconds since 1970. Upstream requires them for a simulation, but not for
   * messages.
   */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly durationMs: number;
  /** Costs in US dollars; `null` if unknown. */
  readonly agentCost: number | null;
  readonly userCost: number | null;
};

/** Cost of one message; `null` if unknown. */
export type MessageCost = {
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  /** Cost in US dollars. */
  readonly cost: number | null;
  readonly durationMs: number | null;
};

/** Models and limits of a run. */
export type Tau2RunFacts = {
  /** True for a run without a user. */
  readonly isSolo: boolean;
  readonly trials: number;
  readonly maxSteps: number;
  readonly maxErrors: number;
  readonly seed: number | null;
  /** Names of the models; `null` for none. */
  readonly agentModel: string | null;
  readonly userModel: string | null;
  /** Name of the user. @default upstream's name for a user played by a model */
  readonly user?: string;
};

type Played = { readonly task: Tau2Task; readonly simulation: Tau2Simulation };

/** The text of a file with all simulations. Tasks are written as in their own files. */
export function tau2ResultsText(data: DomainData, simulations: readonly Played[], facts: Tau2RunFacts): string {
  return `${tau2ResultsBegin}${simulations.map(tau2SimulationText).join(",\n")}${tau2ResultsEnd(data, simulations, facts)}`;
}

export const tau2ResultsBegin = '{"simulations": [\n';

/** An entry of the list of simulations at the beginning of such a file. */
export function tau2SimulationText({ task, simulation }: Played): string {
  return dumpJson(simulationRecord(task, simulation));
}

/**
 * The part after the list: the models and limits of the run. Only tasks and start times are read
 * from the simulations.
 */
export function tau2ResultsEnd(
  data: DomainData,
  simulations: Iterable<{ readonly task: Tau2Task; readonly simulation: Pick<Tau2Simulation, "startedAt"> }>,
  facts: Tau2RunFacts,
): string {
  const tasks = new Map<string, JsonObject>();
  let first = Infinity;
  for (const { task, simulation } of simulations) {
    tasks.set(task.id, task.record);
    first = Math.min(first, simulation.startedAt);
  }
  const parts = [
    `"tasks": [\n${[...tasks.values()].map((task) => dumpJson(task)).join(",\n")}\n]`,
    `"info": ${dumpJson(infoOf(data, facts))}`,
    `"timestamp": ${dumpJson(timestamp(Number.isFinite(first) ? first : 0))}`,
  ];
  return `\n],\n${parts.join(",\n")}}\n`;
}

function infoOf(data: DomainData, facts: Tau2RunFacts): JsonObject {
  const { name, folder, knowledge } = data.domain;
  const { isSolo, trials, maxSteps, maxErrors, seed, agentModel, userModel } = facts;
  return record({
    // Commit of upstream's program, which did not run.
    git_commit: "unknown",
    num_trials: trials,
    max_steps: maxSteps,
    max_errors: maxErrors,
    // Names by which upstream recognizes a run without a user.
    user_info: record({
      implementation: isSolo ? "dummy_user" : (facts.user ?? "user_simulator"),
      llm: userModel,
      llm_args: null,
    }),
    agent_info: record({ implementation: isSolo ? "llm_agent_solo" : "llm_agent", llm: agentModel, llm_args: null }),
    environment_info: record({
      domain_name: knowledge === null ? name : folder,
      policy: (isSolo ? data.soloPolicy : null) ?? data.policy,
      tool_defs: null,
    }),
    seed,
    ...(knowledge === null ? {} : { retrieval_config: knowledge.retrieval }),
  });
}

function simulationRecord(task: Tau2Task, simulation: Tau2Simulation): JsonObject {
  const { id, trial, seed, reason, messages, spent, reward, startedAt, endedAt, durationMs } = simulation;
  return record({
    id,
    task_id: task.id,
    timestamp: timestamp(startedAt),
    start_time: timestamp(startedAt),
    end_time: timestamp(endedAt),
    duration: new JsonFloat(durationMs / 1000),
    termination_reason: reason,
    agent_cost: float(simulation.agentCost),
    user_cost: float(simulation.userCost),
    reward_info: reward === null ? null : rewardRecord(task, reward),
    messages: messages.map((message, turn) => messageRecord(message, turn, spent?.get(turn) ?? null)),
    trial,
    seed,
    mode: "half_duplex",
    info: null,
  });
}

const float = (value: number | null): JsonValue => (value === null ? null : new JsonFloat(value));

/** A message as upstream records it. */
function messageRecord(message: Tau2Message, turn: number, spent: MessageCost | null): JsonObject {
  const { role, content } = message;
  // If the timestamp were missing, upstream would use the time at which it reads the file.
  const place = { turn_idx: turn, timestamp: null };
  if (role === "system") return record({ role, content, ...place });
  if (role === "tool") {
    const { id, requestor, isError } = message;
    return record({ id, role, content, requestor, error: isError, ...place });
  }
  const calls =
    message.toolCalls?.map(({ id, name, arguments: given, requestor }) =>
      record({ id, name, arguments: given, requestor }),
    ) ?? null;
  return record({ role, content, tool_calls: calls, ...place, ...costRecord(spent) });
}

function costRecord(spent: MessageCost | null): Readonly<Record<string, JsonValue>> {
  if (spent === null) return {};
  const { promptTokens, completionTokens, cost, durationMs } = spent;
  const usage = record({ completion_tokens: completionTokens, prompt_tokens: promptTokens });
  return {
    cost: float(cost),
    usage: promptTokens === null && completionTokens === null ? null : usage,
    generation_time_seconds: float(durationMs === null ? null : durationMs / 1000),
  };
}

/** The reward of a conversation, as upstream records it. */
function rewardRecord({ record: task }: Tau2Task, reward: RewardInfo): JsonObject {
  const criteria = task.get("evaluation_criteria");
  const listed = (key: string): readonly JsonValue[] => {
    const list = criteria instanceof Map ? criteria.get(key) : null;
    return Array.isArray(list) ? list : [];
  };
  const number = (value: boolean | number): JsonFloat => new JsonFloat(Number(value));
  const { isDatabaseRight, assertions, actionChecks, communicated, verdicts, breakdown, info } = reward;
  const actions = listed("actions");
  const conditions = listed("env_assertions");
  return record({
    reward: number(reward.reward),
    db_check:
      isDatabaseRight === null ? null : record({ db_match: isDatabaseRight, db_reward: number(isDatabaseRight) }),
    env_assertions:
      assertions?.map((met, at) => record({ env_assertion: conditions[at] ?? null, met, reward: number(met) })) ?? null,
    action_checks:
      actionChecks?.map(({ isMet, kind }, at) =>
        record({ action: actions[at] ?? null, action_match: isMet, action_reward: number(isMet), tool_type: kind }),
      ) ?? null,
    nl_assertions:
      verdicts?.map(({ assertion, isMet, reason }) =>
        record({ nl_assertion: assertion, met: isMet, justification: reason }),
      ) ?? null,
    communicate_checks:
      communicated?.map(({ text, isMet }) =>
        record({ info: text, met: isMet, justification: isMet ? "It was said." : "It was not said." }),
      ) ?? null,
    reward_basis: reward.rewardBasis === null ? null : [...reward.rewardBasis],
    reward_breakdown:
      breakdown && new Map(Object.entries(breakdown).map(([component, value]) => [component, number(value)])),
    info: info === null ? null : noteRecord(info),
  });
}

function noteRecord(info: NonNullable<RewardInfo["info"]>): JsonObject {
  const entries = Object.entries(info) as [string, string | { readonly note: string } | null][];
  return new Map(
    entries.map(([key, value]) => [key, value === null || typeof value === "string" ? value : record(value)]),
  );
}

const record = (fields: Readonly<Record<string, JsonValue>>): JsonObject => new Map(Object.entries(fields));

/** Formats a time as upstream does: without a time zone. */
const timestamp = (milliseconds: number): string => new Date(milliseconds).toISOString().replace("Z", "000");

/** One simulation as read from a file. */
export type ReadSimulation = {
  readonly id: string;
  /** SHA-256 of its record. */
  readonly digest: string;
  readonly taskId: string;
  readonly trial: number;
  readonly reason: TerminationReason;
  readonly messages: readonly Tau2Message[];
  /** Reward; `null` if the file has none. */
  readonly reward: number | null;
  /** Scores by component, without those that are not numbers; `null` if the file has none. */
  readonly breakdown: ReadonlyMap<string, number> | null;
  readonly agentCost: number | null;
  readonly userCost: number | null;
  readonly durationSeconds: number | null;
};

export type Tau2ResultFile = {
  readonly domain: string;
  readonly isSolo: boolean;
  /** Tasks by id, as they were when the file was made. */
  readonly tasks: ReadonlyMap<string, Tau2Task>;
  /** Simulations; of several with the same id and task, only the first. */
  readonly simulations: readonly ReadSimulation[];
  /** Number of further simulations with the same id and task as an earlier one. */
  readonly repeated: number;
};

/**
 * Reads a file with all simulations or, with `parts` (text by name), the main file of a folder
 * whose simulations are separate files. `name` is for messages. Throws a `ConfigurationError` that
 * names an invalid simulation, and for a folder that lacks files that it lists, or has others.
 */
export function readTau2Results(text: string, name: string, parts?: ReadonlyMap<string, string>): Tau2ResultFile {
  const file = parseObject(text, name);
  const info = objectIn(file, "info");
  const environment = objectIn(info, "environment_info");
  const domain = environment?.get("domain_name");
  const list = parts === undefined ? file.get("simulations") : readParts(file, parts, name);
  if (typeof domain !== "string" || !Array.isArray(list)) {
    throw cannotRead(name, "it is not a file of simulations, as upstream's runner writes it");
  }
  const implementation = (side: string): JsonValue => objectIn(info, side)?.get("implementation") ?? null;
  const tasks = readTasks(file.get("tasks") ?? null, name);
  const simulations = new Map<string, ReadSimulation>();
  for (const [at, item] of list.entries()) {
    const read = item instanceof Map ? readSimulation(item, `${name}, simulation ${at + 1}`) : "it is not an object";
    if (typeof read === "string") throw cannotRead(`${name}, simulation ${at + 1}`, read);
    const key = JSON.stringify([read.taskId, read.id]);
    if (!simulations.has(key)) simulations.set(key, read);
  }
  return {
    domain,
    // Agents with several names work without a user; a run without one has upstream's dummy user.
    isSolo: implementation("user_info") === "dummy_user" || soloAgents.has(implementation("agent_info")),
    tasks: new Map(tasks.map((task) => [task.id, task])),
    simulations: [...simulations.values()],
    repeated: list.length - simulations.size,
  };
}

const soloAgents: ReadonlySet<JsonValue> = new Set(["llm_agent_solo", "llm_agent_solo_gt"]);

function readParts(file: JsonObject, parts: ReadonlyMap<string, string>, name: string): JsonObject[] {
  const index = file.get("simulation_index");
  if (Array.isArray(index)) {
    const listed = new Set(
      index.map((entry) => {
        const id = entry instanceof Map ? entry.get("id") : null;
        return typeof id === "string" ? `${id}.json` : "";
      }),
    );
    const missing = [...listed].filter((part) => !parts.has(part));
    const extra = [...parts.keys()].filter((part) => !listed.has(part));
    if (missing.length > 0) throw cannotRead(name, `it lists "${missing[0]}", which is not among its simulations`);
    if (extra.length > 0) throw cannotRead(name, `it does not list "${extra[0]}", which is among its simulations`);
  }
  return [...parts.keys()].toSorted().map((part) => parseObject(parts.get(part)!, `${name}, "${part}"`));
}

/** Reads a simulation; a string result names its fault. */
function readSimulation(item: JsonObject, name: string): ReadSimulation | string {
  const id = item.get("id");
  const taskId = item.get("task_id");
  const reason = terminationReasons.find((known) => known === item.get("termination_reason"));
  const reward = objectIn(item, "reward_info");
  const breakdown = objectIn(reward, "reward_breakdown");
  const number = (value: JsonValue | undefined): number | null => {
    const given = value instanceof JsonFloat ? value.value : value;
    return typeof given === "number" && Number.isFinite(given) ? given : null;
  };
  if (typeof id !== "string") return '"id" is not a string';
  if (typeof taskId !== "string" && typeof taskId !== "number") return '"task_id" is not an id';
  if (reason === undefined) return `"termination_reason" is none of ${terminationReasons.join(", ")}`;
  // A reward that is not finite counts as not given.
  const isUnscored = isNotFinite(reward?.get("reward"));
  if (reward !== null && !isUnscored && number(reward.get("reward")) === null) return '"reward" is not a number';
  return {
    id,
    digest: createHash("sha256").update(dumpJson(item)).digest("hex"),
    taskId: String(taskId),
    trial: number(item.get("trial")) ?? 0,
    reason,
    messages: readMessages(item.get("messages") ?? [], name),
    reward: reward === null ? null : number(reward.get("reward")),
    breakdown:
      breakdown &&
      new Map(
        [...breakdown].flatMap(([component, value]) => (number(value) === null ? [] : [[component, number(value)!]])),
      ),
    agentCost: number(item.get("agent_cost")),
    userCost: number(item.get("user_cost")),
    durationSeconds: number(item.get("duration")),
  };
}

const isNotFinite = (value: JsonValue | undefined): boolean =>
  value instanceof JsonFloat && !Number.isFinite(value.value);

function objectIn(object: JsonObject | null, key: string): JsonObject | null {
  const value = object?.get(key);
  return value instanceof Map ? value : null;
}

function parseObject(text: string, name: string): JsonObject {
  let value: JsonValue;
  try {
    value = parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    throw cannotRead(name, `it is not JSON (${error.pythonMessage})`);
  }
  if (value instanceof Map) return value;
  throw cannotRead(name, "it is not an object");
}

const cannotRead = (name: string, problem: string): ConfigurationError =>
  new ConfigurationError(`Cannot read "${name}": ${problem}; name a file that upstream's runner wrote, or ours.`);
