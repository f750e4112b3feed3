// Address on which one of our servers accepts requests: `--listen <host:port>`, or `--host` and
// `--port` separately. The same for every command that serves.

import { ConfigurationError } from "../core/index.ts";
import { httpAddress } from "../lib/address.ts";
import { readFlags, type Setting, section, text, whole } from "../parts/setting.ts";

const localHost = "127.0.0.1";

/** The settings of a server with default port `port`; `what` begins the help of --listen. */
export const listenSettings = (group: string, port: number, what: string): ListenSettings =>
  section(group, {
    listen: text("<host:port>", `an address like ${localHost}:${port}`, `${localHost}:${port}`).help(
      `${what}; port 0 selects a free port`,
    ),
    host: text("<name>", "a name or an address of this machine").help(
      `instead of --listen: name or address to listen on (default: ${localHost})`,
    ),
    port: whole(null, { min: 0, max: 65_535 }).help(
      `instead of --listen: port to listen on, 0 for a free port (default: ${port})`,
    ),
  });

type ListenSettings = {
  /** Host and port to listen on, as in `127.0.0.1:8800`; port 0 for a free port. */
  readonly listen: Setting<string>;
  /** Name or address to listen on, in place of `listen`. */
  readonly host: Setting<string | null>;
  /** Port to listen on, in place of `listen`; 0 for a free port. */
  readonly port: Setting<number | null>;
};
/** Values from flags or from a program. */
type ListenOptions = { readonly [Name in keyof ListenSettings]?: unknown };

export type ListenAddress = { readonly host: string; readonly port: number };

/** The address that options name. Throws a `ConfigurationError`. */
export function readListen({ listen, host, port }: ListenSettings, options: ListenOptions): ListenAddress {
  const given = readFlags({ listen, host, port }, options);
  if (given.host === null && given.port === null) return readAddress(given.listen);
  if (options.listen !== undefined) {
    throw new ConfigurationError(
      "Cannot use --listen with --host or --port: they set the same address; pass --listen <host:port>, or the other two.",
    );
  }
  const usual = readAddress(listen.default);
  // IPv6 addresses are in brackets.
  const named = httpAddress(given.host ?? usual.host, given.port ?? usual.port).slice("http://".length);
  return readAddress(named, "--host");
}

/**
 * The options without those of the same names that locate an engine's server: in these options they
 * mean the server itself.
 */
export function withoutListen<Options extends ListenOptions>({
  listen: _listen,
  host: _host,
  port: _port,
  ...rest
}: Options): Omit<Options, keyof ListenSettings> {
  return rest;
}

/** Parses `127.0.0.1:8800` or `[::1]:8800`, given by `flag`. Throws a `ConfigurationError`. */
export function readAddress(listen: string, flag = "--listen"): ListenAddress {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:\s]+)):(\d{1,5})$/.exec(listen.trim());
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  if (host !== undefined && port <= 65_535) return { host, port };
  throw new ConfigurationError(`Cannot use ${flag} "${listen}": expected an address like 127.0.0.1:8800.`);
}
