// What operators and trainers do with vLLM beside sampling. All of it goes to the one address: routers for vLLM forward
// generations, so behind one, make an engine for each server to control them. Most paths exist only in servers started for
// training (VLLM_SERVER_DEV_MODE=1, or --tokens-only); where one is missing, the failure says so.

import type { EngineLoad } from "../../core/engine.ts";
import type { AttributedError } from "../../core/failure.ts";
import {
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

/** "wait" is vLLM's own: lets running requests end first. */
export type VllmPauseMode = "abort" | "retract" | "in-place" | "wait";

/** How long an aborted call may continue before its connection is closed: another process of the server may have it. */
const abortGraceMs = 5000;
/** Deadline of an abort that nothing waits for. */
export const abandonTimeoutMs = 5000;

const pauseModes = { abort: "abort", "in-place": "keep", wait: "wait" } as const;

export abstract class VllmControl extends ServerEngine {
  /** For servers that end a request only when its connection closes. */
  protected readonly calls = new Set<LiveCall>();
  /** Whether the server aborts by id; `null`: not known yet. */
  #abortsById: boolean | null = null;

  /** Healthy and, where the server can tell and a gateway before it forbids nothing, not paused. */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    if (!(await this.health(options))) return false;
    const answer = await this.call("/is_paused", null, options);
    return isMissing(answer) || answer.status === 403 || !this.#readPaused(answer);
  }

  /** `null` when the server has no metrics, or not those of vLLM. */
  async load(options: CallOptions = {}): Promise<EngineLoad | null> {
    const answer = await this.call("/metrics", null, options);
    if (isMissing(answer)) return null;
    if (answer.status !== 200) throw this.refusal(answer, "read the metrics of", "/metrics");
    return readLoad(answer.body.toString());
  }

  /** `null` when the server has no versions, as all but the newest. */
  protected async requestVersion(options: CallOptions = {}): Promise<string | null> {
    const answer = await this.call("/weight_info", null, options);
    if (isMissing(answer) || answer.status === 403) return null;
    const { fields, context } = this.#read(answer, "read the weight version of", "/weight_info");
    return readWeightVersion(fields?.["weight_version"], context);
  }

  /** By id where the server can, and then its reply ends as aborted; else, or when that does nothing, by closing the connection. */
  async abort(requestId: string): Promise<void> {
    const isAborted = await this.abortById(requestId);
    for (const call of this.calls) {
      if (call.requestId !== requestId) continue;
      if (isAborted) call.cancelTimer ??= this.clock.after(abortGraceMs, () => call.end());
      else call.end();
    }
  }

  async pause(mode: VllmPauseMode): Promise<void> {
    if (mode === "retract") {
      throw engineFailure(this.server.context("pause", "/pause"), {
        code: "bad-request",
        retryable: false,
        state: 'vLLM has no mode "retract", which computes the cache of held requests again',
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

  /** False when the server has no such call. */
  protected async abortById(requestId: string, timeoutMs: number = this.controlTimeoutMs): Promise<boolean> {
    if (this.#abortsById === false) return false;
    // vLLM puts the endpoint before the id it is given. Ids it does not know do nothing.
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

/** A call in flight. Its signal aborts when the caller gives up or when we end it ourselves. */
export class LiveCall extends AbortController {
  readonly requestId: string;
  /** True when `end` ended it, and not its caller. */
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
 * How busy a server is, from gauges among its Prometheus metrics. Several engines behind one address have a line each: requests
 * are summed, and the fullest cache counts for all.
 */
export function readLoad(text: string): EngineLoad | null {
  const running = gauge(text, "vllm:num_requests_running");
  const waiting = gauge(text, "vllm:num_requests_waiting");
  if (running.length === 0 || waiting.length === 0) return null;
  const newer = gauge(text, "vllm:kv_cache_usage_perc");
  // Its name until v0.10; either is a share, whatever it is called.
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
