// Circuits, waiting, routing and failover, on a manual clock.

import { describe, expect, it, test } from "vitest";
import {
  AttributedError,
  ConfigurationError,
  defaultSampling,
  type Engine,
  type EngineFailureCode,
  type SampleRequest,
  TokenBuffer,
} from "../../core/index.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { createScriptedEngine, type ScriptedStep } from "../scripted/index.ts";
import { type EngineBehaviour, engineConformance, type EngineHarness } from "../../testing/index.ts";
import { type CircuitStatus, createGuardedEngine, type GuardedEngineOptions } from "./index.ts";

function request(routingKey: string | null = "episode"): SampleRequest {
  return {
    prompt: TokenBuffer.from([1, 2]),
    sampling: defaultSampling,
    stopTokenIds: [9],
    requestId: "r",
    routingKey,
  };
}

/** A server that is up or down, and counts its calls. */
class FakeServer implements Engine {
  readonly name = "fake";
  readonly address: string;
  fault: EngineFailureCode | null = null;
  isUp: boolean | null = true;
  calls = 0;
  probes = 0;
  #held: (() => void)[] | null = null;

  constructor(address = "http://a") {
    this.address = address;
  }

  /**
   * Keeps calls from ending until the returned function is called; calls that begin later end after
   * `letPass`.
   */
  hold(): () => void {
    const held: (() => void)[] = [];
    this.#held = held;
    return () => {
      this.letPass();
      for (const go of held) go();
    };
  }

  letPass(): void {
    this.#held = null;
  }

  async sample(_asked: SampleRequest, { signal }: { readonly signal?: AbortSignal } = {}) {
    this.calls++;
    const { fault } = this;
    if (this.#held !== null) {
      const held = this.#held;
      await new Promise<void>((resolve) => void held.push(resolve));
    }
    if (signal?.aborted === true) throw failureOf("cancelled");
    if (fault !== null) throw failureOf(fault);
    return {
      sampledTokens: Uint32Array.of(9),
      logprobs: Float32Array.of(-1),
      finish: { reason: "stop", matched: 9, raw: null },
      weightSpans: [{ tokenCount: 1, dispatch: null, reply: this.address }],
      usage: { promptTokens: 2, completionTokens: 1, cachedTokens: null },
    } as const;
  }

