// Several calls in one turn: each is carried out in order and has one observation, even if others
// are wrong, and the policy is shown several results in the form that the model's own template
// writes.

import { describe, expect, it } from "vitest";
import { createToolCalling } from "../../agents/index.ts";
import { chatAgent, type ChatMessage } from "../../chat-models/index.ts";
import { callsOf, type EnvironmentSource, type Episode, type EpisodeEvent, type Message } from "../../core/index.ts";
import { defineEnvironment } from "../../environments/index.ts";
import { exportFormats, exportGroup, type SftRow } from "../../export/index.ts";
import { conversationOf } from "../../graders/index.ts";
import { createRandom } from "../../lib/random.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { rendererFamily, rendererFor } from "../../renderers/index.ts";
import { familySamples } from "../../renderers/family-samples.test-helper.ts";
import { byteTokenizer } from "../../renderers/marker-tokenizer.test-helper.ts";
import { publishedTemplate, testedFamilies } from "../../renderers/published-templates.test-helper.ts";
import { episodeFromJson, episodeLine } from "../../store/index.ts";
import { conservationViolations } from "../../trajectories/index.ts";
import { scriptedUsers } from "../../users/index.ts";
import { count, counter, instantClock, leave, scriptedModel, task, world } from "./episode-world.test-helper.ts";
import { type EpisodeOptions, episodeSamples, runChatEpisode, runEpisode } from "../index.ts";

const broken = "<tool_call>\n{broken\n</tool_call>";
const unknown = '<tool_call>\n{"name": "fly", "arguments": {}}\n</tool_call>';

async function run(replies: readonly string[], options: EpisodeOptions = {}, environment: EnvironmentSource = counter) {
  const { parts, model } = world(replies, ["Count.", "Bye ###STOP###"], { calls: "several" });
  const episode = await runEpisode(task, { ...parts, environment }, { clock: instantClock(), ...options });
  return { episode, model, renderer: parts.renderer };
}

/** Tool results, and feedback in place of results, as the policy reads them after each action. */
function observed({ messages }: Episode): string[][] {
  const turns: string[][] = [];
  for (const { role, content } of messages) {
    if (role === "assistant") turns.push([]);
    else if (role === "tool") turns.at(-1)?.push(content);
  }
  return turns;
}

const resultsOf = ({ events }: Episode) => events.filter((event) => event.type === "tool-result");

