// The messages of OpenEnv's WebSocket, of openenv-core 0.3.0 and openenv 0.10.0. Without request ids: each is answered by one, in order.
// Older servers cut `metadata` out of an observation, so what stands there never arrives.

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

/** What the server makes of a step or a reset. */
export type StepAnswer = {
  readonly observation: JsonObject;
  readonly reward: number | null;
  readonly done: boolean;
};

export type Frame =
  | ({ readonly type: "observation" } & StepAnswer)
  | { readonly type: "error"; readonly code: string; readonly message: string; readonly problems: readonly string[] }
  /** Of another type, such as "state". */
  | { readonly type: "other"; readonly name: string };

const where = "a message of the OpenEnv server";

/** Throws the fault "remote-invalid" for anything else. */
function readFrame(text: string): Frame {
  const message = asObject.read(parseMessage(text, where));
  if (message === undefined) throw remoteFault("remote-invalid", `Cannot read ${where}: it is no object.`);
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

/** With the metadata that a server sends beside it. */
function observationOf(data: JsonObject): JsonObject {
  const observation = fieldOf(data, "observation", asObject, where);
  const metadata = data.get("metadata");
  if (observation.has("metadata") || !(metadata instanceof Map)) return observation;
  return new Map([...observation, ["metadata", metadata]]);
}

/** What pydantic says of one field. */
function problemOf(value: JsonValue): string {
  if (!(value instanceof Map)) return dumpJson(value);
  const [place, said] = [value.get("loc"), value.get("msg")];
  const path = Array.isArray(place)
    ? place.map((part) => (typeof part === "string" ? part : dumpJson(part))).join(".")
    : "";
  return `${path === "" ? "the action" : path}: ${typeof said === "string" ? said : dumpJson(value)}`;
}

/** Codes with which a session has no further answer, or never began. Anything else is the server's fault, too. */
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

// One question over the socket of an OpenEnv server, and its answer: an observation or an error. Anything else that comes is the
// server's fault, and so is a message that came before it was asked for: it could be taken for the answer to the next step.

/** Where a server is, and how it is spoken to. */
export type Place = {
  readonly base: BaseUrl;
  readonly headers: Readonly<Record<string, string>>;
  /** Of one message. */
  readonly maxBytes: number;
};

/** Connects; every fault is one of a remote environment. */
export async function connectTo({ base, headers, maxBytes }: Place, signal: AbortSignal): Promise<AnsweringSocket> {
  const options = { boundary: "environment", signal, maxBytes, headers } as const;
  return openSocket(base, "/ws", options).catch((error: unknown) => {
    throw faultOfHttp(error);
  });
}

export const farewell = '{"type": "close"}';

export type Answer = Exclude<Frame, { type: "other" }>;

/** `action`: the fields of a step. */
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
  throw remoteFault("remote-invalid", `Cannot ${what}: ${state}, an observation is expected.`);
}
