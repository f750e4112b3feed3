import { describe, expect, it } from "vitest";

import type { Environment, EnvironmentSource, Episode, Grade } from "../../core/index.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { episodeFromJson, episodeLine } from "../../store/index.ts";
import { count, counter, instantClock, leave, type Reply, task, world } from "./episode-world.test-helper.ts";
import { episodeSamples, type EpisodeOptions, runEpisode } from "../index.ts";

type Graded = { readonly step?: (by: unknown) => number | null; readonly grade?: Partial<Grade> };

/** The counter, whose calls may be rewarded, and whose grade says more. */
function rewarding({ step = () => null, grade = {} }: Graded): EnvironmentSource {
  return {
    ...counter,
    open: (given, options) => {
      const inner = counter.open(given, options) as Environment;
      return {
        task: inner.task,
        guidelines: inner.guidelines,
        tools: inner.tools,
        info: inner.info,
        digest: () => inner.digest(),
        receiveUtterance: (utterance) => inner.receiveUtterance(utterance),
        call: async (call) => ({ ...(await inner.call(call)), reward: step(call.arguments.get("by")) }),
        grade: async (ending) => ({ ...(await inner.grade(ending)), ...grade }),
      };
    },
  };
}

async function play(replies: readonly Reply[], graded: Graded, options: EpisodeOptions = {}): Promise<Episode> {
  const { parts } = world(replies, ["Count.", "Go on.", "###STOP###"]);
  return runEpisode(task, { ...parts, environment: rewarding(graded) }, { clock: instantClock(), ...options });
}

const quarter = (by: unknown): number | null => (by === undefined ? null : Number(by) / 4);
const restart = { engineAbort: { onAbort: "restart" } } as const;

describe("rewards of turns", () => {
  it("are the step rewards of a turn's calls, and the last turn has what the grade adds", async () => {
    const episode = await play([count(1), "How far?", count(2), leave], { step: quarter });
    expect(episode.reward).toBe(1);
    // 0.25 and 0.5 for the calls; the grade is 1.
    expect(episode.grade?.turnRewards).toEqual([0.25, null, 0.5, 0.25]);
    const whole = await play([count(1), "How far?", count(3), leave], { step: quarter, grade: { reward: 1 } });
    expect(whole.grade?.turnRewards).toEqual([0.25, null, 0.75, null]);
  });

  it("stand at the turn of the record, past attempts that were discarded", async () => {
    const replies: Reply[] = [count(1), { text: "It", finish: "abort" }, count(2), leave];
    const episode = await play(replies, { step: quarter }, restart);
    expect(episode.trajectory.turns).toHaveLength(4);
    expect(episode.grade?.turnRewards).toEqual([0.25, null, 0.5, 0.25]);
    // Three turns, as a program counts them.
    const given = await play(replies, { grade: { turnRewards: [0.5, null, 0.5] } }, restart);
    expect(given.grade?.turnRewards).toEqual([0.5, null, null, 0.5]);
    expect(episodeSamples(given).dropped).toMatchObject([{ turn: 1, reason: "discarded-turn" }]);
  });

  it("are none where no call was rewarded and no grade says any", async () => {
    const episode = await play([count(3), leave], {});
    expect(episode.grade).toMatchObject({ reward: 1 });
    expect(episode.grade?.turnRewards ?? null).toBeNull();
    expect("turnRewards" in episode.grade!).toBe(false);
  });

  it.each([
    ["of another length", { turnRewards: [1] }, "turnRewards has 1 entries, the trajectory has 2 turns"],
    ["that do not add up", { turnRewards: [0.5, 0.4] }, "turnRewards add up to 0.9, the reward is 1"],
    ["that are not numbers", { turnRewards: [0.5, "0.5" as never] }, "turnRewards[1]"],
    ["that are infinite", { turnRewards: [Infinity, 0] }, "turnRewards[0]"],
    ["that are not a list", { turnRewards: "1" as never }, "turnRewards"],
  ] as const)("%s are refused at the grader, and nothing is trained", async (_, grade, message) => {
    const episode = await play([count(3), leave], { grade });
    expect(episode.failure).toMatchObject({ boundary: "grader", code: "bad-result" });
    expect(episode.failure?.message).toContain(message);
    expect([episode.outcome, episode.reward]).toEqual(["failed", null]);
    expect(episodeSamples(episode).samples).toEqual([]);
  });

  it("are in the journal's grade, come back from a file, and a resumed run has the same", async () => {
    const replies: Reply[] = [count(1), { text: "It", finish: "abort" }, count(2), leave];
    const whole = await play(replies, { step: quarter }, restart);
    const { events } = episodeFromJson(parseJson(episodeLine(whole)), "here");
    expect(events.find(({ type }) => type === "grade")).toMatchObject({
      grade: { turnRewards: [0.25, null, 0.5, 0.25] },
    });
    for (let length = 0; length <= events.length; length++) {
      const asked = events.slice(0, length).filter(({ type }) => type === "turn").length;
      const resumeFrom = events.slice(0, length);
      const again = await play(replies.slice(asked), { step: quarter }, { ...restart, resumeFrom });
      expect(again.grade).toEqual(whole.grade);
      expect(again.trajectory.turns.map(({ sampledTokens }) => sampledTokens)).toEqual(
        whole.trajectory.turns.map(({ sampledTokens }) => sampledTokens),
      );
    }
  });

  it("of an episode that begins again are those of its turns since; the turns before have none", async () => {
    const replies: Reply[] = [count(1), count(2), leave];
    const whole = await play(replies, { step: quarter });
    const resumeFrom = whole.events.slice(0, whole.events.findIndex(({ type }) => type === "tool-result") + 1);
    const { parts } = world(replies, ["Count."]);
    const environment: EnvironmentSource = { ...rewarding({ step: quarter }), resume: "restart" };
    const episode = await runEpisode(task, { ...parts, environment }, { clock: instantClock(), resumeFrom });
    expect(episode.grade?.turnRewards).toEqual([null, 0.25, 0.5, 0.25]);
    expect(episodeSamples(episode).dropped).toMatchObject([{ turn: 0, reason: "restarted" }]);
  });
});
