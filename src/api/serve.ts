// serve(): runs a rollout service with its folder. Engines are connected when requests name them,
// episodes are journalled, and the folder of an earlier service is resumed.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { ConfigurationError, lookIntoEnvironment } from "../core/index.ts";
import { failedStartMs, Opened } from "../lib/opened.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { type ExportContext, exportFormats, exportGroup } from "../export/index.ts";
import { type Coordinator, type DispatchEpisode, WeightHistory } from "../rollout/index.ts";
import type { RolloutService, RowFormat } from "../service/index.ts";
import { type Disk, runFiles } from "../store/index.ts";
import { templateKwargsOf } from "./choose-model.ts";
import { type CloseOptions, closeWithGrace } from "./grace.ts";
import { listenSettings, readListen, withoutListen } from "./listen.ts";
import { openRun } from "./open-run.ts";
import { checkSameSettings, readRunToResume, type RunToResume } from "./run-to-resume.ts";
import { masksSink } from "./choose-masks.ts";
import type { InlineBytes } from "./inline-bytes.ts";
import { expertsSink } from "./choose-policy.ts";
import { createEngines } from "./request-engines.ts";
import { type CallOptions, readOptions, type RolloutSettingOptions, type SettingSources } from "./options.ts";
import { packageVersion, type Surroundings } from "./surroundings.ts";
import { type PreparedRollout, prepareRollout } from "./prepare-rollout.ts";
import { chooseSharing } from "./processes.ts";
import { observedRunner } from "./watch-run.ts";
import {
  type RolloutSettings,
  type SettingName,
  concurrencyBounds,
  groupSettings,
  namesTeacher,
  settingNames,
} from "./rollout-settings.ts";
import { shownTools } from "./export-run.ts";
import { milliseconds, type SettingValues, number, readFlags, section, variable, whole } from "../parts/setting.ts";
import { readKey } from "./secrets.ts";

/** Settings that need a plan, an agent behind an API or a terminal. */
const notServed = [
  ...([
    "tasks",
    "groupSize",
    "agentModel",
    "agentUrl",
    "agentApiKeyEnv",
    "agentAuthorizationEnv",
    "metricsAuthorizationEnv",
    "preset",
    "faultPolicy",
    "metrics",
  ] as const),
  ...(["logJson", "quiet", "recordUsers", "replayUsers", "diskWait"] as const),
  ...(Object.keys(groupSettings) as readonly (keyof typeof groupSettings)[]),
];

/** The settings of a rollout that a service has: requests name the tasks to run. */
export const serveSettingNames: readonly SettingName[] = settingNames.filter(
  (name) => !(notServed as readonly SettingName[]).includes(name),
);

export const serveSettings = {
  ...listenSettings("The service", 8800, "address to listen on for requests"),
  ...section("The service", {
    tokenEnv: variable.help(
      "environment variable with the token that requests must send; required beyond this machine",
    ),
    grace: number("<seconds>", 30, { min: 0, max: 2_000_000 }).help(
      "how long running episodes may take to finish after SIGTERM or Ctrl-C; new requests get 503 meanwhile",
    ),
    maxWaiting: whole(4096, { max: 10_000_000 }).help(
      "maximum number of waiting episodes; further requests are refused with 429",
    ),
  }),
};

/**
 * Options of {@link serve}: the flags of the command `serve` in camelCase.
 *
 * @example
 * { env: "bookshop", listen: "127.0.0.1:0", out: "runs/service" }
 */
export type ServeOptions = Omit<RolloutSettingOptions, (typeof notServed)[number] | "host" | "port"> &
  Partial<SettingValues<typeof serveSettings>> &
  Pick<SettingSources, "config"> &
  Omit<CallOptions, "drain"> & {
    /** Receives notices for people, synchronously. @default none */
    readonly onNotice?: (message: string) => void;
  };

