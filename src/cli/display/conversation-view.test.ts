import { expect, it } from "vitest";
import { createToolCalling } from "../../agents/index.ts";
import { defineEnvironment } from "../../environments/index.ts";
import { runChatEpisode } from "../../rollout/index.ts";
import { scriptedUsers } from "../../users/index.ts";
import { conversationView } from "./conversation-view.ts";
import { coloursFor } from "./terminal-text.ts";

it("shows several calls of a turn one by one, what was told in place of a result, and each result with its number", async () => {
  const environment = defineEnvironment({
    name: "lamp",
    guidelines: "Switch it.",
    tools: {
      switch_lamp: { description: "Switches.", parameters: { type: "object" }, run: ({ on }) => `lamp ${Number(on)}` },
    },
    tasks: { test: [{ state: {} }] },
    grade: () => 1,
  });
  const calls = ["switch_lamp", "fly", "switch_lamp"].map((name, at) => ({
    id: `c${at}`,
    name,
    argumentsText: `{"on": ${at}}`,
  }));
  const usage = { modelCalls: 1, inputTokens: 1, outputTokens: 1, cost: null };
  const action = { text: "", reasoning: null, content: "", toolCalls: calls, problems: [], isTerminated: true };
  const agent = {
    name: "scripted",
    reply: async () => ({ action: { ...action, toolCalls: calls.splice(0) }, usage, attempts: [] }),
  };
  const episode = await runChatEpisode(environment.taskset("test").task(0), {
    environment,
    agent,
    user: scriptedUsers(["Switch it.", "###STOP###"]),
    strategy: createToolCalling({ calls: "several" }),
  });
  const lines = conversationView(episode, { colours: coloursFor({ isTTY: false } as never, {}), textLength: 200 });
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
