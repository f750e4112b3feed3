// work(): runs a worker for runs that others coordinate, on this machine or another. The queue
// tells it the runs and their settings; its own settings are its keys, and the locations of data,
// model, engines and run folders on this machine.

import { createServer } from "node:http";
import { hostname } from "node:os";
import { basename, join, resolve } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import type { RunState, WorkerQueue, WorkerReport } from "../queue/index.ts";
import { connectNatsWorker, parseNatsAddress } from "../queue/nats/index.ts";
import { runWorker } from "../rollout/index.ts";
import { openRunFolder, runFacts } from "../store/index.ts";
import { chooseQueue } from "./processes.ts";
import type { CallOptions } from "./options.ts";
import { queueSettings, type RolloutSettings } from "./rollout-settings.ts";
import { redactorFor } from "./secrets.ts";
import { readAddress } from "./listen.ts";
import {
  milliseconds,
  folder,
  readFlags,
  seconds,
  section,
  type SettingValues,
  text,
  whole,
} from "../parts/setting.ts";
import { packageVersion } from "./surroundings.ts";
import { openWorkerRun, readWorkerSettings } from "./worker-run.ts";

export const workerSettings = {
  ...queueSettings,
  queue: {
    ...queueSettings.queue,
    help: "broker (nats-server with JetStream) to take jobs from; after the address, the queue name that the run was given; required",
  },
  ...section("The worker", {
    capacity: whole(64, { max: 100_000 }).help("concurrent episodes"),
    dir: text("<folder>", "a folder", "runs").help(
      "folder that contains the coordinator's run folder, on a disk that both can reach",
    ),
    name: text("<name>", "a name", null).help(
      "name of the worker and its files; must be unique among live workers (default: host name and process id)",
    ),
    grace: seconds(25).help(
      "how long running episodes may take to finish when the worker is stopped; the rest returns to the queue",
    ),
    health: text("<host:port>", "an address like 0.0.0.0:8081").help(
      "address that serves /healthz (the worker is alive) and /readyz (it is connected and takes jobs)",
    ),
  }),
  ...section("Locations on this machine, if they differ from the coordinator's", {
    data: folder.help("folder with the environment's data"),
    model: text("<folder>", "a folder").help("folder with the tokenizer and chat template"),
    url: text("<address>", "an address like http://127.0.0.1:30000").help("engine server"),
  }),
};

/**
 * Options of {@link work}: the flags of the command `worker` in camelCase.
 *
 * @example
 * { queue: "nats://127.0.0.1:4222", capacity: 64, dir: "runs" }
 */
export type WorkOptions = Partial<SettingValues<typeof workerSettings>> &
  CallOptions & {
    /** Receives notices for people, synchronously. @default none */
    readonly onNotice?: (message: string) => void;
    /**
     * Called with every report of the worker: the jobs that it holds, and the number of receipts
     * that it has sent. @default none
     */
    readonly onProgress?: (progress: WorkerProgress) => void;
  };

export type WorkerProgress = Pick<WorkerReport, "phase" | "capacity" | "held" | "callsInFlight"> & {
  /** Number of episodes that it has run, stored and reported. */
  readonly done: number;
};

export type WorkResult = {
  readonly name: string;
  /** Number of episodes that it has run, stored and reported. */
  readonly done: number;
};

