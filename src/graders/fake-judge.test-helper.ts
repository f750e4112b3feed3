// A judge whose answers depend on the content it receives, and which counts its questions.

import { freeUsage, type Judge, type Judgement } from "../core/index.ts";
import { digestOf } from "../rollout/index.ts";

export type FakeJudge = Judge & { readonly asked: string[] };

/**
 * `score`: the score of a criterion for the whole text, or of one conversation of a ranking for its
 * lines. `null`: no answer, which is a fault.
 */
export function fakeJudge(score: (name: string, shown: string) => number | null): FakeJudge {
  const asked: string[] = [];
  return {
    model: "fake",
    asked,
    ask: (question, { signal }): Promise<Judgement> => {
      if (signal.aborted) return Promise.reject(signal.reason as Error);
      const digest = digestOf(question);
      asked.push(digest);
      const text = question.messages[1]!.content;
      const facts = { grader: question.grader, model: "fake", digest, attempts: [], isCached: false };
      const usage = { ...freeUsage, modelCalls: 1, cost: 0.25 };
      const entries = (question.schema as { required: string[] }).required.map((name) => {
        const own = text.split(`Conversation ${name}, after that:\n`)[1]?.split("\n\nConversation ")[0] ?? text;
        return [name, score(name, own)] as const;
      });
      if (entries.some(([, one]) => one === null)) {
        const failure = {
          boundary: "grader",
          code: "quota-exceeded",
          message: "empty",
          retryable: false,
          cause: null,
        } as const;
        return Promise.resolve({ ...facts, answer: null, usage, failure });
      }
      const scores = entries.map(([name, one]) => [name, { reason: `as ${name}`, score: one }]);
      const answer = JSON.stringify(Object.fromEntries(scores));
      question.read(answer);
      return Promise.resolve({ ...facts, answer, usage, failure: null });
    },
  };
}
