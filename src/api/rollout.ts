// rollout(): runs episodes of an environment in groups, and writes a run folder that a trainer can
// use. It owns the folder's manifest and its end: done, interrupted or failed, the folder records
// it and stays readable.

import { existsSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import type { EngineActivity } from "../core/local-engine.ts";
import type { CircuitStatus } from "../engines/guarded/index.ts";
import { slimeRowLine, toSlimeRow } from "../export/slime.ts";
import { hideSecrets } from "../lib/hidden-parts.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import { Opened } from "../lib/opened.ts";
import { milliseconds } from "../parts/setting.ts";
import type { Coordinator } from "../rollout/index.ts";
import { type RolloutParts, rolloutWarnings, runRollout, type RunTotals } from "../rollout/loop.ts";
import { runFiles } from "../store/writing.ts";
import { templateKwargsOf } from "./choose-model.ts";
import { concurrencyOf } from "./choose-groups.ts";
import { type CallOptions, readOptions, type RolloutSettingOptions, type SettingSources } from "./options.ts";
import type { Surroundings } from "./surroundings.ts";
import { type PreparedRollout, prepareRollout } from "./prepare-rollout.ts";
import { chooseSharing } from "./processes.ts";
import { namesTeacher, type RolloutSettings } from "./rollout-settings.ts";
import { settingsRecord } from "./resolve-settings.ts";
import { openRun } from "./open-run.ts";
import type { RunToResume } from "./run-to-resume.ts";
import type { TracedPolicy } from "../telemetry/index.ts";
import type { RunWatch } from "./watch-run.ts";

/** Events of a rollout, in order. They contain no secrets. */
export type RolloutEvent =
  /**
   * A line for people: a server that the run waits for, a torn line of an earlier run, the address
   * of metrics.
   */
  | { readonly type: "notice"; readonly message: string }
  | { readonly type: "run-start"; readonly run: StartedRun }
  /** A problem of the settings that makes learning harder. */
  | { readonly type: "warning"; readonly message: string }
  /** A server is skipped after several failures in a row, or is used again. */
  | { readonly type: "server-change"; readonly change: CircuitStatus }
  /** An episode started or ended, a turn was sampled, a group was decided. Both functions may be called at any time; `activity` returns `null` unless the engine is in this process and says it. */
  | {
      readonly type: "progress";
      readonly totals: () => RunTotals;
      readonly activity: () => EngineActivity | null;
    }
  /** Everything has ended; the folder is closed next. Absent if the run failed. */
  | { readonly type: "run-end"; readonly totals: RunTotals }
  /** A line for machines (`logJson`). */
  | { readonly type: "log"; readonly line: string };

/** A run whose folder exists and whose first episode is about to start. */
export type StartedRun = {
  /** The path for commands: relative to `cwd`, or as it was given. */
  readonly folder: string;
  readonly environment: string;
  readonly split: string;
  readonly tasks: number;
  readonly groupSize: number;
  /** Name and address for people, such as "engine sglang at http://127.0.0.1:30000". */
  readonly policy: string;
  readonly user: string;
  /** Episodes of earlier processes; `null` for a new run. */
  readonly earlier: { readonly ended: number; readonly inFlight: number } | null;
  /** False for the loop of a preset, which keeps no journal. */
  readonly isResumable: boolean;
  /** The settings, with every open choice decided. */
  readonly settings: RolloutSettings;
};

/**
 * Options of {@link rollout}: the settings of the command `rollout` by their flags' names in camelCase.
 *
 * @example
 * { env: "bookshop", engine: "expert", groupSize: 8, tasks: "0-3", out: "runs/first" }
 */
export type RolloutOptions = RolloutSettingOptions &
  SettingSources &
  CallOptions & {
    /** Receives events synchronously; must be fast and must not throw. @default none */
    readonly onEvent?: (event: RolloutEvent) => void;
  };

/** The result of a rollout. */
export type RolloutResult = {
  /** The path for commands: relative to `cwd`, or as it was given. */
  readonly folder: string;
  /** "complete": the resumed run was already done, so nothing was run. */
  readonly status: "done" | "interrupted" | "complete";
  readonly totals: RunTotals;
  readonly environment: string;
  readonly split: string;
  /** True if the run was interrupted and the options `{ resume: folder }` continue it. */
  readonly isResumable: boolean;
  /** Removes secrets from text that is to be shown. */
  readonly redact: (text: string) => string;
};

/** The public function of this name: `functions.ts`. */
export async function rollout(options: RolloutOptions = {}): Promise<RolloutResult> {
  const { settings, surroundings, resume } = await readOptions(options);
  if (resume?.isComplete === true && resume.totals !== null) {
    const { folder, totals } = resume;
    return {
      folder,
      status: "complete",
      totals,
      environment: settings.env,
      split: settings.split ?? "",
      isResumable: false,
      redact: String,
    };
  }
  return rolloutFrom(settings, surroundings, { ...options, resume });
}

/** The public function of this name: `functions.ts`. */
export async function planRollout(options: RolloutOptions = {}): Promise<PreparedRollout> {
  const { settings, surroundings, resume } = await readOptions(options);
  return prepareRollout(settings, surroundings, { resumes: resume !== null });
}

export type RunControls = Pick<RolloutOptions, "signal" | "drain" | "onEvent"> & {
  /** Default: a new run. */
  readonly resume?: RunToResume | null;
  /** True if its groups are trials, which are not compared. Default: false. */
  readonly isEvaluation?: boolean;
};

const never = new AbortController().signal;

/** Same as {@link rollout}, but takes settings. */
export async function rolloutFrom(
  given: RolloutSettings,
  surroundings: Surroundings,
  { resume = null, isEvaluation = false, signal = never, drain = never, onEvent = () => undefined }: RunControls = {},
): Promise<RolloutResult> {
  const opened = new Opened();
  try {
    const groups = isEvaluation ? "evaluated" : "planned";
    const prepared = await prepareRollout(given, surroundings, { resumes: resume !== null, groups });
    opened.add(() => prepared.close());
    const controls = { resume, groups, signal, drain, onEvent } as const;
    const result = await runPrepared(prepared, { given, surroundings, controls, opened });
    await opened.close();
    return result;
  } catch (error) {
    await opened.abandon(failedRunMs);
    throw error;
  }
}

/** Longest time in which a failed run ends its processes and closes its connections. */
const failedRunMs = 15_000;

type PreparedRun = {
  readonly given: RolloutSettings;
  readonly surroundings: Surroundings;
  readonly controls: Required<Omit<RunControls, "isEvaluation">> & { readonly groups: "evaluated" | "planned" };
  /** Receives the resources that the run opens. */
  readonly opened: Opened;
};

async function runPrepared(
  prepared: PreparedRollout,
  { given, surroundings, controls, opened }: PreparedRun,
): Promise<RolloutResult> {
  const { resume, groups, signal, drain, onEvent } = controls;
  const { plan, environment, preset, redact } = prepared;
  const folder = resume?.folder ?? given.out ?? newFolder(environment.name, surroundings.cwd);
  const settings = { ...prepared.settings, out: folder };
  const facts = { folder, environment: environment.name, split: settings.split ?? "" };
  if (resume !== null) (await import("./run-to-resume.ts")).checkSameSettings(resume, settings);
  const place = resolve(surroundings.cwd, folder);
  const planned = (settings.groups ?? plan.taskIndexes.length) * plan.groupSize;
  const sharing = chooseSharing(settings, surroundings, planned);
  const onNotice = (message: string): void => onEvent({ type: "notice", message });
  const patience = { waitMs: milliseconds(settings.diskWait) };
  const teacher = namesTeacher(settings)
    ? await (
        await import("./score-while.ts")
      ).openTeacherBeside(settings, { model: prepared.model, surroundings, onNotice, opened, drain, signal })
    : null;
  const run = await openRun({
    place,
    resume,
    settings,
    prepared,
    hasShards: sharing !== null,
    patience,
    onNotice,
  });
  const { store, earlier } = run;
  // A stopped run does not wait for its disk.
  opened.add(subscribeToAbort(signal, () => store.disk.giveUp()));
  let watch: RunWatch | null = null;
  const onCircuit = (change: CircuitStatus): void => {
    onEvent({ type: "server-change", change });
    watch?.circuit(change);
  };
  // No episode runs yet that could be finished, so both signals stop the start.
  const stop = AbortSignal.any([drain, signal]);
  const { maxCost } = settings;
  const budget = maxCost === null ? null : (await import("./budget.ts")).createBudget(maxCost, onNotice);
  const expertsFile =
    settings.routedExperts === null
      ? null
      : (await import("../store/index.ts")).createRoutedExpertsFile(place, store.disk);
  const masksFile = settings.samplingMask
    ? (await import("../store/index.ts")).createSamplingMasksFile(place, store.disk)
    : null;
  for (const file of [expertsFile, masksFile]) opened.add(async () => file?.close());
  const connected = await prepared
    .connect(stop, store, { onNotice, onCircuit, expertsFile, masksFile })
    .catch(run.release);
  opened.add(() => connected.close());
  await run.begin(connected);
  try {
    const scoring = await teacher?.begin(place);
    onEvent({
      type: "run-start",
      run: {
        ...facts,
        settings,
        isResumable: preset === null,
        tasks: plan.taskIndexes.length,
        groupSize: plan.groupSize,
        user: prepared.user.name,
        policy: `${prepared.policyTitle} at ${connected.address}`,
        earlier: run.counts,
      },
    });
    for (const { file, bytes } of earlier?.torn ?? []) {
      const size = bytes.toLocaleString("en-US");
      onNotice(`Notice: the last line of "${file}" was cut off (${size} bytes) and is left out.`);
    }
    // Warnings about learning do not apply to a model that cannot be trained.
    const warnings = prepared.model === null ? [] : rolloutWarnings(prepared.sampling, plan.groupSize);
    for (const message of warnings) onEvent({ type: "warning", message });
    const log = (line: string): void => onEvent({ type: "log", line: redact(line) });
    let report = (): void => undefined;
    let workers: Coordinator | null = null;
    if (sharing !== null) {
      const coordinator = await (
        await import("./open-processes.ts")
      ).openProcesses({
        given,
        groups,
        surroundings,
        folder: place,
        sharing,
        run,
        prepared,
        onNotice,
        signal: stop,
        onReport: () => report(),
      });
      workers = coordinator;
      opened.add(() => coordinator.close());
      opened.add(subscribeToAbort(signal, () => void coordinator.stop()));
    }
    const unwatched = { runEpisode: workers?.runEpisode ?? connected.runEpisode, store };
    const isWatched = settings.logJson || settings.metrics !== null;
    const watched = isWatched
      ? await (
          await import("./watch-run.ts")
        ).watchRun(settings, unwatched, {
          folder: place,
          onNotice,
          log,
          variables: surroundings.env,
          metricsAuthorizationEnv: settings.metricsAuthorizationEnv,
          policy: tracedPolicy(settings),
          run: { id: run.id, name: basename(place), configuration: settingsRecord(settings) },
        })
      : null;
    watch = watched;
    const parts = {
      runEpisode: (watched ?? unwatched).runEpisode,
      store: (watched ?? unwatched).store,
      rank: prepared.rank,
      unfinished: workers === null ? undefined : () => workers.unfinished,
      exportSamples: writesSamples(place, prepared) ? exporterFor(prepared) : undefined,
      ...(earlier === null ? {} : { decided: earlier.decided }),
    };
    const activity = (): EngineActivity | null => connected.engine?.activity?.() ?? null;
    let totals: RunTotals;
    try {
      totals = await runRollout(plan, parts, {
        ...prepared.groups,
        drain: AbortSignal.any([drain, ...(budget === null ? [] : [budget.signal])]),
        signal,
        concurrency: concurrencyOf(settings.concurrency, connected.engine),
        onProgress: (current) => {
          report = () => onEvent({ type: "progress", totals: current, activity });
          watched?.progress(current);
          budget?.check(current);
          onEvent({ type: "progress", totals: current, activity });
        },
      });
    } finally {
      await workers?.close();
      await watched?.close();
    }
    onEvent({ type: "run-end", totals });
    const status = stop.aborted || budget?.signal.aborted === true ? "interrupted" : "done";
    if (status === "done" && existsSync(join(place, runFiles.shards))) {
      await (await import("../store/index.ts")).cleanShards(place);
    }
    await run.close({ status, totals });
    await scoring?.finished;
    return { ...facts, status, totals, isResumable: status === "interrupted" && preset === null, redact };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    // The fault that stopped the run is thrown; a second fault while closing the folder adds
    // nothing.
    await run.close({ status: "failed", error: reason }).catch(() => undefined);
    throw error;
  }
}

/** Attributes of the policy under the names that trace viewers know. */
function tracedPolicy({ agentModel, model, engine, temperature, topP, maxNewTokens }: RolloutSettings): TracedPolicy {
  const [provider, ...rest] = (agentModel ?? "").split("/");
  return {
    model: agentModel ?? (model === null ? null : basename(model)),
    provider: agentModel === null ? engine : rest.length > 0 ? (provider ?? null) : "openai",
    sampling: { temperature, topP, maxNewTokens },
  };
}

/**
 * True if the run writes rows: rows of re-encoded text cannot be derived afterwards, and a run that
 * wrote rows before it was killed continues to write them.
 */
function writesSamples(place: string, { settings, preset }: PreparedRollout): boolean {
  return settings.writeSamples || (preset?.allowTextDelta ?? false) || existsSync(join(place, runFiles.samples));
}

/** Rows in the form that is stored beside a kept group. */
export function exporterFor({ model, preset }: PreparedRollout): NonNullable<RolloutParts["exportSamples"]> {
  const options = {
    // Without a model no tokens are decoded.
    decode: (tokens: Uint32Array) => model?.renderer.decode(tokens) ?? "",
    allowTextDelta: preset?.allowTextDelta ?? false,
  };
  return ({ episode, result }, { index, groupIndex }) => {
    const templateKwargs = templateKwargsOf(model?.renderer);
    const origin = { index, groupIndex, episode, sampleCount: result.samples.length, templateKwargs };
    return result.samples.map((sample) => slimeRowLine(toSlimeRow(sample, origin, options)));
  };
}

/** `runs/<time>-<environment>`, with a number if that folder exists. */
export function newFolder(environment: string, cwd: string): string {
  const now = new Date();
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  const time = `${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
  const name = relative(
    cwd,
    resolve(cwd, "runs", `${day}-${time}-${hideSecrets(environment).replaceAll(/[^A-Za-z0-9._-]+/g, "-")}`),
  );
  for (let number = 1; ; number++) {
    const folder = number === 1 ? name : `${name}-${number}`;
    if (!existsSync(resolve(cwd, folder))) return folder;
  }
}