  isReady(): Promise<boolean> {
    this.probes++;
    return this.isUp === null ? Promise.reject(failureOf("unreachable")) : Promise.resolve(this.isUp);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function failureOf(code: EngineFailureCode): AttributedError {
  return new AttributedError({ boundary: "engine", code, message: `It is ${code}.`, retryable: true, cause: null });
}

function guard(servers: readonly Engine[], options: GuardedEngineOptions = {}) {
  const clock = createManualClock();
  const changes: CircuitStatus[] = [];
  const engine = createGuardedEngine(servers, { clock, onChange: (change) => changes.push(change), ...options });
  const ask = async (key: string | null = "episode", signal?: AbortSignal): Promise<string> => {
    const call = engine.sample(request(key), signal === undefined ? {} : { signal });
    return call.then(
      ({ weightSpans }) => weightSpans[0]?.reply ?? "",
      (error: unknown) => (error instanceof AttributedError ? error.failure.code : String(error)),
    );
  };
  const fail = async (server: FakeServer, times: number): Promise<void> => {
    server.fault = "unreachable";
    server.isUp = false;
    for (let time = 0; time < times; time++) await ask();
  };
  return { engine, clock, changes, ask, fail, states: () => engine.circuits().map(({ state }) => state) };
}

test("a reported version reaches every server, also those behind one that cannot be asked", async () => {
  const told: string[] = [];
  const servers = ["http://a", "http://b", "http://c"].map((address, index) =>
    Object.assign(new FakeServer(address), {
      reportWeightVersion: async (version: string) => {
        told.push(`${address} ${version}`);
        if (index === 0) throw failureOf("unreachable");
        return [`${version} of ${address}`, null];
      },
    }),
  );
  const { engine } = guard([...servers, new FakeServer("http://d")]);
  await expect(engine.reportWeightVersion("v1")).rejects.toThrow("It is unreachable");
  expect(told).toEqual(["http://a v1", "http://b v1", "http://c v1"]);
  const reachable = guard([...servers.slice(1), new FakeServer("http://d")]);
  expect(await reachable.engine.reportWeightVersion("v2")).toEqual(["v2 of http://b", null, "v2 of http://c", null]);
});

describe("the circuit of a server", () => {
  it("opens after failures in a row, lets nobody through, and closes when the server is back", async () => {
    const server = new FakeServer();
    const { clock, changes, ask, fail, states } = guard([server]);
    await fail(server, 4);
    expect(states()).toEqual(["closed"]);
    await fail(server, 1);
    expect(states()).toEqual(["open"]);
    const waiting = Promise.all(Array.from({ length: 500 }, () => ask()));
    await clock.advance(999);
    expect([server.calls, server.probes]).toEqual([5, 0]);
    await clock.advance(60_000);
    expect(server.calls).toBe(5);
    // Intervals double from one second: probes at 1, 3, 7, 15 and 31, then every 30 seconds.
    expect(server.probes).toBe(5);
    server.fault = null;
    server.isUp = true;
    await clock.advance(30_000);
    expect(new Set(await waiting)).toEqual(new Set(["http://a"]));
    expect(changes.map(({ state }) => state)).toEqual(["open", "half-open", "closed"]);
    expect(changes[0]).toEqual({
      server: "http://a",
      state: "open",
      failures: 5,
      message: "It is unreachable.",
    });
    expect(clock.sleeping).toBe(0);
  });

  it("counts no success in between, no refusal and no overload", async () => {
    const server = new FakeServer();
    const { ask, states } = guard([server], { failures: 2 });
    for (const fault of ["timeout", null, "server-error", null, "connection-lost"] as const) {
      server.fault = fault;
      await ask();
    }
    for (const fault of [
      "overloaded",
      "bad-request",
      "unauthorized",
      "bad-reply",
      "context-length",
      "cancelled",
    ] as const) {
      server.fault = fault;
      expect(await ask()).toBe(fault);
    }
    expect(states()).toEqual(["closed"]);
    server.fault = "server-error";
    await ask();
    expect(states()).toEqual(["open"]);
  });

  it("opens again at the first failure after a good look, for twice as long", async () => {
    const server = new FakeServer();
    const { clock, ask, fail, states } = guard([server]);
    await fail(server, 5);
    server.isUp = true;
    const first = ask();
    await clock.advance(1000);
    expect(await first).toBe("unreachable");
    expect(states()).toEqual(["open"]);
    const second = ask();
    await clock.advance(1999);
    expect(server.probes).toBe(1);
    server.fault = null;
    await clock.advance(1);
    expect(await second).toBe("http://a");
    expect(states()).toEqual(["closed"]);
  });

  it("closes when a call that began before ends well", async () => {
    const server = new FakeServer();
    const { ask, fail, states } = guard([server]);
    const release = server.hold();
    const early = ask();
    server.letPass();
    await fail(server, 5);
    expect(states()).toEqual(["open"]);
    release();
    expect(await early).toBe("http://a");
    expect(states()).toEqual(["closed"]);
  });

  it("lets one call find out where the engine cannot be asked; a cancelled one gives its place to the next", async () => {
    const server = new FakeServer();
    const plain: Engine = {
      name: "plain",
      sample: (asked, options) => server.sample(asked, options),
      close: () => server.close(),
    };
    const { clock, ask, fail, states } = guard([plain]);
    await fail(server, 5);
    const controller = new AbortController();
    const calls = [ask("a", controller.signal), ...Array.from({ length: 20 }, () => ask())];
    const release = server.hold();
    server.fault = null;
    await clock.advance(1000);
    expect([server.calls, states()]).toEqual([6, ["half-open"]]);
    controller.abort();
    release();
    expect(await calls[0]).toBe("cancelled");
    expect(new Set(await Promise.all(calls.slice(1)))).toEqual(new Set(["http://a"]));
    expect(states()).toEqual(["closed"]);
  });

  it("keeps nobody waiting for ever: one clear failure, not to be tried again", async () => {
    const server = new FakeServer();
    const { engine, clock, fail } = guard([server], { maxWaitMs: 20_000 });
    await fail(server, 5);
    const waiting = engine.sample(request()).catch((error: unknown) => error);
    await clock.advance(20_000);
    const error = await waiting;
    expect(error).toBeInstanceOf(AttributedError);
    expect((error as AttributedError).failure).toEqual({
      boundary: "engine",
      code: "unreachable",
      message:
        "Cannot sample from http://a: no call succeeded for 20000 ms after 5 failures in a row, the last of them: It is unreachable; see to the server, and start or resume the run.",
      retryable: false,
      cause: null,
    });
    expect(clock.sleeping).toBe(0);
  });

  it("ends the waiting of a cancelled call and looks at the server no more", async () => {
    const server = new FakeServer();
    const { clock, ask, fail } = guard([server]);
    await fail(server, 5);
    const controller = new AbortController();
    const waiting = ask("episode", controller.signal);
    await clock.advance(500);
    controller.abort();
    expect(await waiting).toBe("cancelled");
    expect(await ask("episode", AbortSignal.abort())).toBe("cancelled");
    expect(clock.sleeping).toBe(0);
    await clock.advance(600_000);
    expect([server.calls, server.probes]).toEqual([5, 0]);
  });

  it("takes a probe that cannot be made for a no", async () => {
    const server = new FakeServer();
    const { clock, ask, fail, states } = guard([server]);
    await fail(server, 5);
    server.isUp = null;
    const waiting = ask();
    await clock.advance(4000);
    expect([states(), server.probes]).toEqual([["open"], 2]);
    server.isUp = true;
    server.fault = null;
    await clock.advance(4000);
    expect(await waiting).toBe("http://a");
  });
});

describe("several servers", () => {
  const keys = Array.from({ length: 200 }, (_, index) => `episode ${index}`);

  it("an episode stays on its server, and servers share the episodes", async () => {
    const servers = ["http://a", "http://b", "http://c"].map((address) => new FakeServer(address));
    const { ask } = guard(servers);
    const first = await Promise.all(keys.map((key) => ask(key)));
    expect(await Promise.all(keys.map((key) => ask(key)))).toEqual(first);
    for (const { calls } of servers) expect(calls).toBeGreaterThan(2 * 40);
  });

  it("only the episodes of a server that is down go elsewhere, at once, and come back with it", async () => {
    const servers = ["http://a", "http://b", "http://c"].map((address) => new FakeServer(address));
    const [down] = servers;
    const { clock, ask, states } = guard(servers);
    const before = await Promise.all(keys.map((key) => ask(key)));
    down!.fault = "connection-lost";
    down!.isUp = false;
    while (states()[0] === "closed") await Promise.all(keys.map((key) => ask(key)));
    const without = await Promise.all(keys.map((key) => ask(key)));
    without.forEach((address, index) => {
      if (before[index] === "http://a") expect(address).not.toBe("http://a");
      else expect(address).toBe(before[index]);
    });
    expect(new Set(without.filter((_, index) => before[index] === "http://a"))).toEqual(
      new Set(["http://b", "http://c"]),
    );
    down!.fault = null;
    down!.isUp = true;
    await clock.advance(1000);
    // Calls that are served elsewhere trigger the probe, and do not wait for it.
    await ask(keys[0]);
    await clock.advance(0);
    expect(await Promise.all(keys.map((key) => ask(key)))).toEqual(before);
    expect(clock.sleeping).toBe(0);
  });

  it("calls without a routing key go where the fewest run", async () => {
    const servers = ["http://a", "http://b"].map((address) => new FakeServer(address));
    const { ask } = guard(servers);
    const releases = servers.map((server) => server.hold());
    const calls = Array.from({ length: 10 }, () => ask(null));
    await Promise.resolve();
    expect(servers.map(({ calls: count }) => count)).toEqual([5, 5]);
    for (const release of releases) release();
    await Promise.all(calls);
  });

  it("wait for whichever is back first", async () => {
    const servers = ["http://a", "http://b"].map((address) => new FakeServer(address));
    const { clock, ask, engine } = guard(servers, { failures: 1 });
    for (const server of servers) Object.assign(server, { fault: "unreachable", isUp: false });
    for (const key of keys.slice(0, 20)) if (engine.circuits().some(({ state }) => state === "closed")) await ask(key);
    expect(await engine.isReady()).toBe(false);
    const waiting = Promise.all(keys.map((key) => ask(key)));
    await clock.advance(500);
    Object.assign(servers[1]!, { fault: null, isUp: true });
    await clock.advance(3000);
    expect(new Set(await waiting)).toEqual(new Set(["http://b"]));
    expect(await engine.isReady()).toBe(true);
  });
});

test("the load of a guarded engine is that of its servers which can be asked", async () => {
  const busy = (address: string, running: number, kvUse: number | null) =>
    Object.assign(new FakeServer(address), {
      load: () => Promise.resolve({ servers: 1, running, waiting: 1, kvUse }),
    });
  const [one, two] = [busy("http://a", 3, 0.5), busy("http://b", 4, null)];
  const silent = Object.assign(new FakeServer("http://c"), { load: () => Promise.reject(failureOf("timeout")) });
  expect(await guard([one, two, silent]).engine.load()).toEqual({ servers: 2, running: 7, waiting: 2, kvUse: 0.5 });
  const { engine, fail } = guard([one]);
  expect(await engine.load()).toMatchObject({ servers: 1, running: 3 });
  await fail(one, 5);
  expect(await engine.load()).toBeNull();
  expect(await guard([new FakeServer()]).engine.load()).toBeNull();
});

test.each([
  [{ failures: 0 }, "failures is 0"],
  [{ openMs: 0 }, "openMs is 0"],
  [{ openMs: 10, maxOpenMs: 5 }, "maxOpenMs is 5"],
  [{ maxWaitMs: Number.NaN }, "maxWaitMs is NaN"],
] as const)("createGuardedEngine() refuses %j", (options, words) => {
  const make = (): unknown => createGuardedEngine([new FakeServer()], options);
  expect(make).toThrow(ConfigurationError);
  expect(make).toThrow(words);
  expect(() => createGuardedEngine([])).toThrow("there is none");
});

describe("createGuardedEngine() keeps the contract of the engine it guards", () => {
  const step = (behaviour: EngineBehaviour): ScriptedStep =>
    behaviour.type === "abort" || behaviour.type === "reply"
      ? { ...behaviour, tokens: [...behaviour.tokens] }
      : behaviour;
  const harness: EngineHarness = {
    unscripted: null,
    uncontrolled: "the operations are those of the engines it is given",
    impossible: {},
    promptIds: [1, 2, 3],
    streams: true,
    open: (behaviours) => {
      let calls = 0;
      const waiting: { readonly calls: number; readonly wake: () => void }[] = [];
      const inner = createScriptedEngine({
        weightVersion: "v0",
        script: (_asked, { call }) => {
          calls = call + 1;
          for (const { calls: wanted, wake } of waiting) if (calls >= wanted) wake();
          const behaviour = behaviours[call];
          return behaviour === undefined ? [4, 9] : step(behaviour);
        },
      });
      const begun = (wanted: number): Promise<void> =>
        new Promise((resolve) => {
          if (calls >= wanted) resolve();
          else waiting.push({ calls: wanted, wake: resolve });
        });
      return Promise.resolve({
        engine: createGuardedEngine([inner]),
        control: null,
        begun,
        close: () => Promise.resolve(),
      });
    },
  };
  test.for(engineConformance(harness))("$name", async (check, { skip }) => {
    if (check.skip !== null) skip(check.skip);
    await check.run();
  });
});

describe("score()", () => {
  const asked = { tokens: Uint32Array.of(1, 2), from: 1, topTokens: 0, requestId: "s", routingKey: "episode" };
  const scoring = (server: FakeServer) =>
    Object.assign(server, {
      score: async () => {
        server.calls++;
        if (server.fault !== null) throw failureOf(server.fault);
        return { logprobs: Float32Array.of(-1), top: null, weightVersion: server.address };
      },
    });

  test("is absent if one of the servers cannot score", () => {
    expect("score" in createGuardedEngine([scoring(new FakeServer()), new FakeServer("http://b")])).toBe(false);
  });

  test("goes where the episode's calls go, and to another server once that one fails", async () => {
    const servers = [scoring(new FakeServer()), scoring(new FakeServer("http://b"))];
    const { engine, ask } = guard(servers, { failures: 2 });
    const home = await ask();
    expect((await engine.score!(asked)).weightVersion).toBe(home);
    const server = servers.find(({ address }) => address === home)!;
    server.fault = "unreachable";
    server.isUp = false;
    for (let time = 0; time < 2; time++) await expect(engine.score!(asked)).rejects.toThrow("unreachable");
    expect((await engine.score!(asked)).weightVersion).not.toBe(home);
    await engine.close();
  });
});
