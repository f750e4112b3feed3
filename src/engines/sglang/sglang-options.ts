// The settings of the SGLang engine, checked before anything is sent.

import { ConfigurationError } from "../../core/failure.ts";
import { parseBaseUrl, type BaseUrl, type HttpClient } from "../../http/index.ts";
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

/** Where the options point to. Throws a `ConfigurationError`. */
export function resolveAddress(options: SglangEngineOptions): BaseUrl {
  const { url, host, port } = options;
  if (url !== undefined && (host !== undefined || port !== undefined)) {
    throw new ConfigurationError(
      "Cannot choose the SGLang server: url is given beside host or port; give one of both.",
    );
  }
  const base = parseBaseUrl(url ?? addressOf(host ?? "127.0.0.1", port ?? 30_000), { what: "SGLang server" });
  const endpoint = /\/(generate|v1)(\/.*)?$/.exec(base.path);
  if (endpoint !== null) {
    const path = base.path.slice(0, -endpoint[0].length);
    throw new ConfigurationError(
      `Cannot use "${base.origin}${base.path}" as the address of the SGLang server: it names an endpoint; write ${base.origin}${path}.`,
    );
  }
  return base;
}

/** Throws a `ConfigurationError` that names the option and its value. */
export function requireDuration(name: string, value: number): number {
  if (Number.isFinite(value) && value > 0) return value;
  throw new ConfigurationError(`Cannot make an SGLang engine: ${name} is ${value}, wanted a positive number.`);
}

function addressOf(host: string, port: number): string {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new ConfigurationError(
      `Cannot choose the SGLang server: port is ${port}, wanted an integer from 1 to 65535.`,
    );
  }
  if (!/^[\w.:[\]-]+$/.test(host) || host === "") {
    throw new ConfigurationError(
      "Cannot choose the SGLang server: host is not a host name or an IP address; give a whole address as url.",
    );
  }
  const isBareIpv6 = host.includes(":") && !host.startsWith("[");
  return `http://${isBareIpv6 ? `[${host}]` : host}:${port}`;
}
