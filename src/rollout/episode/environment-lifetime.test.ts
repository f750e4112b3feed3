// The lifetime of environments: opened late or never, closed exactly once in every case, informed
// when an answer is no longer awaited, and begun again where they cannot be replayed.

import { describe, expect, it } from "vitest";
import type { Environment, EnvironmentCallOptions, EnvironmentSource, EpisodeEvent } from "../../core/index.ts";
import { defineEnvironment } from "../../environments/index.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { createRandom } from "../../lib/random.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { episodeFromJson, episodeLine } from "../../store/index.ts";
import { conservationViolations } from "../../trajectories/index.ts";
import { count, counter, instantClock, leave, task, world } from "./episode-world.test-helper.ts";
import { type EpisodeOptions, episodeSamples, episodeUsage, runEpisode } from "../index.ts";

const script = [count(1), count(2), "It is 3.", leave];
const lines = ["Count.", "Thanks."];
const never = new Promise<never>(() => undefined);

type Step = "open" | "call" | "hear" | "grade" | "close";
/** Behaviour of a step in place of its work: "late" answers after its deadline. */
type Fate = "at once" | "later" | "late" | "never" | "throws" | "rejects" | "malformed";

/** A counter in which any step may fail, with the number of times that it was opened and closed. */
function fateful(fateOf: (step: Step) => Fate, sleep: (ms: number) => Promise<void>) {
  const log = { opened: 0, closed: 0, usedAfterClose: 0, signals: [] as AbortSignal[] };
  const meet = <T>(step: Step, act: () => T, options?: EnvironmentCallOptions, fate = fateOf(step)): T | Promise<T> => {
    if (options !== undefined) log.signals.push(options.signal);
    switch (fate) {
      case "at once":
        return act();
      case "later":
        return sleep(5).then(act);
      case "late":
        return sleep(5000).then(act);
      case "never":
        return never;
      case "throws":
        throw new Error(`${step} throws`);
      case "rejects":
        return sleep(5).then(() => Promise.reject(new Error(`${step} rejects`)));
      case "malformed":
        act();
        return 5 as T;
      default:
        return fate satisfies never;
    }
  };
  const source: EnvironmentSource = {
    ...counter,
    open: (opened, options) => {
      const build = (): Environment => {
        const healthy = counter.open(opened) as Environment;
        log.opened++;
        let isClosed = false;
        const use = <T>(step: Step, act: () => T | Promise<T>, given?: EnvironmentCallOptions): T | Promise<T> => {
          if (isClosed) log.usedAfterClose++;
          return meet(step, act as () => T, given);
        };
        return {
          ...healthy,
          call: (call, given) => use("call", () => healthy.call(call), given),
          receiveUtterance: (utterance, given) => use("hear", () => healthy.receiveUtterance(utterance), given),
          grade: (ending, given) => use("grade", () => healthy.grade(ending), given),
          close: () => {
            log.closed++;
            isClosed = true;
            return meet("close", () => undefined);
          },
        };
      };
      const fate = fateOf("open");
      return fate === "malformed" ? ({ ...build(), tools: null } as never) : meet("open", build, options, fate);
    },
  };
  return { source, log };
}

const timeouts = { openMs: 1000, environmentMs: 1000, userMs: 1000, graderMs: 1000, closeMs: 1000 };

/** Runs the script, advancing time until the episode and all late answers have ended. */
async function run(fateOf: (step: Step) => Fate, options: EpisodeOptions = {}) {
  const clock = createManualClock();
  const { source, log } = fateful(fateOf, (ms) => clock.sleep(ms));
  const { parts } = world(script, lines);
  const running = runEpisode(task, { ...parts, environment: source }, { clock, timeouts, ...options });
  await clock.drain();
  const episode = await running;
  await clock.drain();
  return { episode, log };
}

const always = (fates: Partial<Record<Step, Fate>>) => (step: Step) => fates[step] ?? "at once";

