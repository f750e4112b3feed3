// The operations of operators and trainers on SGLang besides sampling. Health and readiness checks
// go to the given address. A router forwards generations but neither aborts nor pauses, so abort,
// pause and continue go to each of its workers.

import type { EngineLoad } from "../../core/engine.ts";
import { AttributedError } from "../../core/failure.ts";
import {
  adapterTimeoutMs,
  asFields,
  badReply,
  type BaseUrl,
  type CallOptions,
  type EngineServer,
  type FailureContext,
  type Fields,
  type HttpCallOptions,
  parseBaseUrl,
  readCount,
  readServerFacts,
  readWeightVersion,
  ServerEngine,
  type ServerFacts,
  showAddress,
  sumLoads,
} from "../../http/index.ts";
import { jsonOf } from "../../lib/text.ts";

export type SglangWorker = {
  /** Address without credentials, safe to show. */
  readonly url: string;
  /** The router's judgement; `null` if it does not report one. */
  readonly isHealthy: boolean | null;
};

type Worker = SglangWorker & { readonly server: EngineServer };

/**
 * Deadline in milliseconds of an abort that no call waits for, and lifetime of the list of workers
 * that receive it.
 */
const abandonTimeoutMs = 5000;
const listingLifetimeMs = 10_000;

const pauseModes = { abort: "abort", retract: "retract", "in-place": "in_place" } as const;

/** The parameters that a router forwards (measured with sglang-router 0.3.2); it drops all others. */
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

export abstract class SglangControl extends ServerEngine {
  #listing: { readonly at: number; readonly workers: Promise<readonly Worker[]> } | null = null;

  /**
   * A router is healthy even without workers, and reports at /readiness whether it has one; a
   * server reports at /ready (0.5.23) whether it is paused. If neither path exists, or a gateway
   * blocks them, only health remains. A paused server is not healthy, because its health check
   * samples a token.
   */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    for (const path of ["/readiness", "/ready"]) {
      const answer = await this.call(path, null, options);
      if (answer.status !== 200 && answer.status !== 503) continue;
      if (answer.status !== 200 || path === "/readiness") return answer.status === 200;
    }
    return this.health(options);
  }

  /** Facts of every worker that is not known to be unhealthy. */
  async serverFacts(text: string, options: CallOptions = {}): Promise<readonly ServerFacts[]> {
    const workers = (await this.#listOrSelf(options)).filter(({ isHealthy }) => isHealthy !== false);
    return Promise.all(workers.map(({ server }) => readServerFacts(server, text, this.control(options))));
  }

  /**
   * Those of the named sampling parameters that never reach a server, because a router silently
   * drops them.
   */
  async droppedParameters(names: readonly string[], options: CallOptions = {}): Promise<readonly string[]> {
    const dropped = names.filter((name) => !routedParameters.has(name));
    if (dropped.length === 0) return [];
    return (await listWorkers(this.server, this.control(options))) === null ? [] : dropped;
  }

  /** Versions of all workers; one that the router calls unhealthy may be missing. */
  protected async weightVersions(options: CallOptions = {}): Promise<readonly (string | null)[]> {
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
    // The second path is for older servers and for routers.
    const paths = ["/model_info", "/get_model_info"];
    const call = { ...this.control(options), isRequired: true };
    const { value, context } = (await server.json("read the weight version of", paths, call))!;
    return readWeightVersion(asFields(value)?.["weight_version"], context);
  }

  async load(options: CallOptions = {}): Promise<EngineLoad | null> {
    const workers = await this.#list(options);
    const loads = workers.map(({ server, isHealthy }) =>
      serverLoad(server, this.control(options)).catch((error: unknown) => {
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
    await this.#callAll("abort a request of", "/abort_request", { rid: requestId });
  }

  async loadAdapter(
    { name, path }: { readonly name: string; readonly path: string },
    options: CallOptions = {},
  ): Promise<void> {
    await this.#callAll(
      "load an adapter on",
      "/load_lora_adapter",
      { lora_name: name, lora_path: path },
      {
        ...options,
        timeoutMs: adapterTimeoutMs,
        // An earlier attempt may have loaded it before its answer was lost.
        isDone: ({ loaded_adapters: loaded }) => asFields(loaded)?.[name] === path,
      },
    );
  }

  async unloadAdapter(name: string, options: CallOptions = {}): Promise<void> {
    await this.#callAll(
      "unload an adapter from",
      "/unload_lora_adapter",
      { lora_name: name },
      {
        ...options,
        timeoutMs: adapterTimeoutMs,
        isDone: ({ error_message: message }) => typeof message === "string" && /does not exist/.test(message),
      },
    );
  }

  async pause(mode: "abort" | "retract" | "in-place"): Promise<void> {
    await this.#callAll("pause", "/pause_generation", { mode: pauseModes[mode] });
  }

  async continue(): Promise<void> {
    await this.#callAll("continue", "/continue_generation", {});
  }

  /**
   * Aborts a request that its caller gave up: closing the connection stops it too, but seconds
   * later.
   */
  protected async abortOnServers(requestId: string): Promise<void> {
    const now = this.clock.now();
    if (this.#listing === null || now - this.#listing.at > listingLifetimeMs) {
      this.#listing = { at: now, workers: this.#list({}, abandonTimeoutMs) };
    }
    const workers = await this.#listing.workers;
    const body = JSON.stringify({ rid: requestId });
    const calls = workers.map(({ server }) =>
      this.call("/abort_request", body, {}, { server, timeoutMs: abandonTimeoutMs }),
    );
    await Promise.all(calls);
  }

  /** A server that refuses to list workers is not a router. */
  async #listOrSelf(options: CallOptions): Promise<readonly Pick<Worker, "server" | "isHealthy">[]> {
    return this.#list(options).catch((error: unknown) => {
      if (!(error instanceof AttributedError) || !isRefusal(error)) throw error;
      return [{ server: this.server, isHealthy: null }];
    });
  }

  async #list(options: CallOptions, timeoutMs: number = this.controlTimeoutMs): Promise<readonly Worker[]> {
    const { server } = this;
    const workers = await listWorkers(server, { signal: options.signal, timeoutMs });
    return workers ?? [{ url: server.address, isHealthy: null, server }];
  }

  /**
   * Rejects with the first failure, after all have answered; a worker that the router calls
   * unhealthy may fail. `isDone`: true for a refusal whose request has its effect already.
   */
  async #callAll(
    verb: string,
    path: string,
    body: Readonly<Record<string, unknown>>,
    {
      timeoutMs = this.controlTimeoutMs,
      isDone = () => false,
      signal,
    }: CallOptions & { readonly timeoutMs?: number; readonly isDone?: (refusal: Fields) => boolean } = {},
  ): Promise<void> {
    const workers = await this.#list({ signal });
    const outcomes = await Promise.all(
      workers.map(async ({ server, isHealthy }) => {
        try {
          const answer = await this.call(path, JSON.stringify(body), { signal }, { server, timeoutMs });
          if (answer.status === 200 || isDone(asFields(jsonOf(answer.body.toString())) ?? {})) return null;
          return server.refusal(answer, server.context(verb, path));
        } catch (error) {
          if (error instanceof AttributedError && isHealthy === false) return null;
          return error;
        }
      }),
    );
    const failure = outcomes.find((outcome) => outcome !== null);
    if (failure !== undefined) throw failure;
  }
}

