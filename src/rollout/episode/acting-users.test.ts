import { describe, expect, test } from "vitest";
import {
  type EnvironmentSource,
  type Episode,
  type EpisodeEvent,
  freeUsage,
  toolFromDefinition,
  type UserLine,
} from "../../core/index.ts";
import { conversationOf } from "../../graders/index.ts";
import { fromPlain, type JsonObject, parseJson } from "../../python-semantics/json/index.ts";
import { episodeFromJson, episodeLine } from "../../store/index.ts";
import type { scriptedUsers } from "../../users/index.ts";
import { llmUser, parseUserExchanges, recordingUser, replayingUser } from "../../users/index.ts";
import { type ChatMessage, type ChatReply, textReply } from "../../chat-models/index.ts";
import { count, counter, instantClock, task, world } from "./episode-world.test-helper.ts";
import { episodeSamples, type EpisodeParts, runEpisode } from "../index.ts";

const press = toolFromDefinition(
  fromPlain({
    type: "function",
    function: { name: "press", parameters: { type: "object", properties: {} } },
  }) as JsonObject,
);

/** The counter, with a button that the user presses; the user's third utterance ends it. */
const shared: EnvironmentSource = {
  ...counter,
  open: (given, options) => {
    const inner = counter.open(given, options) as ReturnType<typeof counter.open> & { then?: never };
    let said = 0;
    return Object.assign(Object.create(inner) as object, inner, {
      history: [{ role: "assistant", content: "Hello.", reasoning: null, toolCalls: [] }],
      userSide: {
        prompt: "You press the button.",
        tools: [press],
        history: [{ role: "user", content: "Hello." }],
        act: async (line: UserLine) => {
          const results = [];
          for (const { name } of line.calls ?? []) {
            const known = name === "press";
            const by = fromPlain({ by: 1 }) as JsonObject;
            const result = known ? await inner.call({ name: "count", arguments: by }) : null;
            results.push(result ?? { text: "Error: no such tool", isError: true, endsEpisode: false, info: new Map() });
          }
          if (line.type === "utterance") said++;
          return { results, endsEpisode: said === 3 };
        },
      },
    });
  },
};

const calls = (...names: string[]): UserLine => ({
  type: "calls",
  text: "",
  usage: freeUsage,
  calls: names.map((name, index) => ({ id: `u${index}`, name, arguments: new Map() })),
});

const lines = ["Please count.", calls("press", "fly"), calls("press"), "I pressed it.", "Bye ###STOP###"];
const replies = ["Press it, please.", count(1), "It is 3."];

const partsOf = (
  steps: Parameters<typeof scriptedUsers>[0] = lines,
): EpisodeParts & { readonly asked: () => number } => {
  const { parts, model } = world(replies, steps);
  return { ...parts, environment: shared, asked: () => model.requests.length };
};

const play = (parts: EpisodeParts, options = {}): Promise<Episode> =>
  runEpisode(task, parts, { clock: instantClock(), ...options });

