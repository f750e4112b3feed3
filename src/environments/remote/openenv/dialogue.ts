// One question over the socket of an OpenEnv server, and its answer: an observation or an error. Anything else that comes is the
// server's fault, and so is a message that came before it was asked for: it could be taken for the answer to the next step.

import { type AnsweringSocket, type BaseUrl, openSocket } from "../../../http/index.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import { faultOfHttp, remoteFault } from "../index.ts";
import { type Frame, readFrame } from "./frames.ts";

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
