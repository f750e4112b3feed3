// The processes that share the episodes of a run, and their coordinator. A run of one process uses
// none of this.

import { fork } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ConfigurationError, type Episode } from "../core/index.ts";
import { secretsInText } from "../lib/hidden-parts.ts";
import { killMarked, markName, newMark } from "../programs/index.ts";
import { createProcessPool } from "../queue/index.ts";
import { coordinateNats } from "../queue/nats/index.ts";
import { Coordinator, type CoordinatorOptions } from "../rollout/index.ts";
import { EpisodeFiles, runFiles, unindexedEpisodes } from "../store/index.ts";
import { addressNames } from "./resolve-settings.ts";
import type { Sharing } from "./processes.ts";
import type { OpenedRun } from "./open-run.ts";
import type { PreparedRollout, PrepareOptions } from "./prepare-rollout.ts";
import { concurrencyBounds, queueSettings, type RolloutSettings } from "./rollout-settings.ts";
import { milliseconds, keyOf } from "../parts/setting.ts";
import { packageVersion, type Surroundings } from "./surroundings.ts";
import type { WorkerSettings } from "./worker-run.ts";

/** The same path from src/ and from dist/: processes always run the built program. */
const program = fileURLToPath(new URL("../../dist/api/worker-process.js", import.meta.url));

type OpenWorkers = {
  readonly prepared: PreparedRollout;
  readonly run: OpenedRun;
  readonly groups: NonNullable<PrepareOptions["groups"]>;
  readonly given: RolloutSettings;
  readonly surroundings: Surroundings;
  /** Absolute. */
  readonly folder: string;
  readonly sharing: Sharing;
  /** Ends the wait for an absent broker. */
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
  // An episode counts only after its group was compared, if the run ranks groups.
  if (earlier !== null && prepared.rank === null) {
    for await (const one of unindexedEpisodes(folder, earlier.ended)) await store.appendIndexed(one);
  }
  const fence = resumed + 1;
  const files = new EpisodeFiles(folder);
  const whole = async (episode: Episode) => ({ episode, result: await prepared.rowsOf(episode) });
  const { ceiling } = concurrencyBounds(given.concurrency);
  const capacity = Math.ceil(ceiling / processes);
  const leaseMs = milliseconds(Math.max(3, given.queueLease));
  const settings: WorkerSettings = { settings: queue === null ? given : settingsForQueue(given), groups, folder };
  /** Every process reports problems of the run itself; each is shown once. */
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
    // One of many machines on a queue may be misconfigured, so a refusal does not end the run
    // there.
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
            // Output of a worker is for people, so it goes to standard error; standard output
            // belongs to this program.
            stdio: ["ignore", 2, 2, "ipc"],
          });
          // Ends the programs of a killed worker.
          child.once("exit", () => killMarked(mark));
          return child;
        },
      });
    },
  });
}

/**
 * Settings for workers on other machines: without secrets, because the broker keeps all messages.
 * Throws a `ConfigurationError`.
 */
function settingsForQueue(given: RolloutSettings): RolloutSettings {
  for (const name of addressNames) {
    const value = given[name];
    if (value === null || name in queueSettings || secretsInText(value).length === 0) continue;
    throw new ConfigurationError(
      `Cannot use --queue with a secret in --${keyOf(name)}: the broker would store it; name the variable of a key, or of an Authorization header, that each worker has in its environment.`,
    );
  }
  const none = Object.fromEntries(Object.keys(queueSettings).map((name) => [name, null]));
  return { ...given, ...none };
}
