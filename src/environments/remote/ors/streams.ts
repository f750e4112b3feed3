// The two ORS answers that come as event streams: the name of a session, and the result of a tool.
// The id of a call comes first. With it, an answer whose connection was lost is requested again,
// within the minute that the server keeps it.

import { AttributedError, messageOf } from "../../../core/failure.ts";
import type { EnvironmentCall } from "../../../core/environment.ts";
import { readNamedEvents } from "../../../http/index.ts";
import type { Clock } from "../../../lib/clock.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import {
  asBoolean,
  asList,
  asObject,
  asReward,
  asText,
  fieldOf,
  parseMessage,
  remoteFault,
  type RemoteHttp,
  type RemoteRequest,
} from "../index.ts";

const where = "an answer of the ORS server";

/**
 * Result of a call. "refused": the tool does not exist or does not accept the arguments; the policy
 * reads the reason.
 */
export type OrsAnswer =
  | { readonly type: "refused"; readonly error: string }
  | {
      readonly type: "done";
      readonly blocks: readonly JsonValue[];
      readonly reward: number | null;
      readonly finished: boolean;
    };

/**
 * Maximum number of repeated requests for an answer, and the pause before the first, doubled each
 * time.
 */
const attempts = { most: 5, firstPauseMs: 250 };

/**
 * Carries out a call. Rejects with a `remoteFault`; "remote-lost" means that the call may or may
 * not have been carried out.
 */
export async function callTool(
  http: RemoteHttp,
  request: {
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly call: EnvironmentCall;
  },
  { signal, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
): Promise<OrsAnswer> {
  const { path, headers, call } = request;
  const body = new Map<string, JsonValue>([["name", call.name], ["input", call.arguments]]); // prettier-ignore
  let id: string | null = null;
  for (let attempt = 0, pauseMs = attempts.firstPauseMs; ; attempt++, pauseMs *= 2) {
    if (id !== null) body.set("task_id", id);
    const events = await readEvents(http, { method: "POST", path, body, headers }, signal);
    id ??= events.id;
    if (events.type === "end") return readAnswer(events.data);
    if (events.type === "error") {
      const what = events.data === "unknown task_id" ? "it does not know the call any more" : `"${events.data}"`;
      throw remoteFault("remote-error", `Cannot carry out "${call.name}": the ORS server says ${what}.`);
    }
    // A repeated request without the id would run the tool twice.
    if (id === null || attempt === attempts.most || signal.aborted) throw events.fault;
    await clock.sleep(pauseMs, signal);
  }
}

/** Opens a session and returns its name. */
export async function openSession(
  http: RemoteHttp,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<string> {
  const request = { method: "POST", path: "/create_session", body: new Map<string, JsonValue>(), headers } as const;
  const events = await readEvents(http, request, signal);
  if (events.type === "lost") throw events.fault;
  if (events.type === "error")
    throw remoteFault("remote-error", `Cannot open a session: the server says "${events.data}".`);
  const named =
    events.type === "end" && events.data !== "" ? asObject.read(parseMessage(events.data, where)) : undefined;
  const sid = named === undefined ? events.id : fieldOf(named, "sid", asText, where);
  // The name is sent as a header, which restricts its characters.
  if (sid !== null && /^[\x21-\x7e]{1,200}$/.test(sid)) return sid;
  throw remoteFault("remote-invalid", `Cannot open a session of the ORS server: it gives it no name.`);
}

/** `id`: id of the call, or name of the session; `null` if it was not received. */
type Events =
  | { readonly type: "end"; readonly id: string | null; readonly data: string }
  | { readonly type: "error"; readonly id: string | null; readonly data: string }
  | { readonly type: "lost"; readonly id: string | null; readonly fault: AttributedError };

/**
 * Reads a stream to its last event. "lost": the connection ended before it. Any other fault
 * rejects.
 */
async function readEvents(http: RemoteHttp, request: RemoteRequest, signal: AbortSignal): Promise<Events> {
  let id: string | null = null;
  let data = "";
  try {
    for await (const event of readNamedEvents(http.chunks(request, { signal }))) {
      if (event.name === "task_id") id = event.data.trim();
      else if (event.name === "chunk") data += event.data;
      else if (event.name === "end") return { type: "end", id, data: data + event.data };
      else if (event.name === "error") return { type: "error", id, data: event.data };
    }
  } catch (error) {
    if (error instanceof RangeError) throw remoteFault("remote-invalid", `Cannot read ${where}: ${messageOf(error)}`);
    const code = error instanceof AttributedError ? error.failure.code : null;
    if (code !== "remote-lost" && code !== "remote-unreachable") throw error;
    return { type: "lost", id, fault: error as AttributedError };
  }
  const message = `Cannot finish POST ${request.path}: the stream of the ORS server ended before its last event.`;
  return { type: "lost", id, fault: remoteFault("remote-lost", message) };
}

function readAnswer(data: string): OrsAnswer {
  const answer = asObject.read(parseMessage(data, where));
  if (answer === undefined) throw remoteFault("remote-invalid", `Cannot read ${where}: it is not an object.`);
  if (!fieldOf(answer, "ok", asBoolean, where)) {
    return { type: "refused", error: fieldOf(answer, "error", asText, where) };
  }
  const output: JsonObject = fieldOf(answer, "output", asObject, where);
  return {
    type: "done",
    blocks: fieldOf(output, "blocks", asList, where),
    reward: fieldOf(output, "reward", asReward, where),
    finished: fieldOf(output, "finished", asBoolean, where),
  };
}
