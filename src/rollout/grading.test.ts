import { describe, expect, it } from "vitest";
import type { Episode, EpisodeEvent, Grading, GroupRecord } from "../core/index.ts";
import { fakeJudge } from "../graders/fake-judge.test-helper.ts";
import { defineRanking, defineRubric, groupRanker, rubricGrader } from "../graders/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { episodeFromJson, type EpisodeJournal, episodeLine } from "../store/index.ts";
import { count, counter, instantClock, task, world } from "./episode/episode-world.test-helper.ts";
import {
  combineGrades,
  type EpisodeParts,
  episodeSamples,
  type FinishedGroup,
  groupRanking,
  type RankGroup,
  resumableRunner,
  type RunEpisode,
  runEpisode,
  runRollout,
  endedOf,
} from "./index.ts";

const hangUp = "###STOP###";
const criteria = [{ name: "solved", description: "It counted.", scale: [0, 1] as const }];
const grade = { reward: 1, metrics: { own: 2 }, log: "counted", info: new Map() };
const verdict = (value: number) => ({ value, metrics: { solved: value }, log: "so" });

const gradingOf = (judge = fakeJudge(() => 0.5), weights = { environment: 1, rubric: 1, ranking: 0 }): Grading => ({
  judge: null,
  environmentWeight: weights.environment,
  graders: [rubricGrader(defineRubric({ criteria, weight: weights.rubric }), judge)],
  ranker: weights.ranking === 0 ? null : groupRanker(defineRanking({ weight: weights.ranking }), judge),
});

function play(grading: Grading | undefined, options: Parameters<typeof runEpisode>[2] = {}, asked = 0) {
  const { parts, model } = world([count(3), "It is 3."], ["Please count.", `Bye ${hangUp}`]);
  for (let call = 0; call < asked; call++) void model.sample({ prompt: { view: () => [] } } as never);
  const graded: EpisodeParts = { ...parts, grading };
  return runEpisode(task, graded, { clock: instantClock(), ...options });
}

describe("combineGrades()", () => {
  it("takes the mean by weight and keeps every value as a metric", () => {
    const combined = combineGrades(
      gradingOf(
        fakeJudge(() => 1),
        { environment: 1, rubric: 3, ranking: 0 },
      ),
      grade,
      [verdict(0.5)],
    );
    expect(combined).toEqual({
      reward: (1 * 1 + 3 * 0.5) / 4,
      metrics: { own: 2, environment: 1, rubric: 0.5, "rubric.solved": 0.5 },
      log: "counted\nso",
      info: new Map(),
    });
  });

  it("counts no environment that has no grade of its own", () => {
    const { reward, metrics } = combineGrades({ ...gradingOf(), environmentWeight: null }, { ...grade, reward: 0 }, [
      verdict(0.5),
    ]);
    expect(reward).toBe(0.5);
    expect(metrics).not.toHaveProperty("environment");
  });

  it("keeps the rewards of turns adding up", () => {
    const turns = { ...grade, turnRewards: [0.25, null, 0.75, null] };
    const { reward, turnRewards } = combineGrades(gradingOf(), turns, [verdict(0.1)]);
    expect(turnRewards).toEqual([0.125, null, expect.closeTo(reward - 0.125), null]);
  });
});

