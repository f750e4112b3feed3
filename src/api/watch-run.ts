// Who watches a rollout, out of `--metrics` and `--log-json`: makes the observers and puts them between the run and its
// player and store. A run that nobody watches gets back what it gave.

import { join } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import type { RunEpisode, RolloutParts } from "../rollout/index.ts";
import {
  createRunLog,
  createRunMetrics,
  createRunTraces,
  createTensorboard,
  observeWithAll,
  type CircuitChange,
  type RunGauges,
  type RunObserver,
  serveMetrics,
} from "../telemetry/index.ts";
import type { RolloutSettings } from "./rollout-settings.ts";

export type RunWatch = {
  readonly runEpisode: RunEpisode;
  readonly store: RolloutParts["store"];
  /** Told of every change; cheap when nobody watches. */
  readonly gauges: (gauges: RunGauges) => void;
  readonly circuit: (change: CircuitChange) => void;
  readonly close: () => Promise<void>;
};

export type WatchOptions = {
  /** The run folder; event files go below it. */
  readonly folder: string;
  /** Takes a line for people. */
  readonly note: (text: string) => void;
  /** Takes a line for machines. */
  readonly log: (line: string) => void;
};

type Parts = { readonly runEpisode: RunEpisode; readonly store: RolloutParts["store"] };

/** Starts what the settings name. Throws a `ConfigurationError` for a name nobody knows and a port that is taken. */
export async function watchRun(
  settings: Pick<RolloutSettings, "metrics" | "logJson">,
  parts: Parts,
  options: WatchOptions,
): Promise<RunWatch> {
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
  if (observer === null) return { ...parts, gauges: () => undefined, circuit: () => undefined, close };
  return {
    runEpisode: observedRunner(parts.runEpisode, observer),
    store: {
      append: (episode) => parts.store.append(episode),
      appendGroup: async (decided) => {
        await parts.store.appendGroup(decided);
        observer.group(decided.group);
      },
    },
    gauges: (gauges) => observer.gauges(gauges),
    circuit: (change) => observer.circuit(change),
    close,
  };
}

async function start(name: string, { folder, note }: WatchOptions): Promise<RunObserver> {
  const [kind, port, ...rest] = name.split(":");
  if (kind === "tensorboard" && port === undefined) {
    const place = join(folder, "tensorboard");
    const board = await createTensorboard(place, { onFault: note });
    note(`curves: tensorboard --logdir ${place}`);
    return board;
  }
  if (kind === "traces" && port === undefined) return createRunTraces();
  if (kind === "prometheus" && rest.length === 0 && (port === undefined || /^\d{1,5}$/.test(port))) {
    const metrics = createRunMetrics();
    const server = await serveMetrics(metrics, port === undefined ? {} : { port: Number(port) });
    note(`metrics: ${server.url}`);
    return {
      ...metrics,
      close: async () => {
        await server.close();
        await metrics.close();
      },
    };
  }
  throw new ConfigurationError(
    `Cannot watch the run: --metrics names "${name}", wanted prometheus, prometheus:<port>, tensorboard or traces, with commas between them.`,
  );
}

/** Tells the observer after the event counts. */
export function observedRunner(play: RunEpisode, observer: RunObserver): RunEpisode {
  return (task, place) =>
    play(task, {
      ...place,
      async onEvent(event) {
        await place.onEvent(event);
        observer.event(place.episodeId, event);
      },
      onRecorded(event) {
        place.onRecorded?.(event);
        observer.recorded(place.episodeId, event);
      },
    });
}
