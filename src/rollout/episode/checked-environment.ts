// The boundary of environments: everything they return or throw is validated here, once, before it
// is used. The result is a copy of the right types, or a failure of only this episode. Not a
// sandbox: code that never yields or ends the process is noticed by the command line
// (`cli/environment-watch.ts`).

import type { Agenda } from "../../core/agenda.ts";
import type {
  AgentCallOptions,
  Ending,
  Environment,
  EnvironmentCall,
  EnvironmentCallOptions,
  EnvironmentSource,
  Grade,
  GradeOptions,
  UtteranceResult,
  OpenOptions,
  ToolResult,
  Task,
  UserOutcome,
  UserSide,
} from "../../core/environment.ts";
import {
  AttributedError,
  attribute,
  type Boundary,
  ConfigurationError,
  faultAt,
  messageOf,
} from "../../core/failure.ts";
import type { Question } from "../../core/judge.ts";
import type { Message, Tool } from "../../core/message.ts";
import type { UserCall, UserLine } from "../../core/user-line.ts";
import { restoreGlobals } from "../../lib/global-guard.ts";
import { cloneJson } from "../../python-semantics/json/value.ts";
import { fromForeign } from "../../python-semantics/json/plain.ts";
import { JsonFloat, type JsonObject } from "../../python-semantics/json/value.ts";

/**
 * Bound on the values and characters of an info, a definition or metrics. Larger ones are a
 * mistake, and would fill the disk.
 */
const largestRecord = 10_000_000;
/** Bound on the characters of a log, which is for people. */
const longestLog = 100_000;

/**
 * Opens the environment of an episode. Its methods reject, or throw, with failures at boundary
 * "environment" or "grader"; synchronous answers stay synchronous. Arguments of calls are copies. A
 * value that is not a valid environment is closed.
 */
export function openChecked(
  source: EnvironmentSource,
  task: Task,
  options: OpenOptions = { seed: 0, signal: new AbortController().signal },
): CheckedEnvironment | Promise<CheckedEnvironment> {
  return crossing(
    "environment",
    "open the environment",
    () => source.open(task, options),
    (value) => {
      try {
        return new CheckedEnvironment(value);
      } catch (error) {
        void closeMalformed(value);
        throw error;
      }
    },
  );
}

/** A source with checked environments, for use outside of episodes. */
export function checkedOpening(source: EnvironmentSource): Pick<EnvironmentSource, "open"> {
  return { open: (task, options) => openChecked(source, task, options) };
}

/** Closes a value that is not a valid environment, because it may still hold resources. */
async function closeMalformed(value: unknown): Promise<void> {
  try {
    await (value as Environment).close?.();
  } catch {
    // Its episode already fails for another reason.
  }
}

/** An environment whose results are validated. */
export class CheckedEnvironment implements Environment {
  readonly task: Task;
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  readonly info: JsonObject;
  readonly opening: string | null;
  readonly history: readonly Message[];
  readonly userSide: UserSide | null;
  readonly #environment: Environment;
  #isClosed = false;

  constructor(value: unknown) {
    const environment = record(value, "an environment") as Partial<Environment>;
    this.#environment = environment as Environment;
    for (const method of ["call", "receiveUtterance", "grade"] as const) {
      if (typeof environment[method] !== "function") throw misfit(method, "a function", environment[method]);
    }
    const { close } = environment;
    if (close !== undefined && typeof close !== "function") throw misfit("close", "a function", close);
    this.task = environment.task as Task;
    this.guidelines = string(environment.guidelines, "guidelines");
    this.tools = readTools(environment.tools);
    this.info = readInfo(environment.info);
    const { opening = null } = environment;
    this.opening = opening === null ? null : string(opening, "opening");
    this.history = readHistory(environment.history ?? [], "history");
    this.userSide = (environment.userSide ?? null) === null ? null : checkedSide(environment.userSide);
  }

