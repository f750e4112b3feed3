// The folder of a run, for all that write one (a rollout, a service, a gateway): its store, new or
// resumed, and its run.json, which describes the run and, in the end, its result. Nothing is run
// here.

import { randomUUID } from "node:crypto";
import { fromPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import type { RunTotals } from "../rollout/index.ts";
import {
  createFileRunStore,
  type Disk,
  type DiskPatience,
  type FileRunStore,
  type ResumedRun,
  resumeFileRunStore,
} from "../store/writing.ts";
import type { RunFacts } from "../store/index.ts";
import type { ConnectedPolicy } from "./choose-policy.ts";
import type { PreparedRollout } from "./prepare-rollout.ts";
import { settingsJson } from "./resolve-settings.ts";
import type { RolloutSettings, SettingName } from "./rollout-settings.ts";
import type { RunToResume } from "./run-to-resume.ts";
import { packageVersions } from "./surroundings.ts";

type RunToOpen = {
  /** Absolute. */
  readonly place: string;
  /** `null` for a new run. */
  readonly resume: RunToResume | null;
  readonly settings: RolloutSettings;
  readonly prepared: PreparedRollout;
  /** True if episodes may be in shards. @default false */
  readonly hasShards?: boolean;
  /** Settings of the run. @default all of a rollout */
  readonly names?: readonly SettingName[];
  /** Name of the environment in run.json. @default that of the rollout */
  readonly environment?: string;
  /** Time that writes wait for a full disk. */
  readonly patience: DiskPatience;
  /** Receives a line for people: the disk refuses a write, or has room again. */
  readonly onNotice: (message: string) => void;
};

/** The state of a run so far. */
type RunState = {
  readonly status: NonNullable<RunFacts["status"]>;
  readonly totals?: RunTotals;
  readonly error?: string;
};

export type OpenedRun = {
  /** Random id; the same after a resume and in a copy of the folder. */
  readonly id: string;
  /** Number of times that the run was resumed. */
  readonly resumed: number;
  readonly store: FileRunStore;
  /** Records of earlier processes; `null` for a new run. */
  readonly earlier: ResumedRun | null;
  /** Episodes of earlier processes; `null` for a new run. */
  readonly counts: { readonly ended: number; readonly inFlight: number } | null;
  /** Unlocks the folder unchanged, in place of `begin`, and rejects with `error`. */
  release(this: void, error: unknown): Promise<never>;
  /** Writes run.json and acquires the folder. `policy` is the connected policy. */
  begin(policy: Pick<ConnectedPolicy, "address" | "weightVersion">): Promise<void>;
  /** Writes the final state and releases the folder. Call it only after `begin`. */
  close(state: RunState): Promise<void>;
};

/** Reports when the disk refuses writes, and when it accepts them again. */
export function tellDisk(disk: Disk, place: string, onNotice: (message: string) => void): void {
  disk.subscribe(() => {
    const { fault, isFinal } = disk;
    if (fault === null) onNotice(`Notice: "${place}" can be written again; nothing was lost.`);
    else if (!isFinal) onNotice(`Notice: ${fault.message} Running episodes wait for it.`);
  });
}

/** Nothing is changed before `begin`. Throws a `ConfigurationError` for a folder that cannot be resumed. */
export async function openRun({ place, resume, settings, prepared, ...options }: RunToOpen): Promise<OpenedRun> {
  const { patience, onNotice, hasShards = false } = options;
  const taskHashes = hashesOf(prepared);
  if (resume !== null) (await import("./run-to-resume.ts")).checkSameTasks(resume, taskHashes);
  const storing = { redact: prepared.redact, fsync: settings.fsync, hasShards, patience };
  const earlier = resume === null ? null : await resumeFileRunStore(place, storing);
  const store = earlier?.store ?? createFileRunStore(place, storing);
  tellDisk(store.disk, place, onNotice);
  const id = resume?.id ?? randomUUID();
  const resumed = resume === null ? 0 : resume.resumed + 1;
  const { model, plan, environment, agentName } = prepared;
  let facts: Omit<RunFacts, "format" | "sharded"> | null = null;
  const manifest = (): JsonObject => fromPlain(facts) as JsonObject;
  return {
    id,
    resumed,
    store,
    earlier,
    counts: earlier === null ? null : { ended: earlier.ended.size, inFlight: earlier.inFlight.size },
    release: async (error) => {
      await earlier?.release();
      throw error;
    },
    begin: async ({ address, weightVersion }) => {
      facts = {
        id,
        status: "running",
        startedAt: (resume?.begun ?? new Date()).toISOString(),
        finishedAt: null,
        resumed,
        versions: packageVersions(),
        seed: settings.seed,
        environment: {
          name: options.environment ?? environment.name,
          split: settings.split,
          tasks: plan.taskIndexes.length,
          taskHashes: fromPlain(taskHashes) as JsonObject,
        },
        model:
          model === null
            ? null
            : {
                folder: model.folder,
                tokenizer: model.tokenizer.name,
                vocabularySize: model.tokenizer.vocabularySize,
                renderer: model.renderer.family,
                historyPolicy: model.renderer.historyPolicy,
                templateKwargs: model.renderer.templateKwargs ?? new Map(),
                parsers: fromPlain(model.renderer.parsers) as JsonObject,
              },
        engine: settings.engine === null ? null : { name: settings.engine, address, weightVersion },
        agent: agentName === null ? null : { name: settings.agentModel ?? agentName, address },
        user: prepared.user.name,
        configuration: settingsJson(settings, options.names),
        totals: null,
        error: null,
      };
      await store.begin(manifest());
    },
    close: async ({ status, totals, error = null }) => {
      const came = totals === undefined ? null : (fromPlain(totals) as JsonObject);
      facts = { ...facts!, status, finishedAt: new Date().toISOString(), totals: came, error };
      await store.close(manifest());
    },
  };
}

/** Hashes of all splits; none if that of the run does not know its own. */
function hashesOf({ plan, environment }: PreparedRollout): Readonly<Record<string, string>> {
  if (plan.taskset.hash === undefined) return {};
  return Object.fromEntries(
    environment.splits.flatMap((split): [string, string][] => {
      const { hash } = environment.taskset(split);
      return hash === undefined ? [] : [[split, hash]];
    }),
  );
}
