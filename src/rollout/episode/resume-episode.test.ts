import { describe, expect, it } from "vitest";
import { defineEnvironment } from "../../environments/index.ts";
import { ConfigurationError, type Episode, type EpisodeEvent, type UserSource } from "../../core/index.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { episodeFromJson, episodeLine } from "../../store/index.ts";
import { scriptedUser } from "../../users/index.ts";
import { count, instantClock, leave, type Reply, task, world } from "./episode-world.test-helper.ts";
import { episodeSamples, type EpisodeOptions, runEpisode } from "../index.ts";

const hangUp = "###STOP###";
const dummy = { prompt: { view: () => [] } } as never;

type Case = {
  readonly name: string;
  readonly replies: readonly Reply[];
  readonly lines: Parameters<typeof world>[1];
  readonly world?: Parameters<typeof world>[2];
  readonly options?: EpisodeOptions;
};

/** Runs the whole episode and counts the engine calls before each event. */
async function playWhole({ replies, lines, world: given, options }: Case) {
  const { parts, model } = world(replies, lines, given);
  const asked: number[] = [];
  const onEvent = (): void => void asked.push(model.requests.length);
  return { episode: await runEpisode(task, parts, { clock: instantClock(), ...options, onEvent }), asked };
}

/** Resumes after `events` with an engine that had `asked` calls before. */
async function resume(one: Case, events: readonly EpisodeEvent[], asked: number) {
  const { parts, model } = world(one.replies, one.lines, one.world);
  for (let call = 0; call < asked; call++) await model.sample(dummy).catch(() => undefined);
  const emitted: EpisodeEvent[] = [];
  const onEvent = (event: EpisodeEvent): void => void emitted.push(event);
  const clock = instantClock();
  const episode = await runEpisode(task, parts, { clock, ...one.options, resumeFrom: events, onEvent });
  return { episode, emitted, model };
}

const thinking = `<think>\nHm.\n</think>\n\n`;
const cases: readonly Case[] = [
  {
    name: "calls and words until the user hangs up",
    replies: ["How far?", count(1), "<tool_call>\n{broken\n</tool_call>", count(2), "It is 3."],
    lines: ["Please count.", "To 3.", `Bye ${hangUp}`],
  },
  { name: "a tool that ends it", replies: [count(3), leave], lines: ["Count."] },
  {
    name: "a history that the template rewrites",
    replies: [`${thinking}How far?`, `${thinking}${count(3)}`, `${thinking}It is 3.`],
    lines: ["Please count.", "To 3.", hangUp],
    world: { family: "qwen3", historyPolicy: "branch" },
  },
  {
    name: "turns that the server aborted and that were sampled anew",
    replies: [count(3), { text: "It", finish: "abort" }, { text: "It i", finish: "abort" }, "It is 3."],
    lines: ["Please count.", hangUp],
    options: { engineAbort: { onAbort: "restart" } },
  },
  {
    name: "a turn that goes on from its partial tokens",
    replies: [count(3), { text: "It", finish: "abort" }, " is 3."],
    lines: ["Please count.", hangUp],
    options: { engineAbort: { onAbort: "continue" } },
  },
  {
    name: "an abort that ends it",
    replies: [count(3), { text: "It", finish: "abort" }],
    lines: ["Please count."],
    options: { engineAbort: { onAbort: "end" } },
  },
  {
    name: "faults that pass and one that does not",
    replies: [{ fault: "server-error", retryable: true }, count(1), { fault: "bad-request", retryable: false }],
    lines: ["Please count."],
  },
  {
    name: "a context that is full",
    replies: [count(1), { fault: "context-length", retryable: false }],
    lines: ["Please count."],
  },
  {
    name: "a limit of turns",
    replies: [count(1), count(2)],
    lines: ["Please count."],
    options: { limits: { maxTurns: 2 } },
  },
  {
    name: "a user who fails",
    replies: ["How far?"],
    lines: ["Please count.", { type: "fault", code: "timeout", message: "late" }],
  },
];

