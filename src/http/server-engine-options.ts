// What every engine behind HTTP may be told about its calls. Where the server is and what only it can do, each engine says
// itself.

import type { Clock } from "../lib/clock.ts";
import type { HttpClient } from "./http-client.ts";

export type ServerEngineOptions = {
  /** Sent as a bearer token; shown nowhere. Default `null`: none. */
  readonly apiKey?: string | null;
  /** Tokens of the served model, padded rows included; a reply with a larger id is refused. Default `null`: not checked. */
  readonly vocabularySize?: number | null;
  /** Deadline of one sampling call, waiting for a connection included. Default 1,800,000; `null`: none. */
  readonly timeoutMs?: number | null;
  /** Deadline of the head of an answer; without `stream`, servers send it with the whole answer. Default `null`: none. */
  readonly firstByteTimeoutMs?: number | null;
  /** How long a connection may take to come about. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Deadline of one control call. Default 30,000. */
  readonly controlTimeoutMs?: number;
  /** Connections to one server; further calls wait. About twice what the server runs at once. Default 512. */
  readonly connections?: number;
  /** Default: a pool of its own, closed with the engine. One that is given stays open. */
  readonly http?: HttpClient;
  /** Measures deadlines of its own pool. Default: the real one. */
  readonly clock?: Clock;
};
