import { afterEach, describe, expect, it } from "vitest";
import { toPlain } from "../../../python-semantics/json/plain.ts";
import { createManualClock } from "../../../lib/clock.test-helper.ts";
import { remoteSource } from "../index.ts";
import { fakeOpenEnv, type FakeFault, type FakeOptions, type FakeServer } from "./fake-server.test-helper.ts";
import { openEnvService, type OpenEnvOptions, seedTasks } from "./index.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function served(fake: FakeOptions = {}, options: Partial<OpenEnvOptions> = {}) {
  const server = await fakeOpenEnv(fake);
  cleanups.push(() => server.close());
  const service = await openEnvService({ url: server.url, tasks: { train: seedTasks(4, 9) }, ...options });
  return { server, service };
}

const signal = new AbortController().signal;
const from = { signal, seed: 1 };

async function opened(fake: FakeOptions = {}, options: Partial<OpenEnvOptions> = {}) {
  const { server, service } = await served(fake, options);
  const session = await service.open(service.taskset("train").task(0), from);
  cleanups.push(() => session.close());
  const call = (name: string, args: Record<string, string | number>) =>
    session.call({ name, arguments: new Map(Object.entries(args)) }, { signal });
  return { server, service, session, call };
}

/** The server notices the end of a socket a little later. */
async function empty(server: FakeServer): Promise<void> {
  await expect.poll(() => server.open()).toBe(0);
}

