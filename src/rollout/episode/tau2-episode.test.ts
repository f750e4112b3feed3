// τ²-bench in the loop: an agent that knows the solution, a customer who follows rules, and a process that dies anywhere.

import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { createToolCalling } from "../../agents/index.ts";
import type { Episode, EpisodeEvent, Task } from "../../core/index.ts";
import { loadTau2Data, type Tau2Task, tau2Source, telecomRuleUser } from "../../environments/tau2-bench/index.ts";
import { pythonStr } from "../../python-semantics/index.ts";
import { dumpJson } from "../../python-semantics/json/index.ts";
import { createRandom } from "../../lib/random.ts";
import { createQwenRenderer } from "../../renderers/index.ts";
import { instantClock, scriptedModel, tokenizer } from "./episode-world.test-helper.ts";
import { episodeSamples, type EpisodeParts, runEpisode } from "../index.ts";

const folder = sharedFolder("tau2-bench");
/** Kills in all; the full suite makes 100 over more tasks. */
const kills = process.env["FULL"] === "1" ? 100 : 12;

const call = (name: string, given: string): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;

/** What an agent writes that does its part, and asks for the rest by name. */
function solution({ criteria }: Tau2Task): string[] {
  const lines = (criteria?.actions ?? []).map(({ requestor, name, arguments: given }) =>
    requestor === "assistant"
      ? call(name, dumpJson(given))
      : `Please do this on your phone: ${name} ${[...given.values()].map(pythonStr).join(" ")}`,
  );
  return [
    ...lines,
    "Please run can_send_mms, run_speed_test and check_status_bar.",
    ...Array.from({ length: 8 }, () => "Bye."),
  ];
}

describe.skipIf(folder === null)("τ²-bench in the loop (skipped without ../shared/tau2-bench)", async () => {
  const data = folder === null ? null! : await loadTau2Data({ domain: "telecom", folder });
  const source = folder === null ? null! : await tau2Source(data);
  const tasks = folder === null ? [] : await data.tasks("base");

  const play = async (
    index: number,
    resumeFrom: readonly EpisodeEvent[] = [],
  ): Promise<{ episode: Episode; task: Task }> => {
    const task = source.taskset("base").task(index);
    const model = scriptedModel(solution(tasks[index]!));
    const turns = resumeFrom.filter(({ type }) => type === "turn").length;
    for (let turn = 0; turn < turns; turn++) await model.sample({ prompt: { view: () => [] } } as never);
    const parts: EpisodeParts = {
      environment: source,
      user: telecomRuleUser(),
      engine: model,
      renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
      strategy: createToolCalling(),
    };
    const limits = { maxContextTokens: 10_000_000, maxSampledTokens: 10_000_000 };
    return { episode: await runEpisode(task, parts, { clock: instantClock(), limits, resumeFrom }), task };
  };

  /** Equal but for what took how long. */
  const comparable = ({ events, ...rest }: Episode) => ({
    ...rest,
    events: events.map((event) => ({ ...event, durationMs: 0 })),
  });

  test("tasks are solved, and only what the policy wrote is trained", async () => {
    for (const index of [0, 40, 80, 113]) {
      const { episode } = await play(index);
      expect(episode, episode.task.id).toMatchObject({ outcome: "completed", reward: 1 });
      const { samples, dropped } = episodeSamples(episode);
      expect(dropped).toEqual([]);
      const trained = samples[0]!.lossMask.reduce((sum, one) => sum + one, 0);
      expect(trained).toBe(episode.trajectory.turns.reduce((sum, { sampledTokens }) => sum + sampledTokens.length, 0));
    }
  });

  test("an episode whose process died ends as the one that nobody disturbed, calls of the user included", async () => {
    const random = createRandom(11);
    for (let kill = 0; kill < kills; kill++) {
      const index = Math.floor(random.next() * tasks.length);
      const whole = (await play(index)).episode;
      const cut = 1 + Math.floor(random.next() * (whole.events.length - 1));
      const { episode } = await play(index, whole.events.slice(0, cut));
      expect(comparable(episode), `${whole.task.id}, cut at ${cut}`).toEqual(comparable(whole));
    }
  });
});
