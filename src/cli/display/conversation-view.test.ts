import { expect, it } from "vitest";
import { createProblemPolicy, createReact, createToolCalling } from "../../agents/index.ts";
import type { AgentStrategy, ParsedAction } from "../../core/index.ts";
import { defineEnvironment } from "../../environments/index.ts";
import { runChatEpisode } from "../../rollout/index.ts";
import { scriptedUsers } from "../../users/index.ts";
import { conversationView } from "./conversation-view.ts";
import { coloursFor } from "./terminal-text.ts";

const environment = defineEnvironment({
  name: "lamp",
  guidelines: "Switch it.",
  tools: {
    switch_lamp: {
      description: "Switches.",
      parameters: { type: "object", properties: { on: { type: "number" } } },
      run: ({ on }) => `lamp ${Number(on)}`,
    },
  },
  tasks: { test: [{ state: {} }] },
  grade: () => 1,
});

/** An episode in which the agent writes these actions, one per turn, as lines. */
async function viewOf(actions: readonly Partial<ParsedAction>[], strategy: AgentStrategy): Promise<string[]> {
  const usage = { modelCalls: 1, inputTokens: 1, outputTokens: 1, cost: null };
  const left = [...actions];
  const agent = {
    name: "scripted",
    reply: async () => {
      const { content = "", ...given } = left.shift() ?? { content: "Bye." };
      const nothing = { reasoning: null, toolCalls: [], problems: [], isTerminated: true };
      return { action: { text: content, content, ...nothing, ...given }, usage, attempts: [] };
    },
  };
  const episode = await runChatEpisode(environment.taskset("test").task(0), {
    environment,
    agent,
    strategy,
    user: scriptedUsers(["Switch it.", "###STOP###"]),
  });
  return conversationView(episode, { colours: coloursFor({ isTTY: false } as never, {}), textLength: 200 });
}

const switched = { id: "c1", name: "switch_lamp", argumentsText: '{"on": 1}' };

it("shows several calls of a turn one by one, what was told in place of a result, and each result with its number", async () => {
  const toolCalls = ["switch_lamp", "fly", "switch_lamp"].map((name, at) => ({
    id: `c${at}`,
    name,
    argumentsText: `{"on": ${at}}`,
  }));
  const lines = await viewOf([{ toolCalls }], createToolCalling({ calls: "several" }));
  const start = lines.indexOf('agent calls: switch_lamp {"on": 0}');
  expect(lines.slice(start, start + 6)).toEqual([
    'agent calls: switch_lamp {"on": 0}',
    'agent calls: fly {"on": 1}',
    expect.stringContaining('told: Error: the call of "fly" was not carried out.'),
    'agent calls: switch_lamp {"on": 2}',
    "result 1: lamp 0",
    "result 3: lamp 2",
  ]);
});

it("shows what the agent said beside a call", async () => {
  const lines = await viewOf(
    [
      { content: "\nI switch it on.\nOne moment.", toolCalls: [switched] },
      { content: "Once more.", toolCalls: [{ ...switched, name: "fly" }] },
    ],
    createToolCalling(),
  );
  expect(lines.slice(3, -2)).toEqual([
    "beside: I switch it on.",
    "  One moment.",
    'agent calls: switch_lamp {"on": 1}',
    "result: lamp 1",
    "beside: Once more.",
    expect.stringContaining("problem: unknown-tool"),
    'agent calls: fly {"on": 1}',
    expect.stringContaining('told: Error: the call of "fly" was not carried out.'),
    "agent: Bye.",
  ]);
});

it("shows thoughts of a text strategy, without the call that was read out of the text", async () => {
  const act = (thought: string, action: object | string): Partial<ParsedAction> => ({
    content: `${thought}\nAction:\n${typeof action === "string" ? action : JSON.stringify(action)}`,
  });
  const lines = await viewOf(
    [
      act("Thought: It is dark.", { name: "switch_lamp", arguments: { on: 1 } }),
      act("Thought: No list.", [1]),
      act("Thought: Say so.", { name: "respond", arguments: { content: "It is on." } }),
    ],
    createReact(),
  );
  expect(lines.slice(3, -2)).toEqual([
    "beside: Thought: It is dark.",
    'agent calls: switch_lamp {"on": 1}',
    "result: lamp 1",
    "agent: Thought: No list.",
    "  Action:",
    "  [1]",
    expect.stringContaining("problem: not-json"),
    expect.stringContaining("told: "),
    "  Action:",
    expect.stringContaining('{"name": "swit'),
    "beside: Thought: Say so.",
    "agent: It is on.",
  ]);
});

it.each(["end", "abort"] as const)(
  "shows the text and the calls of an action that the policy lets %s the episode",
  async (type) => {
    const problemPolicy = createProblemPolicy({ "unknown-tool": type });
    const lines = await viewOf(
      [{ content: "I fly.", toolCalls: [{ ...switched, name: "fly" }] }],
      createToolCalling({ problemPolicy }),
    );
    expect(lines).toEqual(
      expect.arrayContaining(["beside: I fly.", 'agent calls: fly {"on": 1}', expect.stringContaining("the episode")]),
    );
  },
);