describe("openEnvService()", () => {
  it("plays typed actions as one tool, with the rewards of steps", async () => {
    const { server, service, session, call } = await opened();
    expect(service).toMatchObject({ name: "openenv/guess", splits: ["train"], isDeterministic: false });
    expect(session.opening).toBe('{"message": "Guess a number from 1 to 8.", "tries": 0}');
    expect(session.guidelines).toBe("Guess environment");
    expect(session.tools.map(({ definition }) => toPlain(definition))).toEqual([
      {
        type: "function",
        function: {
          name: "guess",
          description: "Guesses the number.",
          parameters: {
            additionalProperties: false,
            properties: { guess: { maximum: 1000, minimum: 1, title: "Guess", type: "integer" } },
            required: ["guess"],
            type: "object",
          },
        },
      },
    ]);
    expect(await call("guess", { guess: 2 })).toMatchObject({
      text: '{"message": "Too low.", "tries": 1}',
      endsEpisode: false,
      reward: -0.125,
    });
    expect(await call("guess", { guess: "two" })).toMatchObject({
      text: "Error: guess: Input should be a valid integer",
      isError: true,
    });
    expect(await call("peek", {})).toMatchObject({ text: "Error: unknown tool peek", isError: true });
    expect(await call("guess", { guess: 5 })).toMatchObject({ endsEpisode: true, reward: 1 });
    expect(await session.grade({ outcome: "completed" }, { signal })).toMatchObject({
      reward: 0.875,
      metrics: { steps: 2, rewarded_steps: 2 },
    });
    await session.close();
    await empty(server);
    expect(server.received).toEqual([
      [
        { type: "reset", data: { seed: 4, episode_id: "openenv/guess:train:0" } },
        { type: "step", data: { guess: 2 } },
        { type: "step", data: { guess: "two" } },
        { type: "step", data: { guess: 5 } },
        { type: "close" },
      ],
    ]);
  });

  it("plays MCP tools, whose errors the policy reads unless the way to the tool failed", async () => {
    const { session, call, server } = await opened({ flavour: "mcp" });
    expect(session.tools.map(({ name }) => name)).toEqual(["open_box"]);
    expect(session.opening).toBe("Begin.");
    expect(await call("open_box", { number: 9 })).toMatchObject({ text: "Error: there is no box 9", isError: true });
    expect(await call("open_box", { number: 2 })).toMatchObject({
      text: "a coin\n[image (image/png): not shown]",
      reward: 1,
    });
    expect(server.received[0]?.[1]).toEqual({ type: "step", data: { type: "list_tools" } });
    expect(server.received[0]?.[2]).toEqual({
      type: "step",
      data: { type: "call_tool", tool_name: "open_box", arguments: { number: 9 } },
    });
    await expect(call("open_box", { number: 0 })).rejects.toMatchObject({ failure: { code: "remote-error" } });
  });

  it("takes the score of the last step where rewards repeat one, a field of observations, and what a task resets with", async () => {
    const tasks = { train: [{ instruction: "Win.", reset: { seed: 2, level: "hard" } }], test: seedTasks(0, 0) };
    const { session, call, service, server } = await opened({}, { reward: "last", observationField: "message", tasks });
    expect(session.opening).toBe("Win.\n\nGuess a number from 1 to 8.");
    expect(service.taskset("train").task(0).contentHash).not.toBe(service.taskset("test").task(0).contentHash);
    expect(await call("guess", { guess: 2 })).toMatchObject({ text: "Too low.", reward: null });
    expect(await session.grade({ outcome: "truncated" }, { signal })).toMatchObject({ reward: -0.125 });
    expect(server.received[0]?.[0]).toMatchObject({ data: { seed: 2, level: "hard" } });
  });

  it("takes splits and tasks from the Task API of a server, and resets with their place", async () => {
    const { service, server } = await served({ tasks: { train: 3, hard: 2, empty: 0 } }, { tasks: null });
    expect(service.splits).toEqual(["train", "hard", "empty"]);
    expect(service.splits.map((split) => service.taskset(split).size)).toEqual([3, 2, 0]);
    const task = service.taskset("hard").task(1);
    expect(task).toMatchObject({ id: "openenv/guess:hard:1", split: "hard", index: 1, instruction: null });
    const session = await service.open(task, from);
    const step = await session.call({ name: "guess", arguments: new Map([["guess", 2]]) }, { signal });
    expect(step).toMatchObject({ endsEpisode: true, reward: 1 });
    await session.close();
    expect(server.received[0]?.[0]).toEqual({
      type: "reset",
      data: { split: "hard", index: 1, episode_id: "openenv/guess:hard:1" },
    });
    const another = openEnvService({ url: server.url, environment: "Chess" });
    await expect(another).rejects.toThrow(
      'Cannot find environment "Chess" of the OpenEnv server: it serves Guess_Env.',
    );
    const bare = await served();
    await expect(openEnvService({ url: bare.server.url })).rejects.toThrow("it has no tasks of its own (no Task API)");
  });

  it("shows metadata only where it is asked for", async () => {
    const fake = { tasks: { train: 8 } };
    const { session, call } = await opened(fake, { tasks: null });
    expect(session.opening).toBe('{"message": "Guess a number from 1 to 8.", "tries": 0}');
    expect(await call("guess", { guess: 2 })).toMatchObject({ text: '{"message": "Too high.", "tries": 1}' });
    const asked = await opened(fake, { tasks: null, observationField: "metadata.message" });
    expect(asked.session.opening).toBe("The number is secret.");
    const whole = await opened(fake, { tasks: null, observationField: "metadata" });
    expect(whole.session.opening).toBe('{"message": "The number is secret.", "tries": 1}');
    const mcp = await opened({ ...fake, flavour: "mcp" }, { tasks: null });
    expect([mcp.session.opening, (await mcp.call("open_box", { number: 2 })).text]).toEqual([
      "Begin.",
      "a coin\n[image (image/png): not shown]",
    ]);
  });

  it("has no grade for a world that never rewards, unless none is said to mean 0", async () => {
    const grade = { outcome: "completed" } as const;
    const { session, call, service } = await opened({ rewardsNothing: true });
    await call("guess", { guess: 5 });
    await expect(session.grade(grade, { signal })).rejects.toMatchObject({
      failure: { boundary: "environment", code: "remote-unrewarded", retryable: false },
    });
    await expect(session.grade({ outcome: "truncated" }, { signal })).rejects.toThrow("reward absent in all 1 steps");
    const idle = await service.open(service.taskset("train").task(1), from);
    cleanups.push(() => idle.close());
    expect(await idle.grade(grade, { signal })).toMatchObject({ reward: 0, metrics: { steps: 0, rewarded_steps: 0 } });
    const zero = await opened({ rewardsNothing: true }, { unrewarded: "zero" });
    await zero.call("guess", { guess: 5 });
    expect(await zero.session.grade(grade, { signal })).toMatchObject({ reward: 0 });
  });

  it("has 0 for an episode without a reward of a world that rewards others", async () => {
    const { session, call, service } = await opened({ flavour: "mcp" });
    await call("open_box", { number: 2 });
    const second = await service.open(service.taskset("train").task(1), from);
    cleanups.push(() => second.close());
    await second.call({ name: "open_box", arguments: new Map([["number", 9]]) }, { signal });
    expect(await session.grade({ outcome: "completed" }, { signal })).toMatchObject({ reward: 1 });
    expect(await second.grade({ outcome: "completed" }, { signal })).toMatchObject({ reward: 0 });
  });

  it("fails the episode at an exception of the world, or shows it, as is chosen", async () => {
    const failing = await opened();
    await expect(failing.call("guess", { guess: 999 })).rejects.toMatchObject({
      failure: { boundary: "environment", code: "remote-error", retryable: false },
    });
    const showing = await opened({}, { exceptions: "observation" });
    expect(await showing.call("guess", { guess: 999 })).toMatchObject({
      text: "Error: the world broke",
      isError: true,
    });
    expect(await showing.call("guess", { guess: 5 })).toMatchObject({ reward: 1 });
  });

  it.each<[FakeFault, string]>([
    ["close", "remote-lost"],
    ["reset", "remote-lost"],
    ["garbage", "remote-invalid"],
    ["binary", "remote-invalid"],
    ["huge", "remote-invalid"],
    ["nan", "remote-invalid"],
    ["list", "remote-invalid"],
  ])("a fault of the line, %s, is %s when it meets a step, and when it meets the reset", async (type, code) => {
    const { server, session, call } = await opened({ fault: { at: 1, type } }, { maxBytes: 100_000 });
    await expect(call("guess", { guess: 5 })).rejects.toMatchObject({ failure: { boundary: "environment", code } });
    await session.close();
    await empty(server);
    const early = await served({ fault: { at: 0, type } }, { maxBytes: 100_000 });
    const opening = early.service.open(early.service.taskset("train").task(0), from);
    await expect(opening).rejects.toMatchObject({ failure: { code } });
    await empty(early.server);
  });

  it("never takes a message that came unasked for the answer to the next step", async () => {
    const { call, server } = await opened({ fault: { at: 1, type: "twice" } });
    expect(await call("guess", { guess: 2 })).toMatchObject({ reward: -0.125 });
    await expect(call("guess", { guess: 5 })).rejects.toMatchObject({ failure: { code: "remote-invalid" } });
    expect(server.received[0]).toHaveLength(2);
  });

  it("stops waiting when the call is cancelled, and leaves a server that ignores that", async () => {
    const { session, server } = await opened({ fault: { at: 1, type: "silence" }, ignoresClose: true });
    const controller = new AbortController();
    const calling = session.call({ name: "guess", arguments: new Map([["guess", 1]]) }, { signal: controller.signal });
    controller.abort(new Error("enough"));
    await expect(calling).rejects.toMatchObject({ failure: { code: "cancelled" } });
    await session.close();
    await empty(server);
  });

  it("waits where the server is full, and goes on when a session ends", async () => {
    const { service, server } = await served({ capacity: 1 });
    const clock = createManualClock();
    const source = remoteSource(service, { clock });
    const task = source.taskset("train").task(0);
    const first = await source.open(task, from);
    const second = Promise.resolve(source.open(task, from));
    while (source.sessions().queued === 0) await clock.advance(0);
    await first.close?.();
    await clock.advance(10_000);
    await (await second).close?.();
    expect(source.sessions()).toMatchObject({ opened: 2, closed: 2, active: 0, unclosed: 0 });
    expect(server.received).toHaveLength(2);
  });

  it("says what is wrong with an address where nothing speaks OpenEnv", async () => {
    const { server } = await served();
    const asking = openEnvService({ url: `${server.url}/elsewhere`, tasks: { train: seedTasks(0, 1) } });
    await expect(asking).rejects.toThrow(/GET http:.*\/elsewhere\/schema: HTTP 404, "Not Found"/);
    // A server without earlier connections: a kept connection may end while it is reused, and
    // counts as lost.
    const gone = await fakeOpenEnv();
    await gone.close();
    const refused = openEnvService({ url: gone.url, tasks: {} });
    await expect(refused).rejects.toMatchObject({ failure: { code: "remote-unreachable" } });
  });
});
