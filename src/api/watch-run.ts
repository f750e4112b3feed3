// The observers of a rollout, from `--metrics` and `--log-json`: creates them and puts them between
// the run, its episodes and its store; and the curves of a training. A run without observers gets
// its own parts back, and loads none of their libraries.

import { join } from "node:path";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { hasHttpCredentials, hideSecrets } from "../lib/hidden-parts.ts";
import { parseBaseUrl } from "../http/base-url.ts";
import type { DispatchEpisode, RolloutParts, RunTotals } from "../rollout/loop.ts";
import type { CircuitChange, CurveRun, CurveSink, RunObserver, TracedPolicy } from "../telemetry/index.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { readKey } from "./secrets.ts";
import type { Surroundings } from "./surroundings.ts";

type Progress = Pick<RunTotals, "episodesPlanned" | "episodesStarted" | "episodesFinished" | "concurrency">;

export type RunWatch = {
  readonly runEpisode: DispatchEpisode;
  readonly store: RolloutParts["store"];
  /** Called at every change. */
  readonly progress: (totals: () => Progress) => void;
  readonly circuit: (change: CircuitChange) => void;
  readonly close: () => Promise<void>;
};

export type CurveWatchOptions = {
  /** The run folder; event files are written below it. */
  readonly folder: string;
  /** Labels of the curves. */
  readonly run: CurveRun;
  /** Variables that hold the keys of servers. */
  readonly variables: Surroundings["env"];
  /** Variable with the value of the `Authorization` header of MLflow or trackio. Default `null`: none. */
  readonly metricsAuthorizationEnv?: string | null;
  /** Receives a line for people. */
  readonly onNotice: (message: string) => void;
};

export type WatchOptions = CurveWatchOptions & {
  /** Labels of the spans of model calls. */
  readonly policy: TracedPolicy;
  /** Receives a line for machines. */
  readonly log: (line: string) => void;
};

type Parts = { readonly runEpisode: DispatchEpisode; readonly store: RolloutParts["store"] };

/**
 * Starts the observers that the settings name. Throws a `ConfigurationError` for an unknown name
 * and a port in use.
 */
export async function watchRun(
  settings: Pick<RolloutSettings, "metrics" | "logJson">,
  parts: Parts,
  options: WatchOptions,
): Promise<RunWatch> {
  const unobserved = { ...parts, progress: () => undefined, circuit: () => undefined, close: () => Promise.resolve() };
  const { createRunLog, observeWithAll } = await import("../telemetry/index.ts");
  const observers: RunObserver[] = [];
  const close = async (): Promise<void> => void (await Promise.all(observers.map((observer) => observer.close())));
  try {
    if (settings.logJson) observers.push(createRunLog({ write: options.log }));
    for (const name of namesOf(settings.metrics)) observers.push(await start(name, options));
  } catch (error) {
    await close();
    throw error;
  }
  const observer = observeWithAll(observers);
  if (observer === null) return unobserved;
  return {
    runEpisode: observedRunner(parts.runEpisode, observer),
    store: {
      append: (episode) => parts.store.append(episode),
      appendGroup: async (decided) => {
        await parts.store.appendGroup(decided);
        observer.group(decided.group);
      },
    },
    progress: (totals) => {
      const { episodesPlanned, episodesStarted, episodesFinished, concurrency } = totals();
      observer.gauges({
        runningEpisodes: episodesStarted - episodesFinished,
        waitingEpisodes: Math.max(0, episodesPlanned - episodesStarted),
        concurrencyLimit: concurrency,
      });
    },
    circuit: (change) => observer.circuit(change),
    close,
  };
}

/**
 * Opens the sink for the points of a training. Throws a `ConfigurationError` for a name that has no
 * curves.
 */
export async function openCurves(metrics: string | null, options: CurveWatchOptions): Promise<CurveSink> {
  const sinks: CurveSink[] = [];
  const close = async (): Promise<void> => void (await Promise.all(sinks.map((sink) => sink.close())));
  try {
    for (const name of namesOf(metrics)) sinks.push((await openSink(name, options)) ?? refuseCurves(name));
  } catch (error) {
    await close();
    throw error;
  }
  return { write: (point) => sinks.forEach((sink) => sink.write(point)), close };
}

/** Refuses settings that do not apply to a training, before anything is created. */
export function checkCurves(settings: Pick<RolloutSettings, "metrics" | "metricsAuthorizationEnv">): void {
  checkMetrics(settings);
  for (const name of namesOf(settings.metrics))
    if (!/^(tensorboard|wandb|mlflow|trackio)\b/.test(name)) refuseCurves(name);
}

function refuseCurves(name: string): never {
  throw new ConfigurationError(
    `Cannot watch a training with --metrics ${hideSecrets(name)}: it has only curves; expected tensorboard, wandb, mlflow:<url> or trackio:<url>, with commas between them.`,
  );
}