describe("an action with several calls", () => {
  it("has them carried out in order, and shown together", async () => {
    const { episode, model, renderer } = await run([[count(1), count(2)].join("\n"), "It is 3."]);
    expect(episode).toMatchObject({ reward: 1, stopReason: "user_hung_up", problems: [] });
    expect(observed(episode)).toEqual([['{"count": 1}', '{"count": 3}'], []]);
    expect(resultsOf(episode)).toMatchObject([
      { turn: 0, call: 0, result: { text: '{"count": 1}' } },
      { turn: 0, call: 1, result: { text: '{"count": 3}' } },
    ]);
    const tools = episode.messages.filter((message) => message.role === "tool");
    expect(tools.map(({ name, callId }) => [name, callId])).toEqual([
      ["count", "call_0_0"],
      ["count", "call_0_1"],
    ]);
    expect(model.prompts[1]).toBe(
      renderer.renderPrompt(episode.messages.slice(0, 5), (await counter.open(task)).tools).text,
    );
  });

  it("is one call as ever where there is one: the record is that of calls one", async () => {
    const replies = ["How far?", count(3), broken, "It is 3."];
    const { parts } = world(replies, ["Count.", "To 3.", "Bye ###STOP###"]);
    const one = await runEpisode(task, parts, { clock: instantClock() });
    const { parts: several } = world(replies, ["Count.", "To 3.", "Bye ###STOP###"], { calls: "several" });
    const same = await runEpisode(task, several, { clock: instantClock() });
    expect(episodeLine(same)).toBe(episodeLine(one));
  });

  it.each([
    [
      "a third that cannot be read",
      [count(1), count(2), broken],
      ['{"count": 1}', '{"count": 3}', /^Error: the tool call was not/],
    ],
    ["a second that cannot be read", [count(1), broken, count(2)], ['{"count": 1}', /not valid JSON/, '{"count": 3}']],
    ["a first that cannot be read", [broken, count(1)], [/not valid JSON/, '{"count": 1}']],
    ["an unknown tool", [count(1), unknown, count(2)], ['{"count": 1}', /There is no tool "fly"/, '{"count": 3}']],
    ["arguments that do not fit", [count("x"), count(3)], [/must be of type integer/, '{"count": 3}']],
    ["a tool that throws", [count(13), count(3)], ["Error: unlucky", '{"count": 3}']],
    ["nothing but mistakes", [unknown, count("x")], [/no tool "fly"/, /must be of type integer/]],
    [
      "two mistakes that follow one another",
      [count(1), broken, unknown],
      ['{"count": 1}', /not valid JSON/, /no tool "fly"/],
    ],
  ])("is not undone by %s", async (_, calls, expected) => {
    const { episode } = await run([calls.join("\n"), "Done."]);
    const [first] = observed(episode);
    expect(first).toHaveLength(expected.length);
    expected.forEach((text, at) => expect(first![at]).toMatch(text));
    expect(resultsOf(episode).map(({ call }) => call)).toEqual(
      calls.flatMap((call, at) => ([broken, unknown, count("x")].includes(call) ? [] : [at])),
    );
  });

  it("ends with the call that ends the episode: the rest is not carried out", async () => {
    const { episode } = await run([[count(3), leave, count(1)].join("\n")]);
    expect(episode).toMatchObject({ reward: 1, stopReason: "tool_ended" });
    expect(resultsOf(episode).map(({ result }) => result.text)).toEqual(['{"count": 3}', "bye"]);
    expect(episode.messages.at(-1)?.role).toBe("assistant");
    expect(conversationOf(episode).filter(({ type }) => type === "call")).toHaveLength(2);
  });

  it("is not carried out where it was cut off", async () => {
    const { parts } = world(
      [{ text: [count(1), count(1)].join("\n"), finish: "length" }, "Done."],
      ["Count.", "###STOP###"],
      { calls: "several" },
    );
    const episode = await runEpisode(task, parts, { clock: instantClock() });
    expect(resultsOf(episode)).toEqual([]);
    expect(episode.problems.map(({ code }) => code)).toEqual(["cut-off"]);
  });

  it("is one call in an environment that carries out one", async () => {
    const { episode } = await run([[count(3), count(1)].join("\n"), "Done."], {}, { ...counter, calls: "one" });
    expect(observed(episode)[0]).toEqual(['{"count": 3}']);
    expect(episode.problems.map(({ code }) => code)).toEqual(["several-calls"]);
  });

  it("rewards each call, and its turn with their sum", async () => {
    const rewarding: EnvironmentSource = {
      ...counter,
      open: (one) => {
        const opened = counter.open(one);
        if ("then" in opened) throw new Error("it opens at once");
        return {
          ...opened,
          call: async (given) => ({ ...(await opened.call(given)), reward: 0.25 }),
          grade: () => ({ reward: 1, metrics: {}, log: "", info: new Map() }),
        };
      },
    };
    const { episode } = await run([[count(1), broken, count(2)].join("\n"), "It is 3."], {}, rewarding);
    expect(episode.grade?.turnRewards).toEqual([0.5, 0.5]);
  });

  it("is resumed at each event, in the middle of its calls, too", async () => {
    const replies = [[count(1), broken, count(1)].join("\n"), [count(1), leave, count(9)].join("\n")];
    const { episode: whole } = await run(replies);
    const { events } = episodeFromJson(parseJson(episodeLine(whole)), "here");
    expect(events.map(({ type }) => type).filter((type) => type === "tool-result")).toHaveLength(4);
    for (let length = 0; length <= events.length; length++) {
      const from = events[length - 1]?.type === "grade" ? length - 1 : length;
      const emitted: EpisodeEvent[] = [];
      const asked = events.slice(0, from).filter(({ type }) => type === "turn").length;
      const { episode } = await run(replies.slice(asked), {
        resumeFrom: events.slice(0, length),
        onEvent: (event) => void emitted.push(event),
      });
      expect({ ...episode, trajectory: null, events: null }).toEqual({ ...whole, trajectory: null, events: null });
      expect(emitted.map(({ type }) => type)).toEqual(whole.events.slice(from).map(({ type }) => type));
      expect(resultsOf(episode)).toEqual(resultsOf(whole));
    }
  });

  it("gives every call one observation in its order, and every token one place: random actions", async () => {
    let most = 0;
    for (let seed = 1; seed <= 150; seed++) {
      const random = createRandom(seed);
      const makers = [
        () => count(random.integer(3)),
        () => count(random.integer(3)),
        () => count("x"),
        () => count(13),
        () => broken,
        () => unknown,
        () => (random.integer(10) === 0 ? leave : count(1)),
      ];
      const written = Array.from({ length: 1 + random.integer(4) }, () =>
        Array.from({ length: random.integer(6) }, () => random.pick(makers)()),
      );
      const replies = written.map((calls) => [random.pick(["", "Well.\n"]), calls.join("\n")].join("") || "Hm.");
      const { parts } = world(
        replies,
        Array.from({ length: 6 }, () => "Go on."),
        { calls: "several" },
      );
      const episode = await runEpisode(task, parts, { clock: instantClock(), limits: { maxTurns: replies.length } });
      expect(episode.failure, `seed ${seed}`).toBeNull();
      const decisions = episode.events.flatMap((event) => (event.type === "decision" ? [event.decision] : []));
      const shown = observed(episode);
      decisions.forEach((decision, turn) => {
        const calls = written[turn]!;
        most = Math.max(most, calls.length);
        const kinds = calls.map((call) => (call === broken ? "broken" : call === unknown ? "unknown" : "read"));
        if (calls.length > 1) {
          const what = callsOf(decision).map(({ call, problems }) =>
            call !== null ? "read" : problems[0]?.code === "unknown-tool" ? "unknown" : "broken",
          );
          expect(what, `seed ${seed}, turn ${turn}`).toEqual(kinds);
        }
        if (shown[turn]!.length === 0) return;
        expect(shown[turn], `seed ${seed}, turn ${turn}`).toHaveLength(calls.length);
        calls.forEach((call, at) => {
          const text = shown[turn]![at]!;
          if (call === broken) expect(text).toMatch(/not valid JSON/);
          else if (call === unknown) expect(text).toMatch(/There is no tool "fly"/);
          else if (call === count("x")) expect(text).toMatch(/must be of type integer/);
          else if (call === count(13)) expect(text).toBe("Error: unlucky");
          else expect(text).toMatch(/^(\{"count": \d+\})$/);
        });
      });
      const result = episodeSamples(episode);
      expect(conservationViolations(episode.trajectory, result)).toEqual([]);
      const rows = exportRows(episode);
      expect(rows.filter(({ role }) => role === "tool")).toHaveLength(shown.flat().length);
      expect(episodeFromJson(parseJson(episodeLine(episode)), "here")).toEqual(episode);
    }
    expect(most).toBeGreaterThan(4);
  });
});

