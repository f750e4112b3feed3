// The tasks of a domain as in its files: the user's wishes, the initial state of the world, and the
// criteria for grading. Unknown keys are ignored, as in the reference; known ones are checked here,
// once.

import { ConfigurationError } from "../../core/failure.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import type { Requestor, SpokenMessage, SystemMessage, Tau2Message, ToolCall, ToolMessage } from "./messages.ts";
import type { Assertion, FunctionCall, InitialState } from "./world.ts";

/** Components whose product is a task's reward. */
export const rewardComponents = ["DB", "ENV_ASSERTION", "NL_ASSERTION", "ACTION", "COMMUNICATE"] as const;
export type RewardComponent = (typeof rewardComponents)[number];

/** A call of the reference solution. */
export type ReferenceAction = {
  readonly id: string;
  readonly requestor: Requestor;
  readonly name: string;
  readonly arguments: JsonObject;
  /** Names of the arguments to compare; `null` for those that the call has. */
  readonly compared: readonly string[] | null;
};

export type EvaluationCriteria = {
  /** Lists of criteria; `null` if the task does not have the list, which differs from an empty one. */
  readonly actions: readonly ReferenceAction[] | null;
  readonly assertions: readonly Assertion[] | null;
  readonly communicated: readonly string[] | null;
  readonly judged: readonly string[] | null;
  readonly rewardBasis: readonly RewardComponent[];
};

/** The user's knowledge and wishes: prose, or its parts. */
export type UserInstructions =
  | string
  | {
      readonly domain: string;
      readonly reasonForCall: string;
      readonly knownInfo: string | null;
      readonly unknownInfo: string | null;
      readonly taskInstructions: string;
    };

export type Tau2Task = {
  readonly id: string;
  readonly persona: string | null;
  readonly instructions: UserInstructions;
  /** The user's problem as text, for an agent without a user. */
  readonly ticket: string | null;
  readonly initial: InitialState | null;
  /** The conversation before the task begins. */
  readonly history: readonly Tau2Message[];
  /** Criteria for grading; `null` if the task has none. */
  readonly criteria: EvaluationCriteria | null;
  /** Names of the user's tools; `null` for all. */
  readonly userTools: readonly string[] | null;
  /** The task's record as in the file. */
  readonly record: JsonObject;
};

/**
 * Names of the tools that the reference solution calls through the agent's wrapper. Their calls are
 * recorded in the database even if they only read.
 */
export function loggedReadsOf({ criteria }: Pick<Tau2Task, "criteria">): ReadonlySet<string> {
  const calls = (criteria?.actions ?? []).filter(({ name }) => name === "call_discoverable_agent_tool");
  const names = calls.map((call) => call.arguments.get("agent_tool_name"));
  return new Set(names.filter((name): name is string => typeof name === "string" && name !== ""));
}

/**
 * Reads a list of tasks. Throws a `ConfigurationError` that names `file` and the place of any other
 * value.
 */
export function readTasks(value: JsonValue, file: string): Tau2Task[] {
  const list = value instanceof Map ? value.get("tasks") : value;
  return new Reader(file).list(list, "tasks", (item, place) => readTask(item, new Reader(file, place)));
}

/**
 * Reads a list of messages. Throws a `ConfigurationError` for a message that is not the
 * reference's.
 */
export function readMessages(value: JsonValue, file: string): Tau2Message[] {
  return new Reader(file).list(value, "messages", (item, place) => readMessage(item, new Reader(file, place)));
}

function readTask(value: JsonValue, at: Reader): Tau2Task {
  const record = at.object(value, "");
  const scenario = at.object(record.get("user_scenario"), ".user_scenario");
  const initial = at.optional(record.get("initial_state"), ".initial_state", at.object);
  const criteria = at.optional(record.get("evaluation_criteria"), ".evaluation_criteria", at.object);
  const history = at.optional(initial?.get("message_history"), ".initial_state.message_history", (list, place) =>
    at.list(list, place, (item, itemPlace) => readMessage(item, new Reader(at.file, `${at.place}${itemPlace}`))),
  );
  return {
    id: at.text(record.get("id"), ".id"),
    persona: at.optional(scenario.get("persona"), ".user_scenario.persona", at.text),
    instructions: readInstructions(scenario.get("instructions"), at),
    ticket: at.optional(record.get("ticket"), ".ticket", at.text),
    initial: initial === null ? null : readInitialState(initial, at),
    history: history ?? [],
    criteria: criteria === null ? null : readCriteria(criteria, at),
    userTools: at.optional(record.get("user_tools"), ".user_tools", at.texts),
    record,
  };
}

function readInstructions(value: JsonValue | undefined, at: Reader): UserInstructions {
  const place = ".user_scenario.instructions";
  if (typeof value === "string") return value;
  const record = at.object(value, place);
  const optionalText = (key: string): string | null => at.optional(record.get(key), `${place}.${key}`, at.text);
  return {
    domain: at.text(record.get("domain"), `${place}.domain`),
    reasonForCall: at.text(record.get("reason_for_call"), `${place}.reason_for_call`),
    knownInfo: optionalText("known_info"),
    unknownInfo: optionalText("unknown_info"),
    taskInstructions: at.text(record.get("task_instructions"), `${place}.task_instructions`),
  };
}

function readInitialState(record: JsonObject, at: Reader): InitialState {
  const place = ".initial_state";
  const data = at.optional(record.get("initialization_data"), `${place}.initialization_data`, at.object);
  const dataOf = (key: string): JsonObject | null => at.optional(data?.get(key), `${place}.${key}`, at.object);
  const actions = at.optional(record.get("initialization_actions"), `${place}.initialization_actions`, (list, where) =>
    at.list(list, where, (item, itemPlace) => readFunctionCall(at.object(item, itemPlace), itemPlace, at)),
  );
  return { agentData: dataOf("agent_data"), userData: dataOf("user_data"), actions: actions ?? [] };
}

