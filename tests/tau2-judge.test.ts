// Tasks of τ²-bench that a judge grades, in the loop: its requests, the use of its answers, and a
// process that dies.

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createToolCalling } from "../src/agents/index.ts";
import { evaluate, type EvaluateOptions } from "../src/api/evaluate.ts";
import { bodyOf, type FakeAnswer, fakeServer, says } from "../src/chat-models/fake-chat.test-helper.ts";
import {
  type ChatAgent,
  type Episode,
  type EpisodeEvent,
  freeUsage,
  type Judge,
  type LocalEnvironmentSource,
} from "../src/core/index.ts";
import { withFolder } from "../src/environments/checkout/with-folder.test-helper.ts";
import { judgeText, smallCheckout } from "../src/environments/tau2-bench/checkout/small-checkout.test-helper.ts";
import { loadTau2Data, tau2Source } from "../src/environments/tau2-bench/index.ts";
import { createJudge } from "../src/graders/index.ts";
import { createQwenRenderer } from "../src/renderers/index.ts";
import { scriptedUsers } from "../src/users/index.ts";
import { instantClock, scriptedModel, tokenizer } from "../src/rollout/episode/episode-world.test-helper.ts";
import { digestOf, type EpisodeParts, runEpisode } from "../src/rollout/index.ts";

const task = (id: string, assertions: readonly string[]) => ({
  id,
  user_scenario: { persona: null, instructions: "Ask for nothing." },
  evaluation_criteria: { actions: [], nl_assertions: assertions, reward_basis: ["DB", "NL_ASSERTION"] },
});
const assertions = ["The agent greets.", "It isn't rude."];
const files = new Map([
  ...smallCheckout,
  ["data/tau2/domains/mock/tasks.json", JSON.stringify([task("judged", assertions), task("free", [])])],
  ["data/tau2/domains/mock/split_tasks.json", '{"base": ["judged", "free"]}'],
]);
const source = (): Promise<LocalEnvironmentSource> =>
  withFolder(files, async (folder) => tau2Source(await loadTau2Data({ domain: "mock", folder })));

const verdicts = (...met: readonly unknown[]): string =>
  JSON.stringify({
    results: met.map((metExpectation, at) => ({ expectedOutcome: assertions[at], reasoning: "so", metExpectation })),
  });

/** A server that returns these answers, then the last one repeatedly, and the judge that calls it. */
function judgeOf(...answers: readonly (FakeAnswer | "hangs")[]) {
  const http = fakeServer((_request, { signal }, index) => {
    const answer = answers[index] ?? answers.at(-1)!;
    if (answer !== "hangs") return answer;
    return new Promise((_resolve, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason as Error));
    });
  });
  const retry = { maxAttempts: 2, maxElapsedMs: 500, baseDelayMs: 1, maxDelayMs: 1 };
  return { http, judge: createJudge({ url: "http://judge/v1", model: "m", http, retry, timeoutMs: 50 }) };
}

async function play(
  judge: Judge | null,
  { index = 0, resumeFrom = [] }: { readonly index?: number; readonly resumeFrom?: readonly EpisodeEvent[] } = {},
): Promise<Episode> {
  const environment = await source();
  const model = scriptedModel(["Hello."]);
  if (resumeFrom.some(({ type }) => type === "turn")) await model.sample({ prompt: { view: () => [] } } as never);
  const parts: EpisodeParts = {
    environment,
    user: scriptedUsers(["Hi there.", "Thanks. ###STOP###"]),
    engine: model,
    renderer: createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" }),
    strategy: createToolCalling(),
    grading: judge === null ? undefined : { judge, environmentWeight: null, graders: [], ranker: null },
  };
  return runEpisode(environment.taskset("base").task(index), parts, { clock: instantClock(), resumeFrom });
}

const judgements = ({ events }: Episode) => events.flatMap((event) => (event.type === "judgement" ? [event] : []));