describe("runEpisode() with graders", () => {
  it("records the judge's answer before the grade, and grades by both", async () => {
    const judge = fakeJudge((_name, shown) => (shown.includes("It is 3.") ? 0.5 : 0));
    const { reward, events, grade: given } = await play(gradingOf(judge));
    expect(reward).toBe(0.75);
    expect(given?.metrics).toEqual({ environment: 1, rubric: 0.5, "rubric.solved": 0.5 });
    expect(events.slice(-3).map(({ type }) => type)).toEqual(["judgement", "grade", "episode-end"]);
    expect(events.at(-3)).toMatchObject({
      judgement: { grader: "rubric", model: "fake", digest: judge.asked[0] },
      ranked: null,
    });
  });

  it("fails at the grader when the judge does, and records what it cost", async () => {
    const { outcome, failure, reward, grade: none, events } = await play(gradingOf(fakeJudge(() => null)));
    expect({ outcome, reward, none }).toEqual({ outcome: "failed", reward: null, none: null });
    expect(failure).toMatchObject({ boundary: "grader", code: "quota-exceeded" });
    expect(events.at(-2)).toMatchObject({ type: "judgement", judgement: { answer: null, usage: { modelCalls: 1 } } });
  });

  it("gives the same episode wherever it was cut, and asks a judge that has answered nothing more", async () => {
    const judge = fakeJudge(() => 0.5);
    const asked: number[] = [];
    const before = { calls: 0 };
    const see = (event: EpisodeEvent): void => {
      if (event.type === "turn") before.calls++;
      asked.push(before.calls);
    };
    const whole = await play(gradingOf(judge), { onEvent: see });
    const { events } = episodeFromJson(parseJson(episodeLine(whole)), "here");
    const judged = events.findIndex(({ type }) => type === "judgement");
    for (let length = 0; length <= events.length; length++) {
      const again = fakeJudge(() => 0.5);
      const resumeFrom = events.slice(0, length);
      const episode = await play(gradingOf(again), { resumeFrom }, asked[length - 1] ?? 0);
      expect(episode).toEqual(whole);
      expect(again.asked).toEqual(length > judged ? [] : judge.asked);
    }
  });

  it("does not take a recorded answer for another question", async () => {
    const whole = await play(gradingOf());
    const other = gradingOf();
    const harder = rubricGrader(
      defineRubric({ criteria, instructions: "Be harder." }),
      fakeJudge(() => 1),
    );
    const events = whole.events.slice(0, -2);
    const { failure } = await play({ ...other, graders: [harder] }, { resumeFrom: events }, 2);
    expect(failure).toMatchObject({ boundary: "grader", code: "replay-diverged" });
  });

  it("is a fault of a grader whose question or answer cannot be made", async () => {
    const [grader] = gradingOf().graders;
    const broken = { ...grader!, question: () => { throw new Error("no words"); } }; // prettier-ignore
    const { failure } = await play({ ...gradingOf(), graders: [broken] });
    expect(failure).toMatchObject({ boundary: "grader", message: "no words" });
  });
});

/** A group whose members have given last utterances, and so given rewards. */
async function groupOf(...says: readonly (string | null)[]): Promise<FinishedGroup> {
  const members = says.map(async (words, sampleIndex) => {
    const { parts } = world(words === null ? [] : [count(3), words], ["Please count.", hangUp]);
    const options = { clock: instantClock(), sampleIndex, resumeFrom: [] };
    const episode = await runEpisode(task, { ...parts, grading: gradingOf() }, options);
    return { sampleIndex, ended: endedOf({ episode, result: episodeSamples(episode), origin: "new" }) };
  });
  return { plan: { groupId: "g", task, groupIndex: 0 }, members: await Promise.all(members), ending: "complete" };
}

const signal = new AbortController().signal;
const wordScore = (_name: string, shown: string): number => Number(/score (\d\.\d)/.exec(shown)?.[1] ?? 0);
const ranked = (judge = fakeJudge(wordScore)): RankGroup =>
  groupRanking(gradingOf(judge, { environment: 0, rubric: 0, ranking: 1 }), instantClock())!;
const openAll = ({ members }: FinishedGroup) => Promise.all(members.map(({ ended }) => ended.open()));
const rewards = ({ members }: FinishedGroup): unknown => members.map(({ ended }) => ended.summary.reward);
const rankingIn = ({ events }: Episode) => events.find((event) => event.type === "judgement" && event.ranked !== null);

