// The operations of operators and trainers on vLLM besides sampling. All requests go to the one
// address: routers for vLLM only forward generations, so create an engine for each server of a
// router to control them. Most paths exist only in servers started for training
// (VLLM_SERVER_DEV_MODE=1, or --tokens-only); if one is missing, the failure message says so.

import type { EngineLoad } from "../../core/engine.ts";
import type { AttributedError } from "../../core/failure.ts";
import {
  adapterTimeoutMs,
  asFields,
  badReply,
  type CallOptions,
  engineFailure,
  type HttpResponse,
  isMissing,
  parseJson,
  readWeightVersion,
  ServerEngine,
} from "../../http/index.ts";
import { jsonOf } from "../../lib/text.ts";

/** "wait" exists only in vLLM: running requests end first. */
export type VllmPauseMode = "abort" | "retract" | "in-place" | "wait";

/**
 * Time in milliseconds that an aborted call may continue before its connection is closed: another
 * process of the server may be running it.
 */
const abortGraceMs = 5000;
/** Deadline in milliseconds of an abort that no call waits for. */
export const abandonTimeoutMs = 5000;

const loadPath = "/v1/load_lora_adapter";
const unloadPath = "/v1/unload_lora_adapter";

const pauseModes = { abort: "abort", "in-place": "keep", wait: "wait" } as const;

export abstract class VllmControl extends ServerEngine {
  /** Calls in flight, for servers that end a request only when its connection closes. */
  protected readonly calls = new Set<LiveCall>();
  /** True if the server aborts by id; `null` if not known yet. */
  #abortsById: boolean | null = null;

  /**
   * True if the server is healthy and not paused. A pause that the server cannot report, or that a
   * gateway hides, is not noticed.
   */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    if (!(await this.health(options))) return false;
    const answer = await this.call("/is_paused", null, options);
    return isMissing(answer) || answer.status === 403 || !this.#readPaused(answer);
  }

  /** `null` if the server has no metrics, or no vLLM metrics. */
  async load(options: CallOptions = {}): Promise<EngineLoad | null> {
    const answer = await this.call("/metrics", null, options);
    if (isMissing(answer)) return null;
    if (answer.status !== 200) throw this.refusal(answer, "read the metrics of", "/metrics");
    return readLoad(answer.body.toString());
  }

  /** `null` if the server has no versions, like all but the newest. */
  protected async requestVersion(options: CallOptions = {}): Promise<string | null> {
    const answer = await this.call("/weight_info", null, options);
    if (isMissing(answer) || answer.status === 403) return null;
    const { fields, context } = this.#read(answer, "read the weight version of", "/weight_info");
    return readWeightVersion(fields?.["weight_version"], context);
  }

  /**
   * Aborts by id if the server supports it, so that its reply ends as aborted; otherwise, or if
   * that has no effect, closes the connection.
   */
  async abort(requestId: string): Promise<void> {
    const isAborted = await this.abortById(requestId);
    for (const call of this.calls) {
      if (call.requestId !== requestId) continue;
      if (isAborted) call.cancelTimer ??= this.clock.after(abortGraceMs, () => call.end());
      else call.end();
    }
  }

  async loadAdapter(
    { name, path }: { readonly name: string; readonly path: string },
    options: CallOptions = {},
  ): Promise<void> {
    const answer = await this.#changeAdapter(loadPath, { lora_name: name, lora_path: path }, options);
    // An earlier attempt may have loaded it before its answer was lost.
    if (answer.status === 200 || (answer.status === 400 && (await this.#adapterPath(name, options)) === path)) return;
    throw super.refusal(answer, "load an adapter on", loadPath);
  }

  async unloadAdapter(name: string, options: CallOptions = {}): Promise<void> {
    const answer = await this.#changeAdapter(unloadPath, { lora_name: name }, options);
    if (answer.status === 200 || (answer.status === 404 && /cannot be found/.test(answer.body.toString()))) return;
    throw super.refusal(answer, "unload an adapter from", unloadPath);
  }

  /** Rejects if the server has no such call. */
  async #changeAdapter(path: string, body: object, options: CallOptions): Promise<HttpResponse> {
    const answer = await this.call(path, JSON.stringify(body), options, { timeoutMs: adapterTimeoutMs });
    const says = answer.body.toString();
    if (answer.status !== 405 && (answer.status !== 404 || /lora/i.test(says))) return answer;
    throw engineFailure(this.server.context("change adapters of", path), {
      code: "bad-request",
      retryable: false,
      state: `the server has no such call (HTTP ${answer.status})`,
      remedy: "start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
    });
  }

  /** Folder from which an adapter was loaded; `null` if the server does not list it. */
  async #adapterPath(name: string, options: CallOptions): Promise<string | null> {
    const answer = await this.call("/v1/models", null, options);
    const models = answer.status === 200 ? asFields(jsonOf(answer.body.toString()))?.["data"] : null;
    const listed = Array.isArray(models) ? (models as readonly unknown[]).map(asFields) : [];
    const root = listed.find((model) => model?.["id"] === name)?.["root"];
    return typeof root === "string" ? root : null;
  }

  async pause(mode: VllmPauseMode): Promise<void> {
    if (mode === "retract") {
      throw engineFailure(this.server.context("pause", "/pause"), {
        code: "bad-request",
        retryable: false,
        state: 'vLLM has no mode "retract", which recomputes the cache of paused requests',
        remedy: 'use "abort" or "in-place"',
      });
    }
    await this.#post("pause", "/pause", `?mode=${pauseModes[mode]}`);
  }

  async continue(): Promise<void> {
    await this.#post("continue", "/resume");
  }

  async isPaused(options: CallOptions = {}): Promise<boolean> {
    return this.#readPaused(await this.call("/is_paused", null, options));
  }

  #readPaused(answer: HttpResponse): boolean {
    const { fields, context } = this.#read(answer, "request the pause of", "/is_paused");
    const isPaused = fields?.["is_paused"];
    if (typeof isPaused !== "boolean") throw badReply(context, "is_paused is missing");
    return isPaused;
  }

  #read(answer: HttpResponse, verb: string, path: string) {
    if (answer.status !== 200) throw this.refusal(answer, verb, path);
    const context = this.server.context(verb, path);
    return { fields: asFields(parseJson(answer.body, context)), context };
  }

  /** False if the server does not know the call. */
  protected async abortById(requestId: string, timeoutMs: number = this.controlTimeoutMs): Promise<boolean> {
    if (this.#abortsById === false) return false;
    // vLLM prefixes the id with the endpoint. Unknown ids are ignored.
    const ids = [requestId, `generate-tokens-${requestId}`, `cmpl-${requestId}-0`];
    const answer = await this.call("/abort_requests", JSON.stringify({ request_ids: ids }), {}, { timeoutMs });
    this.#abortsById = !isMissing(answer);
    if (!this.#abortsById) return false;
    if (answer.status === 200) return true;
    throw this.refusal(answer, "abort a request of", "/abort_requests");
  }

  protected override refusal(answer: HttpResponse, verb: string, path: string): AttributedError {
    if (!isMissing(answer)) return super.refusal(answer, verb, path);
    return engineFailure(this.server.context(verb, path), {
      code: "bad-request",
      retryable: false,
      state: `the server has no such call (HTTP ${answer.status})`,
      remedy: path === "/health" ? "check its address" : "start it with VLLM_SERVER_DEV_MODE=1",
    });
  }

  async #post(verb: string, path: string, query = ""): Promise<void> {
    const answer = await this.call(path + query, "", {});
    if (answer.status !== 200) throw this.refusal(answer, verb, path);
  }
}

