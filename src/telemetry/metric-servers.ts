// Sends curves to a server of MLflow or trackio over its REST interface, asynchronously: points
// wait while the server is down and are sent when it is back; at the end of a run, points that were
// not accepted are dropped, and their number is reported. All quirks of these servers are handled
// here.

import { readFile, rename, writeFile } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { createHttpPool, createRedactor, parseBaseUrl } from "../http/index.ts";
import type { CurvePoint, CurveRun, CurveSink, CurveSinkOptions } from "./curves.ts";

export type MetricServerOptions = CurveSinkOptions & {
  readonly run: CurveRun;
  /** Keys: MLFLOW_TRACKING_TOKEN (or _USERNAME and _PASSWORD), TRACKIO_WRITE_TOKEN. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Value of the `Authorization` header, instead of those keys. Default `null`: none. */
  readonly authorization?: string | null;
  /**
   * Time limit in milliseconds of one request, and of sending the remaining points at the end.
   * Default: 10 seconds.
   */
  readonly timeoutMs?: number;
};

/**
 * Maximum number of points that wait for a server; the oldest are dropped first. At one per 16
 * episodes, these are 160,000 episodes.
 */
const mostWaiting = 10_000;
const longestPauseMs = 30_000;

/** A server refused the request, with its own message. */
class Refused extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(`status ${status}: ${text.slice(0, 300)}`);
    this.status = status;
  }
}

type Post = (path: string, body: object | null) => Promise<unknown>;

/** A metric server and the functions to call it. */
type Server = { readonly shown: string; readonly post: Post; readonly close: () => Promise<void> };

/** Throws a `ConfigurationError` for an invalid address. */
function connect(
  url: string,
  parts: {
    readonly what: string;
    readonly authorization: string | null;
    readonly headers: Readonly<Record<string, string>>;
    readonly timeoutMs: number;
  },
): Server {
  const { what, authorization, timeoutMs } = parts;
  const base = parseBaseUrl(url, { what, authorization, setting: "--metrics-authorization-env" });
  const headers = { "content-type": "application/json", ...parts.headers };
  const redact = createRedactor([...base.secrets, ...Object.values(parts.headers)]);
  const http = createHttpPool({ boundary: "store", connections: 2 });
  return {
    shown: base.origin + base.path,
    close: () => http.close(),
    post: async (path, body) => {
      const method = body === null ? "GET" : "POST";
      const request = { base, method, path, headers, body: body === null ? null : JSON.stringify(body) } as const;
      const { status, body: bytes } = await http.request(request, { timeoutMs, maxBytes: mostAnswerBytes });
      const text = bytes.toString("utf8");
      if (status < 200 || status > 299) throw new Refused(status, redact(text));
      return text === "" ? {} : (JSON.parse(text) as unknown);
    },
  };
}

/** An MLflow run lists all its metrics, so its answers are long. */
const mostAnswerBytes = 16 * 1024 * 1024;

/**
 * Sends points one batch at a time. `send` may be called again with points whose arrival is
 * unknown; it rejects with `Refused` if a retry would not help.
 */
function sinkOf(
  title: string,
  parts: {
    readonly send: (points: readonly CurvePoint[]) => Promise<void>;
    readonly end: () => Promise<void>;
    readonly close: () => Promise<void>;
  },
  { onFault, timeoutMs = 10_000 }: MetricServerOptions,
): CurveSink {
  const waiting: CurvePoint[] = [];
  const closing = new AbortController();
  let isDown = false;
  let dropped = 0;
  let running: Promise<void> | null = null;
  const reasonOf = (error: unknown): string => {
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
    return `${error instanceof Error ? error.message : String(error)}${cause}`;
  };
  async function drain(): Promise<void> {
    let pauseMs = 1000;
    while (waiting.length > 0) {
      const batch = waiting.slice(0, 50);
      try {
        await parts.send(batch);
        waiting.splice(0, batch.length);
        if (isDown) onFault?.(`${title} accepts points again.`);
        [isDown, pauseMs] = [false, 1000];
      } catch (error) {
        if (!isDown)
          onFault?.(
            `${title} takes no points (${reasonOf(error)}); the run continues, and they are sent when it does.`,
          );
        isDown = true;
        if (closing.signal.aborted) return;
        await wait(pauseMs, undefined, { signal: closing.signal }).catch(() => undefined);
        pauseMs = Math.min(longestPauseMs, pauseMs * 2);
      }
    }
  }
  return {
    write(point) {
      waiting.push(point);
      if (waiting.length > mostWaiting) {
        waiting.shift();
        dropped++;
      }
      running ??= drain().finally(() => (running = null));
    },
    async close() {
      // A pause ends at once; each request has its own time limit.
      closing.abort();
      await Promise.race([running, wait(timeoutMs, undefined, { ref: false })]);
      if (waiting.length > 0) await Promise.race([drain(), wait(timeoutMs, undefined, { ref: false })]);
      const lost = waiting.length + dropped;
      if (lost > 0) onFault?.(`${title} has not taken ${lost} points of the curves; they are lost.`);
      else
        await parts
          .end()
          .catch((error: unknown) => onFault?.(`${title} was not notified of the end: ${reasonOf(error)}.`));
      await parts.close();
    },
  };
}

