// What operators and trainers ask of SGLang beside sampling. Health and version go to the address as it is; abort, pause
// and continue go to every worker behind it.

import { AttributedError } from "../../core/failure.ts";
import type { EngineControl, EngineLoad, EngineLoadSource } from "../../core/engine.ts";
import {
  asFields,
  parseJson,
  readWeightVersion,
  type EngineServer,
  type HttpResponse,
  readServerFacts,
  type ServerFacts,
} from "../../http/index.ts";
import type { Clock } from "../../lib/clock.ts";
import { serverLoad, sumLoads } from "./load.ts";
import { listWorkers, type SglangWorker, type Worker } from "./workers.ts";

export type SglangControlOptions = {
  readonly server: EngineServer;
  readonly timeoutMs: number;
  readonly clock: Clock;
};

type CallOptions = { readonly signal?: AbortSignal };

/** How long an abort that nobody waits for may take, and how long it trusts a list of workers. */
const abandonTimeoutMs = 5000;
const listingLifetimeMs = 10_000;

const pauseModes = { abort: "abort", retract: "retract", "in-place": "in_place" } as const;

/** What a router passes on (measured with sglang-router 0.3.2); everything else it leaves out. */
const routedParameters: ReadonlySet<string> = new Set([
  "temperature",
  "max_new_tokens",
  "min_new_tokens",
  "top_p",
  "top_k",
  "min_p",
  "frequency_penalty",
  "presence_penalty",
  "repetition_penalty",
  "stop",
  "stop_token_ids",
  "ignore_eos",
  "skip_special_tokens",
  "no_stop_trim",
  "sampling_seed",
  "json_schema",
  "regex",
  "ebnf",
  "n",
]);

export class SglangControl implements Omit<EngineControl, "weightVersion">, EngineLoadSource {
  readonly #options: SglangControlOptions;
  /** Aborts under way that only `settled` waits for. */
  readonly #abandoned = new Set<Promise<void>>();
  #listing: { readonly at: number; readonly workers: Promise<readonly Worker[]> } | null = null;

  constructor(options: SglangControlOptions) {
    this.#options = options;
  }

  async health(options: CallOptions = {}): Promise<boolean> {
    const answer = await this.#call(this.#options.server, "/health", null, options);
    if (answer.status === 200) return true;
    // Starting, shutting down or stuck: the server is there, and says so.
    if (answer.status >= 500) return false;
    throw this.#options.server.refusal(answer, this.#options.server.context("ask for the health of", "/health"));
  }