/** A service that accepts requests. */
export type RunningService = {
  readonly url: string;
  readonly environment: string;
  readonly split: string;
  /** Episodes of an earlier process that are resumed; `null` if the folder is new. */
  readonly earlier: { readonly ended: number; readonly inFlight: number } | null;
  /** Producers that a trainer takes batches from. */
  readonly producers: RolloutService["producers"];
  /**
   * Accepts no further requests. With `wait` (default), running episodes are finished, for at most
   * `grace` seconds; the next start resumes the rest.
   */
  close(options?: CloseOptions): Promise<void>;
};

/** The public function of this name: `functions.ts`. */
export async function serve(options: ServeOptions): Promise<RunningService> {
  const { cwd = process.cwd(), variables = process.env, signal, onNotice = () => undefined, out } = options;
  const own = readFlags(serveSettings, options);
  const address = readListen(serveSettings, options);
  const token = readKey(variables, own.tokenEnv, "--token-env");
  if (typeof out !== "string" || out === "") {
    throw new ConfigurationError("Cannot serve: no folder for requests and episodes is named; pass --out <folder>.");
  }
  const folder = resolve(cwd, out);
  const resume = existsSync(join(folder, runFiles.manifest)) ? await readRunToResume(out, cwd) : null;
  const { settings, surroundings } = await readOptions(withoutListen(options), {}, resume);
  const opened = new Opened();
  try {
    const { service, suspend, disk, ...facts } = await openService(settings, surroundings, {
      folder,
      token,
      maxWaiting: own.maxWaiting,
      resume,
      onNotice,
      opened,
      cancel: signal ?? new AbortController().signal,
    });
    const listener = await service.listen(address);
    return {
      ...facts,
      url: listener.url,
      get producers() {
        return service.producers;
      },
      close: closeWithGrace(own.grace, {
        finish: async (ended) => {
          const answered = listener.drain(ended);
          await suspend({ wait: true });
          await service.close({ wait: true });
          await answered;
        },
        end: async () => {
          // Later writes are not worth waiting for.
          disk.giveUp();
          await suspend({ wait: false });
          await service.close({ wait: false });
          await listener.close();
          await opened.close();
        },
      }),
    };
  } catch (error) {
    await opened.abandon(failedStartMs);
    throw error;
  }
}

/** Longest time that a request to pause waits for the calls in flight of other processes. */
const pauseTimeoutMs = 30_000;

type OpenedService = Pick<RunningService, "environment" | "split" | "earlier"> & {
  readonly service: RolloutService;
  readonly disk: Disk;
  /**
   * Called before the service is closed: it keeps the episodes of other processes for the next
   * start.
   */
  readonly suspend: (options: { readonly wait: boolean }) => Promise<void>;
};

type OpenServiceOptions = {
  /** Absolute. */
  readonly folder: string;
  readonly token: string | null;
  readonly maxWaiting: number;
  /** The service that is resumed; `null` for a new one. */
  readonly resume: RunToResume | null;
  /** Ends all waits for an engine. */
  readonly cancel: AbortSignal;
  /** Receives a line for people. */
  readonly onNotice: (message: string) => void;
  /** Receives the resources that the service opens; closing it closes the service as well. */
  readonly opened: Opened;
};

