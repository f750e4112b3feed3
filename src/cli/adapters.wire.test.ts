// The command line with LoRA adapters, on fake servers whose answers depend on the adapter.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import { describe, expect, test } from "vitest";
import { serve } from "../api/functions.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import { openRunFolder } from "../store/index.ts";
import { createSglangFront, createVllmFront, type FrontListener, type Sampler } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { createTestCli } from "./cli.test-helper.ts";

const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;
/** "good" plays well, "bad" and the base answer with one useless token. */
const expert = createExpertSampler({ tokenizer, noise: 0 });
const word = tokenizer.encode("no")[0]!;

function samplerOf(onCall: (adapter: string | null) => void = () => undefined): Sampler {
  return {
    sample: async (request, options) => {
      const name = request.adapter?.name ?? null;
      if (request.promptIds.length > 8) onCall(name);
      if (name === "good" && request.promptIds.length > 8) return expert.sample(request);
      const ids = [word, endTokenId].slice(0, request.params.maxNewTokens);
      const logprobs = ids.map(() => (name === null ? -0.5 : name === "bad" ? -0.25 : -0.75));
      options.onTokens(ids, logprobs);
      return { ids, logprobs, finish: "end", cachedTokens: 0, weightVersion: null };
    },
  };
}

const adapters = { loaded: { good: "/good", bad: "/bad" } };
const fronts = {
  sglang: (options: object = {}) =>
    createSglangFront({ sampler: samplerOf(), tokenizer, endTokenIds: [endTokenId], adapters, ...options }),
  vllm: (options: object = {}) =>
    createVllmFront({ sampler: samplerOf(), tokenizer, endTokenIds: [endTokenId], adapters, ...options }),
};

type Listener = Pick<FrontListener, "url" | "close">;

async function cli(engine: "sglang" | "vllm", listener: Listener, ...flags: readonly string[]) {
  const { run, folder } = await createTestCli();
  const [command = "", ...rest] = flags;
  const model = ["--model", "readable", "--tasks", "0-2", "--max-turns", "4", "--out", "runs/a"];
  const processed = engine === "vllm" ? ["--logprobs-mode", "processed"] : [];
  const result = await run(command, "--engine", engine, "--url", listener.url, ...model, ...processed, ...rest);
  await listener.close();
  return { ...result, folder: join(folder, "runs/a") };
}

async function spansOf(folder: string): Promise<readonly string[]> {
  const spans: string[] = [];
  for await (const { trajectory } of openRunFolder(folder, {}).episodes()) {
    for (const { weightSpans } of trajectory.turns) {
      for (const { dispatch, reply } of weightSpans) spans.push(`${dispatch} ${reply}`);
    }
  }
  return spans;
}

