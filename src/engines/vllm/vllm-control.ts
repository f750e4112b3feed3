// What operators and trainers ask of vLLM beside sampling. All of it goes to the one address: routers for vLLM forward
// generations, so behind one, make an engine for each server to control them. Most paths exist only in servers started for
// training (VLLM_SERVER_DEV_MODE=1, or --tokens-only); where one is missing, the failure says so.

import {
  engineFailure,
  asFields,
  parseJson,
  readWeightVersion,
  badReply,
  type EngineServer,
  type HttpResponse,
} from "../../http/index.ts";
import type { Clock } from "../../lib/clock.ts";
import type { EngineLoad } from "../../core/engine.ts";
import type { LiveCalls } from "./live-calls.ts";
import { serverLoad } from "./load.ts";

export type VllmControlOptions = {
  readonly server: EngineServer;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly calls: LiveCalls;
};

/** "wait" is vLLM's own: lets what runs end first. */
export type VllmPauseMode = "abort" | "retract" | "in-place" | "wait";

type CallOptions = { readonly signal?: AbortSignal };

/** How long an aborted call may go on before its connection is closed: another process of the server may have it. */
const abortGraceMs = 5000;
/** How long an abort that nobody waits for may take. */
const abandonTimeoutMs = 5000;

const pauseModes = { abort: "abort", "in-place": "keep", wait: "wait" } as const;

export class VllmControl {
  readonly #options: VllmControlOptions;
  /** Aborts under way that only `settled` waits for. */
  readonly #abandoned = new Set<Promise<void>>();
  /** Whether the server aborts by id; `null`: not asked yet. */
  #abortsById: boolean | null = null;

  constructor(options: VllmControlOptions) {
    this.#options = options;
  }

  async health(options: CallOptions = {}): Promise<boolean> {
    const answer = await this.#call("/health", null, options);
    if (answer.status === 200) return true;
    // Starting, shutting down or dead: the server is there, and says so.
    if (answer.status >= 500) return false;
    throw this.#refusal(answer, "ask for the health of", "/health");
  }

  /** Healthy and, where the server can tell and a gateway before it forbids nothing, not paused. */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    if (!(await this.health(options))) return false;
    const answer = await this.#call("/is_paused", null, options);
    return isMissing(answer) || answer.status === 403 || !this.#readPaused(answer);
  }

  /** `null` when the server has no versions, as all but the newest. */
  load(options: CallOptions = {}): Promise<EngineLoad | null> {
    const { server, timeoutMs } = this.#options;
    return serverLoad(server, { signal: options.signal, timeoutMs });
  }

  async weightVersion(options: CallOptions = {}): Promise<string | null> {
    const answer = await this.#call("/weight_info", null, options);
    if (isMissing(answer) || answer.status === 403) return null;
    if (answer.status !== 200) throw this.#refusal(answer, "read the weight version of", "/weight_info");
    const context = this.#options.server.context("read the weight version of", "/weight_info");
    return readWeightVersion(asFields(parseJson(answer.body, context))?.["weight_version"], context);
  }

  /** By id where the server can, and then its reply ends as aborted; else, or when that does nothing, by closing the connection. */
  async abort(requestId: string): Promise<void> {
    const { calls, clock } = this.#options;
    if (await this.#abortById(requestId, this.#options.timeoutMs)) {
      for (const call of calls.of(requestId)) call.endAfter((action) => clock.after(abortGraceMs, action));
    } else {
      for (const call of calls.of(requestId)) call.end();
    }
  }

  async pause(mode: VllmPauseMode): Promise<void> {
    if (mode === "retract") {
      throw engineFailure(this.#options.server.context("pause", "/pause"), {
        code: "bad-request",
        retryable: false,
        state: 'vLLM has no mode "retract", which computes the cache of held requests anew',
        remedy: 'use "abort" or "in-place"',
      });
    }
    await this.#tell("pause", "/pause", `?mode=${pauseModes[mode]}`);
  }

  async continue(): Promise<void> {
    await this.#tell("continue", "/resume");
  }

  async isPaused(options: CallOptions = {}): Promise<boolean> {
    return this.#readPaused(await this.#call("/is_paused", null, options));
  }

  #readPaused(answer: HttpResponse): boolean {
    if (answer.status !== 200) throw this.#refusal(answer, "ask for the pause of", "/is_paused");
    const context = this.#options.server.context("ask for the pause of", "/is_paused");
    const isPaused = asFields(parseJson(answer.body, context))?.["is_paused"];
    if (typeof isPaused !== "boolean") throw badReply(context, "is_paused is missing");
    return isPaused;
  }

  /** Aborts by id a request that its caller gave up; nobody waits, and closing the connection ends it anyway. */
  abandon(requestId: string): void {
    const task = this.#abortById(requestId, abandonTimeoutMs).then(
      () => undefined,
      () => undefined,
    );
    this.#abandoned.add(task);
    void task.finally(() => this.#abandoned.delete(task));
  }

  /** Resolves when no abandoned request is being aborted any more; within seconds. */
  async settled(): Promise<void> {
    await Promise.all(this.#abandoned);
  }

  /** False when the server has no such call. */
  async #abortById(requestId: string, timeoutMs: number): Promise<boolean> {
    if (this.#abortsById === false) return false;
    // vLLM puts the endpoint before the id it is given. Ids it does not know do nothing.
    const ids = [requestId, `generate-tokens-${requestId}`, `cmpl-${requestId}-0`];
    const body = JSON.stringify({ request_ids: ids });
    const answer = await this.#call("/abort_requests", body, {}, timeoutMs);
    this.#abortsById = !isMissing(answer);
    if (!this.#abortsById) return false;
    if (answer.status === 200) return true;
    throw this.#refusal(answer, "abort a request of", "/abort_requests");
  }

  async #tell(verb: string, path: string, query = ""): Promise<void> {
    const answer = await this.#call(path + query, "", {});
    if (answer.status !== 200) throw this.#refusal(answer, verb, path);
  }

  #refusal(answer: HttpResponse, verb: string, path: string): Error {
    const { server } = this.#options;
    const context = server.context(verb, path);
    if (!isMissing(answer)) return server.refusal(answer, context);
    return engineFailure(context, {
      code: "bad-request",
      retryable: false,
      state: `the server has no such call (HTTP ${answer.status})`,
      remedy: path === "/health" ? "check its address" : "start it with VLLM_SERVER_DEV_MODE=1",
    });
  }

  #call(
    path: string,
    body: string | null,
    options: CallOptions,
    timeoutMs: number = this.#options.timeoutMs,
  ): Promise<HttpResponse> {
    const { server } = this.#options;
    return server.send(server.request(path, body), { signal: options.signal, timeoutMs });
  }
}

function isMissing({ status }: HttpResponse): boolean {
  return status === 404 || status === 405;
}