  call({ name, arguments: given }: EnvironmentCall, options?: AgentCallOptions): ToolResult | Promise<ToolResult> {
    // Copied, so that changes that the environment makes to its arguments are not recorded.
    const call = { name, arguments: cloneJson(given) };
    return crossing("environment", `carry out "${name}"`, () => this.#environment.call(call, options), readToolResult);
  }

  receiveUtterance(utterance: string, options?: EnvironmentCallOptions): UtteranceResult | Promise<UtteranceResult> {
    return crossing(
      "environment",
      "deliver the utterance",
      () => this.#environment.receiveUtterance(utterance, options),
      readHeard,
    );
  }

  question(ending: Ending): Question<unknown> | null | Promise<Question<unknown> | null> {
    return crossing("grader", "ask the judge", () => this.#environment.question?.({ ...ending }) ?? null, readQuestion);
  }

  grade(ending: Ending, options?: GradeOptions): Grade | Promise<Grade> {
    return crossing("grader", "grade", () => this.#environment.grade({ ...ending }, options), readGrade);
  }

  digest(): string {
    return this.#environment.digest();
  }

  /** Closes the environment on the first call; later calls do nothing. */
  close(): void | Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    return crossing(
      "environment",
      "close the environment",
      () => this.#environment.close?.(),
      () => undefined,
    );
  }
}

/**
 * Calls third-party code and validates its result, synchronous or not. Errors that it throws are
 * failures at the boundary.
 */
function crossing<T>(
  boundary: Boundary,
  task: string,
  call: () => unknown,
  read: (value: unknown) => T,
): T | Promise<T> {
  const readSafely = (value: unknown): T => {
    try {
      restoreGlobals();
      return read(value);
    } catch (error) {
      throw faultAt(boundary, "bad-result", `Cannot ${task}: ${messageOf(error)}`, { cause: error });
    }
  };
  const fail = (error: unknown): never => {
    restoreUnlessStuck();
    throw attributed(error, boundary);
  };
  let value: unknown;
  let isPromise: boolean;
  // Code that ran between the calls of an environment: a timer, a grader, another episode.
  restoreUnlessStuck();
  try {
    value = call();
    isPromise = isThenable(value);
  } catch (error) {
    return fail(error);
  }
  return isPromise ? Promise.resolve(value).then(readSafely, fail) : readSafely(value);
}

/** A change that cannot be undone fails the call that notices it when its result is read. */
function restoreUnlessStuck(): void {
  try {
    restoreGlobals();
  } catch {
    // The result of a call is not read before this has been reported.
  }
}

/** An attributed error of an environment counts only when it is well-formed, and only at this boundary. */
function attributed(error: unknown, boundary: Boundary): AttributedError {
  try {
    if (error instanceof AttributedError) {
      const { code, message, retryable } = error.failure;
      if (typeof code === "string" && typeof message === "string" && typeof retryable === "boolean") {
        return faultAt(boundary, code, messageOf(error), { cause: error });
      }
    }
  } catch {
    // The error does not come from our code.
  }
  return attribute(new Error(messageOf(error), { cause: error }), boundary);
}

function isThenable(value: unknown): boolean {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/**
 * The result as a policy is shown it, with the number of characters before the cut; `null` if it is
 * whole.
 */
export function cutResult(
  result: ToolResult,
  mostCharacters: number,
): { readonly result: ToolResult; readonly cutFrom: number | null } {
  const { length } = result.text;
  if (length <= mostCharacters) return { result, cutFrom: null };
  // A surrogate pair must not be split.
  const isPair = /[\uD800-\uDBFF]/.test(result.text.charAt(mostCharacters - 1));
  const beginning = result.text.slice(0, isPair ? mostCharacters - 1 : mostCharacters);
  const note = `[The result was cut: its first ${beginning.length} of ${length} characters are shown.]`;
  return { result: { ...result, text: `${beginning}\n${note}` }, cutFrom: length };
}

function readToolResult(value: unknown): ToolResult {
  const { text, isError, endsEpisode, info, reward } = record(value, "a tool result");
  return {
    text: string(text, "text"),
    isError: boolean(isError, "isError"),
    endsEpisode: boolean(endsEpisode, "endsEpisode"),
    info: readInfo(info),
    ...(reward === undefined || reward === null ? {} : { reward: finite(reward, "reward") }),
  };
}

function readQuestion(value: unknown): Question<unknown> | null {
  if (value === null) return null;
  const { grader, messages, schema, read } = record(value, "a question");
  if (!Array.isArray(messages) || messages.length === 0)
    throw misfit("messages", "a list with at least one entry", messages);
  if (typeof read !== "function") throw misfit("read", "a function", read);
  return {
    grader: string(grader, "grader"),
    messages: messages.map((given: unknown, index) => {
      const { role, content } = record(given, `messages[${index}]`);
      if (role !== "system" && role !== "user") throw misfit(`messages[${index}].role`, '"system" or "user"', role);
      return { role, content: string(content, `messages[${index}].content`) };
    }),
    schema: schema === null ? null : record(schema, "schema"),
    read: (answer) => (read as Question<unknown>["read"])(answer),
  };
}

function readGrade(value: unknown): Grade {
  const { reward, metrics, log, info, turnRewards } = record(value, "a grade");
  const notes = string(log, "log");
  return {
    reward: finite(reward, "reward"),
    metrics: readMetrics(metrics),
    log: notes.length > longestLog ? `${notes.slice(0, longestLog)} [cut]` : notes,
    info: readInfo(info),
    ...(turnRewards === undefined || turnRewards === null ? {} : { turnRewards: readTurnRewards(turnRewards) }),
  };
}

function readTurnRewards(value: unknown): readonly (number | null)[] {
  if (!Array.isArray(value)) throw misfit("turnRewards", "a list", value);
  if (value.length > largestRecord) throw new TypeError(`turnRewards has ${value.length} entries.`);
  return Array.from(value, (one: unknown, turn) => (one === null ? null : finite(one, `turnRewards[${turn}]`)));
}

function readMetrics(value: unknown): Grade["metrics"] {
  const metrics = record(value, "metrics");
  return Object.fromEntries(Object.keys(metrics).map((name) => [name, finite(metrics[name], `metric "${name}"`)]));
}

/** Reads an info, without a copy if it is empty: most calls have no info. */
function readInfo(value: unknown): JsonObject {
  if (value instanceof Map && value.size === 0) return new Map();
  return jsonObject(value, "info");
}

/**
 * Tools by definition, each read once: schemas are compiled for the tool read from it, and
 * definitions are large.
 */
const readDefinitions = new WeakMap<object, Tool>();

function readTools(value: unknown): readonly Tool[] {
  if (!Array.isArray(value)) throw misfit("tools", "a list", value);
  const names = new Set<string>();
  return Array.from(value, (given: unknown, index) => {
    const tool = record(given, `tools[${index}]`);
    const known = readDefinitions.get(tool);
    const name = known?.name ?? string(tool["name"], `tools[${index}].name`);
    if (name === "" || names.has(name)) {
      throw new TypeError(`tools[${index}].name is "${name}", each tool needs a name of its own.`);
    }
    names.add(name);
    const read = known ?? { name, definition: jsonObject(tool["definition"], `the definition of tool "${name}"`) };
    readDefinitions.set(tool, read);
    // A tool that has been read may be passed in again.
    readDefinitions.set(read, read);
    return read;
  });
}

function checkedSide(value: unknown): UserSide {
  const side = record(value, "userSide") as Partial<UserSide>;
  if (typeof side.act !== "function") throw misfit("userSide.act", "a function", side.act);
  return {
    prompt: string(side.prompt, "userSide.prompt"),
    tools: readTools(side.tools),
    history: readHistory(side.history, "userSide.history"),
    act: (line, options) =>
      crossing(
        "environment",
        "take the line of the user",
        () => (value as UserSide).act(structuredCall(line), options),
        (outcome) => readOutcome(outcome, line),
      ),
  };
}

/** A copy of the calls, so that changes that the environment makes to arguments are not recorded. */
function structuredCall(line: UserLine): UserLine {
  if (line.calls === undefined) return line;
  return { ...line, calls: line.calls.map((call) => ({ ...call, arguments: cloneJson(call.arguments) })) };
}

function readOutcome(value: unknown, { calls = [] }: UserLine): UserOutcome {
  const { results, endsEpisode } = record(value, "the outcome of a line");
  if (!Array.isArray(results) || results.length !== calls.length) {
    throw misfit("results", `a list with ${calls.length} entries, one for each call`, results);
  }
  return { results: results.map(readToolResult), endsEpisode: boolean(endsEpisode, "endsEpisode") };
}

function readHeard(value: unknown): UtteranceResult {
  if (value === undefined) return undefined;
  return { endsEpisode: boolean(record(value, "what was heard")["endsEpisode"], "endsEpisode") };
}

/** Messages of a conversation so far, without the system message. */
function readHistory(value: unknown, name: string): readonly Message[] {
  if (!Array.isArray(value)) throw misfit(name, "a list", value);
  return Array.from(value, (given: unknown, index): Message => {
    const place = `${name}[${index}]`;
    const { role, content, reasoning = null, toolCalls = [], name: tool, callId = null } = record(given, place);
    const text = string(content, `${place}.content`);
    if (role === "user") return { role, content: text };
    const idOf = (id: unknown): string | null => (id === null ? null : string(id, `${place}.callId`));
    if (role === "tool") return { role, content: text, name: string(tool, `${place}.name`), callId: idOf(callId) };
    if (role !== "assistant") throw misfit(`${place}.role`, '"user", "assistant" or "tool"', role);
    if (!Array.isArray(toolCalls)) throw misfit(`${place}.toolCalls`, "a list", toolCalls);
    return {
      role,
      content: text,
      reasoning: reasoning === null ? null : string(reasoning, `${place}.reasoning`),
      toolCalls: toolCalls.map((call: unknown) => {
        const { id, name: called, argumentsText } = record(call, `a call of ${place}`);
        return {
          id: string(id, `${place}: id`),
          name: string(called, `${place}: name`),
          argumentsText: string(argumentsText, `${place}: argumentsText`),
        };
      }),
    };
  });
}

/** A validated line of a user. Throws a `TypeError` that names the field. */
export function readUserLine(value: unknown): UserLine {
  const { type, text, usage, calls = [] } = record(value, "a line of the user");
  if (type !== "utterance" && type !== "hang-up" && type !== "calls") {
    throw misfit("type", '"utterance", "hang-up" or "calls"', type);
  }
  if (!Array.isArray(calls) || calls.length > 0 !== (type === "calls")) {
    throw misfit(
      "calls",
      type === "calls" ? "a list with at least one" : "nothing, in a line that is no calls,",
      calls,
    );
  }
  const { modelCalls, inputTokens, outputTokens, cost } = record(usage, "usage");
  return {
    type,
    text: string(text, "text"),
    usage: {
      modelCalls: finite(modelCalls, "usage.modelCalls"),
      inputTokens: finite(inputTokens, "usage.inputTokens"),
      outputTokens: finite(outputTokens, "usage.outputTokens"),
      cost: cost === null ? null : finite(cost, "usage.cost"),
    },
    ...(type === "calls" ? { calls: calls.map(readUserCall) } : {}),
  };
}

function readUserCall(value: unknown): UserCall {
  const { id, name, arguments: given } = record(value, "a call of the user");
  return { id: string(id, "id"), name: string(name, "name"), arguments: jsonObject(given, "arguments") };
}

/** A validated copy of a task. Throws a `ConfigurationError` that names the field. */
export function readTask(value: unknown): Task {
  try {
    const { id, environment, split, index, contentHash, instruction, agenda } = record(value, "the task");
    if (id === "") throw misfit("id", "a name that is unique", id);
    if (agenda !== null) jsonObject(agenda, "agenda");
    return {
      id: string(id, "id"),
      environment: string(environment, "environment"),
      split: string(split, "split"),
      index: finite(index, "index"),
      contentHash: string(contentHash, "contentHash"),
      instruction: instruction === null ? null : string(instruction, "instruction"),
      agenda: structuredClone(agenda) as Agenda | null,
    };
  } catch (error) {
    throw new ConfigurationError(`Cannot run a malformed task: ${messageOf(error)}`, { cause: error });
  }
}

function jsonObject(value: unknown, name: string): JsonObject {
  const json = fromForeign(record(value, name), { maxSize: largestRecord });
  if (json instanceof Map) return json;
  throw misfit(name, "a JSON object", value);
}

function record(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null) return value as Readonly<Record<string, unknown>>;
  throw misfit(name, "an object", value);
}

function string(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw misfit(name, "a string", value);
}

function boolean(value: unknown, name: string): boolean {
  if (typeof value === "boolean") return value;
  throw misfit(name, "true or false", value);
}

function finite(value: unknown, name: string): number {
  const number = value instanceof JsonFloat ? value.value : value;
  if (typeof number === "number" && Number.isFinite(number)) return number;
  throw misfit(name, "a finite number", value);
}

function misfit(name: string, needed: string, value: unknown): TypeError {
  return new TypeError(`${name} is ${shown(value)}, expected ${needed}.`);
}

function shown(value: unknown): string {
  if (typeof value === "string") return value.length > 40 ? "a string" : `the string ${JSON.stringify(value)}`;
  if (typeof value === "bigint") return `the bigint ${value}`;
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return typeof value === "symbol" || typeof value === "function" ? `a ${typeof value}` : String(value);
}
