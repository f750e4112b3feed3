import { afterEach, describe, expect, it } from "vitest";
import { createManualClock } from "../../../lib/clock.test-helper.ts";
import { fakeOrs, type FakeFault, type FakeOptions } from "./fake-server.test-helper.ts";
import { orsService, type OrsOptions } from "./index.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const signal = new AbortController().signal;

async function served(fake: FakeOptions = {}, options: Partial<OrsOptions> = {}) {
  const server = await fakeOrs(fake);
  cleanups.push(() => server.close());
  const service = await orsService({ url: server.url, ...options });
  cleanups.push(() => service.close());
  const open = (split = "train", index = 3) => service.open(service.taskset(split).task(index), { signal, seed: 1 });
  return { server, service, open };
}

/** A clock whose pauses between attempts take no time. */
const impatient = { ...createManualClock(), sleep: () => Promise.resolve() };

async function opened(fake: FakeOptions = {}, options: Partial<OrsOptions> = {}) {
  const { server, service, open } = await served(fake, { clock: impatient, ...options });
  const session = await open();
  const call = (name: string, args: Record<string, string | number> = {}) =>
    session.call({ name, arguments: new Map(Object.entries(args)) }, { signal });
  return { server, service, session, call };
}

describe("orsService()", () => {
  it("plays a task: the prompt, the tools of the session, a reward with each call, and one farewell", async () => {
    const { server, service, session, call } = await opened({}, { apiKey: "k", secrets: { token: "t" } });
    expect(service).toMatchObject({ name: "ors/sums", splits: ["train", "hard"] });
    expect(service.taskset("hard").size).toBe(4);
    expect(session.opening).toBe("What is 3 + 1?");
    expect(session.tools.map(({ name }) => name)).toEqual(["answer", "look"]);
    expect(await call("answer", { value: 7 })).toMatchObject({
      text: "wrong\n[image (image/png): not shown]",
      isError: false,
      endsEpisode: false,
      reward: 0,
    });
    expect(await call("answer", { value: "?" })).toMatchObject({
      text: "Error: Tool input validation error",
      isError: true,
    });
    expect(await call("answer", { value: 4 })).toMatchObject({ endsEpisode: true, reward: 1 });
    expect(await session.grade({ outcome: "completed" }, { signal })).toMatchObject({
      reward: 1,
      metrics: { steps: 2, rewarded_steps: 2 },
    });
    await session.close();
    expect(server.open()).toEqual([]);
    expect(server.requests).toEqual([
      "GET /list_environments",
      "GET /sums/splits",
      "POST /sums/num_tasks",
      "POST /sums/num_tasks",
      "POST /create_session",
      "POST /create s0",
      "GET /sums/prompt s0",
      "GET /sums/task_tools s0",
      ...Array.from({ length: 3 }, () => "POST /sums/call s0"),
      "POST /delete s0",
      "POST /delete_session s0",
    ]);
  });

  it.each<[FakeFault, number]>([
    ["after-id", 1],
    ["in-data", 2],
  ])("requests an answer again whose connection was lost (%s), and runs the tool once", async (type, times) => {
    const { server, call } = await opened({ fault: { at: 0, type, times } });
    expect(await call("answer", { value: 4 })).toMatchObject({ reward: 1, endsEpisode: true });
    expect(server.runs()).toBe(1);
    expect(server.requests.filter((line) => line.includes("/call"))).toHaveLength(1 + times);
  });

  it.each<[FakeFault, string, number]>([
    ["before-id", "remote-lost", 1],
    ["after-id", "remote-lost", 6],
    ["garbage", "remote-invalid", 1],
    ["status-500", "remote-error", 1],
    ["gone", "remote-error", 1],
  ])("a fault of the line, %s, is %s, and the session can be closed", async (type, code, requested) => {
    const { server, session, call } = await opened({ fault: { at: 0, type, times: 99 } });
    await expect(call("answer", { value: 4 })).rejects.toMatchObject({ failure: { boundary: "environment", code } });
    expect(server.requests.filter((line) => line.includes("/call"))).toHaveLength(requested);
    await session.close();
    expect(server.open()).toEqual([]);
  });

  it("fails the episode when a tool raises, or the session is gone", async () => {
    const { server, call } = await opened();
    await expect(call("break_down")).rejects.toMatchObject({
      failure: { code: "remote-error", message: expect.stringContaining("the world broke") as unknown },
    });
    server.expire();
    await expect(call("answer", { value: 4 })).rejects.toMatchObject({ failure: { code: "remote-expired" } });
  });

  it("pings while it is open, and learns from a ping that the session is gone", async () => {
    const clock = createManualClock();
    const { server, session, call } = await opened({}, { clock, pingMs: 1000 });
    const pings = () => server.requests.filter((line) => line.includes("/ping")).length;
    for (const count of [1, 2]) {
      await clock.advance(1000);
      await expect.poll(pings).toBe(count);
      // The next ping is scheduled when this one is answered.
      await expect.poll(() => clock.sleeping).toBe(1);
    }
    server.expire();
    await clock.advance(1000);
    const refusedCall = async (): Promise<number> => {
      const before = server.requests.length;
      await expect(call("answer", { value: 4 })).rejects.toMatchObject({ failure: { code: "remote-expired" } });
      return server.requests.length - before;
    };
    // Once the ping was answered, no further request reaches the server.
    await expect.poll(refusedCall).toBe(0);
    await session.close();
    await clock.advance(5000);
    expect(pings()).toBe(3);
  });

  it("reads the shared tools of a server without tools of tasks", async () => {
    const { session } = await opened({ hasTaskTools: false });
    expect(session.tools).toHaveLength(2);
  });

  it.each([
    [400, "remote-error"],
    [429, "remote-capacity"],
    [503, "remote-capacity"],
  ])("an opening that is answered %i is %s, and leaves nothing open", async (createStatus, code) => {
    const { server, open } = await served({ createStatus });
    await expect(open()).rejects.toMatchObject({ failure: { code } });
    expect(server.requests.slice(-2)).toEqual(["POST /delete s0", "POST /delete_session s0"]);
  });

  it("chooses an environment by name, and says which there are", async () => {
    const { server } = await served();
    await expect(orsService({ url: server.url, environment: "nope" })).rejects.toThrow(
      '"nope" of the ORS server: it serves sums, lamp',
    );
  });
});