  /**
   * A router is healthy without a worker, and says at /readiness whether it has one; a server says at /ready (0.5.23) whether it
   * is paused. Where neither exists, or a gateway keeps them, health is all there is: a paused server is not, for it samples a
   * token to find out.
   */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    for (const path of ["/readiness", "/ready"]) {
      const answer = await this.#call(this.#options.server, path, null, options);
      if (answer.status !== 200 && answer.status !== 503) continue;
      if (answer.status !== 200 || path === "/readiness") return answer.status === 200;
    }
    return this.health(options);
  }

  /** Of every worker that is not known to be unhealthy. */
  async serverFacts(text: string, options: CallOptions = {}): Promise<readonly ServerFacts[]> {
    const { timeoutMs } = this.#options;
    const workers = (await this.#listOrSelf(options)).filter(({ isHealthy }) => isHealthy !== false);
    const call = { signal: options.signal, timeoutMs };
    return Promise.all(workers.map(({ server }) => readServerFacts(server, text, call)));
  }

  /** Names among these sampling parameters that never reach a server, because a router leaves them out in silence. */
  async droppedParameters(names: readonly string[], options: CallOptions = {}): Promise<readonly string[]> {
    const dropped = names.filter((name) => !routedParameters.has(name));
    if (dropped.length === 0) return [];
    const { server, timeoutMs } = this.#options;
    return (await listWorkers(server, { signal: options.signal, timeoutMs })) === null ? [] : dropped;
  }

  /** Of every worker; one that the router calls unhealthy may be missing. */
  async weightVersions(options: CallOptions = {}): Promise<readonly (string | null)[]> {
    const workers = await this.#listOrSelf(options);
    const versions = workers.map(async ({ server, isHealthy }) => {
      try {
        return [await this.#weightVersionOf(server, options)];
      } catch (error) {
        if (isHealthy === false) return [];
        throw error;
      }
    });
    return (await Promise.all(versions)).flat();
  }

  async #weightVersionOf(server: EngineServer, options: CallOptions): Promise<string | null> {
    let answer = await this.#call(server, "/model_info", null, options);
    if (answer.status === 404 || answer.status === 405) {
      // Older servers, and routers.
      answer = await this.#call(server, "/get_model_info", null, options);
    }
    const context = server.context("read the weight version of", "/model_info");
    if (answer.status !== 200) throw server.refusal(answer, context);
    return readWeightVersion(asFields(parseJson(answer.body, context))?.["weight_version"], context);
  }

  async load(options: CallOptions = {}): Promise<EngineLoad | null> {
    const workers = await this.#list(options);
    const { timeoutMs } = this.#options;
    const loads = workers.map(({ server, isHealthy }) =>
      serverLoad(server, { signal: options.signal, timeoutMs }).catch((error: unknown) => {
        if (isHealthy === false) return null;
        throw error;
      }),
    );
    return sumLoads(await Promise.all(loads));
  }

  async workers(options: CallOptions = {}): Promise<readonly SglangWorker[]> {
    return (await this.#list(options)).map(({ url, isHealthy }) => ({ url, isHealthy }));
  }

  async abort(requestId: string): Promise<void> {
    await this.#tellAll("abort a request of", "/abort_request", { rid: requestId });
  }

  async pause(mode: "abort" | "retract" | "in-place"): Promise<void> {
    await this.#tellAll("pause", "/pause_generation", { mode: pauseModes[mode] });
  }

  async continue(): Promise<void> {
    await this.#tellAll("continue", "/continue_generation", {});
  }

  /**
   * Aborts a request that its caller gave up, without making anybody wait and whatever comes of it: closing the connection
   * stops it too, only seconds later.
   */
  abandon(requestId: string): void {
    const task = this.#abandon(requestId).catch(() => undefined);
    this.#abandoned.add(task);
    void task.finally(() => this.#abandoned.delete(task));
  }

  /** Resolves when no abandoned request is being aborted any more; within seconds. */
  async settled(): Promise<void> {
    await Promise.all(this.#abandoned);
  }

  async #abandon(requestId: string): Promise<void> {
    const now = this.#options.clock.now();
    if (this.#listing === null || now - this.#listing.at > listingLifetimeMs) {
      this.#listing = { at: now, workers: this.#list({}, abandonTimeoutMs) };
    }
    const workers = await this.#listing.workers;
    await Promise.all(
      workers.map(({ server }) => this.#call(server, "/abort_request", { rid: requestId }, {}, abandonTimeoutMs)),
    );
  }

  /** What refuses to list workers is no router. */
  async #listOrSelf(options: CallOptions): Promise<readonly Pick<Worker, "server" | "isHealthy">[]> {
    return this.#list(options).catch((error: unknown) => {
      if (!(error instanceof AttributedError) || !isRefusal(error)) throw error;
      return [{ server: this.#options.server, isHealthy: null }];
    });
  }

  async #list(options: CallOptions, timeoutMs: number = this.#options.timeoutMs): Promise<readonly Worker[]> {
    const { server } = this.#options;
    const workers = await listWorkers(server, { signal: options.signal, timeoutMs });
    return workers ?? [{ url: server.address, isHealthy: null, server }];
  }

  /** Rejects with the first failure, after all have answered; a worker that the router calls unhealthy may fail. */
  async #tellAll(verb: string, path: string, body: Readonly<Record<string, unknown>>): Promise<void> {
    const workers = await this.#list({});
    const outcomes = await Promise.all(
      workers.map(async ({ server, isHealthy }) => {
        try {
          const answer = await this.#call(server, path, body, {});
          return answer.status === 200 ? null : server.refusal(answer, server.context(verb, path));
        } catch (error) {
          if (error instanceof AttributedError && isHealthy === false) return null;
          return error;
        }
      }),
    );
    const failure = outcomes.find((outcome) => outcome !== null);
    if (failure !== undefined) throw failure;
  }

  #call(
    server: EngineServer,
    path: string,
    body: Readonly<Record<string, unknown>> | null,
    options: CallOptions,
    timeoutMs: number = this.#options.timeoutMs,
  ): Promise<HttpResponse> {
    const text = body === null ? null : JSON.stringify(body);
    return server.send(server.request(path, text), { signal: options.signal, timeoutMs });
  }
}

function isRefusal({ failure }: AttributedError): boolean {
  return !["unreachable", "connection-lost", "timeout", "cancelled"].includes(failure.code);
}
