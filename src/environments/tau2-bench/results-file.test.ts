import { describe, expect, it } from "vitest";

import { ConfigurationError } from "../../core/index.ts";
import { withFolder } from "../checkout/with-folder.test-helper.ts";
import { smallCheckout } from "./checkout/small-checkout.test-helper.ts";
import {
  Conversation,
  evaluate,
  loadTau2Data,
  readTau2Results,
  type Tau2Simulation,
  tau2ResultsText,
  Tau2World,
} from "./index.ts";

const facts = { isSolo: false, trials: 1, maxSteps: 100, maxErrors: 10, seed: 300, agentModel: "m", userModel: null };

/** Writes a graded conversation of the small checkout's mock domain to a file. */
async function writeFile(): Promise<{ readonly text: string; readonly simulation: Tau2Simulation }> {
  return withFolder(smallCheckout, async (folder) => {
    const data = await loadTau2Data({ domain: "mock", folder });
    const [task] = await data.tasks("base");
    if (task === undefined) throw new Error("The small checkout has no task.");
    const world = new Tau2World(data.world, { isSolo: false, createId: () => "B1" });
    const conversation = new Conversation(world, task);
    const call = {
      id: "c1",
      name: "create_task",
      arguments: new Map([["user_id", "ann"], ["title", "Café"]]), // prettier-ignore
      requestor: "assistant",
    } as const;
    conversation.say({ role: "user", content: "Hello.", toolCalls: null });
    conversation.say({ role: "assistant", content: null, toolCalls: [call] });
    conversation.say({ role: "assistant", content: "Done.", toolCalls: null });
    conversation.say({ role: "user", content: "###STOP###", toolCalls: null });
    const { messages } = conversation;
    const reward = await evaluate(data, task, messages, { reason: "user_stop" });
    const simulation: Tau2Simulation = {
      id: "s1",
      taskId: task.id,
      trial: 2,
      seed: 7,
      reason: "user_stop",
      messages,
      reward,
      startedAt: Date.UTC(2026, 0, 2),
      endedAt: Date.UTC(2026, 0, 3),
      durationMs: 1500,
      spent: new Map([[1, { promptTokens: 10, completionTokens: 2, cost: 0.5, durationMs: 250 }]]),
      agentCost: null,
      userCost: 0.25,
    };
    return { text: tau2ResultsText(data, [{ task, simulation }], facts), simulation };
  });
}

describe("tau2ResultsText() and readTau2Results()", () => {
  it("write what they read, messages, rewards and tasks included", async () => {
    const { text, simulation } = await writeFile();
    const file = readTau2Results(text, "results.json");
    expect(file.domain).toBe("mock");
    expect(file.isSolo).toBe(false);
    expect([...file.tasks.keys()]).toEqual(["second"]);
    const [read] = file.simulations;
    expect(read).toMatchObject({ id: "s1", taskId: "second", trial: 2, reason: "user_stop", userCost: 0.25 });
    expect(read?.messages).toEqual(simulation.messages);
    // The task's solution is to do nothing, but the agent created a task.
    expect(read?.reward).toBe(0);
    expect(read?.breakdown).toEqual(new Map([["DB", 0]]));
    expect(read?.durationSeconds).toBe(1.5);
  });

  it("write what messages cost, and no time that is not known", async () => {
    const { text } = await writeFile();
    const { simulations } = JSON.parse(text) as { simulations: { messages: object[] }[] };
    const { messages } = simulations[0]!;
    expect(messages.map((message) => ("turn_idx" in message ? message.turn_idx : null))).toEqual([0, 1, 2, 3, 4, 5]);
    for (const message of messages) expect(message).toHaveProperty("timestamp", null);
    expect(messages[1]).toMatchObject({
      role: "user",
      cost: 0.5,
      usage: { completion_tokens: 2, prompt_tokens: 10 },
      generation_time_seconds: 0.25,
    });
    expect(messages[2]).not.toHaveProperty("usage");
    expect(simulations[0]).toMatchObject({
      start_time: "2026-01-02T00:00:00.000000",
      end_time: "2026-01-03T00:00:00.000000",
      duration: 1.5,
    });
  });

  it("has a simulation once, and no reward for what is not a number", async () => {
    const { text } = await writeFile();
    const file = JSON.parse(text) as { simulations: { id: string; task_id: string }[] };
    const [one] = file.simulations;
    const simulations = [one, { ...one, trial: 3 }, one, { ...one, id: "s2" }];
    const thrice = readTau2Results(JSON.stringify({ ...file, simulations }), "results.json");
    expect(thrice.simulations.map(({ id, trial }) => [id, trial])).toEqual([
      ["s1", 2],
      ["s2", 2],
    ]);
    expect(thrice.repeated).toBe(2);
    for (const value of ["NaN", "Infinity", "-Infinity"]) {
      const unscored = text.replace('"reward": 0.0', `"reward": ${value}`).replace('"DB": 0.0', `"DB": ${value}`);
      expect(unscored).toContain(`"DB": ${value}`);
      expect(readTau2Results(unscored, "results.json").simulations).toMatchObject([
        { reward: null, breakdown: new Map() },
      ]);
    }
  });

  it.each([
    ["llm_agent", "user_simulator", false],
    ["llm_agent_solo", "dummy_user", true],
    ["llm_agent_solo_gt", "dummy_user", true],
    ["my_own_agent", "dummy_user", true],
    ["llm_agent_gt", "user_simulator", false],
  ])("of agent %s with user %s: without a user %s", async (agent, user, isSolo) => {
    const { text } = await writeFile();
    const named = text.replace('"llm_agent"', `"${agent}"`).replace('"user_simulator"', `"${user}"`);
    expect(readTau2Results(named, "results.json").isSolo).toBe(isSolo);
  });

  it("reads a folder with a file a simulation, and refuses one that does not match its index", async () => {
    const { text } = await writeFile();
    const { simulations, ...rest } = JSON.parse(text) as { simulations: { id: string }[] };
    const index = JSON.stringify({ ...rest, simulation_index: [{ id: "s1" }] });
    const parts = new Map([["s1.json", JSON.stringify(simulations[0])]]);
    expect(readTau2Results(index, "folder", parts).simulations).toHaveLength(1);
    expect(() => readTau2Results(index, "folder", new Map())).toThrow('it lists "s1.json"');
    expect(() => readTau2Results(index, "folder", new Map([...parts, ["s2.json", "{}"]]))).toThrow('"s2.json"');
  });

  it.each([
    ["no JSON", "{", "it is not JSON"],
    ["a list", "[]", "it is not an object"],
    ["another file", "{}", "it is not a file of simulations"],
    ["an unknown ending", (text: string) => text.replace('"user_stop"', '"tired"'), '"termination_reason" is none of'],
    [
      "a reward that is not a number",
      (text: string) => text.replace('"reward": 0.0', '"reward": "a"'),
      '"reward" is no',
    ],
    ["a message without a role", (text: string) => text.replace('"role": "user"', '"role": 3'), "is not a string"],
  ] as const)("refuses %s by name", async (_what, change, problem) => {
    const { text } = await writeFile();
    const changed = typeof change === "string" ? change : change(text);
    expect(changed).not.toBe(text);
    expect(() => readTau2Results(changed, "results.json")).toThrow(ConfigurationError);
    expect(() => readTau2Results(changed, "results.json")).toThrow(problem);
    expect(() => readTau2Results(changed, "results.json")).toThrow("results.json");
  });
});
