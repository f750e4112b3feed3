// The weight version that the engine reports for a request, while servers get new weights and name
// one version per reply, like servers before 0.5.23.

import { describe, expect, test } from "vitest";
import { createFunctionSampler, createRouterFront, createSglangFront } from "../../testing/index.ts";
import { failureOf, request } from "../../http/engine-calls.test-helper.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { engineOf, engineOn } from "./sglang.test-helper.ts";

const spansOf = async (sampled: ReturnType<ReturnType<typeof engineOf>["sample"]>) =>
  (await sampled).weightSpans.map(({ dispatch, reply }) => [dispatch, reply]);

/** A server whose calls end on demand, each with its own version. */
function heldServer() {
  const held: ((version: string) => void)[] = [];
  const server = { version: "v0", isDown: false };
  const engine = engineOf(async (asked) => {
    if (server.isDown) throw Object.assign(new Error("no"), { code: "ECONNREFUSED" });
    const { pathname } = new URL(asked.url);
    if (pathname === "/model_info") return Response.json({ weight_version: server.version });
    if (pathname !== "/generate") return new Response("", { status: 404 });
    const weightVersion = await new Promise<string>((resolve) => held.push(resolve));
    return Response.json({
      output_ids: [9],
      meta_info: {
        finish_reason: { type: "stop", matched: 9 },
        output_token_logprobs: [[-0.5, 9, null]],
        weight_version: weightVersion,
      },
    });
  });
  /** Begins a call; the result ends it. */
  const begin = async () => {
    const sampled = spansOf(engine.sample(request()));
    while (held.length === 0) await new Promise((done) => setImmediate(done));
    const end = held.shift()!;
    return (version: string) => {
      end(version);
      return sampled;
    };
  };
  return { engine, server, begin };
}

describe("the version at dispatch", () => {
  test("is what the server has when weights are reported, before any reply of theirs", async () => {
    const sampler = createFunctionSampler(() => ({ ids: [9] }));
    const front = createSglangFront({ sampler, weightVersion: "v0", version: "0.5.9" });
    const engine = engineOn(front);
    expect(await engine.weightVersion()).toBe("v0");
    const body = JSON.stringify({ new_version: "v1", abort_all_requests: false });
    const headers = { "content-type": "application/json" };
    await front.handle(new Request("http://server/update_weight_version", { method: "POST", body, headers }));
    await engine.reportWeightVersion("v1");
    expect(await spansOf(engine.sample(request()))).toEqual([["v1", "v1"]]);
  });

  test("is never moved back by a late reply", async () => {
    const { engine, server, begin } = heldServer();
    await engine.weightVersion();
    const [late, later] = [await begin(), await begin()];
    server.version = "v1";
    await engine.reportWeightVersion("v1");
    expect(await late("v0")).toEqual([["v0", "v0"]]);
    expect(await (await begin())("v1")).toEqual([["v1", "v1"]]);
    // A reply changes the version if no other version was learned meanwhile.
    expect(await (await begin())("v2")).toEqual([["v1", "v2"]]);
    expect(await later("v1")).toEqual([["v0", "v1"]]);
    expect(await (await begin())("v2")).toEqual([["v2", "v2"]]);
  });

  test("is never moved back by a late answer to an earlier question", async () => {
    const held: ((version: string) => void)[] = [];
    const engine = engineOf(async ({ url }) => {
      if (new URL(url).pathname !== "/model_info") return new Response("", { status: 404 });
      return Response.json({ weight_version: await new Promise<string>((resolve) => held.push(resolve)) });
    });
    const earlier = engine.weightVersion();
    const report = engine.reportWeightVersion("v1");
    while (held.length < 2) await new Promise((done) => setImmediate(done));
    held[1]!("v1");
    await report;
    held[0]!("v0");
    expect(await earlier).toBe("v1");
  });

  test("is not known when the server cannot be asked, until a reply names it", async () => {
    const { engine, server, begin } = heldServer();
    await engine.weightVersion();
    server.isDown = true;
    expect((await failureOf(engine.reportWeightVersion("v1"))).failure.code).toBe("unreachable");
    server.isDown = false;
    expect(await (await begin())("v1")).toEqual([[null, "v1"]]);
    expect(await (await begin())("v1")).toEqual([["v1", "v1"]]);
  });
});

describe("behind a router", () => {
  /** Workers with their own versions; the routing key is the number of a worker. */
  function cluster(count: number) {
    const versions = Array.from({ length: count }, () => "v0");
    let asked = 0;
    const workers = versions.map((_, worker) => {
      const sampler = createFunctionSampler(() => ({ ids: [9], weightVersion: versions[worker]! }));
      const front = createSglangFront({ sampler, version: "0.5.9" });
      const handle = (call: Request): Promise<Response> => {
        if (new URL(call.url).pathname !== "/model_info") return front.handle(call);
        asked++;
        return Promise.resolve(Response.json({ weight_version: versions[worker] }));
      };
      return { url: `http://w${worker}`, handle };
    });
    const router = createRouterFront({ workers });
    const clock = createManualClock();
    const engine = engineOf(
      (call) => {
        const { host, pathname } = new URL(call.url);
        const worker = workers[Number(host === "server" ? call.headers.get("x-smg-routing-key") : host.slice(1))]!;
        return host === "server" && pathname !== "/generate" ? router.handle(call) : worker.handle(call);
      },
      { clock },
    );
    const sampleOn = (worker: number) => spansOf(engine.sample(request({ routingKey: String(worker) })));
    return { engine, versions, sampleOn, clock, asked: () => asked };
  }
  const settled = () => new Promise((done) => setTimeout(done, 20));

  test("is that of a worker which lags, for as long as it does", async () => {
    const { engine, versions, sampleOn, clock } = cluster(2);
    expect(await engine.weightVersion()).toBe("v0");
    versions[0] = "v1";
    await engine.reportWeightVersion("v1");
    expect(await sampleOn(0)).toEqual([["v0", "v1"]]);
    // The worker may get new weights at any token from now on, and its reply would not report it.
    expect(await sampleOn(1)).toEqual([["v0", "v0"]]);
    versions[1] = "v1";
    await clock.advance(1000);
    expect(await sampleOn(1)).toEqual([["v0", "v1"]]);
    await settled();
    expect(await sampleOn(0)).toEqual([["v1", "v1"]]);
    expect(await sampleOn(1)).toEqual([["v1", "v1"]]);
  });

  test("is not known while workers have different versions that are both new", async () => {
    const { engine, versions, sampleOn } = cluster(3);
    await engine.weightVersion();
    versions.splice(0, 3, "v1", "v2", "v2");
    await engine.reportWeightVersion("v2");
    expect(await sampleOn(0)).toEqual([[null, "v1"]]);
    expect(await sampleOn(1)).toEqual([[null, "v2"]]);
  });

  test("workers are asked again at most once a second while they differ", async () => {
    const { engine, versions, sampleOn, clock, asked } = cluster(2);
    await engine.weightVersion();
    versions[0] = "v1";
    for (let call = 0; call < 10; call++) await sampleOn(0);
    await settled();
    expect(asked()).toBe(4);
    await clock.advance(1000);
    await sampleOn(0);
    await settled();
    expect(asked()).toBe(6);
    await engine.close();
  });
});
