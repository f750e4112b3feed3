// The observers of a rollout, from `--metrics` and `--log-json`: makes them and puts them between the run, its episodes and its
// store. A run without any gets back what it gave, and loads none of their libraries.

import { join } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import type { DispatchEpisode, RolloutParts, RunTotals } from "../rollout/index.ts";
import type { CircuitChange, CurveRun, RunObserver, TracedPolicy } from "../telemetry/index.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
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

export type WatchOptions = {
  /** The run folder; event files go below it. */
  readonly folder: string;
  /** What curves are labelled with. */
  readonly run: CurveRun;
  /** What spans of model calls are labelled with. */
  readonly policy: TracedPolicy;
  /** Where keys of servers are. */
  readonly variables: Surroundings["env"];
  /** Takes a line for people. */
  readonly onNotice: (message: string) => void;
  /** Takes a line for machines. */
  readonly log: (line: string) => void;
};

type Parts = { readonly runEpisode: DispatchEpisode; readonly store: RolloutParts["store"] };

/** Starts what the settings name. Throws a `ConfigurationError` for an unknown name and a port that is taken. */
export async function watchRun(
  settings: Pick<RolloutSettings, "metrics" | "logJson">,
  parts: Parts,
  options: WatchOptions,
): Promise<RunWatch> {
  const unobserved = { ...parts, progress: () => undefined, circuit: () => undefined, close: () => Promise.resolve() };
  if (!settings.logJson && settings.metrics === null) return unobserved;
  const { createRunLog, observeWithAll } = await import("../telemetry/index.ts");
  const observers: RunObserver[] = [];
  const close = async (): Promise<void> => void (await Promise.all(observers.map((observer) => observer.close())));
  try {
    if (settings.logJson) observers.push(createRunLog({ write: options.log }));
    for (const name of settings.metrics?.split(",") ?? []) observers.push(await start(name.trim(), options));
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

async function start(name: string, { folder, run, policy, variables, onNotice }: WatchOptions): Promise<RunObserver> {
  const telemetry = await import("../telemetry/index.ts");
  const { createRunMetrics, createRunTraces, createTensorboard, serveMetrics } = telemetry;
  const [kind, port, ...rest] = name.split(":");
  if (kind === "wandb" && port === undefined) {
    const onFile = (place: string): void => onNotice(`curves: wandb sync ${place}`);
    return telemetry.createWandb(join(folder, "wandb"), run, { onFault: onNotice, onFile });
  }
  if (kind === "mlflow" || kind === "trackio") {
    const url = checkMetricServer(name.slice(kind.length + 1), kind);
    const options = { run, variables, onFault: onNotice };
    return kind === "mlflow"
      ? telemetry.createMlflow(url, join(folder, "mlflow.json"), options)
      : telemetry.createTrackio(url, options);
  }
  if (kind === "tensorboard" && port === undefined) {
    const place = join(folder, "tensorboard");
    const board = await createTensorboard(place, { onFault: onNotice });
    onNotice(`curves: tensorboard --logdir ${place}`);
    return board;
  }
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
    `Cannot watch the run: --metrics names "${name}", expected prometheus, prometheus:<port>, tensorboard, wandb, mlflow:<url>, trackio:<url>, traces or traces:messages, with commas between them.`,
  );
}

/** Refuses addresses with a key before settings are written into a run folder. */
export function checkMetrics({ metrics }: Pick<RolloutSettings, "metrics">): void {
  for (const name of metrics?.split(",") ?? []) {
    const [, kind, address = ""] = /^(mlflow|trackio):(.*)$/.exec(name.trim()) ?? [];
    if (kind === "mlflow" || kind === "trackio") checkMetricServer(address, kind);
  }
}

/** The address as it is used. */
function checkMetricServer(address: string, kind: "mlflow" | "trackio"): string {
  const keys = {
    mlflow: "MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD",
    trackio: "TRACKIO_WRITE_TOKEN",
  };
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ConfigurationError(
      `Cannot watch the run: "${kind}:" is followed by no address; write --metrics ${kind}:http://127.0.0.1:5000.`,
    );
  }
  if (url.username !== "" || url.password !== "" || url.search !== "") {
    throw new ConfigurationError(
      `Cannot watch the run: a key does not belong into the address of ${kind}; leave it out and export ${keys[kind]}.`,
    );
  }
  return url.href.replace(/\/+$/, "");
}

/** The observer receives an event after it counts; of an episode that ran in another process, how it ended. */
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