describe("an environment", () => {
  it.each([
    ["ends", {}, "tool_ended", null],
    [
      "takes its time",
      { open: "later", call: "later", hear: "later", grade: "later", close: "later" },
      "tool_ended",
      null,
    ],
    ["cannot be opened", { open: "rejects" }, "fault", "environment/unexpected"],
    ["opens after its deadline", { open: "late" }, "fault", "environment/timeout"],
    ["never opens", { open: "never" }, "fault", "environment/timeout"],
    ["opens as none", { open: "malformed" }, "fault", "environment/bad-result"],
    ["fails in a call", { call: "throws" }, "fault", "environment/unexpected"],
    ["answers as none should", { call: "malformed" }, "fault", "environment/bad-result"],
    ["is too late in a call", { call: "late" }, "fault", "environment/timeout"],
    ["never hears", { hear: "never" }, "fault", "environment/timeout"],
    ["fails to grade", { grade: "rejects" }, "fault", "grader/unexpected"],
    ["never grades", { grade: "never" }, "fault", "grader/timeout"],
  ] as const)("that %s is closed once", async (_, fates, stopReason, code) => {
    const { episode, log } = await run(always(fates));
    const { failure } = episode;
    expect([episode.stopReason, failure && `${failure.boundary}/${failure.code}`]).toEqual([stopReason, code]);
    const opens = !["never", "rejects"].includes((fates as { readonly open?: Fate }).open ?? "");
    expect(log).toMatchObject({ opened: opens ? 1 : 0, closed: opens ? 1 : 0, usedAfterClose: 0 });
  });

  it.each(["throws", "rejects", "never", "late"] as const)(
    "whose closing %s changes no outcome: it is noted",
    async (fate) => {
      const { episode, log } = await run(always({ close: fate }));
      expect(episode).toMatchObject({ outcome: "completed", failure: null, reward: 1 });
      const noted = episode.events.filter((event) => event.type === "close-failure");
      expect(noted).toMatchObject([
        { failure: { boundary: "environment", code: /never|late/.test(fate) ? "timeout" : "unexpected" } },
      ]);
      expect(episode.events.at(-1)?.type).toBe("episode-end");
      expect(log.closed).toBe(1);
      expect(episodeFromJson(parseJson(episodeLine(episode)), "here")).toEqual(episode);
    },
  );

  it("is closed once however it ends: faults, deadlines and cancellations at random", async () => {
    const stops = new Map<string, number>();
    for (let seed = 1; seed <= 400; seed++) {
      const random = createRandom(seed);
      const cancel = new AbortController();
      const cancelAfter = random.integer(3) === 0 ? random.integer(14) : null;
      let events = 0;
      const isStoreBroken = random.integer(12) === 0;
      const { episode, log } = await run(
        (step) => {
          if (step === "open" && random.integer(4) > 0) return "at once";
          return random.integer(5) > 0
            ? random.pick(["at once", "later"] as const)
            : random.pick(["late", "never", "throws", "rejects", "malformed"] as const);
        },
        {
          signal: cancel.signal,
          onEvent: () => {
            if (events === cancelAfter) cancel.abort();
            if (events++ > 5 && isStoreBroken) throw new Error("disk full");
          },
        },
      );
      expect(log, `seed ${seed}`).toMatchObject({ closed: log.opened, usedAfterClose: 0 });
      const result = episodeSamples(episode);
      expect(conservationViolations(episode.trajectory, result)).toEqual([]);
      if (episode.outcome !== "completed") expect(result.samples).toEqual([]);
      const stop =
        episode.failure === null ? episode.stopReason : `${episode.failure.boundary}/${episode.failure.code}`;
      stops.set(stop, (stops.get(stop) ?? 0) + 1);
    }
    // The failures did occur.
    for (const stop of [
      "tool_ended",
      "cancelled",
      "environment/timeout",
      "environment/unexpected",
      "environment/bad-result",
    ]) {
      expect(stops.get(stop) ?? 0, stop).toBeGreaterThan(5);
    }
    expect([...stops.keys()]).toEqual(expect.arrayContaining(["grader/timeout", "store/event-not-recorded"]));
  });

  it("is told by its signal when nobody waits any more, and not before", async () => {
    const { log, episode } = await run(always({ open: "later", call: "later", grade: "later" }));
    expect(episode.reward).toBe(1);
    expect(log.signals).toHaveLength(6);
    expect(log.signals.map(({ aborted }) => aborted)).toEqual(Array(6).fill(false));
    let calls = 0;
    const late = await run((step) => (step === "call" && ++calls === 2 ? "never" : "at once"));
    expect(late.log.signals.map(({ aborted }) => aborted)).toEqual([false, false, true]);
    const cancel = new AbortController();
    const cancelled = run((step) => (step === "open" ? "never" : "at once"), { signal: cancel.signal });
    cancel.abort();
    expect((await cancelled).episode.stopReason).toBe("cancelled");
  });

  it("waits for an opening that its source bounds itself, and no longer than it may for another", async () => {
    const clock = createManualClock();
    const { parts } = world(script, lines);
    const open: EnvironmentSource["open"] = async (given, options) => {
      await clock.sleep(10_000);
      return counter.open(given, options);
    };
    const play = async (boundsOpening: boolean) => {
      const environment = { ...counter, open, boundsOpening };
      const playing = runEpisode(task, { ...parts, environment }, { clock, timeouts: { openMs: 1000 } });
      await clock.advance(20_000);
      return (await playing).failure;
    };
    expect(await play(false)).toMatchObject({ boundary: "environment", code: "timeout" });
    expect(await play(true)).toBeNull();
  });

  it("gets the same seed in equal episodes", async () => {
    const seeds: unknown[] = [];
    const { parts } = world(script, lines);
    const environment: EnvironmentSource = {
      ...counter,
      open: (given, options) => (seeds.push(options?.seed), counter.open(given, options)),
    };
    for (const seed of [1, 1, 2]) await runEpisode(task, { ...parts, environment }, { seed, clock: instantClock() });
    expect(seeds).toHaveLength(3);
    expect(seeds[0]).toBe(seeds[1]);
    expect(seeds[0]).not.toBe(seeds[2]);
  });
});

