// The episode of one OpenEnv socket, and the messages of openenv-core 0.3.0 and openenv 0.10.0:
// requests, observations and errors. Independent of sockets and HTTP.

import type { Grade, ToolResult } from "../core/environment.ts";
import { messageOf } from "../core/failure.ts";
import type { Tool } from "../core/message.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import { type EpisodeHost, type HostedEpisode, HostFullError, HostRequestError } from "./episode-host.ts";
import { extraNames } from "./mcp-conversation.ts";

/** Result of a step. */
export type Shown = { readonly observation: JsonObject; readonly reward: number | null; readonly done: boolean };

/** Error answer of the protocol, with `code` and `message`. */
export class OpenEnvError extends Error {
  readonly code: string;
  readonly more: JsonObject;

  constructor(code: string, message: string, more: JsonObject = new Map()) {
    super(message);
    this.code = code;
    this.more = more;
  }
}

/** The episode of one socket; the next reset ends it and begins another. */
export class OpenEnvSession {
  readonly #host: EpisodeHost;
  /** Same as in `FaceRequest`. */
  readonly isTrusted: boolean;
  #episode: HostedEpisode | null = null;
  #id: string | null = null;
  /**
   * True for our own client, which supplies the user, requests the grade, and receives exact
   * results.
   */
  #isOwn = false;
  #steps = 0;
  /** True once the client has disconnected. */
  #isEnded = false;
  /** Sum of the rewards that steps have returned. */
  #given = 0;

  constructor(host: EpisodeHost, { isTrusted }: { readonly isTrusted: boolean }) {
    this.#host = host;
    this.isTrusted = isTrusted;
  }

