// `--processes`: how many a run has, and their coordinator. With one, nothing of this is used.

import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chooseQueue, queueSettings } from "./choose-queue.ts";
import { addressNames } from "./addresses.ts";
import { secretsInText } from "../lib/hidden-parts.ts";
import { ConfigurationError, type Episode } from "../core/index.ts";
import { createProcessPool } from "../queue/index.ts";
import { coordinateNats, type NatsConnectOptions } from "../queue/nats/index.ts";
import { killMarked, markName, newMark } from "../programs/index.ts";
import { Coordinator, type CoordinatorOptions } from "../rollout/index.ts";
import { EpisodeFiles, runFiles, unindexedEpisodes } from "../store/index.ts";
import type { OpenedRun } from "./open-run.ts";
import type { PreparedRollout, PrepareOptions } from "./prepare-rollout.ts";
import { concurrencyBounds, type RolloutSettings } from "./rollout-settings.ts";
import { keyOf } from "./setting.ts";
import { type GivenParts, packageVersion, type Surroundings } from "./surroundings.ts";
import type { WorkerSettings } from "./worker-run.ts";

/** From src/ and from dist/ alike: processes run what was built. */
const program = fileURLToPath(new URL("../../dist/api/worker-process.js", import.meta.url));

/** A process is worth its start from so many episodes on, and so many at once. */
const leastEpisodes = 1024;
const leastAtOnce = 64;

/**
 * Processes that run the episodes; 1: this one, without a queue. "auto": as many as there are cores beside this one's, as far as each
 * has enough to do; never more than one for a model that samples in the process. `episodes`: `Infinity` for a service.
 */
export function processesOf(
  { processes, concurrency, engine }: Pick<RolloutSettings, "processes" | "concurrency" | "engine">,
  episodes: number,
): number {
  if (processes !== "auto") return processes;
  if (engine === "embedded" || engine === "llama-cpp") return 1;
  const { ceiling } = concurrencyBounds(concurrency);
  const busy = Math.min(Math.floor(episodes / leastEpisodes), Math.floor(ceiling / leastAtOnce));
  // The coordinator has a core of its own: on two cores two workers take longer than this process alone.
  return Math.max(1, Math.min(availableParallelism() - 1, busy));
}

/** Whose processes run the episodes of a run: a queue's workers in place of our own, or so many of our own. */
export type Sharing = { readonly queue: NatsConnectOptions | null; readonly processes: number };

/** `null`: this process runs them. `episodes`: as `processesOf`. Throws a `ConfigurationError` for what does not cross into another. */
export function chooseSharing(settings: RolloutSettings, context: Surroundings, episodes: number): Sharing | null {
  const queue = chooseQueue(settings, context);
  const processes = queue === null ? processesOf(settings, episodes) : 1;
  if (queue === null && processes === 1) return null;
  checkProcesses(settings, context.parts);
  return { queue, processes };
}

/** Of a file that one process writes, or a person at this terminal. */
const ofOneProcess = ["preset", "recordUsers", "judgeCache"] as const;

/** Throws a `ConfigurationError` for what does not cross into another process. */
export function checkProcesses(settings: RolloutSettings, parts: GivenParts | undefined): void {
  const value = Object.keys(parts ?? {}).find((name) => name !== "filter" && name !== "ranking");
  if (value !== undefined) {
    throw new ConfigurationError(
      `Cannot run in other processes: option "${value}" is a value of this program, which other processes do not have; name a module ` +
        "or a model instead, or leave processes and queue out.",
    );
  }
  if (settings.queue !== null && settings.processes !== 1) {
    throw new ConfigurationError(
      "Cannot use --queue with --processes: the workers of the queue run the episodes; leave one of both out.",
    );
  }
  const name = ofOneProcess.find((one) => settings[one] !== null) ?? (settings.user === "human" ? "user" : null);
  if (name !== null) {
    throw new ConfigurationError(
      `Cannot use --${keyOf(name)} with ${settings.queue === null ? `--processes ${settings.processes}` : "--queue"}: it belongs to one process; leave one of both out.`,
    );
  }
}