describe("an episode of τ²-bench with assertions in words", () => {
  test("is put to the judge as upstream does it, and its verdicts count", async () => {
    const { http, judge } = judgeOf(says(verdicts(true, true)));
    const episode = await play(judge);
    expect(episode).toMatchObject({ outcome: "completed", reward: 1, grade: { metrics: { words_met: 1 } } });
    const { messages, temperature, response_format: format } = bodyOf(http.requests[0]);
    expect(judgeText).toContain(messages[0]!.content.trim());
    expect(messages[1]!.content).toBe(
      "\n        conversation:\n        assistant: Hi! How can I help you today?\nuser: Hi there.\nassistant: Hello.\n" +
        "user: Thanks. ###STOP###\n        \n        expectedOutcomes:\n" +
        `        ['The agent greets.', "It isn't rude."]\n        `,
    );
    expect({ temperature, format }).toEqual({ temperature: 0, format: undefined });
    expect(judgements(episode)).toMatchObject([{ judgement: { grader: "nl_assertions", model: "m", attempts: [] } }]);
    expect((await play(judgeOf(says(verdicts(true, false))).judge)).grade).toMatchObject({
      reward: 0,
      metrics: { database_right: 1, words_met: 0.5 },
      log: "not met: It isn't rude. (so).",
    });
  });

  test("has no reward without a judge, and one without assertions asks nobody", async () => {
    expect(await play(null)).toMatchObject({
      outcome: "failed",
      reward: null,
      failure: {
        boundary: "grader",
        code: "no-judge",
        message: expect.stringContaining("pass --judge-model") as string,
      },
    });
    const { http, judge } = judgeOf(says("never read"));
    expect(await play(judge, { index: 1 })).toMatchObject({ outcome: "completed", reward: 1 });
    expect(http.requests).toEqual([]);
  });

  test("asks once more when an answer is not a verdict, and fails at the grader when the next is none either", async () => {
    const second = judgeOf(says("They were nice."), says(verdicts(true, true)));
    const graded = await play(second.judge);
    expect(graded).toMatchObject({ outcome: "completed", reward: 1 });
    expect(judgements(graded)[0]!.judgement.attempts).toHaveLength(1);
    for (const answer of ["They were nice.", '{"results": [{}]}', verdicts("maybe"), ""]) {
      const { judge } = judgeOf(says(answer));
      const episode = await play(judge);
      expect(episode, answer).toMatchObject({ outcome: "failed", reward: null, failure: { boundary: "grader" } });
      expect(judgements(episode)[0]!.judgement.answer).toBe(null);
    }
  });

  test("fails at the grader when the judge does not answer in time", async () => {
    expect(await play(judgeOf("hangs").judge)).toMatchObject({ reward: null, failure: { boundary: "grader" } });
  });

  test("asks nothing twice and ends alike, wherever its process died", async () => {
    const whole = await play(judgeOf(says(verdicts(true, false))).judge);
    const asked = whole.events.findIndex(({ type }) => type === "judgement");
    expect(whole.events[asked + 1]!.type).toBe("grade");
    const comparable = ({ events, ...rest }: Episode) => ({
      ...rest,
      events: events.map((event) => ({ ...event, durationMs: 0 })),
    });
    for (let cut = 1; cut < whole.events.length; cut++) {
      const { http, judge } = judgeOf(says(verdicts(true, false)));
      const episode = await play(judge, { resumeFrom: whole.events.slice(0, cut) });
      expect(comparable(episode), `cut at ${cut}`).toEqual(comparable(whole));
      expect(http.requests.length).toBe(cut > asked ? 0 : 1);
    }
  });

  test("does not take the answer to another question out of a journal", async () => {
    const whole = await play(judgeOf(says(verdicts(true, true))).judge);
    const other = whole.events.map((event) =>
      event.type === "judgement" ? { ...event, judgement: { ...event.judgement, digest: "0".repeat(64) } } : event,
    );
    const cut = other.findIndex(({ type }) => type === "judgement") + 1;
    const episode = await play(judgeOf(says(verdicts(true, true))).judge, { resumeFrom: other.slice(0, cut) });
    expect(episode.failure).toMatchObject({ boundary: "grader", code: "replay-diverged" });
  });
});

describe("evaluate() of tasks with assertions in words", () => {
  const agent: ChatAgent = {
    name: "polite",
    reply: () =>
      Promise.resolve({
        action: { text: "Hello.", content: "Hello.", reasoning: null, toolCalls: [], problems: [], isTerminated: true },
        usage: freeUsage,
        attempts: [],
      }),
  };
  const run = (options: Partial<EvaluateOptions>) => {
    const notices: string[] = [];
    return withFolder(files, async (data) => {
      const { scores } = await evaluate({
        env: "tau2-bench/mock",
        data,
        agentModel: agent,
        user: scriptedUsers(["Hi.", "Bye. ###STOP###"]),
        out: await mkdtemp(join(tmpdir(), "judged-")),
        ...options,
        onEvent: (event) => void (event.type === "notice" && notices.push(event.message)),
      });
      return { rewards: scores.map(({ reward }) => reward), notices };
    });
  };
  const judge: Judge = {
    model: "m",
    ask: async (question) => {
      const answer = JSON.stringify({ results: [{ expectedOutcome: "x", reasoning: "y", metExpectation: true }] });
      const { grader } = question;
      return { grader, model: "m", digest: digestOf(question), answer, usage: freeUsage, attempts: [], isCached: false, failure: null }; // prettier-ignore
    },
  };

  test("asks the judge that is given, and says how many have no reward without one", async () => {
    expect(await run({ judgeModel: judge })).toEqual({ rewards: [1, 1], notices: [] });
    expect(await run({})).toEqual({
      rewards: [null, 1],
      notices: [expect.stringContaining("Note: 1 of 2 tasks are graded by a judge's word, and there is no judge")],
    });
    expect(await run({ tasks: "1" })).toEqual({ rewards: [1], notices: [] });
    await expect(run({ environmentWeight: 2 })).rejects.toThrow("Cannot use --environment-weight");
  });
});
