// Settings that clients requested and the gateway ignored, counted by name so that the user
// notices.

import type { GatewayRequest } from "./request.ts";

export type UnusedCounters = {
  /** Number of uses of each ignored sampling parameter, by name. */
  readonly ignoredSampling: Readonly<Record<string, number>>;
  /** Number of uses of each other field without effect, by name. */
  readonly ignoredFields: Readonly<Record<string, number>>;
  /** Number of tools that only their provider can run. */
  readonly ignoredTools: number;
};

/**
 * Maximum number of different names: a client that invents names must not fill the memory, nor the
 * record.
 */
const maxNames = 256;
const maxRecorded = 64;
const longestName = 80;

/** Names of one request in the form for the record. */
export function unusedNames(names: readonly string[]): readonly string[] {
  return names.slice(0, maxRecorded).map((name) => name.slice(0, longestName));
}

export class UnusedFields {
  readonly #sampling = new Map<string, number>();
  readonly #fields = new Map<string, number>();
  #tools = 0;

  get counters(): UnusedCounters {
    return {
      ignoredSampling: Object.fromEntries(this.#sampling),
      ignoredFields: Object.fromEntries(this.#fields),
      ignoredTools: this.#tools,
    };
  }

  count({ ignoredFields, ignoredTools }: GatewayRequest, sampling: readonly string[]): void {
    for (const name of sampling) add(this.#sampling, name);
    for (const name of ignoredFields) add(this.#fields, name);
    this.#tools += ignoredTools;
  }
}

function add(counts: Map<string, number>, name: string): void {
  const short = name.slice(0, longestName);
  const key = counts.has(short) || counts.size < maxNames ? short : "others";
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