describe("runEpisode() with resumeFrom", () => {
  it.each(cases)("gives the same episode wherever it was cut: $name", async (one) => {
    const { episode: whole, asked } = await playWhole(one);
    // The events as read back from a journal.
    const { events } = episodeFromJson(parseJson(episodeLine(whole)), "here");
    for (let length = 0; length <= whole.events.length; length++) {
      // A grade without an episode end does not record why the episode ended.
      const from = whole.events[length - 1]?.type === "grade" ? length - 1 : length;
      const { episode, emitted, model } = await resume(one, events.slice(0, length), asked[from - 1] ?? 0);
      expect(episode).toEqual(whole);
      expect(emitted).toEqual(whole.events.slice(from));
      expect(model.left()).toBe(0);
      expect(episodeSamples(episode)).toEqual(episodeSamples(whole));
    }
  });

  it("goes on with an episode that was cancelled, however often", async () => {
    const one = cases[0]!;
    const { episode: whole, asked } = await playWhole(one);
    let events: readonly EpisodeEvent[] = [];
    for (const cut of [3, 6, 9]) {
      const cancel = new AbortController();
      const { parts, model } = world(one.replies, one.lines);
      for (let call = 0; call < (asked[events.filter(isOpen).length - 1] ?? 0); call++) await model.sample(dummy);
      const written = [...events];
      const onEvent = (event: EpisodeEvent): void => {
        written.push(event);
        if (written.filter(isOpen).length === cut) cancel.abort();
      };
      const options = { clock: instantClock(), onEvent, signal: cancel.signal, resumeFrom: events };
      expect(await runEpisode(task, parts, options)).toMatchObject({ stopReason: "cancelled" });
      events = written;
    }
    expect(events.filter((event) => !isOpen(event))).toHaveLength(3);
    const { episode } = await resume(one, events, asked[8]!);
    expect(episode).toEqual(whole);
  });

  const changes: readonly (readonly [string, (event: EpisodeEvent) => EpisodeEvent, string])[] = [
    [
      "another tool result",
      (event) => (event.type === "tool-result" ? { ...event, result: { ...event.result, text: "4" } } : event),
      "environment",
    ],
    [
      "another prompt",
      (event) =>
        event.type === "turn" ? { ...event, turn: { ...event.turn, observationTokens: Uint32Array.of(1) } } : event,
      "renderer",
    ],
    [
      "another decision",
      (event) => (event.type === "decision" ? { ...event, decision: { type: "end", problems: [] } } : event),
      "parser",
    ],
    [
      "another episode",
      (event) => (event.type === "episode-start" ? { ...event, episodeId: "other" } : event),
      "environment",
    ],
    ["another order", (event) => (event.type === "turn" ? { ...event, type: "grade" as never } : event), "engine"],
  ];
  it.each(changes)("fails with replay-diverged for %s, and trains nothing", async (_, change, boundary) => {
    const one = cases[0]!;
    const { episode: whole } = await playWhole(one);
    const { episode, model, emitted } = await resume(one, whole.events.slice(0, -3).map(change), 0);
    expect(episode).toMatchObject({ outcome: "failed", reward: null, failure: { code: "replay-diverged", boundary } });
    expect(model.requests).toHaveLength(0);
    expect(emitted.map(({ type }) => type)).toEqual(["episode-end"]);
    expect(episodeSamples(episode).samples).toEqual([]);
  });

  it("notices an environment that is not deterministic", async () => {
    let calls = 0;
    const environment = defineEnvironment({
      name: "dice",
      guidelines: "Roll.",
      tools: { roll: { description: "Rolls.", parameters: { type: "object", properties: {} }, run: () => ++calls } },
      tasks: { test: [{ instruction: "Roll.", state: {} }] },
      grade: () => 1,
    });
    const roll = `<tool_call>\n{"name": "roll", "arguments": {}}\n</tool_call>`;
    const runScript = (resumeFrom: readonly EpisodeEvent[], replies: readonly Reply[]): Promise<Episode> => {
      const { parts } = world(replies, ["Roll.", hangUp]);
      return runEpisode(environment.taskset("test").task(0), { ...parts, environment }, { resumeFrom });
    };
    const whole = await runScript([], [roll, "Done."]);
    const again = await runScript(whole.events.slice(0, 5), ["Done."]);
    expect(again.failure).toMatchObject({ code: "replay-diverged", boundary: "environment" });
    expect(again.failure?.message).toContain('the recorded "tool-result" is different');
  });

  it("refuses a user that cannot take up a conversation, before anything happens", async () => {
    const one = cases[0]!;
    const { episode: whole } = await playWhole(one);
    const { parts } = world(one.replies, one.lines);
    const user: UserSource = { name: "forgetful", create: () => scriptedUser(one.lines) };
    const resumed = runEpisode(task, { ...parts, user }, { resumeFrom: whole.events.slice(0, 4) });
    await expect(resumed).rejects.toThrow(ConfigurationError);
    await expect(resumed).rejects.toThrow('after 1 lines of user "forgetful"');
  });
});

const isOpen = (event: EpisodeEvent): boolean => event.type !== "episode-end";
