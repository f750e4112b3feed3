// Address of a NATS queue and the credentials for it: one address or several separated by commas,
// which may name a user and the queue, and key files. The displayed form has no secrets.

import { ConfigurationError } from "../../core/index.ts";

export type NatsAddress = {
  /** Servers as `host:port`. */
  readonly servers: readonly string[];
  readonly isTls: boolean;
  /** User; `null` if the address names none. */
  readonly user: string | null;
  readonly password: string | null;
  /**
   * Token: an address with a user and no password names a token, the same as for NATS's own
   * clients.
   */
  readonly token: string | null;
  /**
   * Name of letters, digits, `-` and `_`. All parts of a queue have its name; a broker can hold any
   * number of queues.
   */
  readonly queue: string;
  /** Servers and queue for display, without credentials. */
  readonly shown: string;
  /** Parts of the credentials, for a redactor. */
  readonly secrets: readonly string[];
};

const defaultQueue = "default";
const defaultPort = 4222;
const example = "nats://127.0.0.1:4222";

/**
 * Parses `nats://[user:password@]host[:port][/queue]`, or `tls://` for servers that must use TLS;
 * several are separated by commas. Throws a `ConfigurationError` that shows no credentials.
 */
export function parseNatsAddress(text: string): NatsAddress {
  // Everything up to the last "@" is removed: a password may contain any character, even commas.
  const shown = text
    .trim()
    .replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, "$1")
    .slice(0, 200);
  const refuse = (state: string, remedy: string): never => {
    throw new ConfigurationError(`Cannot use "${shown}" as the address of a queue: ${state}; ${remedy}.`);
  };
  const servers: string[] = [];
  const queues = new Set<string>();
  const users = new Set<string>();
  const schemes = new Set<string>();
  let [user, password] = ["", ""];
  for (const part of text.split(",").map((one) => one.trim())) {
    if (part === "") refuse("an address in it is empty", `write it like ${example}`);
    const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(part)?.[1]?.toLowerCase();
    if (scheme !== "nats" && scheme !== "tls") {
      refuse(scheme === undefined ? "the scheme is missing" : `the scheme is "${scheme}"`, "use nats:// or tls://");
    }
    const url = URL.canParse(part)
      ? new URL(part)
      : refuse("it is not a URL", "write %2C, %2F and %40 for commas, slashes and @ in a password");
    if (url.hostname === "") refuse("it names no host", `write it like ${example}`);
    if (url.search !== "" || url.hash !== "") refuse("it has a query or a fragment", "remove them");
    const queue = url.pathname.replace(/^\//, "").replace(/\/$/, "");
    if (queue !== "" && !/^[A-Za-z0-9_-]{1,64}$/.test(queue)) {
      refuse("the name of its queue has other characters than letters, digits, - and _", `write ${example}/name`);
    }
    if (queue !== "") queues.add(queue);
    if (url.username !== "") {
      users.add(`${url.username}:${url.password}`);
      [user, password] = [decode(url.username), decode(url.password)];
    }
    schemes.add(scheme!);
    servers.push(`${url.hostname}:${url.port === "" ? defaultPort : url.port}`);
  }
  if (queues.size > 1) refuse("it names two queues", "name one");
  if (users.size > 1) refuse("it names two users", "all servers must know the same one");
  if (schemes.size > 1) refuse("some servers have TLS and some have not", "use one scheme");
  const queue = [...queues][0] ?? defaultQueue;
  const isToken = user !== "" && password === "";
  return {
    servers,
    queue,
    isTls: schemes.has("tls"),
    token: isToken ? user : null,
    user: user === "" || isToken ? null : user,
    password: password === "" ? null : password,
    shown: `${[...schemes][0]}://${servers.join(",")}/${queue}`,
    secrets: [user, password].filter((secret) => secret !== ""),
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