describe("defineEnvironment() with setup", () => {
  it("gives tools and grade what was set up, and tears it down once", async () => {
    const log: string[] = [];
    const source = defineEnvironment({
      name: "counter",
      guidelines: "Count.",
      setup: async ({ state, task: { id }, seed, signal }) => {
        log.push(`set up ${id} ${typeof seed} ${signal.aborted}`);
        state.count = 1;
        return { add: async (by: number) => (state.count += by) };
      },
      teardown: async ({ state }) => void log.push(`torn down at ${state.count}`),
      tools: {
        count: {
          description: "Counts up.",
          parameters: { type: "object" },
          run: async ({ by }, _, { resource, signal }) => `${await resource.add(Number(by))} ${signal.aborted}`,
        },
        leave: { description: "Ends.", parameters: { type: "object" }, endsEpisode: true, run: () => "bye" },
      },
      tasks: { test: [{ state: { count: 0 } }] },
      grade: async ({ state, resource }) => (await resource.add(0)) / state.count,
    });
    const { parts } = world([count(2), leave], ["Count."]);
    const episode = await runEpisode(source.taskset("test").task(0), { ...parts, environment: source });
    expect(episode).toMatchObject({ reward: 1, failure: null });
    const results = episode.events.flatMap((event) => (event.type === "tool-result" ? [event.result.text] : []));
    expect(results).toEqual(["3 false", "bye"]);
    expect(log).toEqual(["set up counter:test:0 number false", "torn down at 3"]);
  });
});

