import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Episode } from "../core/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { type FakeJudge, fakeJudge } from "../graders/fake-judge.test-helper.ts";
import { defineRanking, defineRubric } from "../graders/index.ts";
import { openRunFolder, readEpisodes } from "../store/index.ts";
import { evaluate } from "./evaluate.ts";
import { rollout, type RolloutOptions } from "./rollout.ts";

const rubric = defineRubric({ criteria: [{ name: "short", description: "Was short.", scale: [0, 1] }] });
/** A shorter text gets a higher score. */
const byLength = (_name: string, shown: string): number => 1 / (1 + shown.length / 1000);

const temporary = () => mkdtemp(join(tmpdir(), "judged-"));

function optionsOf(judge: FakeJudge, out: string): RolloutOptions {
  return {
    env: "bookshop",
    engine: "expert",
    expertNoise: 0.4,
    tasks: "0-1",
    groupSize: 3,
    concurrency: 2,
    rubric,
    ranking: defineRanking(),
    environmentWeight: 1,
    judgeModel: judge,
    out,
  } as const;
}

async function episodesOf(folder: string): Promise<readonly Episode[]> {
  const episodes: Episode[] = [];
  for await (const episode of readEpisodes(folder)) episodes.push(episode);
  return episodes.toSorted((left, right) => left.id.localeCompare(right.id));
}

/** Facts without times, and without fields that only record which process paid. */
const facts = (episodes: readonly Episode[]) =>
  episodes.map(({ id, reward, grade, messages, outcome }) => ({ id, reward, grade, messages, outcome }));

describe("rollout() with graders", () => {
  it("rewards by environment, rubric and ranking, each a metric, in episodes and in groups", async () => {
    const judge = fakeJudge(byLength);
    const out = await temporary();
    const { totals } = await rollout({ ...optionsOf(judge, out), writeSamples: true });
    expect(totals).toMatchObject({ episodesFinished: 6, groupsKept: 2, judgeModelCalls: 8, judgeCost: 2 });
    const rewards = new Map<string, number | null>();
    for (const { id, reward, grade } of await episodesOf(out)) {
      rewards.set(id, reward);
      const { environment, rubric: judged, ranking } = grade!.metrics;
      expect(reward).toBeCloseTo((environment! + judged! + ranking!) / 3);
    }
    for await (const group of openRunFolder(out).groups()) {
      expect(group.rewards).toEqual(group.episodeIds.map((id) => rewards.get(id)));
    }
    const rows = (await readFile(join(out, "samples.jsonl"), "utf8")).trim().split("\n");
    const sampled = rows.map((row) => (JSON.parse(row) as { reward: number }).reward);
    expect(new Set(sampled)).toEqual(new Set(rewards.values()));
  });

  it("asks nothing twice and gives the same rewards, wherever it is stopped and resumed", async () => {
    const whole = fakeJudge(byLength);
    const reference = await temporary();
    let steps = 0;
    await rollout({ ...optionsOf(whole, reference), onEvent: ({ type }) => void (type === "progress" && steps++) });
    const expected = facts(await episodesOf(reference));
    expect(steps).toBeGreaterThan(20);
    for (let stop = 1; stop < steps; stop += 3) {
      const judge = fakeJudge(byLength);
      const out = await temporary();
      const controller = new AbortController();
      let seen = 0;
      const onEvent: RolloutOptions["onEvent"] = ({ type }) => {
        if (type === "progress" && ++seen === stop) controller.abort();
      };
      await rollout({ ...optionsOf(judge, out), signal: controller.signal, onEvent });
      const again = { resume: out, rubric, ranking: defineRanking(), judgeModel: judge };
      expect((await rollout(again)).status).not.toBe("interrupted");
      expect(facts(await episodesOf(out))).toEqual(expected);
      expect(judge.asked.toSorted()).toEqual(whole.asked.toSorted());
    }
  });

  it("counts a judge that fails as a failure at the grader, never as a reward", async () => {
    const out = await temporary();
    const { totals } = await rollout(
      optionsOf(
        fakeJudge(() => null),
        out,
      ),
    );
    expect(totals).toMatchObject({
      graded: 0,
      failures: { "grader/quota-exceeded": 6 },
      groupsDropped: { "not-graded": 2 },
    });
  });

  it.each([
    [{ groupSize: 1 }, "Cannot rank groups of one episode"],
    [{ faultPolicy: "drop" }, "Cannot use --fault-policy drop with a ranking"],
    [{ rubric: { ...rubric, weight: 0 }, ranking: "off", environmentWeight: 0 }, "every weight is 0"],
    [{ rubric: null, ranking: null }, "Cannot use --environment-weight: no model grades"],
    [{ rubric: null, ranking: "on", judgeModel: null }, "Cannot create a judge: no model is named"],
  ] as const)("refuses %j", async (change, message) => {
    const options = { ...optionsOf(fakeJudge(byLength), await temporary()), ...change } as RolloutOptions;
    await expect(rollout(options)).rejects.toThrow(message);
  });

  it("grades by what an environment is defined with", async () => {
    const environment = defineEnvironment({
      name: "shop",
      guidelines: "Be short.",
      tools: { leave: { description: "Ends.", parameters: {}, endsEpisode: true, run: () => "bye" } },
      tasks: { train: [{ state: {} }] },
      grade: rubric,
      graders: [defineRanking({ weight: 3 })],
    });
    expect(environment.graders).toMatchObject({ gradeWeight: null, use: [{ name: "rubric" }, { name: "ranking" }] });
    const define = (change: object) => () => defineEnvironment({ ...definition, ...change });
    const definition = { name: "x", guidelines: "", tools: { a: { description: "", parameters: {}, run: () => 1 } }, tasks: { t: [{ state: 1 }] }, grade: () => 1 }; // prettier-ignore
    expect(define({ graders: [{}] })).toThrow("what defineRubric or defineRanking returned");
    expect(define({ graders: [rubric, rubric] })).toThrow("names that differ");
    expect(define({ grade: defineRanking() })).toThrow("a function, or what defineRubric returned");
    expect(define({ gradeWeight: -1 })).toThrow("a number of at least 0");
  });
});

describe("evaluate() with a rubric", () => {
  it("scores by it, and refuses a ranking", async () => {
    const judge = fakeJudge(() => 1);
    const { evaluation } = await evaluate({ env: "bookshop", engine: "expert", tasks: "0-1", rubric, judgeModel: judge, out: await temporary() }); // prettier-ignore
    expect(evaluation).toMatchObject({ episodes: 2, meanReward: 1 });
    expect(judge.asked).toHaveLength(2);
    await expect(evaluate({ env: "bookshop", engine: "expert", ranking: "on" })).rejects.toThrow("remove --ranking");
  });
});
