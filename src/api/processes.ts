// `--processes` and `--queue`: the processes that run the episodes, here or as workers of a broker on
// other machines. `open-processes.ts` opens them.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { parseNatsAddress } from "../queue/nats/nats-address.ts";
import { keyOf, type SettingValues } from "../parts/setting.ts";
import { readKey } from "./secrets.ts";
import type { Surroundings, GivenParts } from "./surroundings.ts";
import { availableParallelism } from "node:os";
import { ConfigurationError } from "../core/index.ts";
import type { NatsConnectOptions } from "../queue/nats/index.ts";
import { engineRow } from "./engines.ts";
import { concurrencyBounds, queueSettings, type RolloutSettings } from "./rollout-settings.ts";

/** Least numbers of episodes, in total and concurrent, for which starting another process pays off. */
const leastEpisodes = 1024;
const leastAtOnce = 64;

/**
 * Number of processes that run the episodes; 1 means only this process, without a queue. "auto"
 * takes one for each core besides this process's, if each has enough work, but never more than one
 * for a model that samples in the process. `episodes`: `Infinity` for a service.
 */
export function processesOf(
  { processes, concurrency, engine }: Pick<RolloutSettings, "processes" | "concurrency" | "engine">,
  episodes: number,
): number {
  if (processes !== "auto") return processes;
  const row = engineRow(engine);
  if (row?.type === "local" && row.samplesHere) return 1;
  const { ceiling } = concurrencyBounds(concurrency);
  const busy = Math.min(Math.floor(episodes / leastEpisodes), Math.floor(ceiling / leastAtOnce));
  // The coordinator needs a core of its own: on two cores, two workers are slower than a single
  // process.
  return Math.max(1, Math.min(availableParallelism() - 1, busy));
}

/** Processes that run the episodes of a run: workers of a queue, or a number of our own. */
export type Sharing = { readonly queue: NatsConnectOptions | null; readonly processes: number };

/**
 * Returns `null` if this process runs them. `episodes`: as for `processesOf`. Throws a
 * `ConfigurationError` for settings that other processes cannot use.
 */
export function chooseSharing(settings: RolloutSettings, context: Surroundings, episodes: number): Sharing | null {
  const queue = chooseQueue(settings, context);
  const processes = queue === null ? processesOf(settings, episodes) : 1;
  if (queue === null && processes === 1) return null;
  checkProcesses(settings, context.parts);
  return { queue, processes };
}

/**
 * Settings that require a single process: a file that only one process writes, or a person at this
 * terminal.
 */
const ofOneProcess = ["preset", "recordUsers", "judgeCache"] as const;

/** Throws a `ConfigurationError` for settings and values that other processes cannot use. */
export function checkProcesses(settings: RolloutSettings, parts: GivenParts | undefined): void {
  const value = Object.keys(parts ?? {}).find((name) => name !== "filter" && name !== "ranking");
  if (value !== undefined) {
    throw new ConfigurationError(
      `Cannot run in other processes: option "${value}" is a value of this program, which other processes do not have; name a module ` +
        "or a model instead, or remove processes and queue.",
    );
  }
  if (settings.queue !== null && settings.processes !== 1) {
    throw new ConfigurationError(
      "Cannot use --queue with --processes: the workers of the queue run the episodes; remove one of them.",
    );
  }
  const name = ofOneProcess.find((one) => settings[one] !== null) ?? (settings.user === "human" ? "user" : null);
  if (name !== null) {
    throw new ConfigurationError(
      `Cannot use --${keyOf(name)} with ${settings.queue === null ? `--processes ${settings.processes}` : "--queue"}: it belongs to one process; remove one of them.`,
    );
  }
}

type QueueValues = SettingValues<typeof queueSettings>;

/** Connection options of the queue; `null` if no queue is named. Throws a `ConfigurationError`. */
export function chooseQueue(values: QueueValues, { cwd, env }: Surroundings): NatsConnectOptions | null {
  const { queue, queueTokenEnv, queueCert, queueKey } = values;
  if (queue === null) {
    const beside = (Object.keys(queueSettings) as (keyof QueueValues)[]).find((name) => values[name] !== null);
    if (beside === undefined) return null;
    throw new ConfigurationError(`Cannot use --${keyOf(beside)}: no queue is named; add --queue.`);
  }
  parseNatsAddress(queue);
  if ((queueCert === null) !== (queueKey === null)) {
    throw new ConfigurationError(
      "Cannot use only one of --queue-cert and --queue-key: they belong together; pass both.",
    );
  }
  const pathOf = (name: keyof QueueValues): string | null => {
    const given = values[name];
    const path = given === null ? null : resolve(cwd, given);
    if (path === null || existsSync(path)) return path;
    throw new ConfigurationError(`Cannot read --${keyOf(name)} "${given}": there is no such file; correct its path.`);
  };
  return {
    address: queue,
    secret: readKey(env, queueTokenEnv, "--queue-token-env"),
    credentials: pathOf("queueCredentials"),
    tls: { ca: pathOf("queueCa"), cert: pathOf("queueCert"), key: pathOf("queueKey") },
  };
}
