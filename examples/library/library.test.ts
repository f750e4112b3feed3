import { runChatEpisode } from "trainable-agents";
import type { ChatAgent, Task } from "trainable-agents/core";
import { environmentViolations } from "trainable-agents/testing";
import { agentFactory } from "trainable-agents/agents";
import { agendaUser } from "trainable-agents/users";
import { describe, expect, it } from "vitest";
import library, { kinds } from "./environment.ts";
import expert from "./expert.ts";

/** Reward of the expert with the given share of memory. */
async function rewardOf(task: Task, memory: number): Promise<number | null> {
  const agent: ChatAgent = {
    name: "expert",
    reply: async ({ messages }) => {
      const action = await expert({ messages, random: () => memory });
      const { say = "", call } = typeof action === "string" ? { say: action } : action;
      const toolCalls =
        call === undefined ? [] : [{ id: "1", name: call.name, argumentsText: JSON.stringify(call.arguments) }];
      return {
        action: { text: say, reasoning: null, content: say, toolCalls, problems: [], isTerminated: true },
        usage: { modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 },
        attempts: [],
      };
    },
  };
  const parts = { environment: library, user: agendaUser(), strategy: agentFactory(), agent };
  const { reward } = await runChatEpisode(task, parts, { seed: task.index });
  return reward;
}

describe("the library", () => {
  const tasks = (split: string) =>
    Array.from({ length: library.taskset(split).size }, (_, index) => library.taskset(split).task(index));

  it("keeps the contract of environments", async () => {
    expect(await environmentViolations(library, { tasks: 4, calls: 300 })).toEqual([]);
  });

  it("has tasks of four kinds, whose splits share no number and no title", () => {
    const found = (split: string, pattern: RegExp) =>
      new Set(tasks(split).flatMap((task) => JSON.stringify(task.agenda).match(pattern) ?? []));
    for (const pattern of [/#[A-Z]\d{4}/g, /The [A-Z]\w+ [A-Z]\w+/g]) {
      const held = found("validation", pattern);
      expect(held.size).toBeGreaterThan(30);
      expect([...found("train", pattern)].filter((one) => held.has(one))).toEqual([]);
    }
    for (const [split, least] of [
      ["train", 500],
      ["validation", 200],
    ] as const) {
      const cases = tasks(split).map((task) => JSON.stringify(library.open(task).info.get("cases")));
      expect(cases.length).toBeGreaterThanOrEqual(least);
      for (const kind of kinds) expect(cases.filter((one) => one.includes(`${kind}/`))).toHaveLength(cases.length / 4);
      expect(cases.filter((one) => one.includes("renew/reserved")).length).toBeGreaterThan(cases.length / 10);
      expect(cases.filter((one) => one.includes("renew/plain")).length).toBeGreaterThan(cases.length / 10);
    }
  });

  it("is solved by its expert, but for the rule that it forgets", async () => {
    for (const task of tasks("validation").slice(0, 120)) {
      const isReserved = JSON.stringify(library.open(task).info.get("cases")).includes("reserved");
      expect(await rewardOf(task, 0.9), task.id).toBe(1);
      expect(await rewardOf(task, 0.1), task.id).toBe(isReserved ? 0 : 1);
    }
  });
});
