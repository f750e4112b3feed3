// The settings of the SGLang engine.

import type { ServerEngineOptions } from "../../http/index.ts";

export type SglangEngineOptions = ServerEngineOptions & {
  /** Address of a server or router, e.g. `http://router:30000`. Not together with `host` or `port`. */
  readonly url?: string;
  /** As slime's `sglang_router_ip`. Default "127.0.0.1". */
  readonly host?: string;
  /** As slime's `sglang_router_port`. Default 30000. */
  readonly port?: number;
  /** Asks for server-sent events; the results are the same. Costs more on servers that repeat the text so far. Default false. */
  readonly stream?: boolean;
};
