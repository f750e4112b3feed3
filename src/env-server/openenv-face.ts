// The environment as an OpenEnv server, as openenv-core 0.3.0 speaks: a session is a WebSocket at `/ws`, and its tools are MCP tools in
// OpenEnv's own form (`list_tools`, `call_tool`), so that its Python clients play it. `reset` takes `seed` and `task` (number or id); two
// tools stand for what the protocol has no place for: `respond` talks to the user, `finish` ends the episode. The reward of an
// episode arrives with the step that ends it. HTTP `/reset` and `/step` keep nothing between calls, as upstream's.

import type { WebSocket } from "ws";

import { messageOf } from "../core/failure.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { type EpisodeHost, HostFullError, HostRequestError } from "./episode-host.ts";
import type { FaceAnswer, FaceRequest } from "./mcp-face.ts";
import { errorFrame, frameBody, objectOf, OpenEnvError, OpenEnvSession, type Shown } from "./openenv-session.ts";

export type OpenEnvFaceOptions = {
  readonly version: string;
  /** Takes secrets out of what clients are told of faults. */
  readonly redact: (text: string) => string;
};

const mostTasks = 500;
/** Messages of one socket that wait for their answer. */
const mostWaiting = 16;
/** How long a client may take to answer that the server closes. */
const closingMs = 500;

export class OpenEnvFace {
  readonly #host: EpisodeHost;
  readonly #options: OpenEnvFaceOptions;
  readonly #closing = new Set<() => Promise<void>>();

  constructor(host: EpisodeHost, options: OpenEnvFaceOptions) {
    this.#host = host;
    this.#options = options;
  }

  /** `null` for a path that is none of OpenEnv's. Never rejects. */
  async handle({ method, url, body, isTrusted }: FaceRequest): Promise<FaceAnswer | null> {
    try {
      if (url.pathname === "/tasks" && !isTrusted) {
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
        default:
          return null;
      }
    } catch (error) {
      if (error instanceof HostFullError) return { status: 503, headers: {}, body: { detail: error.message } };
      const isAsked = error instanceof HostRequestError || error instanceof OpenEnvError;
      return { status: isAsked ? 422 : 500, headers: {}, body: { detail: this.#options.redact(messageOf(error)) } };
    }
  }

  /** Answers a socket until it closes. */
  serve(socket: WebSocket, { isTrusted }: Pick<FaceRequest, "isTrusted">): void {
    const session = new OpenEnvSession(this.#host, { isTrusted });
    let last = Promise.resolve();
    const end = async (): Promise<void> => {
      this.#closing.delete(close);
      await session.end();
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
      // A client of this protocol waits for each answer: one that does not would fill the memory.
      else if (waiting >= mostWaiting) socket.close(1008, "too many messages without an answer");
      else {
        waiting++;
        last = last.then(() => reply((data as Buffer).toString("utf8"))).finally(() => waiting--);
      }
    });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#closing].map((close) => close()));
  }

  /** Without a split: what there is. Otherwise its tasks, from a number on, as a client of ours takes them. */
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

  /** A call of HTTP: a world of its own, which nobody meets again. */
  async #once(
    path: string,
    { body, isTrusted }: { readonly body: JsonObject; readonly isTrusted: boolean },
  ): Promise<Shown> {
    const session = new OpenEnvSession(this.#host, { isTrusted });
    try {
      if (path === "/reset") return await session.reset(body);
      const action = body.get("action");
      if (!(action instanceof Map)) throw new HostRequestError('"action" is no object.');
      await session.reset(new Map());
      return await session.step(action);
    } finally {
      await session.close();
    }
  }
}

const ok = (body: unknown): FaceAnswer => ({ status: 200, headers: {}, body });

// What `GET /schema` says: JSON Schemas of the actions, the observations and the state, as a client of OpenEnv expects them of a world
// with MCP tools.

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
