// Addresses of servers as users write them. Credentials in an address are taken out of it and held apart, so that no
// message, log or run file can show them. Knows no protocol above HTTP.

import { ConfigurationError } from "../core/failure.ts";
import { httpAddress } from "../lib/address.ts";

/** Where a server is. `origin + path` is safe to show. */
export type BaseUrl = {
  /** Scheme, host and port, e.g. `http://127.0.0.1:30000`. */
  readonly origin: string;
  /** What every path is put behind, without a slash at its end; empty when there is none. */
  readonly path: string;
  /** Header value made of the credentials in the address; `null` when it had none. */
  readonly authorization: string | null;
  /** Parts of the credentials, for a redactor. */
  readonly secrets: readonly string[];
};

export type BaseUrlOptions = {
  /** What the address is of, for messages: `SGLang server`. */
  readonly what: string;
  /** Whether an address may have a path. Default "keep". */
  readonly path?: "keep" | "refuse";
};

/**
 * Reads an `http:` or `https:` address. Throws a `ConfigurationError` that shows neither credentials nor a query.
 *
 * @example
 * parseBaseUrl("http://127.0.0.1:30000/", { what: "SGLang server" }).origin; // "http://127.0.0.1:30000"
 */
export function parseBaseUrl(text: string, options: BaseUrlOptions): BaseUrl {
  const trimmed = text.trim();
  const shown = showAddress(trimmed);
  const refuse = (state: string, remedy: string): never => {
    throw new ConfigurationError(`Cannot use "${shown}" as the address of the ${options.what}: ${state}; ${remedy}.`);
  };
  if (trimmed === "") refuse("it is empty", "write it like http://127.0.0.1:30000");
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(trimmed)?.[1]?.toLowerCase();
  if (scheme === undefined) refuse("the scheme is missing", `write http://${shown} or https://${shown}`);
  if (scheme !== "http" && scheme !== "https") refuse(`the scheme is "${scheme}"`, "use http or https");
  const url = parse(trimmed) ?? refuse("it is not a URL", "write it like http://127.0.0.1:30000");
  if (url.port === "0") refuse("port 0 is not a port to connect to", "give the port the server listens on");
  if (url.search !== "" || url.hash !== "") refuse("it has a query or a fragment", "leave them out");
  const path = url.pathname.replace(/\/+$/, "");
  if (path !== "" && options.path === "refuse") refuse(`it has the path "${path}"`, `write ${url.origin}`);
  const secrets = [decode(url.username), decode(url.password)];
  if (secrets.every((part) => part === "")) return { origin: url.origin, path, authorization: null, secrets: [] };
  const encoded = Buffer.from(secrets.join(":")).toString("base64");
  return { origin: url.origin, path, authorization: `Basic ${encoded}`, secrets: [...secrets, encoded] };
}

/** An address as messages may show it: credentials, query and fragment removed, of bounded length. */
export function showAddress(text: string): string {
  // Everything up to the last "@" goes: a password may hold any character, and a path with "@" is worth less than a secret.
  const bare = text.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, "$1").replace(/[?#].*$/s, "");
  return bare.replace(/["\p{Cc}]/gu, "").slice(0, 200);
}

function parse(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

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
  throw new ConfigurationError(
    `Cannot make an engine for ${product}: ${name} is ${value}, expected a positive number.`,
  );
}

function addressOf(host: string, port: number, product: string): string {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new ConfigurationError(
      `Cannot choose the ${product} server: port is ${port}, expected an integer from 1 to 65535.`,
    );
  }
  if (!/^[\w.:[\]-]+$/.test(host) || host === "") {
    throw new ConfigurationError(
      `Cannot choose the ${product} server: host is not a host name or an IP address; give a whole address as url.`,
    );
  }
  return httpAddress(host, port);
}
