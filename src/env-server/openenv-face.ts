// The environment as an OpenEnv server, in the protocol of openenv-core 0.3.0 and openenv 0.10.0: a
// session is a WebSocket at `/ws`, and its tools are MCP tools in OpenEnv's own form (`list_tools`,
// `call_tool`), so that its Python clients can use it. `reset` takes `seed` and `task` (number or
// id), or `split` and `index` of the Task API; two tools replace what the protocol lacks: `respond`
// talks to the user, `finish` ends the episode. The reward of an episode arrives with the step that
// ends it. HTTP `/reset` and `/step` keep no state between calls, the same as upstream's.

import type { WebSocket } from "ws";

import { messageOf } from "../core/failure.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { type EpisodeHost, HostFullError, HostRequestError } from "./episode-host.ts";
import type { FaceAnswer, FaceRequest } from "./mcp-face.ts";
import { OpenEnvRpc } from "./openenv-rpc.ts";
import { errorFrame, frameBody, objectOf, OpenEnvError, OpenEnvSession, type Shown } from "./openenv-session.ts";

export type OpenEnvFaceOptions = {
  readonly version: string;
  /** Removes secrets from errors for clients. */
  readonly redact: (text: string) => string;
};

const mostTasks = 500;
/** Maximum number of messages of one socket that wait for their answers. */
const mostWaiting = 16;
/** Time for a client to confirm that the server closes, in milliseconds. */
const closingMs = 500;

export class OpenEnvFace {
  readonly #host: EpisodeHost;
  readonly #options: OpenEnvFaceOptions;
  readonly #closing = new Set<() => Promise<void>>();
  readonly #rpc: OpenEnvRpc;

  constructor(host: EpisodeHost, options: OpenEnvFaceOptions) {
    this.#host = host;
    this.#options = options;
    this.#rpc = new OpenEnvRpc((trust) => new OpenEnvSession(host, trust), options.redact);
  }

  /**
   * Answers a `POST /mcp` request of a session that HTTP and a socket share; `null` for a request
   * of MCP itself. Never rejects.
   */
  rpc({ method, body, isTrusted }: FaceRequest): Promise<FaceAnswer | null> {
    return method === "POST" ? this.#rpc.answer(body, { isTrusted }) : Promise.resolve(null);
  }