/** MLflow accepts only letters, digits and `_-. :/`. */
export function mlflowName(name: string): string {
  return name
    .replaceAll("^", "_hat_")
    .replaceAll(/[^\w\-. :/]/g, "_")
    .slice(0, 250);
}

/**
 * A sink that writes an MLflow run, in experiment `trainable-agents`. `memory` is a file that
 * stores the id of the MLflow run, so that a resumed run continues its curves. MLflow stores a
 * repeated step twice, so its stored steps are read before anything is sent again.
 */
export function createMlflow(url: string, memory: string, options: MetricServerOptions): CurveSink {
  const { run, variables, timeoutMs = 10_000, now = Date.now } = options;
  const {
    MLFLOW_TRACKING_TOKEN: token,
    MLFLOW_TRACKING_USERNAME: user,
    MLFLOW_TRACKING_PASSWORD: password,
  } = variables;
  const basic = user === undefined ? null : `Basic ${Buffer.from(`${user}:${password ?? ""}`).toString("base64")}`;
  const authorization = options.authorization ?? (token === undefined ? basic : `Bearer ${token}`);
  const { shown, post, close } = connect(url, { what: "MLflow server", authorization, timeoutMs, headers: {} });
  const api: Post = (path, body) => post(`/api/2.0/mlflow${path}`, body);
  let runId: string | null = null;
  /** Step of the last point that the server is known to have; `null` if it must be read first. */
  let sent: number | null = null;

  async function begin(): Promise<string> {
    const known = await readFile(memory, "utf8")
      .then((text) => JSON.parse(text) as { readonly url?: unknown; readonly runId?: unknown } | null)
      .catch(() => null);
    if (known?.url === shown && typeof known.runId === "string") {
      await api("/runs/update", { run_id: known.runId, status: "RUNNING" });
      return known.runId;
    }
    const experiment = { name: "trainable-agents" };
    const created = await api("/experiments/create", experiment).catch(async (error: unknown) => {
      if (!(error instanceof Refused) || error.status !== 400) throw error;
      const found = await api(`/experiments/get-by-name?experiment_name=${experiment.name}`, null);
      return fieldOf(found, "experiment");
    });
    const tags = [{ key: "trainable-agents.run", value: run.id }];
    const made = await api("/runs/create", {
      experiment_id: fieldOf(created, "experiment_id"),
      run_name: run.name,
      start_time: Math.round(now()),
      tags,
    });
    const id = String(fieldOf(fieldOf(fieldOf(made, "run"), "info"), "run_id"));
    const params = Object.entries(run.configuration)
      .filter(([, value]) => value !== null)
      .slice(0, 100)
      .map(([key, value]) => ({ key: mlflowName(key), value: (typeof value === "string" ? value : JSON.stringify(value)).slice(0, 500) })); // prettier-ignore
    await api("/runs/log-batch", { run_id: id, params });
    // Written atomically: the file is complete or absent, even if the process is killed.
    await writeFile(`${memory}.part`, `${JSON.stringify({ url: shown, runId: id })}\n`);
    await rename(`${memory}.part`, memory);
    sent = -1;
    return id;
  }

  async function lastStep(id: string): Promise<number> {
    const found = await api(`/runs/get?run_id=${id}`, null);
    const metrics = fieldOf(fieldOf(fieldOf(found, "run"), "data"), "metrics");
    const steps = Array.isArray(metrics) ? metrics.map((metric) => Number(fieldOf(metric, "step") ?? 0)) : [];
    return Math.max(-1, ...steps);
  }

  return sinkOf(
    `MLflow at ${shown}`,
    {
      close,
      send: async (points) => {
        runId ??= await begin();
        sent ??= await lastStep(runId);
        for (const { step, time, scalars } of points) {
          if (step <= sent) continue;
          const metrics = scalars.map(([name, value]) => ({
            key: mlflowName(name),
            timestamp: Math.round(time),
            step,
            value: Number.isFinite(value) ? value : String(value),
          }));
          try {
            await api("/runs/log-batch", { run_id: runId, metrics });
            sent = step;
          } catch (error) {
            sent = null;
            throw error;
          }
        }
      },
      end: async () => {
        if (runId !== null)
          await api("/runs/update", { run_id: runId, status: "FINISHED", end_time: Math.round(now()) });
      },
    },
    options,
  );
}

function fieldOf(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
}

/**
 * A sink that writes a trackio run, in project `trainable-agents`. Each point has an id, so that a
 * repeated one is stored once.
 */
export function createTrackio(url: string, options: MetricServerOptions): CurveSink {
  const { run, variables, timeoutMs = 10_000 } = options;
  const { TRACKIO_WRITE_TOKEN: token } = variables;
  const { authorization = null } = options;
  const headers: Readonly<Record<string, string>> = token === undefined ? {} : { "x-trackio-write-token": token };
  const { shown, post, close } = connect(url, { what: "trackio server", authorization, headers, timeoutMs });
  return sinkOf(
    `trackio at ${shown}`,
    {
      close,
      send: async (points) => {
        const logs = points.map(({ step, scalars }) => ({
          project: "trainable-agents",
          run: run.name,
          step,
          log_id: `${run.id}-${step}`,
          // JSON cannot represent other numbers.
          metrics: Object.fromEntries(scalars.filter(([, value]) => Number.isFinite(value))),
          config: run.configuration,
        }));
        await post("/api/bulk_log", { logs, hf_token: null });
      },
      end: async () => undefined,
    },
    options,
  );
}