describe.each(["sglang", "vllm"] as const)("%s", (engine) => {
  test("rollout --adapter records it with every turn; without the flag nothing names one", async () => {
    const seen = new Set<string | null>();
    const sampler = samplerOf((adapter) => seen.add(adapter));
    const named = await cli(engine, await fronts[engine]({ sampler }).listen(), "rollout", "--adapter", "good");
    expect([named.code, [...seen]]).toEqual([0, ["good"]]);
    const spans = await spansOf(named.folder);
    expect(spans.length).toBeGreaterThan(3);
    expect(new Set(spans)).toEqual(new Set(["good good"]));
    seen.clear();
    const base = await cli(engine, await fronts[engine]({ sampler }).listen(), "rollout");
    expect([base.code, [...seen]]).toEqual([0, [null]]);
    expect(new Set(await spansOf(base.folder))).toEqual(new Set(["default default"]));
  });

  test("a server that ignores the name, does not know it, or has no LoRA is refused before the run", async () => {
    for (const [options, message] of [
      [{ adapters: { ignoresNames: true } }, "same tokens and logprobs as the base"],
      [{ adapters: { loaded: { other: "/other" } } }, "load the adapter"],
      [{ adapters: null }, "load the adapter"],
    ] as const) {
      const listener = await fronts[engine](options).listen();
      const { code, stderr } = await cli(engine, listener, "rollout", "--adapter", "good");
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
      expect(stderr).toContain("good");
    }
  });

  test("an adapter that disappears in mid-run is a failure of the engine, never an answer of the base", async () => {
    let calls = 0;
    const front = fronts[engine]({ sampler: samplerOf(() => calls++) });
    const restarted = fronts[engine]({ adapters: { loaded: { bad: "/bad" } } });
    const listener = await listenAs((asked) => (calls < 3 ? front : restarted).handle(asked));
    const { folder } = await cli(engine, listener, "rollout", "--adapter", "good", "--concurrency", "1");
    const reader = openRunFolder(folder, {});
    const failures: string[] = [];
    for await (const { failure } of reader.episodes()) {
      if (failure !== null) failures.push(`${failure.boundary}/${failure.code}`);
    }
    expect(failures.length).toBeGreaterThan(0);
    expect(new Set(failures)).toEqual(new Set(["engine/bad-request"]));
    expect(new Set(await spansOf(folder))).toEqual(new Set(["good good"]));
  });

  test("serve switches adapters while it runs, and begins with the last one when it starts again", async () => {
    const { folder } = await createTestCli();
    const listener = await fronts[engine]({ adapters: { loaded: { bad: "/bad" } } }).listen();
    const start = () =>
      serve({
        engine,
        url: listener.url,
        model: "readable",
        listen: "127.0.0.1:0",
        out: "service",
        cwd: folder,
        maxTurns: 2,
        ...(engine === "vllm" ? { logprobsMode: "processed" } : {}),
      });
    const post = async (service: { readonly url: string }, path: string, body: object) => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${service.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      return [answer.status, await answer.json()] as const;
    };
    const versionsIn = async (service: { readonly url: string }): Promise<unknown> => {
      const [, { episodes }] = (await post(service, "/v1/groups", { task_index: 0, samples: 2, wait_seconds: 60 })) as [
        number,
        { episodes: { weight_versions: unknown }[] },
      ];
      return episodes.map(({ weight_versions: versions }) => versions);
    };
    const first = await start();
    expect(await versionsIn(first)).toEqual([["default"], ["default"]]);
    const load = { version: "good", adapter: { path: "/good" } };
    expect(await post(first, "/v1/weights", load)).toEqual([200, { weight_version: "good" }]);
    expect(await versionsIn(first)).toEqual([["good"], ["good"]]);
    expect((await post(first, "/v1/weights", { version: "none", adapter: {} }))[0]).toBe(502);
    expect((await post(first, "/v1/weights", { version: "bad", adapter: { unload: ["good"] } }))[0]).toBe(200);
    expect(await versionsIn(first)).toEqual([["bad"], ["bad"]]);
    await first.close();
    const second = await start();
    expect(await versionsIn(second)).toEqual([["bad"], ["bad"]]);
    await second.close();
    await listener.close();
  });

  test("eval with two adapters compares them", async () => {
    const flags = ["eval", "--adapter", "good", "--adapter", "bad", "--trials", "2", "--json"];
    const { code, stdout, folder } = await cli(engine, await fronts[engine]().listen(), ...flags);
    expect(code).toBe(0);
    const { adapters: results, comparison } = JSON.parse(stdout) as {
      adapters: { adapter: string; result: { source: string; meanReward: number } }[];
      comparison: { pairs: { baseline: string; other: string; passRate: { mean: number } }[] };
    };
    expect(results.map(({ adapter }) => adapter)).toEqual(["good", "bad"]);
    expect(results[0]!.result.meanReward).toBeGreaterThan(results[1]!.result.meanReward);
    expect(comparison.pairs).toMatchObject([{ baseline: "good", other: "bad" }]);
    for (const name of ["good", "bad"]) {
      expect(new Set(await spansOf(join(folder, name)))).toEqual(new Set([`${name} ${name}`]));
    }
  });
});

/** A server that is another one for each request, such as after a restart. */
async function listenAs(handle: (asked: Request) => Promise<Response>): Promise<Listener> {
  const answer = getRequestListener(handle, { overrideGlobalObjects: false });
  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
