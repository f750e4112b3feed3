// LoRA adapters of a service: the one under which new groups begin, for each training, and the open
// groups of each. A group keeps its adapter to its end, so none mixes two. An adapter that a
// trainer gives up is unloaded once its last group has ended.

import { AttributedError, ConfigurationError } from "../core/index.ts";
import { ServiceError } from "./service-error.ts";
import type { ServiceParts } from "./service-options.ts";

export class Adapters {
  /** Keys are trainings; `null` for requests and producers without one. */
  readonly #current = new Map<string | null, string>();
  readonly #groups = new Map<string, Set<string>>();
  readonly #leaving = new Set<string>();
  readonly #unload: (name: string) => Promise<void>;
  readonly #onFault: (error: unknown) => void;

  /** `unload` unloads an adapter from all servers; `onFault` receives its errors. */
  constructor(unload: (name: string) => Promise<void>, onFault: (error: unknown) => void) {
    this.#unload = unload;
    this.#onFault = onFault;
  }

  /** Adapter of groups that begin now; `null` for the engine's own. */
  of(training: string | null): string | null {
    return this.#current.get(training) ?? null;
  }

  use(training: string | null, name: string): void {
    this.#leaving.delete(name);
    this.#current.set(training, name);
  }

  /** Registers an open group. */
  hold(name: string | null, groupId: string): void {
    if (name === null) return;
    const groups = this.#groups.get(name) ?? new Set();
    this.#groups.set(name, groups.add(groupId));
  }

  /** Call it when the group has ended; again changes nothing. */
  release(name: string | null, groupId: string): void {
    if (name === null) return;
    const groups = this.#groups.get(name);
    if (groups?.delete(groupId) !== true || groups.size > 0) return;
    this.#groups.delete(name);
    if (this.#leaving.delete(name)) this.#unload(name).catch(this.#onFault);
  }

  /** Throws a `ServiceError` for an adapter under which groups still begin. */
  checkUnload(names: readonly string[], next: { readonly training: string | null; readonly name: string }): void {
    const current = new Map(this.#current).set(next.training, next.name);
    const used = names.find((name) => [...current.values()].includes(name));
    if (used === undefined) return;
    throw new ServiceError(
      "bad-request",
      `Cannot unload adapter ${JSON.stringify(used)}: groups still begin under it; report another version first.`,
    );
  }

  /** Unloads adapters: at once, or when the last group of each has ended. */
  async unload(names: readonly string[]): Promise<void> {
    for (const name of names) {
      if (this.#groups.has(name)) this.#leaving.add(name);
      else await this.#unload(name);
    }
  }
}

/**
 * Loads and checks the adapter of a report. Throws a `ServiceError`, and then the service goes on
 * with the adapter that it has. `adapter`: `null` if the report is of weights.
 */
export async function useAdapter(
  { parts, adapters }: { readonly parts: Pick<ServiceParts, "adapters">; readonly adapters: Adapters },
  report: {
    readonly version: string;
    readonly training: string | null;
    readonly adapter: {
      readonly path?: string | null | undefined;
      readonly unload?: readonly string[] | null | undefined;
    } | null;
  },
): Promise<void> {
  const { version: name, training, adapter } = report;
  const servers = parts.adapters ?? null;
  const current = adapters.of(training) ?? servers?.own ?? null;
  if (adapter === null) {
    if (current === null) return;
    throw new ServiceError(
      "bad-request",
      `Cannot report weights: groups begin under adapter ${JSON.stringify(current)}, whose versions are names of adapters; send "adapter": {} to begin under adapter ${JSON.stringify(name)}.`,
    );
  }
  if (servers === null) {
    throw new ServiceError(
      "bad-request",
      "Cannot use an adapter: the engine of this service has none; start it with SGLang or vLLM.",
    );
  }
  adapters.checkUnload(adapter.unload ?? [], { training, name });
  try {
    await servers.use({ name, path: adapter.path ?? null });
  } catch (error) {
    if (error instanceof ConfigurationError) throw new ServiceError("bad-request", error.message);
    if (error instanceof AttributedError) throw new ServiceError("engine-failed", error.message);
    throw error;
  }
}