  /** Answers a message; `null` if the client is done. */
  async answer(text: string): Promise<JsonObject | null> {
    const message = objectOf(text);
    const data = message.get("data") ?? new Map<string, JsonValue>();
    const type = message.get("type");
    if (!(data instanceof Map)) throw new OpenEnvError("VALIDATION_ERROR", 'Invalid message: "data" is not an object.');
    switch (type) {
      case "reset":
        return frame(await this.reset(data));
      case "step":
        return frame(await this.step(data));
      case "state":
        return plainFrame("state", fromPlain({ episode_id: this.#id, step_count: this.#steps }));
      case "close":
        return null;
      default:
        throw new OpenEnvError(
          "UNKNOWN_TYPE",
          `Unknown message type: ${typeof type === "string" ? type.slice(0, 100) : "none"}`,
        );
    }
  }

  async reset(data: JsonObject): Promise<Shown> {
    await this.close();
    const [task, seed, id] = [data.get("task") ?? null, data.get("seed") ?? 0, data.get("episode_id") ?? null];
    if (task !== null && typeof task !== "string" && typeof task !== "number")
      throw invalid("task is neither a number nor an id");
    if (typeof seed !== "number" || seed < 0) throw invalid("seed is not a whole number of at least 0");
    const bringsUser = data.get("user") === "client";
    if (bringsUser && !this.isTrusted) throw invalid("only a client with the server's token brings a user of its own");
    this.#isOwn = bringsUser;
    const named = task === null ? this.#placed(data) : String(task);
    const episode = await this.#host.open({ task: named, seed, hasUser: !this.#isOwn });
    if (this.#isEnded) {
      await episode.close();
      throw new OpenEnvError("SESSION_ERROR", "The session has ended.");
    }
    this.#episode = episode;
    this.#id = typeof id === "string" ? id : null;
    [this.#steps, this.#given] = [0, 0];
    const { task: opened, guidelines, info, opening = null } = episode.environment;
    const observation: readonly (readonly [string, JsonValue])[] = this.#isOwn
      ? [["guidelines", guidelines], ["info", info], ["opening", opening]] // prettier-ignore
      : [["message", episode.firstUtterance], ["guidelines", guidelines], ["task", opened.id]]; // prettier-ignore
    // Users may end it with their first line, and the world with it.
    const done = episode.isDone && !this.#isOwn;
    return { observation: new Map(observation), reward: done ? await this.#rest(episode) : null, done };
  }

  /** The task that the client selected with the Task API; `null` if it selected none. */
  #placed(data: JsonObject): string | null {
    const [split, index] = [data.get("split") ?? null, data.get("index") ?? null];
    if (index === null) return null;
    if (typeof index !== "number" || index < 0) throw invalid("index is not a whole number of at least 0");
    if (split === null) return String(index);
    if (typeof split !== "string") throw invalid("split is not a string");
    const [task] = this.#host.tasks(split, index, 1);
    if (task === undefined) throw invalid(`split "${split.slice(0, 100)}" has no task ${index}`);
    return task.id;
  }

  async step(action: JsonObject): Promise<Shown> {
    const episode = this.#episode;
    if (episode === null || episode.isClosed)
      throw new OpenEnvError("EXECUTION_ERROR", "There is no episode: reset first.");
    const type = action.get("type") ?? "call_tool";
    if (type === "list_tools")
      return { observation: new Map([["tools", this.#tools(episode)]]), reward: null, done: false };
    const [name, args] = [action.get("tool_name"), action.get("arguments") ?? new Map<string, JsonValue>()];
    if (type !== "call_tool" || typeof name !== "string" || !(args instanceof Map)) {
      throw invalid(
        'an action is {"type": "list_tools"} or {"type": "call_tool", "tool_name": ..., "arguments": {...}}',
      );
    }
    if (episode.isDone && !this.#isOwn) throw new OpenEnvError("EXECUTION_ERROR", "The episode is over: reset.");
    this.#steps++;
    const { respond, finish } = extraNames(episode.environment.tools);
    // Our own client marks calls in which a policy used one of the two names although no such tool
    // exists.
    const isCall = this.#isOwn && action.get("is_call") === true;
    if (name === respond && !isCall) return this.#respond(episode, name, args);
    if (name === finish && !isCall) return this.#finish(episode, name, args);
    if (!episode.answers(name)) {
      return shown(name, null, {
        error: { error_type: "tool_not_found", message: `Unknown tool: '${name.slice(0, 100)}'` },
      });
    }
    const result = await episode.call(name, args, { isChecked: this.#isOwn });
    const { text, isError, endsEpisode, info, reward = null } = result;
    this.#given += reward ?? 0;
    if (this.#isOwn) return shown(name, { text, isError }, { reward, done: endsEpisode, info });
    const last = endsEpisode ? await this.#rest(episode) : null;
    return shown(name, { text, isError }, { reward: last === null ? reward : (reward ?? 0) + last, done: endsEpisode });
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Ends the session; an episode that is being opened is closed once it is open. */
  async end(): Promise<void> {
    this.#isEnded = true;
    await this.close();
  }

  async close(): Promise<void> {
    const episode = this.#episode;
    this.#episode = null;
    await episode?.close();
  }

  async #respond(episode: HostedEpisode, name: string, args: JsonObject): Promise<Shown> {
    const message = args.get("message");
    if (typeof message !== "string") return shown(name, { text: "Error: message is not a string.", isError: true });
    if (this.#isOwn) {
      await episode.receiveUtterance(message);
      return shown(name, { text: "", isError: false });
    }
    const { text } = await episode.respond(message);
    const done = episode.isDone;
    return shown(name, { text, isError: false }, { reward: done ? await this.#rest(episode) : null, done });
  }

  async #finish(episode: HostedEpisode, name: string, args: JsonObject): Promise<Shown> {
    const outcome = args.get("outcome") === "truncated" ? "truncated" : "completed";
    const grade = await episode.grade(outcome);
    const text = this.#isOwn ? exactGrade(grade) : "The episode is over.";
    return shown(name, { text, isError: false }, { reward: grade.reward - this.#given, done: true });
  }

  /** Part of the episode's reward that the steps have not returned. */
  async #rest(episode: HostedEpisode): Promise<number> {
    const { reward } = await episode.grade("completed");
    return reward - this.#given;
  }

  #tools(episode: HostedEpisode): JsonValue {
    const { tools } = episode.environment;
    const { respond, finish } = extraNames(tools);
    const message = fromPlain({ type: "object", properties: { message: { type: "string" } }, required: ["message"] });
    return [
      ...tools.map((tool) => listed(tool, this.#isOwn)),
      entry(respond, "Says something to the user, and returns what the user answers.", message),
      entry(
        finish,
        "Ends the episode; its reward comes with the answer.",
        fromPlain({ type: "object", properties: {} }),
      ),
    ];
  }
}

function listed({ name, definition }: Tool, isExact: boolean): JsonValue {
  const body = definition.get("function");
  const part = (key: string): JsonValue => (body instanceof Map ? (body.get(key) ?? null) : null);
  const described = part("description");
  const listing = entry(name, typeof described === "string" ? described : "", part("parameters") ?? new Map());
  return isExact ? new Map([...listing, ["definition", definition]]) : listing;
}

const entry = (name: string, description: string, schema: JsonValue): JsonObject =>
  new Map<string, JsonValue>([["name", name], ["description", description], ["input_schema", schema]]); // prettier-ignore

function shown(
  name: string,
  result: Pick<ToolResult, "text" | "isError"> | null,
  more: {
    readonly reward?: number | null;
    readonly done?: boolean;
    readonly info?: JsonObject;
    readonly error?: object;
  } = {},
): Shown {
  const { reward = null, done = false, info, error = null } = more;
  const text = result?.text ?? "";
  const content = {
    content: [{ type: "text", text }],
    structured_content: null,
    data: text,
    is_error: result?.isError,
  };
  const observation = new Map<string, JsonValue>([
    ["tool_name", name],
    ["result", result === null ? null : fromPlain(content)],
    ["error", fromPlain(error)],
  ]);
  if (info !== undefined) observation.set("info", info);
  return { observation, reward, done };
}

/** Grade as JSON text, which the observation carries unchanged. */
function exactGrade({ reward, metrics, log, info, turnRewards = null }: Grade): string {
  const plain = fromPlain({ reward, metrics, log, turn_rewards: turnRewards }) as JsonObject;
  return dumpJson(new Map<string, JsonValue>([...plain, ["info", info]]));
}

function frame({ observation, reward, done }: Shown): JsonObject {
  const data = new Map<string, JsonValue>([["observation", observation], ["reward", fromPlain(reward)], ["done", done]]); // prettier-ignore
  return plainFrame("observation", data);
}

/** Body of an HTTP answer, which is plain JSON. */
export const frameBody = (value: Shown): unknown => JSON.parse(dumpJson(frame(value).get("data")!)) as unknown;

const plainFrame = (type: string, data: JsonValue): JsonObject => new Map<string, JsonValue>([["type", type], ["data", data]]); // prettier-ignore

export function errorFrame(error: unknown, redact: (text: string) => string): JsonObject {
  const [code, more] =
    error instanceof OpenEnvError
      ? [error.code, error.more]
      : error instanceof HostFullError
        ? ["CAPACITY_REACHED", new Map<string, JsonValue>([["active_sessions", error.active], ["max_sessions", error.active]])] // prettier-ignore
        : [error instanceof HostRequestError ? "VALIDATION_ERROR" : "EXECUTION_ERROR", new Map<string, JsonValue>()];
  return plainFrame(
    "error",
    new Map<string, JsonValue>([["message", redact(messageOf(error))], ["code", code], ...more]),
  );
}

const invalid = (problem: string): OpenEnvError => new OpenEnvError("VALIDATION_ERROR", `Invalid message: ${problem}.`);

export function objectOf(text: string): JsonObject {
  let value: JsonValue;
  try {
    value = parseJson(text);
  } catch (error) {
    throw new OpenEnvError("INVALID_JSON", `Invalid JSON: ${messageOf(error)}`);
  }
  if (value instanceof Map) return value;
  throw new OpenEnvError("VALIDATION_ERROR", "Invalid message: it is not an object.");
}
