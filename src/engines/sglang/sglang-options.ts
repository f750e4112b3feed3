// The settings of the SGLang engine.

import type { HttpClient } from "../../http/index.ts";
import type { Clock } from "../../lib/clock.ts";

export type SglangEngineOptions = {
  /** Address of a server or router, e.g. `http://router:30000`. Not together with `host` or `port`. */
  readonly url?: string;
  /** As slime's `sglang_router_ip`. Default "127.0.0.1". */
  readonly host?: string;
  /** As slime's `sglang_router_port`. Default 30000. */
  readonly port?: number;
  /** Sent as a bearer token; shown nowhere. Default `null`: none. */
  readonly apiKey?: string | null;
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
  /** Asks for server-sent events; the results are the same. Costs more on servers that repeat the text so far. Default false. */
  readonly stream?: boolean;
  /** Default: a pool of its own, closed with the engine. One that is given stays open. */
  readonly http?: HttpClient;
  /** Measures deadlines of its own pool. Default: the real one. */
  readonly clock?: Clock;
};