function exportRows(episode: Episode): SftRow["messages"] {
  const result = episodeSamples(episode);
  const member = { episode, result, index: 0 };
  const group = { run: null, groupIndex: 0, decision: "kept", reason: null, episodes: [member] } as const;
  const context = { decode: () => "", toolsOf: () => null, where: () => true };
  return (exportGroup(group, exportFormats.sft, context).rows[0] as unknown as SftRow | undefined)?.messages ?? [];
}

describe("several calls beside the loop", () => {
  it("stand in a chat dataset in their parts, each result with the id of its call", async () => {
    const { episode } = await run([[count(1), count("x"), count(2)].join("\n"), "It is 3."]);
    const messages = exportRows(episode);
    expect(messages.map(({ role }) => role)).toEqual(
      ["system", "user", "assistant", "tool", "tool", "tool", "assistant", "user"].slice(0, messages.length),
    );
    expect(messages[2]!.tool_calls?.map(({ id }) => id)).toEqual(["call_0_0", "call_0_1", "call_0_2"]);
    expect(messages.slice(3, 6).map(({ tool_call_id }) => tool_call_id)).toEqual(["call_0_0", "call_0_1", "call_0_2"]);
  });

  it("stay text where one could not be read", async () => {
    const { episode } = await run([[count(1), broken].join("\n"), "Done."]);
    const messages = exportRows(episode);
    expect(messages[2]).toMatchObject({ tool_calls: null, content: [count(1), broken].join("\n") });
  });

  it("are read by graders one by one, without those that were not carried out", async () => {
    const { episode } = await run([[count(1), broken, count(2)].join("\n"), "It is 3."]);
    const calls = conversationOf(episode).flatMap((step) => (step.type === "call" ? [[step.name, step.result]] : []));
    expect(calls).toEqual([
      ["count", '{"count": 1}'],
      ["count", '{"count": 3}'],
    ]);
  });

  it("of an agent behind an API come back to it, each with its result", async () => {
    const shown: (readonly ChatMessage[])[] = [];
    const said = [
      {
        toolCalls: [1, "x", 2].map((by, at) => ({
          id: `c${at}`,
          name: "count",
          argumentsText: JSON.stringify({ by }),
        })),
      },
      {},
    ];
    const usage = { modelCalls: 1, inputTokens: 1, outputTokens: 1, cost: null };
    const agent = chatAgent({
      chat: {
        name: "scripted",
        complete: async (messages) => {
          const reply = said[shown.length] ?? {};
          shown.push(messages);
          return { text: "Done.", reasoning: null, toolCalls: [], isTruncated: false, usage, ...reply };
        },
      },
    });
    const parts = {
      environment: counter,
      user: scriptedUsers(["Count.", "###STOP###"]),
      agent,
      strategy: createToolCalling({ calls: "several" }),
    };
    const episode = await runChatEpisode(task, parts, { clock: instantClock() });
    expect(episode.reward).toBe(1);
    const last = shown[1] as readonly Message[];
    expect(last[2]).toMatchObject({ role: "assistant", toolCalls: [{ id: "c0" }, { id: "c1" }, { id: "c2" }] });
    expect(last.slice(3)).toMatchObject(["c0", "c1", "c2"].map((callId) => ({ role: "tool", callId })));
  });
});

