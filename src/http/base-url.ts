// Parsing of server addresses as users write them, for every HTTP address of this package. An
// address must not contain a user or password, because records of a run and other processes would
// show them; the value of the `Authorization` header is a separate option. The query is sent with
// every request and shown without its secrets. Independent of protocols above HTTP.

import { ConfigurationError } from "../core/failure.ts";
import { httpAddress } from "../lib/address.ts";
import { hasHttpCredentials, hiddenMark, hideSecrets, secretsInText } from "../lib/hidden-parts.ts";

/** Address of a server. `origin + path` is safe to show. */
export type BaseUrl = {
  /** Scheme, host and port, e.g. `http://127.0.0.1:30000`. */
  readonly origin: string;
  /** Prefix of every path, without a trailing slash; empty if there is none. */
  readonly path: string;
  /** Query of every request, with its question mark; empty if there is none. May hold secrets. */
  readonly search: string;
  /**
   * Value of the `Authorization` header of every request; `null` sends none, unless a request has
   * its own.
   */
  readonly authorization: string | null;
  /** Secrets of the query and the header, for a redactor. */
  readonly secrets: readonly string[];
};

export type BaseUrlOptions = {
  /** Name of the addressed server in messages: `SGLang server`. */
  readonly what: string;
  /** Value of the `Authorization` header. Default `null`: none. */
  readonly authorization?: string | null | undefined;
  /**
   * Name, in messages, of the setting that takes this value instead of credentials in the address.
   * Default: the option `authorization`.
   */
  readonly setting?: string;
  /** Keeps or refuses a path in the address. Default "keep". */
  readonly path?: "keep" | "refuse";
};

/**
 * Parses an `http:` or `https:` address. Throws a `ConfigurationError` for an invalid one, and for
 * one with credentials; the message shows neither credentials nor secrets of a query.
 *
 * @example
 * parseBaseUrl("http://127.0.0.1:30000/", { what: "SGLang server" }).origin; // "http://127.0.0.1:30000"
 */
export function parseBaseUrl(text: string, options: BaseUrlOptions): BaseUrl {
  const trimmed = text.trim();
  const { what, authorization = null, path: paths = "keep" } = options;
  const shown = showAddress(trimmed);
  const refuse = (state: string, remedy: string): never => {
    throw new ConfigurationError(`Cannot use "${shown}" as the address of the ${what}: ${state}; ${remedy}.`);
  };
  if (trimmed === "") refuse("it is empty", "write it like http://127.0.0.1:30000");
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(trimmed)?.[1]?.toLowerCase();
  if (scheme === undefined) refuse("the scheme is missing", `write http://${shown} or https://${shown}`);
  if (scheme !== "http" && scheme !== "https") refuse(`the scheme is "${scheme}"`, "use http or https");
  refuseCredentials(trimmed, options);
  const url = parse(trimmed) ?? refuse("it is not a URL", "write it like http://127.0.0.1:30000");
  // The check above misses credentials after a backslash, or after a scheme that contains a tab.
  if (url.username !== "" || url.password !== "") throw credentialsRefusal(trimmed, options);
  if (url.port === "0") refuse("port 0 is not a port to connect to", "give the port the server listens on");
  if (url.hash !== "") refuse("it has a fragment", "remove it");
  const path = url.pathname.replace(/(?<!\/)\/+$/, "");
  if (path !== "" && paths === "refuse") refuse(`it has the path "${path}"`, `write ${url.origin}`);
  const header = checkAuthorization(authorization, what);
  const secrets = [...secretsInText(url.search), ...(header === null ? [] : authorizationSecrets(header))];
  return { origin: url.origin, path, search: url.search, authorization: header, secrets };
}

/**
 * Throws a `ConfigurationError` if the text has an HTTP or WebSocket address with a user or a
 * password; the message shows neither.
 */
export function refuseCredentials(text: string, options: Pick<BaseUrlOptions, "what" | "setting">): void {
  if (hasHttpCredentials(text)) throw credentialsRefusal(text, options);
}

function credentialsRefusal(
  text: string,
  { what, setting }: Pick<BaseUrlOptions, "what" | "setting">,
): ConfigurationError {
  const remedy =
    setting === undefined
      ? "give the value of the Authorization header as the option authorization"
      : `export AUTHORIZATION="Basic $(printf %s user:password | base64)", and give ${setting} AUTHORIZATION: the name of a variable that holds the value of the Authorization header`;
  return new ConfigurationError(
    `Cannot use "${showAddress(text)}" as the address of the ${what}: it contains a user name or password, which every record of the run would show; remove them, ${remedy}.`,
  );
}

/** An address for messages: without credentials and secrets of a query, and of bounded length. */
export function showAddress(text: string): string {
  // If it is not a URL, everything up to the last "@" is removed, because a password may contain
  // any character.
  const isPlain =
    !text.includes("@") || (/^[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/?#\\@]+(?:[/?#]|$)/i.test(text) && URL.canParse(text));
  const bare = isPlain ? text : text.replace(/^([a-z][a-z0-9+.-]{0,30}:\/\/)?.*@/is, "$1").replace(/[?#].*$/s, "");
  return hideSecrets(bare)
    .replace(`//${hiddenMark}@`, "//")
    .replace(/["\p{Cc}]/gu, "")
    .slice(0, 200);
}

/**
 * Throws a `ConfigurationError` for a value that is invalid in a header; the message does not show
 * the value.
 */
function checkAuthorization(value: string | null, what: string): string | null {
  if (value === null || /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value)) return value;
  throw new ConfigurationError(
    `Cannot use the Authorization header of the ${what}: it is empty or has characters that headers do not allow; use a value like "Bearer <token>" on one line.`,
  );
}

/** The value, its credential without the scheme, and the parts of a `Basic` one. */
function authorizationSecrets(value: string): readonly string[] {
  const [, scheme = "", credential = ""] = /^(\S+)\s+(\S.*)$/.exec(value) ?? [];
  const pair = /^basic$/i.test(scheme) ? Buffer.from(credential, "base64").toString("utf8") : "";
  const password = pair.slice(pair.indexOf(":") + 1);
  return [value, credential, pair, password].filter((secret) => secret !== "");
}

function parse(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

/** A whole address, its parts, or nothing, which means the server on this machine. */
export type EngineAddress = {
  readonly url?: string;
  readonly host?: string;
  readonly port?: number;
  /**
   * Value of the `Authorization` header of every request; cannot be combined with a key. Default
   * `null`: none.
   */
  readonly authorization?: string | null;
};

/**
 * Resolves the options to an address. `endpoints` are suffixes that an address must not have.
 * Throws a `ConfigurationError`.
 */
export function resolveAddress(
  options: EngineAddress,
  server: { readonly product: string; readonly defaultPort: number; readonly endpoints: RegExp },
): BaseUrl {
  const { url, host, port } = options;
  const { product, defaultPort, endpoints } = server;
  if (url !== undefined && (host !== undefined || port !== undefined)) {
    throw new ConfigurationError(
      `Cannot choose the ${product} server: url is given beside host or port; pass only one of them.`,
    );
  }
  const base = parseBaseUrl(url ?? addressOf(host ?? "127.0.0.1", port ?? defaultPort, product), {
    what: `${product} server`,
    authorization: options.authorization,
    setting: "--engine-authorization-env",
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
    `Cannot create an engine for ${product}: ${name} is ${value}, expected a positive number.`,
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
      `Cannot choose the ${product} server: host is not a host name or an IP address; pass the whole address as url.`,
    );
  }
  return httpAddress(host, port);
}
