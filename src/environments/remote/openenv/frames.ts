// The messages of OpenEnv's WebSocket, as in openenv-core 0.3.0 and openenv 0.10.0. They have no
// request ids: each gets one answer, in order. Older servers strip `metadata` from an observation,
// so its content never arrives.

import { type AnsweringSocket, type BaseUrl, openSocket } from "../../../http/index.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import {
  asBoolean,
  asList,
  asObject,
  asReward,
  asText,
  faultOfHttp,
  fieldOf,
  orNull,
  parseMessage,
  remoteFault,
  type RemoteFaultCode,
} from "../index.ts";

/** The server's answer to a step or a reset. */
export type StepAnswer = {
  readonly observation: JsonObject;
  readonly reward: number | null;
  readonly done: boolean;
};

export type Frame =
  | ({ readonly type: "observation" } & StepAnswer)
  | { readonly type: "error"; readonly code: string; readonly message: string; readonly problems: readonly string[] }
  /** A frame of any other type, such as "state". */
  | { readonly type: "other"; readonly name: string };

const where = "a message of the OpenEnv server";

/** Reads a frame. Throws the fault "remote-invalid" for any other text. */
function readFrame(text: string): Frame {
  const message = asObject.read(parseMessage(text, where));
  if (message === undefined) throw remoteFault("remote-invalid", `Cannot read ${where}: it is not an object.`);
  const type = fieldOf(message, "type", asText, where);
  const data = fieldOf(message, "data", asObject, where);
  switch (type) {
    case "observation":
      return {
        type,
        observation: observationOf(data),
        reward: fieldOf(data, "reward", asReward, where),
        done: fieldOf(data, "done", asBoolean, where),
      };
    case "error": {
      const problems = fieldOf(data, "errors", orNull(asList), where) ?? [];
      return {
        type,
        code: fieldOf(data, "code", orNull(asText), where) ?? "UNKNOWN",
        message: fieldOf(data, "message", orNull(asText), where) ?? "it does not say what",
        problems: problems.map(problemOf),
      };
    }
    default:
      return { type: "other", name: type };
  }
}

/** The observation with the metadata that a server sends beside it. */
function observationOf(data: JsonObject): JsonObject {
  const observation = fieldOf(data, "observation", asObject, where);
  const metadata = data.get("metadata");
  if (observation.has("metadata") || !(metadata instanceof Map)) return observation;
  return new Map([...observation, ["metadata", metadata]]);
}

/** Pydantic's message about one field. */
function problemOf(value: JsonValue): string {
  if (!(value instanceof Map)) return dumpJson(value);
  const [place, said] = [value.get("loc"), value.get("msg")];
  const path = Array.isArray(place)
    ? place.map((part) => (typeof part === "string" ? part : dumpJson(part))).join(".")
    : "";
  return `${path === "" ? "the action" : path}: ${typeof said === "string" ? said : dumpJson(value)}`;
}

/**
 * Fault codes of errors after which a session gives no further answer, or with which it never
 * began. Any other error is also the server's fault.
 */
const faultCodes: Readonly<Record<string, RemoteFaultCode>> = {
  CAPACITY_REACHED: "remote-capacity",
  FACTORY_ERROR: "remote-error",
  SESSION_ERROR: "remote-error",
  EXECUTION_ERROR: "remote-error",
  INVALID_JSON: "remote-invalid",
  UNKNOWN_TYPE: "remote-invalid",
};

export function faultOfFrame(frame: Extract<Frame, { type: "error" }>, what: string): Error {
  const code = Object.hasOwn(faultCodes, frame.code) ? faultCodes[frame.code]! : "remote-error";
  const problems = frame.problems.length === 0 ? "" : ` (${frame.problems.join("; ")})`;
  return remoteFault(code, `Cannot ${what}: the OpenEnv server says ${frame.code}, ${frame.message}${problems}`);
}

// One request over the socket of an OpenEnv server, and its answer: an observation or an error. Any
// other message is the server's fault, and so is a message that arrives before the request: it
// could be taken for the answer to the next step.

/** Address of a server, with the settings of its connections. */
export type Place = {
  readonly base: BaseUrl;
  readonly headers: Readonly<Record<string, string>>;
  /** Maximum size of one message. */
  readonly maxBytes: number;
};

/** Connects to the server; every fault is one of a remote environment. */
export async function connectTo({ base, headers, maxBytes }: Place, signal: AbortSignal): Promise<AnsweringSocket> {
  const options = { boundary: "environment", signal, maxBytes, headers } as const;
  return openSocket(base, "/ws", options).catch((error: unknown) => {
    throw faultOfHttp(error);
  });
}

export const farewell = '{"type": "close"}';

export type Answer = Exclude<Frame, { type: "other" }>;

/** Sends a step; `action` has its fields. */
export function steps(socket: AnsweringSocket, action: JsonObject, what: string, signal: AbortSignal): Promise<Answer> {
  return ask(socket, { type: "step", data: action }, what, signal);
}

export async function ask(
  socket: AnsweringSocket,
  { type, data }: { readonly type: "reset" | "step"; readonly data: JsonObject },
  what: string,
  signal: AbortSignal,
): Promise<Answer> {
  const message = dumpJson(new Map<string, JsonValue>([["type", type], ["data", data]])); // prettier-ignore
  const { text, isAnswer } = await socket.ask(message, { signal }).catch((error: unknown) => {
    throw faultOfHttp(error);
  });
  const frame = readFrame(text);
  if (frame.type === "error" || (isAnswer && frame.type === "observation")) return frame;
  const state = isAnswer
    ? `"${frame.type === "other" ? frame.name : frame.type}" came`
    : "a message came before it was asked";
  throw remoteFault("remote-invalid", `Cannot ${what}: ${state}, expected an observation.`);
}
