// Sessions of openenv 0.10.0 that HTTP and a WebSocket share: `POST /mcp` with
// `openenv/session/create` begins one, `/ws?session_id=` attaches a socket to it, and `tools/list`
// and `tools/call` with its `session_id` act in its episode. Its client for MCP tools uses this. It
// is not MCP: it has no `initialize`, and MCP client libraries never send a `session_id` among
// their parameters.

import { randomUUID } from "node:crypto";
import { messageOf } from "../core/failure.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import type { FaceAnswer } from "./mcp-face.ts";
import { objectOf, OpenEnvError, type OpenEnvSession } from "./openenv-session.ts";

const prefix = "openenv/session/";
/**
 * Maximum number of sessions. Sessions without an episode cost little, but would fill the memory if
 * clients do not end them; the oldest are removed first.
 */
const mostSessions = 1024;

/**
 * True for a client that may do more than an agent. A session belongs to clients with the same
 * trust as the one that began it.
 */
type Trust = { readonly isTrusted: boolean };

export class OpenEnvRpc {
  readonly #make: (trust: Trust) => OpenEnvSession;
  readonly #redact: (text: string) => string;
  readonly #sessions = new Map<string, OpenEnvSession>();

  constructor(make: (trust: Trust) => OpenEnvSession, redact: (text: string) => string) {
    this.#make = make;
    this.#redact = redact;
  }

  /** The session that a socket names; `null` if it does not exist. */
  attach(id: string, { isTrusted }: Trust): OpenEnvSession | null {
    const session = this.#sessions.get(id);
    return session?.isTrusted === isTrusted ? session : null;
  }

  async close(): Promise<void> {
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    await Promise.all(sessions.map((session) => session.end()));
  }

  /** Answers a request; `null` if the body is not a request of such a session. Never rejects. */
  async answer(body: string, trust: Trust): Promise<FaceAnswer | null> {
    const request = requestOf(body);
    if (request === null) return null;
    const { id, method, params } = request;
    try {
      return reply(id, { result: JSON.parse(dumpJson(await this.#carryOut({ method, params }, trust))) as unknown });
    } catch (error) {
      const code = error instanceof OpenEnvError && error.code === "VALIDATION_ERROR" ? -32602 : -32603;
      return reply(id, { error: { code, message: this.#redact(messageOf(error)) } });
    }
  }

  async #carryOut({ method, params }: Pick<Request, "method" | "params">, trust: Trust): Promise<JsonValue> {
    if (method === `${prefix}create`) return this.#create(trust);
    const id = params.get("session_id");
    const session = typeof id === "string" ? this.attach(id, trust) : null;
    if (session === null) throw invalid(`unknown session_id: ${typeof id === "string" ? id.slice(0, 100) : "none"}`);
    switch (method) {
      case `${prefix}close`:
        this.#sessions.delete(id as string);
        await session.end();
        return fromPlain({ session_id: id, closed: true });
      case "tools/list": {
        const { observation } = await session.step(new Map([["type", "list_tools"]]));
        return new Map([["tools", observation.get("tools") ?? []]]);
      }
      case "tools/call": {
        const [name, args] = [params.get("name") ?? null, params.get("arguments") ?? new Map<string, JsonValue>()];
        const action = new Map<string, JsonValue>([["type", "call_tool"], ["tool_name", name], ["arguments", args]]); // prettier-ignore
        const { observation } = await session.step(action);
        const fault = observation.get("error");
        const said = fault instanceof Map ? fault.get("message") : null;
        if (typeof said === "string") throw invalid(said);
        return observation.get("result") ?? null;
      }
      default:
        throw invalid(`unknown method "${method.slice(0, 100)}"`);
    }
  }

  async #create(trust: Trust): Promise<JsonValue> {
    const id = randomUUID();
    this.#sessions.set(id, this.#make(trust));
    for (const [oldest, session] of this.#sessions) {
      if (this.#sessions.size <= mostSessions) break;
      this.#sessions.delete(oldest);
      await session.end();
    }
    return fromPlain({ session_id: id });
  }
}

type Request = { readonly id: JsonValue; readonly method: string; readonly params: JsonObject };

function requestOf(body: string): Request | null {
  let message: JsonObject;
  try {
    message = objectOf(body);
  } catch {
    return null;
  }
  const [method, params] = [message.get("method"), message.get("params") ?? new Map<string, JsonValue>()];
  if (typeof method !== "string" || !(params instanceof Map)) return null;
  const isOfSession = /^tools\/(?:list|call)$/.test(method) && typeof params.get("session_id") === "string";
  return method.startsWith(prefix) || isOfSession ? { id: message.get("id") ?? null, method, params } : null;
}

/** Refusals also have status 200, as in upstream. */
function reply(id: JsonValue, outcome: object): FaceAnswer {
  const plain: unknown = JSON.parse(dumpJson(id));
  return { status: 200, headers: {}, body: { jsonrpc: "2.0", id: plain, ...outcome } };
}

const invalid = (problem: string): OpenEnvError => new OpenEnvError("VALIDATION_ERROR", `Invalid request: ${problem}.`);