/** The public function of this name: `functions.ts`. */
export async function work(options: WorkOptions): Promise<WorkResult> {
  const { cwd = process.cwd(), variables: env = process.env, onProgress = () => undefined } = options;
  const settings = readFlags(workerSettings, options);
  const surroundings = { cwd, env };
  const queue = chooseQueue(settings, surroundings);
  if (queue === null) {
    throw new ConfigurationError("Cannot start a worker: no queue is named; pass --queue nats://<host>:4222.");
  }
  const name = settings.name ?? `${hostname()}-${process.pid}`.replaceAll(/[^A-Za-z0-9._-]/g, "-").slice(-100);
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name)) {
    throw new ConfigurationError(
      `Cannot use --name "${name}": it becomes the name of a folder; use letters, digits, ".", "_" and "-", at most 100.`,
    );
  }
  const redact = redactorFor(env, {
    variables: [settings.queueTokenEnv],
    urls: [settings.queue, settings.url],
  });
  const onNotice = (message: string): void => options.onNotice?.(redact(message));
  const stop = new AbortController();
  const end = (): void => stop.abort(options.signal?.reason);
  if (options.signal?.aborted === true) end();
  options.signal?.addEventListener("abort", end, { once: true });
  let graceTimer: NodeJS.Timeout | undefined;
  const startGrace = (): void => {
    graceTimer = setTimeout(
      () => stop.abort(new Error("The time to finish has run out.")),
      milliseconds(settings.grace),
    );
  };
  if (options.drain?.aborted === true) startGrace();
  options.drain?.addEventListener("abort", startGrace, { once: true });

  let done = 0;
  let last: WorkerReport | null = null;
  let isConnected = (): boolean => false;
  const isReady = (): boolean => isConnected() && last?.phase === "working";
  const health = settings.health === null ? null : await serveHealth(settings.health, isReady);
  try {
    const known = { data: settings.data, model: settings.model, url: settings.url };
    await runWorker({
      name,
      version: packageVersion(),
      capacity: settings.capacity,
      onNotice,
      drain: options.drain,
      signal: stop.signal,
      connect: async (handlers) => {
        const connected = await connectNatsWorker(handlers, { ...queue, signal: stop.signal });
        isConnected = () => connected.isConnected;
        const { shown } = parseNatsAddress(queue.address);
        onNotice(`Worker ${name} takes jobs from ${shown}, at most ${settings.capacity} at once.`);
        return observed(connected, {
          onDone: () => void done++,
          onReport: (report) => {
            last = report;
            const { phase, capacity, held, callsInFlight } = report;
            onProgress({ phase, capacity, held, callsInFlight, done });
          },
        });
      },
      openRun: async (state) => {
        const place = join(resolve(cwd, settings.dir), basename(readWorkerSettings(state.settings).folder));
        await checkFolder(place, state);
        const mine: Partial<RolloutSettings> = Object.fromEntries(
          Object.entries(known).filter(([, value]) => value !== null),
        );
        return openWorkerRun(state, { surroundings, name, folder: place, onNotice, mine });
      },
    });
  } finally {
    clearTimeout(graceTimer);
    options.signal?.removeEventListener("abort", end);
    options.drain?.removeEventListener("abort", startGrace);
    await health?.close();
  }
  const { phase, reason } = (last as WorkerReport | null) ?? { phase: "left", reason: null };
  if (phase === "refused") throw new ConfigurationError(redact(reason ?? "Cannot run what the queue has."));
  return { name, done };
}

/** The run folder must be the coordinator's: records that a worker writes elsewhere are never read. */
async function checkFolder(place: string, { runId }: RunState): Promise<void> {
  const read = async (): Promise<string | null> => runFacts(await openRunFolder(place).manifest()).id;
  const id = await read().catch(() => null);
  if (id === runId) return;
  throw new ConfigurationError(
    `Cannot run "${runId}": ${id === null ? "there is no run" : "there is another run"} in "${place}"; pass --dir the folder that holds the coordinator's run folder, on a disk that both reach.`,
  );
}

/** A queue whose receipts and reports are observed. */
function observed(
  queue: WorkerQueue,
  { onDone, onReport }: { readonly onDone: () => void; readonly onReport: (report: WorkerReport) => void },
): WorkerQueue {
  return {
    closed: queue.closed,
    get leaseMs() {
      return queue.leaseMs;
    },
    take: async (...given) => {
      const leases = await queue.take(...given);
      return leases.map((lease) => ({
        job: lease.job,
        delivery: lease.delivery,
        extend: () => lease.extend(),
        done: async (receipt) => {
          await lease.done(receipt);
          onDone();
        },
        giveBack: (reason) => lease.giveBack(reason),
      }));
    },
    report: (report) => {
      onReport(report);
      return queue.report(report);
    },
    close: () => queue.close(),
  };
}

/** Serves health probes: it answers only yes or no, so it needs no token. */
async function serveHealth(listen: string, isReady: () => boolean): Promise<{ close(): Promise<void> }> {
  const { host, port } = readAddress(listen, "--health");
  const server = createServer(({ url }, response) => {
    const status = url === "/healthz" ? 200 : url === "/readyz" ? (isReady() ? 200 : 503) : 404;
    response.writeHead(status, { "content-type": "text/plain" }).end(status === 200 ? "ok\n" : "no\n");
  });
  await new Promise<void>((serving, fail) => {
    server.once("error", (error) =>
      fail(new ConfigurationError(`Cannot use --health "${listen}": ${error.message}; name a free port.`)),
    );
    server.listen(port, host, serving);
  });
  return {
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
