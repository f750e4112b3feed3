import { afterEach, describe, expect, it, vi } from "vitest";
import type { Environment, Task, ToolResult } from "../../core/environment.ts";
import { AttributedError, messageOf } from "../../core/failure.ts";
import { createTaskset } from "../../core/taskset.ts";
import { toolFromDefinition } from "../../core/message.ts";
import { remoteFault, remoteSource, type RemoteService, type RemoteSession } from "./index.ts";

const tool = toolFromDefinition(new Map([["function", new Map([["name", "look"]])]]));
const result: ToolResult = { text: "seen", isError: false, endsEpisode: false, info: new Map() };
const task: Task = {
  id: "far:test:0",
  environment: "far",
  split: "test",
  index: 0,
  contentHash: "0",
  instruction: "Look.",
  agenda: null,
};

/** An in-process service that counts its open sessions. */
function service(parts: Partial<RemoteService> = {}, session: Partial<RemoteSession> = {}) {
  const log = { open: 0, closed: 0, most: 0 };
  const made: RemoteService = {
    name: "far",
    splits: ["test"],
    users: ["task"],
    argumentErrors: "environment",
    unknownTools: "loop",
    capacity: null,
    isDeterministic: false,
    taskset: (split) => createTaskset("far", split, { sizes: { test: 1 }, task: () => task }),
    open: async () => {
      log.open++;
      log.most = Math.max(log.most, log.open);
      return {
        guidelines: "Look.",
        tools: [tool],
        info: new Map(),
        call: async () => result,
        receiveUtterance: async () => undefined,
        grade: async () => ({ reward: 1, metrics: {}, log: "", info: new Map() }),
        close: async () => {
          log.open--;
          log.closed++;
        },
        ...session,
      };
    },
    close: async () => undefined,
    ...parts,
  };
  return { log, made };
}

const call = { name: "look", arguments: new Map() };
const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
const options = { signal: new AbortController().signal, seed: 0 };
const codeOf = async (promise: unknown): Promise<string> =>
  Promise.resolve(promise).then(
    () => "none",
    (error: unknown) => (error instanceof AttributedError ? error.failure.code : messageOf(error)),
  );

afterEach(() => vi.useRealTimers());

