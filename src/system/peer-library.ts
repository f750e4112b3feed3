// Packages that users install beside ours: optional peers, such as the client library of a protocol.
// None of their names is used in a type, and nothing of them is loaded before it is needed.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** A package, as its user sees it. */
export type Peer = {
  readonly name: string;
  /** Its use, as messages say it: "MCP". */
  readonly use: string;
  /** The command that installs it. */
  readonly install: string;
  /** Names of the functions and classes that must be there. */
  readonly parts: readonly string[];
  /** Class of the error that has the message with the remedy. */
  readonly error: new (message: string, options: { readonly cause?: unknown }) => Error;
};

/**
 * Loads the package installed beside ours, or in the folder of the process or above it. Rejects with
 * an `error` if it is missing, does not load, or lacks a part.
 */
export async function loadPeer(
  { name, use, install, parts, error: PeerError }: Peer,
  load: (name: string) => Promise<unknown> = importPeer,
): Promise<Readonly<Record<string, unknown>>> {
  const refuse = (state: string, cause?: unknown): Error =>
    new PeerError(`Cannot use ${use} through the package "${name}": ${state}; run "${install}".`, { cause });
  let loaded: Readonly<Record<string, unknown>>;
  try {
    loaded = (await load(name)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw refuse(isMissing(error) ? "it is not installed" : `it does not load (${reasonOf(error)})`, error);
  }
  const missing = parts.filter((part) => typeof loaded[part] !== "function");
  if (missing.length > 0) throw refuse(`it has no ${missing.join(" and no ")}`);
  return loaded;
}

/** Our own place is not that of the user where npx keeps us in its cache. */
async function importPeer(name: string): Promise<unknown> {
  try {
    return (await import(name)) as unknown;
  } catch (error) {
    if (!isMissing(error)) throw error;
    const found = createRequire(join(process.cwd(), "package.json")).resolve(name);
    return (await import(pathToFileURL(found).href)) as unknown;
  }
}

function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n")[0]!;
}

function isMissing(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : null;
  return code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND";
}
