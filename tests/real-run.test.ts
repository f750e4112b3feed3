// End-to-end test on real parts: τ-bench retail, the Qwen2.5 tokenizer and template, SGLang's
// protocol over a socket, and a policy that runs the gold actions. Rewards must equal those of the
// reference.

import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { createToolCalling } from "../src/agents/index.ts";
import { sharedFolder } from "./conformance/shared-folder.ts";
import type { Episode } from "../src/core/index.ts";
import { createSglangEngine } from "../src/engines/sglang/index.ts";
import { tauBenchSource } from "../src/environments/tau-bench/index.ts";
import { runRollout, episodeRunner } from "../src/rollout/index.ts";
import { chooseRenderer } from "../src/renderers/index.ts";
import { createFunctionSampler, createSglangFront } from "../src/testing/index.ts";
import { loadModelFolder } from "../src/tokenizers/index.ts";
import { conservationViolations } from "../src/trajectories/index.ts";
import { scriptedUser } from "../src/users/index.ts";

const shared = sharedFolder();

type GoldTask = {
  readonly actions: readonly { readonly name: string; readonly kwargs: Record<string, unknown> }[];
  readonly outputs: readonly string[];
};
type Golden = {
  readonly split: string;
  readonly reward: number;
  readonly reward_when_outputs_said?: number;
  readonly ended_by_gold_action: number | null;
};

describe.skipIf(shared === null)("real run (skipped without ../shared/tau-bench and ../shared/models)", () => {
  it.each([
    ["silent", false],
    ["saying the outputs", true],
  ])("115 retail test tasks, gold actions, %s: rewards equal the reference's", async (_, says) => {
    const tasks = JSON.parse(await readFile(`${shared}/tau-bench/retail/tasks_test.json`, "utf8")) as GoldTask[];
    const lines = (await readFile(`${shared}/tau-bench/goldens/retail/tasks.jsonl`, "utf8")).trim().split("\n");
    const goldens = lines.map((line) => JSON.parse(line) as Golden).filter(({ split }) => split === "test");
    const model = await loadModelFolder(`${shared}/models/qwen2.5-instruct`);
    const { tokenizer } = model;

    /**
     * Identifies its case by the customer's first message, and its turn by the number of earlier
     * assistant messages.
     */
    const sampler = createFunctionSampler(({ promptIds }) => {
      const text = tokenizer.decode(promptIds);
      const task = tasks[Number(/This is case (\d+)\./.exec(text)?.[1])]!;
      const turn = text.split("<|im_start|>assistant\n").length - 2;
      return { ids: tokenizer.encode(`${reply(task, turn, says)}<|im_end|>`) };
    });
    const listener = await createSglangFront({ sampler, tokenizer }).listen();
    const engine = createSglangEngine({ url: listener.url });
    const environment = await tauBenchSource({ domain: "retail", folder: `${shared}/tau-bench` });
    const taskset = environment.taskset("test");
    const user = {
      name: "scripted",
      create: ({ index }: { readonly index: number }) =>
        scriptedUser([`This is case ${index}.`, "Please go on.", "###STOP###"]),
    };
    const parts = {
      environment,
      engine,
      user,
      strategy: createToolCalling(),
      renderer: chooseRenderer({ tokenizer, chatTemplate: model.chatTemplate! }),
    };
    const episodes: Episode[] = [];
    await runRollout(
      { taskset, taskIndexes: tasks.map((__, index) => index), groupSize: 1, seed: 0 },
      {
        runEpisode: episodeRunner(parts),
        store: { append: () => Promise.resolve(), appendGroup: () => Promise.resolve() },
        exportSamples: ({ episode, result }) => {
          expect(conservationViolations(episode.trajectory, result)).toEqual([]);
          expect(result.samples).toHaveLength(1);
          episodes[episode.task.index] = episode;
          return [];
        },
      },
      { concurrency: 16 },
    );
    await engine.close();
    await listener.close();

    expect(goldens).toHaveLength(115);
    goldens.forEach((golden, index) => {
      const episode = episodes[index];
      const ended = golden.ended_by_gold_action;
      const calls = episode?.events.filter(({ type }) => type === "tool-result").length;
      expect([index, episode?.reward, episode?.stopReason, calls]).toEqual([
        index,
        says ? (golden.reward_when_outputs_said ?? golden.reward) : golden.reward,
        ended === null ? "user_hung_up" : "tool_ended",
        ended === null ? tasks[index]?.actions.length : ended + 1,
      ]);
    });
  });
});

/** Reply of a turn: a greeting (or all outputs at once), the gold actions, a closing line. */
function reply(task: GoldTask, turn: number, says: boolean): string {
  if (turn === 0) return says && task.outputs.length > 0 ? task.outputs.join(", ") : "Hello.";
  const action = task.actions[turn - 1];
  if (action === undefined) return "Good-bye.";
  return `<tool_call>\n${JSON.stringify({ name: action.name, arguments: action.kwargs })}\n</tool_call>`;
}