const orders: EnvironmentSource = defineEnvironment({
  name: "orders",
  guidelines: "Find orders.",
  tools: {
    find_order: {
      description: "Finds an order.",
      parameters: { type: "object", properties: { order_id: { type: "string" } }, required: ["order_id"] },
      run: (_, state) => `result number ${++state.found}`,
    },
  },
  tasks: { test: [{ instruction: "Find them.", state: { found: 0 } }] },
  grade: ({ state }) => state.found,
});

/**
 * Two calls in one turn, in the possible formats of a model family. Families that write one call
 * per turn are excluded.
 */
function twice(call: string): string[] {
  const inside =
    /^(<｜tool▁calls▁begin｜>|<\|tool_calls_section_begin\|>)([^]*)(<｜tool▁calls▁end｜>|<\|tool_calls_section_end\|>)$/.exec(
      call,
    );
  return inside === null
    ? [`${call}\n${call}`, `${call}${call}`]
    : [`${inside[1]}${inside[2]}\n${inside[2]}${inside[3]}`];
}

describe("templates as they are published", async () => {
  const able: { readonly name: string; readonly action: string }[] = [];
  for (const name of testedFamilies) {
    const sample = familySamples[name]!;
    const renderer = await rendererOf(name);
    const { tools } = await orders.open(orders.taskset("test").task(0));
    const action = twice(sample.call).find(
      (text) =>
        renderer.renderer.parseAction(renderer.tokenizer.encode(text), { tools, turn: 0 }).toolCalls.length === 2,
    );
    if (action !== undefined) able.push({ name, action });
  }

  it("are enough", () => {
    expect(able.length).toBeGreaterThanOrEqual(testedFamilies.length > 5 ? 15 : 2);
  });

  it.each(able)(
    "of $name write both results, in order, and extend the prompt or begin a branch",
    async ({ name, action }) => {
      const { renderer, tokenizer } = await rendererOf(name);
      const end = tokenizer.decode([renderer.stopTokenIds[0]!]);
      const close = familySamples[name]!.callEnd ?? end;
      const model = scriptedModel([]);
      const texts = [`${action}${close}`, `Two.${end}`];
      const prompts: string[] = [];
      const engine = {
        ...model,
        sample: (request: Parameters<typeof model.sample>[0]) => {
          prompts.push(tokenizer.decode(request.prompt.view()));
          const sampledTokens = tokenizer.encode(texts[prompts.length - 1] ?? end);
          return Promise.resolve({
            sampledTokens,
            logprobs: Float32Array.from(sampledTokens, () => -0.5),
            finish: { reason: "stop", matched: null, raw: null } as const,
            weightSpans: [{ tokenCount: sampledTokens.length, dispatch: null, reply: null }],
            usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null },
          });
        },
      };
      const parts = {
        environment: orders,
        user: scriptedUsers(["Find two.", "###STOP###"]),
        engine,
        renderer,
        strategy: createToolCalling({ calls: "several" }),
      };
      const episode = await runEpisode(orders.taskset("test").task(0), parts, { clock: instantClock() });
      expect(episode.failure).toBeNull();
      expect(episode.reward).toBe(2);
      const prompt = prompts[1]!;
      const [first, second] = [prompt.indexOf("result number 1"), prompt.indexOf("result number 2")];
      expect(first).toBeGreaterThan(prompt.indexOf("Find two."));
      expect(second).toBeGreaterThan(first);
      expect(prompt.split("result number").length).toBe(3);
      const { samples } = episodeSamples(episode);
      expect(samples.length).toBeGreaterThan(0);
      expect(conservationViolations(episode.trajectory, episodeSamples(episode))).toEqual([]);
    },
  );
});

async function rendererOf(name: string) {
  const family = rendererFamily(name);
  const sample = familySamples[name]!;
  const special = [...family.specialTokens.values()].map(String);
  const tokenizer = await byteTokenizer([family.startToken, ...family.stopTokens, ...sample.markers, ...special]);
  return {
    tokenizer,
    renderer: rendererFor(name, tokenizer, { chatTemplate: publishedTemplate(name), now: "2026-01-01" }),
  };
}