describe("groupRanking()", () => {
  it("gives each episode its score, ties allowed, in records and in samples", async () => {
    const judge = fakeJudge(wordScore);
    const group = await ranked(judge)(await groupOf("score 0.9", "score 0.2", "score 0.9"), { seed: 1, signal });
    expect(rewards(group)).toEqual([0.9, 0.2, 0.9]);
    expect(judge.asked).toHaveLength(1);
    for (const { episode, result } of await openAll(group)) {
      expect(result.samples.map(({ reward }) => reward)).toEqual([episode.reward]);
      expect(episode.grade?.metrics).toMatchObject({ environment: 1, rubric: 0.5, ranking: episode.reward });
      expect(episode.events.slice(-3).map(({ type }) => type)).toEqual(["judgement", "grade", "episode-end"]);
      expect(episodeFromJson(parseJson(episodeLine(episode)), "here")).toEqual(episode);
    }
    const calls = (await openAll(group)).map(({ episode }) => rankingIn(episode));
    // The cost of the ranking is counted once per group.
    expect(calls.map((event) => event?.type === "judgement" && event.judgement.usage.modelCalls)).toEqual([1, 0, 0]);
  });

  it("scores by what was said and not by the place in the prompt, which the seed draws and the record tells", async () => {
    const group = await groupOf("score 0.1", "score 0.2", "score 0.3", "score 0.4");
    const orders = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      const one = await ranked()(group, { seed, signal });
      expect(rewards(one)).toEqual([0.1, 0.2, 0.3, 0.4]);
      const event = rankingIn((await openAll(one))[0]!.episode);
      orders.add(JSON.stringify(event?.type === "judgement" && event.ranked));
    }
    expect(orders.size).toBeGreaterThan(10);
    const again = async () => openAll(await ranked()(group, { seed: 3, signal }));
    expect(await again()).toEqual(await again());
  });

  it("compares the graded ones, and leaves the failed as they are", async () => {
    const group = await ranked()(await groupOf("score 0.9", null, "score 0.2"), { seed: 1, signal });
    expect(rewards(group)).toEqual([0.9, null, 0.2]);
    expect(group.members[1]?.ended.summary.failure?.boundary).toBe("engine");
  });

  it("gives no reward where there is nothing to compare with", async () => {
    const judge = fakeJudge(wordScore);
    const group = await ranked(judge)(await groupOf("score 0.9", null), { seed: 1, signal });
    expect(rewards(group)).toEqual([null, null]);
    expect(judge.asked).toEqual([]);
    const [member] = await openAll(group);
    expect(member?.result).toMatchObject({
      samples: [],
      dropped: [{ reason: "not-graded" }, { reason: "not-graded" }],
    });
  });

  it("fails the whole group with its judge", async () => {
    const group = await ranked(fakeJudge(() => null))(await groupOf("score 0.9", "score 0.2"), { seed: 1, signal });
    for (const finished of await openAll(group)) {
      expect(finished.episode).toMatchObject({ outcome: "failed", stopReason: "fault", reward: null });
      expect(finished.episode.failure).toMatchObject({ boundary: "grader", code: "quota-exceeded" });
      expect(finished.episode.events.at(-1)).toMatchObject({ type: "episode-end", stopReason: "fault" });
      expect(finished.result.samples).toEqual([]);
    }
  });

  it("fails a group that is too long for a question", async () => {
    const judge = fakeJudge(wordScore);
    const ranker = groupRanker(defineRanking({ maxCharacters: 1000 }), judge);
    const rank = groupRanking({ ...gradingOf(judge), ranker })!;
    const group = await rank(await groupOf("score 0.9", "x".repeat(1000)), { seed: 1, signal });
    expect(group.members[0]?.ended.summary.failure).toMatchObject({ boundary: "grader", code: "question-too-long" });
  });

  it("takes the ranking from an episode that was stored with it, whichever that is", async () => {
    const whole = await ranked()(await groupOf("score 0.9", "score 0.2", "score 0.5"), { seed: 1, signal });
    const fresh = await groupOf("score 0.9", "score 0.2", "score 0.5");
    for (let stored = 1; stored <= 3; stored++) {
      const judge = fakeJudge(wordScore);
      const members = fresh.members.map((member, place) => (place < stored ? whole.members[place]! : member));
      const group = await ranked(judge)({ ...fresh, members }, { seed: 1, signal });
      expect(judge.asked).toEqual([]);
      expect(rewards(group)).toEqual(rewards(whole));
      const grades = async (one: FinishedGroup) => (await openAll(one)).map(({ episode }) => episode.grade);
      expect(await grades(group)).toEqual(await grades(whole));
    }
  });

  it("rejects when the run is cancelled, so that a later process compares", async () => {
    const cancel = new AbortController();
    cancel.abort(new Error("stop"));
    const group = await groupOf("score 0.9", "score 0.2");
    await expect(ranked()(group, { seed: 1, signal: cancel.signal })).rejects.toThrow("stop");
  });

  it("shows what all have in common once", async () => {
    const [one, two] = (await openAll(await groupOf("score 0.9", "score 0.2"))).map(({ episode }) => episode);
    const text = groupRanker(
      defineRanking(),
      fakeJudge(() => 1),
    ).question([one!, two!]).messages[1]!.content;
    expect(text.split("Please count.")).toHaveLength(2);
    expect(text.indexOf("score 0.9")).toBeGreaterThan(text.indexOf("Conversation 1, after that"));
  });
});

