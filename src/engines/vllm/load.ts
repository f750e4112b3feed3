// How busy a vLLM server says it is: gauges among its Prometheus metrics, which it offers unless it was told not to. Several
// engines behind one address have a line each: requests are summed, and the fullest cache speaks for all.

import type { EngineLoad } from "../../core/engine.ts";
import type { EngineServer, HttpCallOptions } from "../../http/index.ts";

const path = "/metrics";

/** `null` when the server has no metrics, or not those of vLLM. */
export async function serverLoad(server: EngineServer, options: HttpCallOptions): Promise<EngineLoad | null> {
  const answer = await server.send(server.request(path, null), options);
  if (answer.status === 404 || answer.status === 405) return null;
  if (answer.status !== 200) throw server.refusal(answer, server.context("read the metrics of", path));
  return readLoad(answer.body.toString());
}

/** Out of the text of Prometheus metrics. */
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