describe("an environment that cannot be replayed", () => {
  const restarting = (): EnvironmentSource => ({ ...counter, resume: "restart" });
  const whole = async () => {
    const { parts } = world(script, lines);
    return runEpisode(task, { ...parts, environment: restarting() }, { clock: instantClock(), seedTurns: true });
  };
  const resume = async (events: readonly EpisodeEvent[]) => {
    const emitted: EpisodeEvent[] = [];
    const { parts, model } = world(script, lines);
    const onEvent = (event: EpisodeEvent): void => void emitted.push(event);
    const options = { clock: instantClock(), seedTurns: true, resumeFrom: events, onEvent };
    const episode = await runEpisode(task, { ...parts, environment: restarting() }, options);
    return { episode, emitted, model };
  };

  it("keeps events and trajectory alike when the restart cannot be recorded", async () => {
    const { events } = episodeFromJson(parseJson(episodeLine(await whole())), "here");
    const { parts } = world(script, lines);
    const onEvent = (): never => {
      throw new Error("the disk is full");
    };
    const options = { clock: instantClock(), seedTurns: true, resumeFrom: events, onEvent };
    const episode = await runEpisode(task, { ...parts, environment: restarting() }, options);
    expect(episode.failure).toMatchObject({ boundary: "store" });
    const turns = episode.events.flatMap((event) => (event.type === "turn" ? [event.turn.index] : []));
    expect(turns.length).toBeGreaterThan(0);
    expect(episode.trajectory.turns.map(({ index }) => index)).toEqual(turns);
  });

  it("is begun again wherever it was cut, and what was sampled before is dropped by its reason", async () => {
    const first = await whole();
    const { events } = episodeFromJson(parseJson(episodeLine(first)), "here");
    for (let length = 1; length <= events.length; length++) {
      const { episode, emitted, model } = await resume(events.slice(0, length));
      const before = events.slice(0, length).flatMap((event) => (event.type === "turn" ? [event.turn] : []));
      expect(model.left()).toBe(0);
      expect(model.requests.map(({ sampling }) => sampling.seed)).toHaveLength(script.length);
      expect(episode).toMatchObject({ reward: 1, stopReason: "tool_ended", messages: first.messages });
      expect(episode.trajectory.turns).toHaveLength(before.length + script.length);
      const indexes = before.map(({ index }) => index);
      expect(emitted[0]).toMatchObject({ type: "restart", turns: indexes });
      // Only the tokens of the earlier attempt are kept.
      expect(episode.events.map(({ type }) => type)).toEqual([
        "episode-start",
        ...before.map(() => "turn"),
        "restart",
        ...events.slice(1).map(({ type }) => type),
      ]);
      const result = episodeSamples(episode);
      expect(result.dropped).toEqual(
        before.map(({ index, sampledTokens }) => ({ turn: index, count: sampledTokens.length, reason: "restarted" })),
      );
      const { samples } = episodeSamples(first);
      expect(result.samples.map(({ tokens, lossMask }) => ({ tokens, lossMask }))).toEqual(
        samples.map(({ tokens, lossMask }) => ({ tokens, lossMask })),
      );
      expect(episodeFromJson(parseJson(episodeLine(episode)), "here")).toEqual(episode);
    }
  });

  it("is begun again as often as it is cut", async () => {
    let journal = (await whole()).events.slice(0, 6);
    let turns = 0;
    for (let times = 1; times <= 4; times++) {
      turns = journal.filter(({ type }) => type === "turn").length;
      const { emitted } = await resume(journal);
      expect(emitted[0]).toMatchObject({ type: "restart", turns: [...Array(turns).keys()] });
      journal = [...journal, ...emitted.slice(0, 3 + times)];
    }
    const { episode } = await resume(journal);
    expect(episode.reward).toBe(1);
    expect(episode.events.filter(({ type }) => type === "restart")).toHaveLength(1);
    const { samples, dropped } = episodeSamples(episode);
    expect(samples).toHaveLength(1);
    expect(new Set(dropped.map(({ reason }) => reason))).toEqual(new Set(["restarted"]));
    expect(dropped).toHaveLength(episode.trajectory.turns.length - script.length);
  });

  it("says what the models behind APIs cost before", async () => {
    const usage = { modelCalls: 1, inputTokens: 10, outputTokens: 5, cost: 0.25 };
    const events = (await whole()).events.map((event) =>
      event.type === "user-line" ? { ...event, line: { ...event.line, usage } } : event,
    );
    const { episode } = await resume(events.slice(0, 4));
    expect(episodeUsage(episode).user).toEqual(usage);
    const again = await resume([
      ...events.slice(0, 4),
      ...episode.events.filter(({ type }) => type === "restart"),
      events[1]!,
    ]);
    expect(episodeUsage(again.episode).user).toMatchObject({ modelCalls: 2, cost: 0.5 });
  });
});
