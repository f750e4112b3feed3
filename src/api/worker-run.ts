// A run from the view of one of its workers: prepared from the coordinator's settings, with the
// worker's own shard, its own connections to the engines, and a gate before every engine call.

import { z } from "zod";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { anyNames } from "../lib/any-names.ts";
import { failedStartMs, Opened } from "../lib/opened.ts";
import type { RunState } from "../queue/job-queue.ts";
import type { WorkerRun } from "../rollout/index.ts";
import { createRoutedExpertsFile, createSamplingMasksFile, openShard, type ShardStore } from "../store/index.ts";
import { createEngines } from "./request-engines.ts";
import { prepareRollout, type PrepareOptions } from "./prepare-rollout.ts";
import { resolveSettings } from "./resolve-settings.ts";
import { type RolloutSettings, rolloutSettings } from "./rollout-settings.ts";
import type { Surroundings } from "./surroundings.ts";
import { milliseconds } from "../parts/setting.ts";

/** Content of `RunState.settings`. */
export type WorkerSettings = {
  readonly settings: RolloutSettings;
  /** Folder of the run on the coordinator's machine, absolute. */
  readonly folder: string;
  readonly groups: NonNullable<PrepareOptions["groups"]>;
};

type WorkerPlace = {
  readonly surroundings: Surroundings;
  /** Name of the worker. */
  readonly name: string;
  /** Run folder, below which the worker has its shard. */
  readonly folder: string;
  readonly onNotice: (message: string) => void;
  /**
   * Settings that replace the coordinator's, for addresses and paths on this machine. Default:
   * none.
   */
  readonly mine?: Partial<RolloutSettings>;
};

/** Rejects with a `ConfigurationError` when the run cannot run here. */
export async function openWorkerRun(state: RunState, place: WorkerPlace): Promise<WorkerRun> {
  const opened = new Opened();
  try {
    return await openRunHere(state, place, opened);
  } catch (error) {
    await opened.abandon(failedStartMs);
    throw error;
  }
}

/** `opened` receives the resources that the run opens. */
async function openRunHere(state: RunState, place: WorkerPlace, opened: Opened): Promise<WorkerRun> {
  const { surroundings, name, folder, onNotice } = place;
  const { settings: theirs, groups } = readWorkerSettings(state.settings);
  // A folder of data that the run does not have would be refused as without effect.
  const { data = theirs.data, ...mine } = place.mine ?? {};
  const given = { ...theirs, ...mine, data: theirs.data === null ? null : data };
  const share = { workers: state.workers };
  const prepared = await prepareRollout(given, { ...surroundings, share }, { groups });
  opened.add(() => prepared.close());
  const { settings, environment, redact } = prepared;
  const { gatedEngine, TurnGate } = await import("../service/index.ts");
  const gate = new TurnGate();
  const open = (): Promise<ShardStore> => openShard(folder, name, { redact, fsync: settings.fsync });
  let shard = await open();
  opened.add(() => shard.close());
  const expertsFile = createRoutedExpertsFile(shard.location);
  const masksFile = createSamplingMasksFile(shard.location);
  for (const file of [expertsFile, masksFile]) opened.add(() => file.close());
  const stop = new AbortController();
  // Episodes that an earlier process of this worker recorded as cancelled do not count.
  const journal = {
    record: (...event: Parameters<ShardStore["record"]>) => shard.record(...event),
    recorded: (episodeId: string) => shard.recorded(episodeId),
    kept: async (episodeId: string) => {
      const episode = await shard.kept(episodeId);
      return episode?.outcome === "aborted" ? null : episode;
    },
  };
  const engines = createEngines(prepared, (url) =>
    prepared.connect(stop.signal, journal, {
      ...(url === null ? {} : { url }),
      onNotice: (message) => onNotice(redact(message)),
      expertsFile,
      masksFile,
      onCircuit: ({ server, state: now }) => onNotice(`Notice: ${name}: server ${server} is ${now}.`),
      wrapEngine: (engine) => gatedEngine(engine, gate, { timeoutMs: milliseconds(settings.turnTimeout) }),
    }),
  );
  opened.add(() => {
    stop.abort(new Error("The run has ended."));
    return engines.close();
  });
  // An absent server is a fault of the run, not of the first episode.
  if (groups !== "requested") await engines.connect(null);
  let known: string | null = null;
  return {
    get shard() {
      return shard;
    },
    get callsInFlight() {
      return gate.callsInFlight;
    },
    task: (split, index) => environment.taskset(split).task(index),
    runEpisode: (task, request) => {
      const { engineUrl = null, sampling = prepared.sampling } = request;
      return engines.runner({ engineUrl, sampling })(task, request);
    },
    obey: async ({ phase, weightVersion, workers }) => {
      share.workers = workers;
      if (phase === "paused") gate.close();
      if (weightVersion !== null && weightVersion !== known) {
        known = weightVersion;
        const onFault = (error: unknown): void => onNotice(`Notice: ${name}: ${messageOf(error)}`);
        await engines.reportWeightVersion(weightVersion, onFault);
      }
      if (phase === "running") gate.open();
      else await gate.idle();
    },
    reopen: async () => {
      await shard.close().catch(() => undefined);
      shard = await open();
    },
    close: () => opened.close(),
  };
}

/** Settings from another process, perhaps on another machine. Throws a `ConfigurationError`. */
export function readWorkerSettings(text: string): WorkerSettings {
  try {
    const { settings, groups, folder } = schema.parse(JSON.parse(text));
    const given = Object.entries(settings).filter(
      ([name, value]) => value !== null && Object.hasOwn(rolloutSettings, name),
    );
    return { settings: resolveSettings(Object.fromEntries(given), null), groups, folder };
  } catch (error) {
    throw new ConfigurationError(`Cannot open the run: its settings cannot be read: ${messageOf(error)}`);
  }
}

const schema = z.object({
  settings: anyNames(z.unknown()),
  groups: z.enum(["planned", "evaluated", "requested", "outside"]),
  folder: z.string().min(1).max(4096),
});