function isRefusal({ failure }: AttributedError): boolean {
  return !["unreachable", "connection-lost", "timeout", "cancelled"].includes(failure.code);
}

/**
 * The workers behind a router, listed at `/workers` (since mid-2025) or `/list_workers` (before);
 * `null` if the server is itself a worker. Rejects with an `AttributedError` if the router refuses
 * or lists invalid addresses.
 */
async function listWorkers(server: EngineServer, options: HttpCallOptions): Promise<readonly Worker[] | null> {
  const answer = await server.json("list the workers of", ["/workers", "/list_workers"], options);
  if (answer === null) return null;
  return readWorkers(answer.value, answer.context).map(({ base, isHealthy }) => ({
    url: base.origin + base.path,
    isHealthy,
    server: server.at(base),
  }));
}

function readWorkers(value: unknown, context: FailureContext): { base: BaseUrl; isHealthy: boolean | null }[] {
  const fields = asFields(value);
  const entries: unknown = fields?.["workers"] ?? fields?.["urls"];
  if (!Array.isArray(entries)) throw badReply(context, "it lists neither workers nor urls");
  return (entries as readonly unknown[]).map((entry) => {
    const worker = asFields(entry);
    const url = worker === null ? entry : worker["url"];
    const health = worker?.["is_healthy"];
    return { base: readAddress(url, context), isHealthy: typeof health === "boolean" ? health : null };
  });
}

function readAddress(url: unknown, context: FailureContext): BaseUrl {
  if (typeof url !== "string") throw badReply(context, "a worker has no url");
  try {
    // A router that knows data-parallel ranks writes `http://host:port@rank`; all ranks share one
    // server.
    return parseBaseUrl(url.replace(/@\d+$/, ""), { what: "SGLang worker" });
  } catch {
    throw badReply(context, `the address "${showAddress(url)}" of a worker cannot be called`, { retryable: false });
  }
}

/**
 * Paths at which servers report their load, newest first. Sections other than "core" cost the
 * server more than they are worth.
 */
const loadPaths = ["/v1/loads?include=core", "/get_load"];

/** Load of one server, summed over its data-parallel ranks; `null` if it has neither path. */
async function serverLoad(server: EngineServer, options: HttpCallOptions): Promise<EngineLoad | null> {
  const answer = await server.json("request the load of", loadPaths, options);
  if (answer === null) return null;
  const ranks: unknown = asFields(answer.value)?.["loads"] ?? answer.value;
  if (!Array.isArray(ranks)) throw badReply(answer.context, "it lists no loads");
  const load = sumLoads((ranks as readonly unknown[]).map(rankLoad));
  return load === null ? null : { ...load, servers: 1 };
}

function rankLoad(rank: unknown): EngineLoad {
  const fields = asFields(rank) ?? {};
  const waiting = readCount(fields["num_waiting_reqs"]) ?? 0;
  // `/get_load` reports the sum of both.
  const running = readCount(fields["num_running_reqs"]) ?? Math.max(0, (readCount(fields["num_reqs"]) ?? 0) - waiting);
  const use = fields["token_usage"];
  const kvUse = typeof use === "number" && use >= 0 && use <= 1 ? use : null;
  return { servers: 1, running, waiting, kvUse };
}
