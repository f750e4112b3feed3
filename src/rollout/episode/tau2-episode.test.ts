// τ²-bench in the loop: an agent that knows the solution, a customer who follows rules, and a
// process that dies at random places.

import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { createToolCalling } from "../../agents/index.ts";
import { endingOf, type Episode, type EpisodeEvent, type Task } from "../../core/index.ts";
import { loadTau2Data, type Tau2Task, tau2Source, telecomRuleUser } from "../../environments/tau2-bench/index.ts";
import { pythonStr } from "../../python-semantics/index.ts";
import { dumpJson } from "../../python-semantics/json/index.ts";
import { createRandom } from "../../lib/random.ts";
import { selectUser } from "../../users/index.ts";
import { createQwenRenderer } from "../../renderers/index.ts";
import { instantClock, scriptedModel, tokenizer } from "./episode-world.test-helper.ts";
import { episodeSamples, type EpisodeParts, runEpisode } from "../index.ts";

const folder = sharedFolder("tau2-bench");
/** Total number of kills; the full suite makes 100 over more tasks. */
const kills = process.env["FULL"] === "1" ? 100 : 12;

const call = (name: string, given: string): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;

/** Actions of an agent that does its own part, and requests the user's part by name. */
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

const ended = (stop: string) => ({ stop, outcome: "completed", reward: 0 });

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

  /** Episodes without durations, for comparison. */
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

  test("what the reference calls the end is told beside the stop reason, whichever side reached a limit", async () => {
    const lookUp = (id: string, count: number): string[] =>
      Array.from({ length: count }, () => call("get_customer_by_id", `{"customer_id": "${id}"}`));
    const end = async (lines: readonly string[], isSolo = false) => {
      const environment = await tau2Source(data, { maxErrors: 3, isSolo });
      const parts = {
        environment,
        engine: scriptedModel([...lines]),
        strategy: createToolCalling(),
        user: isSolo ? selectUser("task") : telecomRuleUser(),
        renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
      };
      const limits = { maxContextTokens: 10_000_000, maxSampledTokens: 10_000_000, maxTurns: 8 };
      const episode = await runEpisode(environment.taskset("base").task(0), parts, { clock: instantClock(), limits });
      return { ending: endingOf(episode), stop: episode.stopReason, outcome: episode.outcome, reward: episode.reward };
    };
    expect(await end(lookUp("C9999", 3))).toEqual({ ...ended("tool_ended"), ending: "too_many_errors" });
    expect(await end([" "])).toEqual({ ...ended("tool_ended"), ending: "agent_error" });
    expect(await end(["I am alone."], true)).toEqual({ ...ended("tool_ended"), ending: "agent_error" });
    expect(await end([call("done", "{}")], true)).toEqual({ ...ended("tool_ended"), ending: "agent_stop" });
    // A limit of the loop keeps its own stop reason.
    const limited = { ending: null, stop: "max_turns", outcome: "truncated", reward: 0 };
    expect(await end(lookUp("C1001", 8))).toEqual(limited);
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