function namesOf(metrics: string | null): readonly string[] {
  return metrics?.split(",").map((name) => name.trim()) ?? [];
}

/** Resolves with `null` for a name without curves. */
async function openSink(name: string, options: CurveWatchOptions): Promise<CurveSink | null> {
  const { folder, run, variables, onNotice } = options;
  const telemetry = await import("../telemetry/index.ts");
  const [kind, port] = name.split(":");
  if (kind === "wandb" && port === undefined) {
    const onFile = (place: string): void => onNotice(`curves: wandb sync ${place}`);
    return telemetry.createWandb(join(folder, "wandb"), run, { onFault: onNotice, onFile });
  }
  if (kind === "mlflow" || kind === "trackio") {
    const url = checkMetricServer(name.slice(kind.length + 1), kind);
    const authorization = readKey(variables, options.metricsAuthorizationEnv ?? null, "--metrics-authorization-env");
    const serverOptions = { run, variables, authorization, onFault: onNotice };
    return kind === "mlflow"
      ? telemetry.createMlflow(url, join(folder, "mlflow.json"), serverOptions)
      : telemetry.createTrackio(url, serverOptions);
  }
  if (kind === "tensorboard" && port === undefined) {
    const place = join(folder, "tensorboard");
    const board = await telemetry.createTensorboard(place, { onFault: onNotice });
    onNotice(`curves: tensorboard --logdir ${place}`);
    return board;
  }
  return null;
}

async function start(name: string, options: WatchOptions): Promise<RunObserver> {
  const { createRunMetrics, createRunTraces, observeCurves, serveMetrics } = await import("../telemetry/index.ts");
  const sink = await openSink(name, options);
  if (sink !== null) return observeCurves(sink);
  const { policy, onNotice } = options;
  const [kind, port, ...rest] = name.split(":");
  if (kind === "traces" && (port === undefined || port === "messages") && rest.length === 0) {
    return createRunTraces({ policy, holdsMessages: port === "messages" });
  }
  if (kind === "prometheus" && rest.length === 0 && (port === undefined || /^\d{1,5}$/.test(port))) {
    const metrics = createRunMetrics();
    const server = await serveMetrics(metrics, port === undefined ? {} : { port: Number(port) });
    onNotice(`metrics: ${server.url}`);
    return {
      ...metrics,
      close: async () => {
        await server.close();
        await metrics.close();
      },
    };
  }
  throw new ConfigurationError(
    `Cannot watch the run: --metrics names "${hideSecrets(name)}", expected prometheus, prometheus:<port>, tensorboard, wandb, mlflow:<url>, trackio:<url>, traces or traces:messages, separated by commas.`,
  );
}

/**
 * Refuses unusable addresses, and a header that no server or two servers would get, before settings
 * are recorded.
 */
export function checkMetrics(settings: Pick<RolloutSettings, "metrics" | "metricsAuthorizationEnv">): void {
  const servers = namesOf(settings.metrics).flatMap((name) => {
    const [, kind, address = ""] = /^(mlflow|trackio):(.*)$/.exec(name) ?? [];
    if (kind !== "mlflow" && kind !== "trackio") return [];
    return [checkMetricServer(address, kind)];
  });
  if (settings.metricsAuthorizationEnv === null || servers.length === 1) return;
  throw new ConfigurationError(
    `Cannot use --metrics-authorization-env: --metrics names ${servers.length} servers of MLflow and trackio, but the header is for one; name one server.`,
  );
}

/** Checks an address and returns it in the form that is used. */
function checkMetricServer(address: string, kind: "mlflow" | "trackio"): string {
  const what = kind === "mlflow" ? "MLflow server" : "trackio server";
  const keys = {
    mlflow: "MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
    trackio: "TRACKIO_WRITE_TOKEN",
  };
  try {
    parseBaseUrl(address, { what, setting: "--metrics-authorization-env" });
  } catch (error) {
    if (!hasHttpCredentials(address)) throw error;
    throw new ConfigurationError(`${messageOf(error).replace(/\.$/, "")}; or export ${keys[kind]}.`, { cause: error });
  }
  return address;
}

/**
 * The observer receives an event after it was recorded; for an episode that ran in another process,
 * it receives only the end.
 */
export function observedRunner(runEpisode: DispatchEpisode, observer: RunObserver): DispatchEpisode {
  return async (task, place) => {
    const { episodeId } = place;
    const finished = await runEpisode(task, {
      ...place,
      async onEvent(event) {
        await place.onEvent(event);
        observer.event(episodeId, event);
      },
      onRecorded(event) {
        place.onRecorded?.(event);
        observer.recorded(episodeId, event);
      },
    });
    if (finished !== null && "summary" in finished && finished.counts !== null) {
      const { stopReason, failure } = finished.summary;
      observer.event(episodeId, { type: "episode-start", episodeId, taskId: task.id, seed: place.seed });
      observer.event(episodeId, { type: "episode-end", stopReason, failure });
    }
    return finished;
  };
}