  /** Answers an HTTP request; `null` for a path outside OpenEnv's protocol. Never rejects. */
  async handle({ method, url, body, isTrusted }: FaceRequest): Promise<FaceAnswer | null> {
    try {
      if (/^(?:\/[^/]+)?\/(?:tasks|task|task_range)$/.test(url.pathname) && !isTrusted) {
        const detail = "Tasks are listed for clients with the server's token; an agent's opens episodes.";
        return { status: 403, headers: {}, body: { detail } };
      }
      switch (`${method} ${url.pathname}`) {
        case "GET /schema":
          return ok(openEnvSchema);
        case "GET /metadata": {
          const { name } = this.#host.source;
          const description = `${name}, served by trainable-agents`;
          return ok({ name, description, readme_content: null, version: this.#options.version, author: null, documentation_url: null }); // prettier-ignore
        }
        case "GET /state":
          return ok({ episode_id: null, step_count: 0 });
        case "GET /tasks":
          return ok(this.#tasks(url.searchParams));
        case "POST /reset":
        case "POST /step":
          return ok(
            frameBody(await this.#once(url.pathname, { body: objectOf(body === "" ? "{}" : body), isTrusted })),
          );
        case "GET /list_environments":
          return ok([this.#host.source.name]);
        default:
          return this.#taskApi(method, url.pathname, body);
      }
    } catch (error) {
      if (error instanceof HostFullError) return { status: 503, headers: {}, body: { detail: error.message } };
      const isAsked = error instanceof HostRequestError || error instanceof OpenEnvError;
      return { status: isAsked ? 422 : 500, headers: {}, body: { detail: this.#options.redact(messageOf(error)) } };
    }
  }

  /**
   * Answers a socket until it closes. `sessionId`: id of a session that was begun over HTTP, and
   * that continues after the socket closes.
   */
  serve(
    socket: WebSocket,
    { sessionId = null, isTrusted }: Pick<FaceRequest, "isTrusted"> & { readonly sessionId?: string | null },
  ): void {
    const attached = sessionId === null ? null : this.#rpc.attach(sessionId, { isTrusted });
    if (sessionId !== null && attached === null) {
      const error = new OpenEnvError("SESSION_ERROR", "There is no such session.");
      socket.send(dumpJson(errorFrame(error, this.#options.redact)), () => socket.close(1000));
      socket.on("error", () => socket.terminate());
      return;
    }
    const session = attached ?? new OpenEnvSession(this.#host, { isTrusted });
    let last = Promise.resolve();
    const end = async (): Promise<void> => {
      this.#closing.delete(close);
      if (attached === null) await session.end();
    };
    const closed = new Promise<void>((resolve) => {
      socket.once("close", () => resolve());
    });
    const close = async (): Promise<void> => {
      socket.close(1001);
      const timer = setTimeout(() => socket.terminate(), closingMs);
      await Promise.all([closed, end()]);
      clearTimeout(timer);
    };
    this.#closing.add(close);
    const send = (message: JsonObject): void => socket.send(dumpJson(message), () => undefined);
    socket.on("error", () => socket.terminate());
    socket.on("close", () => void end().catch(() => undefined));
    const reply = async (text: string): Promise<void> => {
      if (session.isEnded || socket.readyState !== socket.OPEN) return;
      const answer: unknown = await session.answer(text).catch((error: unknown) => error);
      if (answer === null) socket.close(1000);
      else send(answer instanceof Map ? (answer as JsonObject) : errorFrame(answer, this.#options.redact));
      if (answer instanceof HostFullError) socket.close(1000);
    };
    let waiting = 0;
    socket.on("message", (data, isBinary) => {
      if (isBinary) socket.close(1003);
      // A client of this protocol waits for each answer; one that does not would fill the memory.
      else if (waiting >= mostWaiting) socket.close(1008, "too many messages without an answer");
      else {
        waiting++;
        last = last.then(() => reply((data as Buffer).toString("utf8"))).finally(() => waiting--);
      }
    });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#closing].map((close) => close()));
    await this.#rpc.close();
  }

  /**
   * Splits and their sizes if no split is given; otherwise tasks of the split, starting at a
   * number, for our own clients.
   */
  #tasks(query: URLSearchParams): object {
    const { source } = this.#host;
    const split = query.get("split");
    if (split === null) {
      const sizes = Object.fromEntries(source.splits.map((one) => [one, source.taskset(one).size]));
      const { name, users, argumentErrors, unknownTools = "loop", resume = "replay" } = source;
      const played = users.filter((user) => user !== "replay");
      return { name, sizes, users: played, argument_errors: argumentErrors, unknown_tools: unknownTools, resume };
    }
    const [from, count] = [Number(query.get("from") ?? 0), Number(query.get("count") ?? mostTasks)];
    if (!Number.isSafeInteger(from) || from < 0 || !Number.isSafeInteger(count)) {
      throw new HostRequestError('"from" and "count" are whole numbers.');
    }
    return { tasks: this.#host.tasks(split, from, Math.min(count, mostTasks)) };
  }

  /**
   * The Task API: splits, and tasks by their index. The content of a task stays on the server: its
   * instruction is for the user, and its goal for the grade. `null` for a path outside the Task
   * API.
   */
  #taskApi(method: string, pathname: string, body: string): FaceAnswer | null {
    const [, encoded = "", what = ""] = /^\/([^/]+)\/(splits|tasks|num_tasks|task|task_range)$/.exec(pathname) ?? [];
    if (what === "" || method !== (what === "splits" ? "GET" : "POST")) return null;
    const { source } = this.#host;
    if (decoded(encoded).toLowerCase() !== source.name.toLowerCase()) {
      return { status: 404, headers: {}, body: { detail: `unknown environment '${decoded(encoded).slice(0, 100)}'` } };
    }
    if (what === "splits") {
      const typeOf = (name: string): string => (["train", "validation", "test"].includes(name) ? name : "validation");
      return ok(source.splits.map((name) => ({ name, type: typeOf(name) })));
    }
    const asked = objectOf(body === "" ? "{}" : body);
    const split = asked.get("split");
    if (typeof split !== "string") throw new HostRequestError('"split" is not a string.');
    const size = this.#host.size(split);
    const place = (key: string, initial: number): number => {
      const value = asked.get(key) ?? initial;
      if (typeof value === "number" && Number.isSafeInteger(value)) return value;
      throw new HostRequestError(`"${key}" is not a whole number.`);
    };
    const rows = (start: number, stop: number): readonly object[] =>
      this.#host.tasks(split, start, Math.min(mostTasks, stop - start)).map(({ id, index }) => ({ id, split, index }));
    switch (what) {
      case "num_tasks":
        return ok({ num_tasks: size });
      case "tasks":
        return ok({ tasks: rows(0, size), env_name: source.name });
      case "task": {
        const index = place("index", -1);
        if (index < 0 || index >= size) return { status: 400, headers: {}, body: { detail: "Invalid task index" } };
        return ok({ task: rows(index, index + 1)[0] });
      }
      default: {
        // Bounds follow the rules of Python's list slices.
        const at = (value: number): number => Math.min(size, Math.max(0, value < 0 ? size + value : value));
        return ok({ tasks: rows(at(place("start", 0)), at(place("stop", size))) });
      }
    }
  }

  /** Handles an HTTP call in a world of its own, which no later call reaches. */
  async #once(
    path: string,
    { body, isTrusted }: { readonly body: JsonObject; readonly isTrusted: boolean },
  ): Promise<Shown> {
    const session = new OpenEnvSession(this.#host, { isTrusted });
    try {
      if (path === "/reset") return await session.reset(body);
      const action = body.get("action");
      if (!(action instanceof Map)) throw new HostRequestError('"action" is not an object.');
      await session.reset(new Map());
      return await session.step(action);
    } finally {
      await session.close();
    }
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const ok = (body: unknown): FaceAnswer => ({ status: 200, headers: {}, body });

// Content of `GET /schema`: JSON Schemas of the actions, the observations and the state, as a
// client of OpenEnv expects them of a world with MCP tools.

const text = { type: "string" };
const anything = { type: "object", additionalProperties: true };

const openEnvSchema = {
  action: {
    title: "CallToolAction",
    description: "Calls a tool of the environment.",
    type: "object",
    properties: {
      metadata: anything,
      type: { type: "string", const: "call_tool", default: "call_tool" },
      tool_name: text,
      arguments: anything,
    },
    required: ["tool_name"],
    additionalProperties: false,
  },
  observation: {
    title: "CallToolObservation",
    type: "object",
    properties: {
      done: { type: "boolean" },
      reward: { type: ["number", "null"] },
      tool_name: text,
      result: {},
      error: {},
    },
  },
  state: {
    title: "State",
    type: "object",
    properties: { episode_id: { type: ["string", "null"] }, step_count: { type: "integer", minimum: 0 } },
    additionalProperties: true,
  },
} as const;
