// Runs of τ²-bench as upstream's file of simulations: the messages of both sides, the cost, and
// rewards that can be reproduced.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { evaluate } from "../src/api/evaluate.ts";
import { NothingToExportError } from "../src/api/export-counts.ts";
import { exportRun } from "../src/api/export-run.ts";
import { rollout, type RolloutOptions } from "../src/api/rollout.ts";
import { createTestCli } from "../src/cli/cli.test-helper.ts";
import type { ChatAgent, UserLine } from "../src/core/index.ts";
import { withFolder } from "../src/environments/checkout/with-folder.test-helper.ts";
import { smallCheckout } from "../src/environments/tau2-bench/checkout/small-checkout.test-helper.ts";
import { readTau2Results } from "../src/environments/tau2-bench/index.ts";
import { openRunFolder } from "../src/store/index.ts";
import { scriptedUsers } from "../src/users/index.ts";
import { sharedFolder } from "./conformance/shared-folder.ts";

const tools = `from tau2.environment.toolkit import ToolKitBase, ToolType, is_tool


class MockTools(ToolKitBase):
    """Tasks."""

    @is_tool(ToolType.WRITE)
    def create_task(self, user_id: str, title: str) -> None:
        """Makes a task.

        Args:
            user_id: Whose.
            title: What.
        """
`;
const files = new Map([...smallCheckout, ["src/tau2/domains/mock/tools.py", tools]]);

const paid = { modelCalls: 1, inputTokens: 30, outputTokens: 4, cost: 0.25 };
const line = (type: "utterance" | "hang-up", text: string): UserLine => ({ type, text, usage: paid });

/** A scripted agent: creates a task that is not in the solution if `busy`, then says one word. */
function agentOf(busy: boolean): ChatAgent {
  const call = { id: "c", name: "create_task", argumentsText: '{"user_id": "ann", "title": "Café"}' };
  return {
    name: "scripted-agent",
    reply: async ({ messages }) => {
      const calls = busy && messages.at(-1)?.role === "user" ? [call] : [];
      const content = calls.length > 0 ? "One moment." : "Done.";
      const action = { text: content, content, reasoning: null, toolCalls: calls, problems: [], isTerminated: true };
      return { action, usage: { ...paid, cost: null }, attempts: [] };
    },
  };
}

const play = (folder: string, name: string, { busy = true, ...options }: RolloutOptions & { busy?: boolean } = {}) =>
  rollout({
    env: "tau2-bench/mock",
    data: folder,
    split: "base",
    groupSize: 2,
    out: join(folder, name),
    agentModel: agentOf(busy),
    user: scriptedUsers([line("utterance", "Hello."), line("hang-up", "Bye. ###STOP###")]),
    ...options,
  });

type Written = {
  readonly info: { readonly num_trials: number; readonly user_info: object; readonly agent_info: object };
  readonly simulations: readonly {
    readonly id: string;
    readonly trial: number;
    readonly messages: readonly object[];
    readonly reward_info: { readonly reward: number };
  }[];
};
const read = async (path: string): Promise<Written> => JSON.parse(await readFile(path, "utf8")) as Written;

