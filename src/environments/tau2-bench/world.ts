// The world of one episode: the databases of both sides, the tools that each side may call, and the
// answers to calls. Initial states, replayed histories and assertions use it as well. It knows no
// conversation: see `conversation.ts`.

import { isSameValue } from "../../python-semantics/json/value.ts";
import { pythonRepr, PythonError, pythonTypeName, unlessRaised } from "../../python-semantics/index.ts";
import { type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { Database, type SharedDatabase } from "./database.ts";
import type { Requestor, Tau2Message, ToolCall } from "./messages.ts";
import {
  callMethod,
  hasTool,
  type MethodResult,
  resultText,
  type Toolkit,
  toolNotFound,
  type WorldState,
} from "./toolkit.ts";

/** The behaviour of both sides, and the sync between their databases. */
export type WorldParts = {
  readonly agent: { readonly toolkit: Toolkit; readonly database: SharedDatabase };
  /** The user's side; `null` if the user has no tools. */
  readonly user: { readonly toolkit: Toolkit; readonly database: SharedDatabase } | null;
  /** Runs after every call, assertion and step. Throws a `PythonError` where the reference raises. */
  readonly sync: ((world: WorldState) => void) | null;
};

/** A call of any method, tool or not, in an initial state. */
export type FunctionCall = {
  readonly side: Requestor;
  readonly name: string;
  readonly arguments: JsonObject;
};

/** A method that returns true or false, and the expected result. */
export type Assertion = FunctionCall & { readonly expected: boolean; readonly message: string | null };

export type InitialState = {
  readonly agentData: JsonObject | null;
  readonly userData: JsonObject | null;
  readonly actions: readonly (FunctionCall | Assertion)[];
};

export type WorldOptions = {
  readonly isSolo: boolean;
  readonly createId: () => string;
  /** Names of tools whose calls are recorded although they change nothing. @default none */
  readonly loggedReads?: ReadonlySet<string>;
};

export type ToolAnswer = { readonly content: string; readonly isError: boolean };

export class Tau2World implements WorldState {
  readonly #parts: WorldParts;
  /** True if the agent may call the user's tools, and the episode has no user. */
  readonly isSolo: boolean;
  /**
   * The agent's database. Replaced when an initial state merges data into it; both sides then share
   * one, as in the reference.
   */
  agent: Database;
  /** The user's database, which only the user's tools use. */
  user: Database;
  readonly #createId: () => string;
  readonly unlocked = new Set<string>();
  readonly loggedReads: ReadonlySet<string>;

  /**
   * `createId` returns ids for records, which the reference draws at random. Throws a `PythonError`
   * where the first sync raises.
   */
  constructor(parts: WorldParts, options: WorldOptions) {
    this.#parts = parts;
    this.isSolo = options.isSolo;
    this.#createId = options.createId;
    this.loggedReads = options.loggedReads ?? new Set();
    this.agent = new Database(parts.agent.database);
    const isShared = parts.user === null || parts.user.database === parts.agent.database;
    this.user = isShared ? this.agent : new Database(parts.user.database);
    this.sync();
  }

  /** An id for a new record, in place of the reference's random one. */
  createId(): string {
    return this.#createId();
  }

  sync(): void {
    this.#parts.sync?.(this);
  }

  /** SHA-256 (hex) of each side's database; `null` if the user has no tools. */
  digests(): { readonly agent: string; readonly user: string | null } {
    const agent = this.agent.digest();
    if (this.#parts.user === null) return { agent, user: null };
    return { agent, user: this.user === this.agent ? agent : this.user.digest() };
  }

  /** True if both worlds have the same digests. */
  isSameAs(other: Tau2World): boolean {
    const hasOther = this.user !== this.agent || other.user !== other.agent;
    return this.agent.isSameAs(other.agent) && (!hasOther || this.user.isSameAs(other.user));
  }

  /**
   * Carries out a call and answers it; an exception of the tool, or of the sync after it, is an
   * error that the caller reads.
   */
  answer({ name, arguments: given, requestor }: ToolCall): ToolAnswer {
    try {
      const result = this.call(requestor, name, given);
      this.sync();
      return { content: resultText(result), isError: false };
    } catch (error) {
      if (error instanceof PythonError) return { content: `Error: ${error.message}`, isError: true };
      throw error;
    }
  }

  /** Runs a call without a sync. Throws a `PythonError` where the reference raises. */
  call(requestor: Requestor, name: string, given: JsonObject): MethodResult {
    refuseReserved(given);
    const { agent, user } = this.#parts;
    if (requestor === "user" && this.isSolo) {
      throw new PythonError("ValueError", "User tool calls are not allowed in solo mode");
    }
    if (requestor === "user" && user === null) throw new PythonError("ValueError", "User tools not available");
    const isOfUser = requestor === "user" || (this.isSolo && hasTool(user?.toolkit ?? null, name));
    const { toolkit } = isOfUser ? user! : agent;
    const method = toolkit.methods.get(name);
    if (method === undefined || method.tool === null) throw toolNotFound(name);
    return callMethod(toolkit, method, { world: this, given });
  }

  /**
   * Runs any method of a side, whether or not it is a tool, and then a sync. Throws a `PythonError`
   * where the reference raises.
   */
  run({ side, name, arguments: given }: FunctionCall): MethodResult {
    const part = side === "user" ? this.#parts.user : this.#parts.agent;
    const method = part?.toolkit.methods.get(name);
    if (part === null || method === undefined) {
      const owner = part === null ? "NoneType" : part.toolkit.className;
      throw new PythonError("AttributeError", `'${owner}' object has no attribute '${name}'`);
    }
    const result = callMethod(part.toolkit, method, { world: this, given });
    this.sync();
    return result;
  }

  /**
   * True if an assertion holds. Throws a `PythonError` for a method that does not return a boolean,
   * and where it raises.
   */
  holds(assertion: Assertion): boolean {
    const result = this.run(assertion);
    if (typeof result === "boolean") return result === assertion.expected;
    const type = pythonTypeName(result as JsonValue);
    throw new PythonError("ValueError", `Function ${assertion.name} returned <class '${type}'> instead of bool`);
  }

  /**
   * Brings the world into the state of a conversation: merges data, runs actions, and replays the
   * history's calls that change state. If `isStrict`, a replayed call whose answer differs from the
   * recorded one raises. Throws a `PythonError` where the reference raises.
   */
  setState(initial: InitialState | null, history: readonly Tau2Message[], { isStrict = true } = {}): void {
    if (this.isSolo && history.some(({ role }) => role === "user")) {
      throw new PythonError("AssertionError", "User messages are not allowed in solo mode");
    }
    const calls = answeredCalls(history);
    if (initial !== null) this.#initialize(initial);
    for (const { call, content } of calls) {
      if (!this.#mutates(call.name)) continue;
      const answer = this.answer(call);
      if (!isStrict || isSameContent(answer.content, content)) continue;
      throw new PythonError(
        "ValueError",
        `Tool call:\n${call.name}\n\nReturned:\n${answer.content}\n\nExpected:\n${content}`,
      );
    }
    this.sync();
  }

  #initialize({ agentData, userData, actions }: InitialState): void {
    const hasUserTools = this.#parts.user !== null;
    if (agentData !== null) {
      this.agent = this.agent.merged(agentData);
      if (hasUserTools) this.user = this.agent;
    }
    if (userData !== null) {
      if (!hasUserTools) throw new PythonError("AttributeError", "'NoneType' object has no attribute 'update_db'");
      this.user = this.user.merged(userData);
      this.agent = this.user;
    }
    for (const action of actions) {
      if (!("expected" in action)) this.run(action);
      else if (!this.holds(action)) {
        throw new PythonError("AssertionError", action.message ?? `Assertion failed: ${action.name}`);
      }
    }
  }

  /** True if a tool changes the state; false for an unknown tool. */
  #mutates(name: string): boolean {
    const { agent, user } = this.#parts;
    const tool = agent.toolkit.methods.get(name)?.tool ?? user?.toolkit.methods.get(name)?.tool ?? null;
    return tool?.mutates ?? false;
  }
}

/**
 * The reference passes a call's arguments together with its own, so an argument of the same name is
 * given twice. Its own keyword is reported first.
 */
function refuseReserved(given: JsonObject): void {
  const taken = given.has("requestor")
    ? "requestor"
    : [...given.keys()].find((key) => key === "self" || key === "tool_name");
  if (taken === undefined) return;
  const isKeyword = taken === "requestor";
  const place = isKeyword ? "tau2.environment.environment.Environment" : "Environment";
  const noun = isKeyword ? "keyword argument" : "argument";
  throw new PythonError("TypeError", `${place}.make_tool_call() got multiple values for ${noun} '${taken}'`);
}

/**
 * The calls of a history with their answers. Throws a `PythonError` if an answer does not follow
 * its call.
 */
function answeredCalls(history: readonly Tau2Message[]): { readonly call: ToolCall; readonly content: string }[] {
  const calls: { call: ToolCall; content: string }[] = [];
  const refuse = (problem: string): never => {
    throw new PythonError("ValueError", problem);
  };
  for (let at = 0; at < history.length;) {
    const message = history[at++]!;
    if (message.role === "tool") {
      return refuse("Tool message not expected. Tool messages should always follow a tool call.");
    }
    if (message.role === "system") continue;
    for (const call of message.toolCalls ?? []) {
      const result = history[at++];
      if (result === undefined) return refuse("Tool message expected. Got None.");
      if (result.role !== "tool") return refuse(`Tool message expected. Got ${pythonRepr(result.role)}`);
      if (result.id !== call.id) return refuse(`Tool call id mismatch. Got ${call.id} and ${result.id}`);
      calls.push({ call, content: result.content ?? "" });
    }
  }
  return calls;
}

/** Pydantic's report of a refused value: its text differs by version, and ours is our own. */
const refusal = /^Error: \d+ validation errors? for /;

/** Compares texts as JSON if both are JSON, so that spacing does not matter. */
function isSameContent(left: string, right: string): boolean {
  if (refusal.test(left) && refusal.test(right)) return true;
  const valueOf = (text: string): JsonValue => unlessRaised(null, () => parseJson(text)) ?? text;
  return left === right || isSameValue(valueOf(left), valueOf(right));
}
/** Consecutive ids, so that equal episodes make equal records: `B00000001`, `B00000002`, ... */
export function countedIds(prefix: string): () => string {
  let count = 0;
  return () => `${prefix}${String(++count).padStart(8, "0")}`;
}