/** Throws a `ConfigurationError` for settings that the user can correct. */
async function openService(
  given: RolloutSettings,
  context: Surroundings,
  { folder, resume, token, maxWaiting, cancel, opened, ...options }: OpenServiceOptions,
): Promise<OpenedService> {
  const prepared = await prepareRollout(given, context, { resumes: resume !== null, groups: "requested" });
  opened.add(() => prepared.close());
  const { environment, redact } = prepared;
  const settings = { ...prepared.settings, out: folder };
  if (resume !== null) checkSameSettings(resume, settings);
  if (prepared.model === null) {
    throw new ConfigurationError(
      "Cannot serve rollouts of an agent behind an API: it has no tokens to train; name --model.",
    );
  }
  const sharing = chooseSharing(settings, context, Infinity);
  // Checked now, because otherwise all episodes of the first request would fail. Other processes
  // keep bytes of turns in folders of their own.
  const checked = { name: settings.engine ?? "sglang", settings, preset: prepared.preset } as const;
  const anyFile = sharing === null ? { write: async () => 0 } : null;
  expertsSink(checked, anyFile);
  masksSink(checked, anyFile);
  const onNotice = (message: string): void => options.onNotice(redact(message));
  const patience = { waitMs: Infinity, waitsForAll: true };
  const hasShards = sharing !== null;
  const teacher = namesTeacher(settings)
    ? await (
        await import("./score-while.ts")
      ).openTeacherBeside(settings, {
        model: prepared.model,
        surroundings: context,
        onNotice,
        opened,
        drain: new AbortController().signal,
        signal: cancel,
      })
    : null;
  const run = await openRun({ place: folder, resume, settings, prepared, hasShards, patience, onNotice });
  const { store, earlier } = run;
  const { createRoutedExpertsFile, createSamplingMasksFile } = await import("../store/index.ts");
  const expertsFile = settings.routedExperts === null ? null : createRoutedExpertsFile(folder, store.disk);
  const masksFile = settings.samplingMask ? createSamplingMasksFile(folder, store.disk) : null;
  for (const file of [expertsFile, masksFile]) opened.add(async () => file?.close());
  const keepsBytes = expertsFile !== null || masksFile !== null;
  const inline = keepsBytes ? (await import("./inline-bytes.ts")).openInlineBytes(folder) : null;
  opened.add(() => inline?.close());
  // Engines are contacted when the first request names them.
  await run.begin({ address: "as requests name it", weightVersion: null });
  // The status is never "done": a service can always be resumed.
  opened.add(() => run.close({ status: "interrupted" }));
  await teacher?.begin(folder);
  const stopping = new AbortController();
  // The HTTP framework and the metrics library are loaded only when a service starts.
  const { createRolloutService, gatedEngine, openRequestLog, TurnGate } = await import("../service/index.ts");
  const { createRunMetrics } = await import("../telemetry/index.ts");
  const metrics = createRunMetrics();
  opened.add(() => metrics.close());
  const gate = new TurnGate();
  const weights = new WeightHistory(null);
  const onFault = (what: string, error: unknown): void =>
    onNotice(`${what}: ${error instanceof Error ? error.message : String(error)}`);
  await prepared.examineTools(onNotice);
  const engines = createEngines(prepared, (url) =>
    prepared.connect(AbortSignal.any([cancel, stopping.signal]), store, {
      ...(url === null ? {} : { url }),
      onNotice,
      onCircuit: (change) => metrics.circuit(change),
      expertsFile,
      masksFile,
      wrapEngine: (engine) => gatedEngine(engine, gate, { timeoutMs: milliseconds(settings.turnTimeout) }),
    }),
  );
  opened.add(() => {
    // Without the abort, closing would wait for engines that are still being connected.
    stopping.abort(new Error("The service is closing."));
    return engines.close();
  });
  let workers: Coordinator | null = null;
  if (sharing !== null) {
    const groups = "requested" as const;
    workers = await (
      await import("./open-processes.ts")
    ).openProcesses({
      given,
      groups,
      surroundings: context,
      folder,
      sharing,
      run,
      prepared,
      onNotice,
      signal: cancel,
    });
  }
  const suspend = async ({ wait }: { readonly wait: boolean }): Promise<void> => {
    if (!wait || !gate.isOpen) await workers?.stop();
  };
  opened.add(async () => workers?.close());
  const { log, earlier: requests } = await openRequestLog(join(folder, "requests.jsonl"), store.disk);
  opened.add(() => log.close());
  const concurrency = concurrencyBounds(settings.concurrency).ceiling;
  const service: RolloutService = createRolloutService(
    {
      environment,
      defaultSplit: settings.split ?? environment.splits[0] ?? "train",
      rank: prepared.rank,
      runner: (policy) => {
        const here = engines.runner(policy);
        const { engineUrl } = policy;
        const sampling = { ...prepared.sampling, ...policy.sampling };
        const runner: DispatchEpisode = (task, { adapter, ...place }) => {
          const bound = adapter === undefined ? sampling : { ...sampling, adapter };
          if (workers === null) return here(task, { ...place, sampling: bound });
          return workers.runEpisode(task, { ...place, engineUrl, sampling: bound });
        };
        return observedRunner(runner, metrics);
      },
      onGate: async (isOpen) => {
        if (isOpen) return workers?.continue();
        await workers?.pause({ timeoutMs: pauseTimeoutMs });
      },
      store: {
        append: async (episode) => {
          await store.append(episode);
          const spans = episode.trajectory.turns.flatMap(({ weightSpans }) => weightSpans);
          metrics.staleness(weights.current - weights.oldest(spans, weights.current));
        },
        appendGroup: async (decided) => {
          await store.appendGroup(decided);
          metrics.group(decided.group);
        },
      },
      adapters: {
        own: settings.adapter,
        use: async (adapter) => engines.useAdapter(adapter),
        unload: async (name) => engines.unloadAdapter(name),
      },
      onWeightVersion: async (version, { isAdapter }) => {
        weights.report(version);
        if (isAdapter) return [];
        await workers?.reportWeightVersion(version);
        return engines.reportWeightVersion(version, (error) =>
          onFault("The weight version of an engine was not read", error),
        );
      },
      onMismatch: (report) => metrics.mismatch(report),
      disk: store.disk,
      archive: { find: (episodeId) => store.kept(episodeId) },
      requests: log,
      gate,
      writeSamples: settings.writeSamples || existsSync(join(folder, runFiles.samples)),
      formats: formatsOf(prepared, inline),
      seed: settings.seed,
      metrics: {
        contentType: metrics.contentType,
        page: () => {
          const { running, waiting } = service.counts;
          metrics.gauges({ runningEpisodes: running, waitingEpisodes: waiting, concurrencyLimit: concurrency });
          return metrics.page();
        },
      },
      onNotice,
      onFault: (error) => onFault("A group was not recorded", error),
    },
    { token, redact, version: packageVersion(), limits: { concurrency, maxWaiting } },
  );
  // Requests that still run must end here, because afterwards no folder is open for their records.
  opened.add(() => service.close({ wait: false }));
  opened.add(() => suspend({ wait: false }));
  await service.restore(requests, { decided: earlier?.decided ?? new Map() });
  return {
    service,
    suspend,
    disk: store.disk,
    environment: environment.name,
    split: settings.split ?? "",
    earlier: run.counts,
  };
}

function formatsOf(
  { model, environment }: PreparedRollout,
  inline: InlineBytes | null,
): ReadonlyMap<string, RowFormat> {
  const bytes = inline === null ? {} : { expertsOf: inline.expertsOf, samplingMaskOf: inline.samplingMaskOf };
  const decode = (tokens: Uint32Array): string => model?.renderer.decode(tokens) ?? "";
  const toolsOf: ExportContext["toolsOf"] = ({ episode }) =>
    shownTools(episode) ??
    lookIntoEnvironment(environment, episode.task, ({ tools }) => dumpJson(tools.map(({ definition }) => definition)));
  return new Map(
    Object.entries(exportFormats).map(([name, format]): [string, RowFormat] => [
      name,
      (ended, groupIndex, { turnRewards }) => {
        const episodes = ended.map((one, index) => ({ ...one, index }));
        const group = { run: null, groupIndex, decision: "kept", reason: null, episodes } as const;
        const kwargs = templateKwargsOf(model?.renderer);
        return exportGroup(group, format, {
          decode,
          toolsOf,
          ...bytes,
          templateKwargsOf: () => kwargs,
          where: () => true,
          turnRewards,
        }).rows;
      },
    ]),
  );
}
