// Environments that run elsewhere, by the scheme of their address. A protocol's folder, and what it needs installed, is loaded
// when its scheme is named.

import type { EnvironmentSource } from "../core/index.ts";
import type { RemoteLimits } from "../environments/remote/index.ts";

/** What a remote environment is told beside its address. */
export type RemoteContext = {
  readonly cwd: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** File with its tasks, as an absolute path; `null`: the service has tasks of its own, or the user forgot them. */
  readonly envTasks: string | null;
  readonly limits: Partial<RemoteLimits>;
  /** The default export of a module that a file of tasks names; paths are absolute. */
  importDefault(file: string, what: string): Promise<unknown>;
};

/** Contacts the service where that is needed to know its tasks. Throws a `ConfigurationError` for what the user can correct. */
type RemoteLoader = (address: string, context: RemoteContext) => Promise<EnvironmentSource>;

const loaders: Readonly<Record<string, RemoteLoader>> = {};

export const remoteSchemes: readonly string[] = Object.keys(loaders);

/** The loader of an address like `mcp:...`, and what follows the scheme; `null`: it is none. */
export function findRemote(env: string): { readonly address: string; readonly load: RemoteLoader } | null {
  const [, scheme = "", address = ""] = /^([a-z]+):(.+)$/s.exec(env) ?? [];
  const load = Object.hasOwn(loaders, scheme) ? loaders[scheme] : undefined;
  return load === undefined ? null : { address: address.trim(), load };
}