/** A call in flight. Its signal aborts when the caller gives up or when the engine ends it. */
export class LiveCall extends AbortController {
  readonly requestId: string;
  /** True if `end` ended the call, not its caller. */
  isEnded = false;
  cancelTimer: (() => void) | null = null;

  constructor(requestId: string) {
    super();
    this.requestId = requestId;
  }

  /** Closes the connection because the request was aborted. */
  end(): void {
    this.isEnded = true;
    this.abort();
  }
}

/**
 * The load of a server, read from gauges in its Prometheus metrics. If several engines share an
 * address, each has its own line: requests are summed, and the fullest cache is the result.
 */
export function readLoad(text: string): EngineLoad | null {
  const running = gauge(text, "vllm:num_requests_running");
  const waiting = gauge(text, "vllm:num_requests_waiting");
  if (running.length === 0 || waiting.length === 0) return null;
  const newer = gauge(text, "vllm:kv_cache_usage_perc");
  // The name until v0.10; despite the name "perc", both values are fractions.
  const uses = newer.length > 0 ? newer : gauge(text, "vllm:gpu_cache_usage_perc");
  return {
    servers: running.length,
    running: sum(running),
    waiting: sum(waiting),
    kvUse: uses.length === 0 ? null : Math.min(1, Math.max(...uses)),
  };
}

/** The values of a gauge, one for each set of labels. */
function gauge(text: string, name: string): number[] {
  const values: number[] = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith(name)) continue;
    const [, value] = /^(?:\{.*\})?\s+(\S+)/.exec(line.slice(name.length)) ?? [];
    if (value !== undefined && Number.isFinite(Number(value)) && Number(value) >= 0) values.push(Number(value));
  }
  return values;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
