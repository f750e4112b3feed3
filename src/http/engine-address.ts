// Where an engine's server is, out of options as users give them, and the other options that every engine behind HTTP
// checks before anything is sent.

import { ConfigurationError } from "../core/failure.ts";
import { httpAddress } from "../lib/address.ts";
import { parseBaseUrl, type BaseUrl } from "./base-url.ts";

/** A whole address, or its parts, or nothing: then the server of this machine. */
export type EngineAddress = { readonly url?: string; readonly host?: string; readonly port?: number };

/** Where the options point to. `endpoints` is what an address must not end with. Throws a `ConfigurationError`. */
export function resolveAddress(
  options: EngineAddress,
  server: { readonly product: string; readonly defaultPort: number; readonly endpoints: RegExp },
): BaseUrl {
  const { url, host, port } = options;
  const { product, defaultPort, endpoints } = server;
  if (url !== undefined && (host !== undefined || port !== undefined)) {
    throw new ConfigurationError(
      `Cannot choose the ${product} server: url is given beside host or port; give one of both.`,
    );
  }
  const base = parseBaseUrl(url ?? addressOf(host ?? "127.0.0.1", port ?? defaultPort, product), {
    what: `${product} server`,
  });
  const endpoint = endpoints.exec(base.path);
  if (endpoint !== null) {
    const path = base.path.slice(0, -endpoint[0].length);
    throw new ConfigurationError(
      `Cannot use "${base.origin}${base.path}" as the address of the ${product} server: it names an endpoint; write ${base.origin}${path}.`,
    );
  }
  return base;
}

/** Throws a `ConfigurationError` that names the option and its value. */
export function requireDuration(name: string, value: number, product: string): void {
  if (Number.isFinite(value) && value > 0) return;
  throw new ConfigurationError(`Cannot make an engine for ${product}: ${name} is ${value}, wanted a positive number.`);
}

function addressOf(host: string, port: number, product: string): string {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new ConfigurationError(
      `Cannot choose the ${product} server: port is ${port}, wanted an integer from 1 to 65535.`,
    );
  }
  if (!/^[\w.:[\]-]+$/.test(host) || host === "") {
    throw new ConfigurationError(
      `Cannot choose the ${product} server: host is not a host name or an IP address; give a whole address as url.`,
    );
  }
  return httpAddress(host, port);
}