describe("remoteSource()", () => {
  it("passes calls on, says how its episodes resume, and closes a session once", async () => {
    const { log, made } = service();
    const source = remoteSource(made);
    expect([source.resume, remoteSource({ ...made, isDeterministic: true }).resume]).toEqual(["restart", "replay"]);
    const world = await source.open(task, options);
    expect([world.task, world.guidelines, world.tools]).toEqual([task, "Look.", [tool]]);
    const before = world.digest();
    expect(await world.call(call)).toEqual(result);
    expect(world.digest()).not.toBe(before);
    expect(await world.grade({ outcome: "completed" })).toMatchObject({ reward: 1 });
    await Promise.all([world.close?.(), world.close?.()]);
    expect(log).toEqual({ open: 0, closed: 1, most: 1 });
    expect(source.sessions()).toEqual({ opened: 1, closed: 1, unclosed: 0, active: 0, peak: 1, queued: 0 });
  });

  it("queues openings beyond the capacity, in their order", async () => {
    const { log, made } = service({ capacity: 2 });
    const source = remoteSource(made);
    const order: number[] = [];
    const episode = async (index: number): Promise<void> => {
      const world = await source.open(task, options);
      order.push(index);
      await world.call(call);
      await world.close?.();
    };
    await Promise.all([0, 1, 2, 3, 4].map(episode));
    expect(log).toEqual({ open: 0, closed: 5, most: 2 });
    expect(order).toEqual([0, 1, 2, 3, 4]);
    expect(source.sessions()).toMatchObject({ opened: 5, closed: 5, peak: 2, queued: 3 });
  });

  it("waits for a session of its own, or of another process, when the service refuses a further one", async () => {
    vi.useFakeTimers();
    const { log, made } = service();
    let refusals = 0;
    let others = 1;
    const open: RemoteService["open"] = async (...given) => {
      if (log.open + others < 2) return made.open(...given);
      refusals++;
      throw remoteFault("remote-capacity", "full");
    };
    const source = remoteSource({ ...made, open });
    const first = await source.open(task, options);
    const second = source.open(task, options);
    await vi.advanceTimersByTimeAsync(50);
    await first.close?.();
    await (await second).close?.();
    others = 2;
    const third = source.open(task, options);
    await vi.advanceTimersByTimeAsync(1000);
    others = 0;
    await vi.advanceTimersByTimeAsync(6000);
    await (await third).close?.();
    expect([refusals > 2, log, source.sessions().queued]).toEqual([true, { open: 0, closed: 3, most: 1 }, 2]);
  });

  it("stops queueing when the episode is cancelled or time is up", async () => {
    const { made } = service({ capacity: 1 });
    const source = remoteSource(made, { limits: { queueMs: 30 } });
    const first = await source.open(task, options);
    const cancelled = new AbortController();
    const waiting = codeOf(source.open(task, { signal: cancelled.signal, seed: 0 }));
    cancelled.abort(new Error("enough"));
    expect(await waiting).toBe("enough");
    expect(await codeOf(source.open(task, options))).toBe("remote-timeout");
    await first.close?.();
    await (await source.open(task, options)).close?.();
    expect(source.sessions()).toMatchObject({ opened: 2, closed: 2, active: 0 });
  });

  it("closes a session that opens after its deadline", async () => {
    const { log, made } = service();
    let letGo: () => void = () => undefined;
    const open: RemoteService["open"] = async (...given) => {
      await new Promise<void>((resolve) => (letGo = resolve));
      return made.open(...given);
    };
    const source = remoteSource({ ...made, open }, { limits: { openMs: 10 } });
    expect(await codeOf(source.open(task, options))).toBe("remote-timeout");
    letGo();
    await vi.waitFor(() => expect(log).toEqual({ open: 0, closed: 1, most: 1 }));
    expect(source.sessions()).toMatchObject({ opened: 1, closed: 1, active: 0 });
  });

  const faults: readonly (readonly [name: string, session: Partial<RemoteSession>, code: string])[] = [
    ["a call that never answers", { call: never }, "remote-timeout"],
    ["a call that rejects with a plain error", { call: () => Promise.reject(new Error("broken")) }, "remote-error"],
    ["a call that throws", { call: () => Promise.reject(remoteFault("remote-lost", "gone")) }, "remote-lost"],
    ["a result without end", { call: async () => ({ ...result, text: "x".repeat(101) }) }, "remote-invalid"],
  ];
  it.each(faults)("%s is a typed fault, and the session answers nothing more", async (_, session, code) => {
    const { log, made } = service({}, session);
    const source = remoteSource(made, { limits: { callMs: 10, maxCharacters: 100 } });
    const world = await source.open(task, options);
    expect(await codeOf(world.call(call))).toBe(code);
    expect(await codeOf(world.receiveUtterance("so?"))).toBe(code);
    expect(await codeOf(world.grade({ outcome: "completed" }))).toBe(code);
    await world.close?.();
    expect(log).toMatchObject({ open: 0, closed: 1 });
  });

  it("passes a cancellation of a call on as it is", async () => {
    const { made } = service({}, { call: never });
    const world: Environment = await remoteSource(made).open(task, options);
    const cancelled = new AbortController();
    const calling = codeOf(world.call(call, { signal: cancelled.signal }));
    cancelled.abort(new Error("enough"));
    expect(await calling).toBe("enough");
  });

  it("refuses a session with tools or guidelines beyond the bounds, and closes it", async () => {
    const { log, made } = service({}, { guidelines: "x".repeat(1000) });
    expect(await codeOf(remoteSource(made, { limits: { maxCharacters: 500 } }).open(task, options))).toBe(
      "remote-invalid",
    );
    const many = service({}, { tools: Array.from({ length: 3 }, () => tool) });
    expect(await codeOf(remoteSource(many.made, { limits: { maxTools: 2 } }).open(task, options))).toBe(
      "remote-invalid",
    );
    expect([log, many.log]).toMatchObject([{ closed: 1 }, { closed: 1 }]);
  });

  it("counts a session that does not close as left behind, and gives its place to another", async () => {
    const { made } = service({ capacity: 1 }, { close: never });
    const source = remoteSource(made, { limits: { closeMs: 10 } });
    await (await source.open(task, options)).close?.();
    await (await source.open(task, options)).close?.();
    expect(source.sessions()).toMatchObject({ opened: 2, closed: 0, unclosed: 2, active: 0 });
  });
});
