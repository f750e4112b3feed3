import { describe, expect, test } from "vitest";

import { createRandom } from "../lib/random.ts";
import { adjustLogits, chooseToken, type GenerationParams } from "./token-sampling.ts";
import { plainParams } from "./plain-params.test-helper.ts";

const probabilities = Float32Array.of(0.1, 0.4, 0.05, 0.25, 0.2);

/** The share of each token in many draws. */
function shares(params: Partial<GenerationParams>): number[] {
  const { next } = createRandom(7);
  const counts = [0, 0, 0, 0, 0];
  const logprobs = new Map<number, number>();
  for (let draw = 0; draw < 20_000; draw++) {
    const { token, logprob } = chooseToken(probabilities, 1, { ...plainParams, ...params }, next);
    counts[token]! += 1 / 20_000;
    logprobs.set(token, logprob);
  }
  // Reported logprobs belong to the whole distribution, before any truncation.
  for (const [token, logprob] of logprobs) expect(logprob).toBeCloseTo(Math.log(probabilities[token]!), 5);
  return counts;
}

describe("chooseToken()", () => {
  test.each<[string, Partial<GenerationParams>, readonly number[]]>([
    ["everything", {}, [0.1, 0.4, 0.05, 0.25, 0.2]],
    ["top-k 2", { topK: 2 }, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]],
    ["top-p 0.6: the token that crosses it stays", { topP: 0.6 }, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]],
    ["min-p 0.5 of the highest", { minP: 0.5 }, [0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85]],
    ["all together", { topK: 4, topP: 0.9, minP: 0.55 }, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]],
    ["greedy", { topK: 1 }, [0, 1, 0, 0, 0]],
  ])("draws from %s in proportion", (_, params, wanted) => {
    shares(params).forEach((share, token) => expect(share).toBeCloseTo(wanted[token]!, 1));
  });

  test("greedy takes the first of equals and needs no chance", () => {
    const never = (): number => {
      throw new Error("Nothing is left to chance.");
    };
    const { token } = chooseToken(Float32Array.of(1, 3, 3), 7, { ...plainParams, topK: 1 }, never);
    expect(token).toBe(1);
  });

  test("a number next to 1 still finds a token", () => {
    const powers = Float32Array.of(0.5, 0.25, 0);
    expect(chooseToken(powers, 0.7500001, plainParams, () => 0.99999999).token).toBe(1);
  });
});

describe("adjustLogits()", () => {
  const adjusted = (params: Partial<GenerationParams>, counts: [number, number][] = []): number[] => {
    const logits = Float32Array.of(2, -2, 1);
    adjustLogits(logits, { ...plainParams, ...params }, new Map(counts));
    return [...logits];
  };

  test.each<[string, Partial<GenerationParams>, number[]]>([
    ["frequency", { frequencyPenalty: 0.5 }, [1, -2.5, 1]],
    ["presence", { presencePenalty: 0.5 }, [1.5, -2.5, 1]],
    ["repetition", { repetitionPenalty: 2 }, [1, -4, 1]],
    ["bias", { logitBias: new Map([[2, 3]]) }, [2, -2, 4]],
  ])("of %s", (_, params, wanted) => {
    expect(adjusted(params, [[0, 2], [1, 1]])).toEqual(wanted); // prettier-ignore
  });

  test("bans stop tokens until enough is sampled", () => {
    const params = { stopTokenIds: new Set([0]), minNewTokens: 2 };
    expect(adjusted(params, [[1, 1]])).toEqual([-Infinity, -2, 1]);
    expect(adjusted(params, [[1, 2]])).toEqual([2, -2, 1]);
  });
});