describe("a run with a ranking", () => {
  const words = ["score 0.9", "score 0.2", "score 0.5"];
  const plan = { taskset: counter.taskset("test"), taskIndexes: [0], groupSize: 3, seed: 5 };

  /**
   * A process with the state that earlier ones left: events of episodes, episodes, groups. The
   * `breaksAt`-th write of an episode or a group fails.
   */
  function process(
    breaksAt: number,
    left = {
      journal: new Map<string, EpisodeEvent[]>(),
      kept: new Map<string, Episode>(),
      groups: [] as GroupRecord[],
    },
  ) {
    let writes = 0;
    const write = (store: () => void): Promise<void> => {
      if (++writes === breaksAt) return Promise.reject(new Error("The disk is gone."));
      store();
      return Promise.resolve();
    };
    const journal: EpisodeJournal = {
      record: async (id, event) => void left.journal.set(id, [...(left.journal.get(id) ?? []), event]),
      kept: async (id) => left.kept.get(id) ?? null,
      recorded: async (id) => (left.kept.has(id) ? [] : (left.journal.get(id) ?? [])),
    };
    const store = {
      append: (episode: Episode) => write(() => void left.kept.set(episode.id, episode)),
      appendGroup: ({ group }: { readonly group: GroupRecord }) => write(() => void left.groups.push(group)),
    };
    let sampled = 0;
    const run: RunEpisode = async (given, request) => {
      const done = (request.resumeFrom ?? []).filter(({ type }) => type === "turn").length;
      const { parts, model } = world([count(3), words[request.sampleIndex]!].slice(done), ["Please count.", hangUp]);
      const episode = await runEpisode(given, parts, { clock: instantClock(), ...request });
      sampled += model.requests.length;
      return { episode, result: episodeSamples(episode), origin: "new" };
    };
    return { left, store, runEpisode: resumableRunner(run, journal), sampled: () => sampled };
  }

  it.each([1, 2, 3, 4])(
    "that dies at write %i samples nothing again, and asks again only what was not recorded",
    async (at) => {
      const judge = fakeJudge(wordScore);
      const first = process(at);
      const rank = ranked(judge);
      const started = runRollout(plan, { ...first, rank, exportSamples: () => [] }, { concurrency: 1 });
      await expect(started).rejects.toThrow("The disk is gone.");
      expect(first.sampled()).toBe(6);
      const second = process(0, first.left);
      const totals = await runRollout(plan, { ...second, rank, exportSamples: () => [] }, { concurrency: 1 });
      expect(second.sampled()).toBe(0);
      expect(judge.asked).toHaveLength(at === 1 ? 2 : 1);
      expect(first.left.groups).toMatchObject([{ decision: "kept", rewards: [0.9, 0.2, 0.5] }]);
      expect([...first.left.kept.values()].map(({ reward }) => Number(reward)).toSorted((a, b) => a - b)).toEqual([
        0.2, 0.5, 0.9,
      ]);
      expect(totals).toMatchObject({ graded: 3, episodesFinished: 3 });
    },
  );

  it("needs one place alone: a held episode takes none", async () => {
    const { store, runEpisode: run, left } = process(0);
    await runRollout(plan, { store, runEpisode: run, rank: ranked(), exportSamples: () => [] }, { concurrency: 1 });
    expect(left.groups[0]?.rewards).toEqual([0.9, 0.2, 0.5]);
  });
});