describe("users that act", () => {
  test("their calls are carried out in the same world, answered to them, and shown to nobody else", async () => {
    const parts = partsOf();
    const episode = await play(parts);
    expect(episode).toMatchObject({ stopReason: "user_hung_up", reward: 1 });
    const kinds = episode.events.map(({ type }) => type);
    expect(kinds.filter((kind) => kind === "user-outcome").length).toBe(5);
    const results = episode.events.flatMap((event) => (event.type === "user-outcome" ? event.outcome.results : []));
    expect(results.map(({ text }) => text)).toEqual(['{"count": 1}', "Error: no such tool", '{"count": 2}']);
    expect(episode.messages.map(({ role }) => role)).toEqual([
      ...["system", "assistant", "user", "assistant", "user", "assistant", "tool", "assistant"],
    ]);
    expect(JSON.stringify(episode.messages)).not.toContain("no such tool");
    // Graders see them as calls of the user, without empty utterances.
    const steps = conversationOf(episode).filter(({ type }) => type === "user" || type === "user-call");
    expect(steps.map((step) => ("name" in step ? `${step.name}: ${step.result}` : step.text))).toEqual([
      ...["Please count.", 'press: {"count": 1}', "fly: Error: no such tool", 'press: {"count": 2}'],
      ...["I pressed it.", "Bye ###STOP###"],
    ]);
    // The agent's part in the given history is prompt: only sampled tokens are trained.
    const [sample] = episodeSamples(episode).samples;
    const sampled = episode.trajectory.turns.reduce((sum, { sampledTokens }) => sum + sampledTokens.length, 0);
    expect(sample!.lossMask.reduce((sum, one) => sum + one, 0)).toBe(sampled);
  });

  test("a user who calls tools and never says anything fails the episode as the user's fault", async () => {
    const episode = await play(partsOf(["Please count.", ...Array.from({ length: 1001 }, () => calls("press"))]));
    expect(episode).toMatchObject({ stopReason: "fault", failure: { boundary: "user", code: "bad-result" } });
    expect(episode.failure?.message).toContain("1000 lines one after another");
  });

  test("the world may end it with words of the user", async () => {
    const parts = partsOf(["One.", "Two.", "Three."]);
    expect(await play(parts)).toMatchObject({ stopReason: "user_hung_up", reward: 0 });
  });

  test("a record has them, and an episode that died at any event goes on to the same end", async () => {
    const whole = await play(partsOf());
    expect(episodeFromJson(parseJson(episodeLine(whole)), "here")).toEqual(whole);
    for (let cut = 1; cut < whole.events.length; cut++) {
      const parts = partsOf();
      const before = whole.events.slice(0, cut);
      const turns = before.filter(({ type }) => type === "turn").length;
      for (let turn = 0; turn < turns; turn++) await parts.engine.sample({ prompt: { view: () => [] } } as never);
      const emitted: EpisodeEvent[] = [];
      const episode = await play(parts, {
        resumeFrom: before,
        onEvent: (event: EpisodeEvent) => void emitted.push(event),
      });
      const { durationMs: _, ...rest } = { durationMs: 0, ...episode };
      expect({ ...rest, events: rest.events.length }, `cut ${cut}`).toEqual({ ...whole, events: whole.events.length });
    }
  });

  test("a recording replays them, calls and what they were answered included", async () => {
    const stored: string[] = [];
    const parts = partsOf();
    const first = await play({
      ...parts,
      user: recordingUser(parts.user, (exchange) => void stored.push(JSON.stringify(exchange))),
    });
    const again = await play({ ...partsOf(), user: replayingUser(parseUserExchanges(stored.join("\n"))) });
    expect(again.reward).toBe(first.reward);
    expect(again.messages).toEqual(first.messages);
  });

  test("where users only talk, calls of a user are its fault; so is a user that takes no results", async () => {
    const { parts } = world(["Hi."], [calls("press")]);
    expect(await play(parts)).toMatchObject({
      stopReason: "fault",
      failure: { boundary: "user", code: "bad-result" },
    });
    const mute = {
      name: "mute",
      create: () => ({ open: async () => calls("press"), reply: async () => calls("press") }),
    };
    expect(await play({ ...partsOf(), user: mute })).toMatchObject({
      stopReason: "fault",
      failure: { boundary: "user" },
    });
  });

  test("a model plays such a user by its prompt and tools, and hears results as those of its calls", async () => {
    const requests: { readonly messages: readonly ChatMessage[]; readonly tools: readonly string[] }[] = [];
    const answers: ChatReply[] = [
      textReply("Please count.", freeUsage),
      { ...textReply("", freeUsage), toolCalls: [{ id: "a", name: "press", argumentsText: "{}" }] },
      { ...textReply("", freeUsage), toolCalls: [{ id: null, name: "press", argumentsText: "" }] },
      { ...textReply("", freeUsage), toolCalls: [{ id: null, name: "press", argumentsText: "" }] },
      textReply("I pressed it.", freeUsage),
      textReply("Bye ###STOP###", freeUsage),
    ];
    const user = llmUser({
      chat: {
        name: "model",
        complete: async (messages, options) => {
          requests.push({ messages: [...messages], tools: (options?.tools ?? []).map(({ name }) => name) });
          return answers.shift()!;
        },
      },
    });
    const episode = await play({ ...partsOf(), user });
    expect(episode).toMatchObject({ stopReason: "user_hung_up", reward: 0 });
    expect(requests.every(({ tools }) => tools.length === 1 && tools[0] === "press")).toBe(true);
    expect(requests.at(-1).messages.map(({ role }) => role)).toEqual([
      ...["system", "user", "assistant", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool"],
      ...["assistant", "user"],
    ]);
    expect(requests.at(-1).messages[5]).toEqual({ role: "tool", content: '{"count": 1}', name: "press", callId: "a" });
    // Without ids of the server: counted, as a user that resumes counts the calls that it finds recorded.
    expect(
      episode.events.flatMap((event) => (event.type === "user-line" ? (event.line.calls ?? []) : [])),
    ).toMatchObject([...[{ id: "a" }, { id: "user_call_1" }, { id: "user_call_2" }]]);
  });
});