type OpenWorkers = {
  readonly prepared: PreparedRollout;
  readonly run: OpenedRun;
  readonly groups: NonNullable<PrepareOptions["groups"]>;
  readonly given: RolloutSettings;
  readonly surroundings: Surroundings;
  /** Absolute. */
  readonly folder: string;
  readonly sharing: Sharing;
  /** Ends the wait for a broker that is not there. */
  readonly signal: AbortSignal;
} & Pick<CoordinatorOptions, "onNotice" | "onReport">;

/** Starts the processes of a run, or coordinates the workers of a queue. */
export async function openProcesses({
  given,
  groups,
  surroundings: { env, cwd },
  folder,
  sharing: { queue, processes },
  prepared,
  signal,
  run: { store, earlier, id: runId, resumed },
  onNotice: tell,
  ...options
}: OpenWorkers): Promise<Coordinator> {
  // An episode of a group that is compared counts once it was.
  if (earlier !== null && prepared.rank === null) {
    for await (const one of unindexedEpisodes(folder, earlier.ended)) await store.appendIndexed(one);
  }
  const fence = resumed + 1;
  const files = new EpisodeFiles(folder);
  const whole = async (episode: Episode) => ({ episode, result: await prepared.rowsOf(episode) });
  const { ceiling } = concurrencyBounds(given.concurrency);
  const capacity = Math.ceil(ceiling / processes);
  const leaseMs = Math.max(3, given.queueLease) * 1000;
  const settings: WorkerSettings = { settings: queue === null ? given : settingsForQueue(given), groups, folder };
  /** Each process says what is wrong with the run itself; it is shown once. */
  const warned = new Set<string>();
  const onNotice = (message: string): void => {
    const isKnown = warned.has(message);
    if (message.startsWith("Warning: ")) warned.add(message);
    if (!isKnown) tell(message);
  };
  return Coordinator.open({
    ...options,
    onNotice,
    runId,
    fence,
    store,
    stored: async (episodeId) => {
      const episode = await store.kept(episodeId);
      return episode === null ? null : { ...(await whole(episode)), origin: "stored" };
    },
    open: async ({ id, place }) => whole(await files.episode(id, place)),
    onClose: () => files.close(),
    version: packageVersion(),
    settings: JSON.stringify(settings),
    shards: join(folder, runFiles.shards),
    // Of many machines one may be set up wrongly.
    endsOnRefusal: queue === null,
    connect: (handlers, fail) => {
      if (queue !== null)
        return coordinateNats(handlers, {
          ...queue,
          leaseMs,
          maxLeases: ceiling,
          signal,
        });
      return createProcessPool(handlers, {
        processes,
        leaseMs,
        onFault: fail,
        generation: fence,
        start: (name) => {
          const { mark, variable } = newMark();
          const child = fork(program, [name, folder, String(capacity), String(leaseMs)], {
            cwd,
            env: { ...env, [markName]: variable },
            execArgv: [],
            // What a worker says is for people; standard output is this program's.
            stdio: ["ignore", 2, 2, "ipc"],
          });
          // Programs of a worker that was killed.
          child.once("exit", () => killMarked(mark));
          return child;
        },
      });
    },
  });
}

/** As workers on other machines get them: the broker keeps what it is sent, so nothing secret. Throws a `ConfigurationError`. */
function settingsForQueue(given: RolloutSettings): RolloutSettings {
  for (const name of addressNames) {
    const value = given[name];
    if (value === null || name in queueSettings || secretsInText(value).length === 0) continue;
    throw new ConfigurationError(
      `Cannot use --queue with a secret in --${keyOf(name)}: the broker would keep it; name the variable of a key, or of an Authorization header, which each worker has in its environment.`,
    );
  }
  const none = Object.fromEntries(Object.keys(queueSettings).map((name) => [name, null]));
  return { ...given, ...none };
}