describe("exportRun() to tau2", () => {
  test("writes both sides with calls, costs and rewards, of several runs as further trials", () =>
    withFolder(files, async (folder) => {
      await play(folder, "busy");
      await play(folder, "quiet", { busy: false });
      const output = join(folder, "results.json");
      const runs = [join(folder, "busy"), join(folder, "quiet")];
      const result = await exportRun({ runs, format: "tau2", output });
      expect(result).toMatchObject({ rows: 4, episodes: 4, groups: 2, trainedTokens: null, leftOut: [] });
      const { info, simulations } = await read(output);
      expect(new Set(simulations.map(({ trial }) => trial))).toEqual(new Set([0, 1, 2, 3]));
      expect(new Set(simulations.map(({ id }) => id)).size).toBe(4);
      expect(simulations.map(({ reward_info: { reward } }) => reward)).toEqual([0, 0, 1, 1]);
      expect(info).toMatchObject({
        num_trials: 4,
        agent_info: { implementation: "llm_agent", llm: "scripted-agent" },
        user_info: { implementation: "scripted", llm: null },
      });
      const usage = { completion_tokens: 4, prompt_tokens: 30 };
      expect(simulations[0]).toMatchObject({
        task_id: "second",
        termination_reason: "user_stop",
        agent_cost: null,
        user_cost: 0.5,
        messages: [
          { role: "assistant", content: "Hi! How can I help you today?", timestamp: null },
          { role: "user", content: "Hello.", tool_calls: null, cost: 0.25, usage },
          {
            role: "assistant",
            content: "One moment.",
            cost: null,
            usage,
            tool_calls: [{ id: "call_0", name: "create_task", requestor: "assistant" }],
          },
          { id: "call_0", role: "tool", error: false, requestor: "assistant" },
          { role: "assistant", content: "Done.", tool_calls: null },
          { role: "user", content: "Bye. ###STOP###" },
        ],
      });
      // Reading and evaluating the exported file gives the rewards that it states.
      const file = readTau2Results(await readFile(output, "utf8"), output);
      expect(file).toMatchObject({ domain: "mock", isSolo: false });
      const { rescored } = await evaluate({ from: output, data: folder });
      for (const { recordedReward, replayedReward } of rescored!) expect(replayedReward).toBe(recordedReward);
      const chosen = await exportRun({ runs, format: "tau2", output, force: true, where: "reward == 1" });
      expect(chosen).toMatchObject({ rows: 2, leftOut: [{ reason: "--where", episodes: 2 }] });
    }));

  const shared = sharedFolder("tau2-bench");
  test.skipIf(shared === null)("names the tasks that an agent without a user had (skipped without ../shared)", () =>
    withFolder(new Map(), async (folder) => {
      const call = { id: "c", name: "done", argumentsText: "{}" };
      const action = { text: "", content: "", reasoning: null, toolCalls: [call], problems: [], isTerminated: true };
      const agentModel: ChatAgent = {
        name: "done",
        reply: async () => ({ action, usage: { ...paid, cost: null }, attempts: [] }),
      };
      const out = join(folder, "solo");
      const run = { env: "tau2-bench/mock-solo", data: shared!, split: "base", tasks: "all" } as const;
      await rollout({ ...run, agentModel, groupSize: 1, out });
      const played = new Map<string, unknown>();
      for await (const { id, info } of openRunFolder(out).episodes()) played.set(id, info.get("tau2_task"));
      const output = join(folder, "solo.json");
      const exported = await exportRun({ runs: out, format: "tau2", output });
      const file = readTau2Results(await readFile(output, "utf8"), output);
      expect(file.isSolo).toBe(true);
      // Task numbers are not those of upstream's file, whose third task needs a user.
      expect(file.simulations.length + exported!.leftOut.reduce((sum, { episodes }) => sum + episodes, 0)).toBe(
        played.size,
      );
      expect(file.simulations.length).toBeGreaterThan(3);
      for (const { id, taskId } of file.simulations) expect(taskId).toBe(played.get(id));
      expect([...file.tasks.keys()].toSorted()).toEqual(file.simulations.map(({ taskId }) => taskId).toSorted());
      const { rescored, scores } = await evaluate({ from: output, data: shared! });
      expect(scores).toHaveLength(file.simulations.length);
      for (const { recordedReward, replayedReward } of rescored!) {
        if (replayedReward !== null) expect(replayedReward).toBe(recordedReward);
      }
    }),
  );

  test("leaves out what was not graded, and gives a conversation that a limit cut off no reward", () =>
    withFolder(files, async (folder) => {
      await play(folder, "cut", { maxTurns: 1 });
      const output = join(folder, "cut.json");
      await exportRun({ runs: join(folder, "cut"), format: "tau2", output });
      const { simulations } = await read(output);
      expect(simulations).toHaveLength(2);
      for (const one of simulations)
        expect(one).toMatchObject({ termination_reason: "max_steps", reward_info: { reward: 0 } });
      const broken: ChatAgent = { name: "broken", reply: () => Promise.reject(new Error("no")) };
      await play(folder, "broken", { agentModel: broken });
      const failing = exportRun({ runs: join(folder, "broken"), format: "tau2", output: join(folder, "none.json") });
      await expect(failing).rejects.toThrow(NothingToExportError);
    }));

  test.skipIf(shared === null)("writes a submission of whole runs only (skipped without ../shared)", () =>
    withFolder(files, async (folder) => {
      const run = { env: "tau2-bench/airline", data: shared!, split: "base", groupSize: 2, busy: false } as const;
      await play(folder, "whole", { ...run, tasks: "all" });
      await play(folder, "part", { ...run, tasks: "0-3" });
      await play(folder, "mock");
      const output = join(folder, "submission");
      const submit = (name: string, where?: string) =>
        exportRun({
          runs: join(folder, name),
          format: "tau2-submission",
          output,
          ...(where === undefined ? {} : { where }),
        });
      await expect(submit("part")).rejects.toThrow("46 of its tasks do not have 2 episodes");
      await expect(submit("whole", "sample_index == 0 or task_index > 3")).rejects.toThrow("of its tasks do not have");
      await expect(submit("mock")).rejects.toThrow("the leaderboard has retail, airline, telecom, banking_knowledge");
      await expect(readFile(join(output, "submission.json"))).rejects.toThrow("ENOENT");
      expect(await submit("whole")).toMatchObject({ rows: 100, episodes: 100, groups: 50, leftOut: [] });
      const { results, model_name: model } = JSON.parse(await readFile(join(output, "submission.json"), "utf8")) as {
        readonly model_name: string;
        readonly results: { readonly airline: Readonly<Record<string, number>> };
      };
      const { simulations } = await read(join(output, "trajectories", "airline_results.json"));
      const rewards = simulations.map(({ reward_info: { reward } }) => reward);
      expect(model).toBe("scripted-agent");
      expect(results.airline["pass_1"]).toBeCloseTo(
        rewards.reduce((sum, reward) => sum + reward, 0),
        9,
      );
      expect(Object.keys(results.airline)).toEqual(["pass_1", "pass_2"]);
      await expect(submit("whole")).rejects.toThrow("it exists; pass --force");
    }),
  );

  test("refuses other environments, other data and Parquet, and leaves no file", () =>
    withFolder(files, async (folder) => {
      const cli = await createTestCli();
      const fail = async (runs: readonly string[], message: string, ...flags: readonly string[]) => {
        const { code, stderr } = await cli.run("export", ...runs, "--format", "tau2", "--output", "o.json", ...flags);
        expect(code).toBe(2);
        expect(stderr).toContain(message);
        await expect(readFile(join(cli.folder, "o.json"))).rejects.toThrow("ENOENT");
      };
      await rollout({ env: "bookshop", engine: "expert", tasks: "0", out: join(folder, "books") });
      await fail([join(folder, "books")], "they are not of τ²-bench");
      await play(folder, "run");
      await fail([join(folder, "run")], "remove --to", "--to", "parquet");
      await withFolder(new Map([...files, ["data/tau2/domains/mock/policy.md", "# Be unkind\n"]]), async (other) =>
        fail([join(folder, "run")], "is another one in these data; name the data", "--data", other),
      );
    }));
});
