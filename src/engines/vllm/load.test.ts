// The load reported by vLLM servers, as the caller receives it.

import { describe, expect, it } from "vitest";
import { createFunctionSampler, createVllmFront } from "../../testing/index.ts";
import { readLoad } from "./vllm-control.ts";
import { failureOf } from "../../http/engine-calls.test-helper.ts";
import { engineOf, engineOn } from "./vllm.test-helper.ts";

const metrics = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 5.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-8B"} 7.0
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 2.0
vllm:num_requests_waiting{engine="1",model_name="Qwen/Qwen3-8B"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="Qwen/Qwen3-8B",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-8B"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="Qwen/Qwen3-8B"} 0.5
`;

describe("load() of a vLLM engine", () => {
  it("sums the engines behind an address and takes the fullest cache", async () => {
    const engine = engineOf((asked) => new Response(new URL(asked.url).pathname === "/metrics" ? metrics : ""));
    expect(await engine.load()).toEqual({ servers: 2, running: 12, waiting: 2, kvUse: 0.5 });
  });

  it("reads the older name of the cache's use, bare lines, and no others' numbers", () => {
    const old = 'vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nvllm:gpu_cache_usage_perc{a="b } c"} 0.734';
    expect(readLoad(old)).toEqual({ servers: 1, running: 3, waiting: 1, kvUse: 0.734 });
    expect(readLoad(old.replace("0.734", "NaN"))?.kvUse).toBeNull();
    expect(readLoad("process_cpu_seconds_total 5\n")).toBeNull();
    expect(readLoad("vllm:num_requests_running many\nvllm:num_requests_waiting -1\n")).toBeNull();
  });

  it("is null without metrics, and a failure when the server refuses", async () => {
    expect(await engineOf(() => new Response("", { status: 404 })).load()).toBeNull();
    expect((await failureOf(engineOf(() => new Response("", { status: 401 })).load())).failure.code).toBe(
      "unauthorized",
    );
  });

  it("is told by a front", async () => {
    const front = createVllmFront({ sampler: createFunctionSampler(() => ({ ids: [9] })) });
    const engine = engineOn(front);
    expect(await engine.load()).toEqual({ servers: 1, running: 0, waiting: 0, kvUse: null });
    await engine.close();
  });
});
