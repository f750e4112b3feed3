// The load reported by SGLang servers, as the caller receives it.

import { describe, expect, it } from "vitest";
import { createSglangFront, type Sampler } from "../../testing/index.ts";
import { failureOf, request } from "../../http/engine-calls.test-helper.ts";
import { engineOf, engineOn } from "./sglang.test-helper.ts";

const notFound = () => new Response("", { status: 404 });

/** A worker by itself: only routers list workers. */
const worker = (answers: Readonly<Record<string, unknown>>) => (asked: Request) => {
  const { pathname } = new URL(asked.url);
  return pathname in answers ? Response.json(answers[pathname]) : notFound();
};

describe("load() of an SGLang engine", () => {
  it("sums the ranks of a server and takes the fullest cache", async () => {
    const rank = { num_running_reqs: 20, num_waiting_reqs: 3, num_used_tokens: 500, max_total_num_tokens: 1000 };
    const loads = [
      { dp_rank: 0, ...rank, token_usage: 0.5 },
      { dp_rank: 1, ...rank, token_usage: 0.75 },
    ];
    const engine = engineOf(worker({ "/v1/loads": { loads, aggregate: {} } }));
    expect(await engine.load()).toEqual({ servers: 1, running: 40, waiting: 6, kvUse: 0.75 });
  });

  it("asks older servers by their own call, and those without one not at all", async () => {
    const old = [{ dp_rank: 0, num_reqs: 12, num_waiting_reqs: 2, num_tokens: 900 }];
    expect(await engineOf(worker({ "/get_load": old })).load()).toEqual({
      servers: 1,
      running: 10,
      waiting: 2,
      kvUse: null,
    });
    expect(await engineOf(notFound).load()).toBeNull();
  });

  it("asks every worker behind a router, and forgives those that the router calls unhealthy", async () => {
    const workers = [
      { url: "http://one:1", is_healthy: true },
      { url: "http://two:2", is_healthy: true },
      { url: "http://three:3", is_healthy: false },
    ];
    const loads = { one: 4, two: 6 } as const;
    const answer = (asked: Request): Response => {
      const { hostname, pathname } = new URL(asked.url);
      if (pathname === "/workers") return Response.json({ workers });
      if (hostname !== "one" && hostname !== "two") return new Response("", { status: 502 });
      return Response.json({ loads: [{ num_running_reqs: loads[hostname], num_waiting_reqs: 1, token_usage: 0.1 }] });
    };
    expect(await engineOf(answer).load()).toEqual({ servers: 2, running: 10, waiting: 2, kvUse: 0.1 });
  });

  it("refuses what is no load, and what the server refuses", async () => {
    expect((await failureOf(engineOf(worker({ "/v1/loads": { loads: "many" } })).load())).failure.code).toBe(
      "bad-reply",
    );
    expect((await failureOf(engineOf(() => new Response("", { status: 401 })).load())).failure.code).toBe(
      "unauthorized",
    );
  });

  it("counts the calls of a front", async () => {
    const ends: (() => void)[] = [];
    const sampler: Sampler = {
      sample: () =>
        new Promise((resolve) => {
          ends.push(() => resolve({ ids: [9], logprobs: [-1], finish: "end", cachedTokens: 0, weightVersion: null }));
        }),
    };
    const engine = engineOn(createSglangFront({ sampler }));
    const calls = ["a", "b"].map((requestId) => engine.sample(request({ requestId })));
    while (ends.length < 2) await Promise.resolve();
    expect(await engine.load()).toMatchObject({ running: 2, waiting: 0 });
    for (const end of ends) end();
    await Promise.all(calls);
    expect(await engine.load()).toMatchObject({ running: 0, waiting: 0 });
    await engine.close();
  });
});