/** An entry with an expected result is an assertion. */
function readFunctionCall(record: JsonObject, place: string, at: Reader): FunctionCall | Assertion {
  const call = {
    side: at.requestor(record.get("env_type"), `${place}.env_type`),
    name: at.text(record.get("func_name"), `${place}.func_name`),
    arguments: at.object(record.get("arguments"), `${place}.arguments`),
  };
  return record.has("assert_value") ? asAssertion(call, record, { place, at }) : call;
}

function asAssertion(
  call: FunctionCall,
  record: JsonObject,
  { place, at }: { readonly place: string; readonly at: Reader },
): Assertion {
  const expected = record.get("assert_value") ?? true;
  if (typeof expected !== "boolean") throw at.misfit(`${place}.assert_value`, "true or false");
  return { ...call, expected, message: at.optional(record.get("message"), `${place}.message`, at.text) };
}

function readCriteria(record: JsonObject, at: Reader): EvaluationCriteria {
  const place = ".evaluation_criteria";
  const optionalList = <Item>(key: string, read: (item: JsonValue, itemPlace: string) => Item): Item[] | null =>
    at.optional(record.get(key), `${place}.${key}`, (list, where) => at.list(list, where, read));
  const basis = optionalList("reward_basis", (item, where) => {
    const component = rewardComponents.find((known) => known === item);
    if (component === undefined) throw at.misfit(where, `one of ${rewardComponents.join(", ")}`);
    return component;
  });
  return {
    actions: optionalList("actions", (item, where) => readAction(at.object(item, where), where, at)),
    assertions: optionalList("env_assertions", (item, where) => {
      const assertion = at.object(item, where);
      return asAssertion(readFunctionCall(assertion, where, at), assertion, { place: where, at });
    }),
    communicated: optionalList("communicate_info", at.text),
    judged: optionalList("nl_assertions", at.text),
    rewardBasis: basis ?? ["DB", "COMMUNICATE"],
  };
}

function readAction(record: JsonObject, place: string, at: Reader): ReferenceAction {
  const requestor = record.get("requestor");
  return {
    id: at.text(record.get("action_id"), `${place}.action_id`),
    requestor: requestor === undefined ? "assistant" : at.requestor(requestor, `${place}.requestor`),
    name: at.text(record.get("name"), `${place}.name`),
    arguments: at.object(record.get("arguments"), `${place}.arguments`),
    compared: at.optional(record.get("compare_args"), `${place}.compare_args`, at.texts),
  };
}

function readMessage(value: JsonValue, at: Reader): Tau2Message {
  const record = at.object(value, "");
  const role = at.text(record.get("role"), ".role");
  const content = at.optional(record.get("content"), ".content", at.text);
  if (role === "system") return { role, content } satisfies SystemMessage;
  if (role === "tool") {
    const requestor = record.get("requestor");
    return {
      role,
      id: at.text(record.get("id"), ".id"),
      content,
      requestor: requestor === undefined ? "assistant" : at.requestor(requestor, ".requestor"),
      isError: record.get("error") === true,
    } satisfies ToolMessage;
  }
  const speaker = at.requestor(record.get("role"), ".role");
  const calls = at.optional(record.get("tool_calls"), ".tool_calls", (list, place) =>
    at.list(list, place, (item, where): ToolCall => {
      const call = at.object(item, where);
      const requestor = call.get("requestor");
      return {
        id: at.optional(call.get("id"), `${where}.id`, at.text) ?? "",
        name: at.text(call.get("name"), `${where}.name`),
        arguments: at.object(call.get("arguments"), `${where}.arguments`),
        requestor: requestor === undefined ? "assistant" : at.requestor(requestor, `${where}.requestor`),
      };
    }),
  );
  return { role: speaker, content, toolCalls: calls } satisfies SpokenMessage;
}

/** Reads values of a file, and names the place of a value of another type. */
class Reader {
  readonly file: string;
  readonly place: string;

  constructor(file: string, place = "") {
    this.file = file;
    this.place = place;
  }

  misfit(place: string, needed: string): ConfigurationError {
    return new ConfigurationError(
      `Cannot use "${this.file}": ${this.place}${place} is not ${needed}; restore the upstream file.`,
    );
  }

  readonly text = (value: JsonValue | undefined, place: string): string => {
    if (typeof value === "string") return value;
    throw this.misfit(place, "a string");
  };

  readonly object = (value: JsonValue | undefined, place: string): JsonObject => {
    if (value instanceof Map) return value;
    throw this.misfit(place, "an object");
  };

  readonly texts = (value: JsonValue | undefined, place: string): string[] => this.list(value, place, this.text);

  requestor(value: JsonValue | undefined, place: string): Requestor {
    if (value === "assistant" || value === "user") return value;
    throw this.misfit(place, '"assistant" or "user"');
  }

  list<Item>(value: JsonValue | undefined, place: string, read: (item: JsonValue, place: string) => Item): Item[] {
    if (!Array.isArray(value)) throw this.misfit(place, "a list");
    return value.map((item, index) => read(item, `${place}[${index}]`));
  }

  optional<Value>(
    value: JsonValue | undefined,
    place: string,
    read: (value: JsonValue, place: string) => Value,
  ): Value | null {
    return value === undefined || value === null ? null : read(value, place);
  }
}
