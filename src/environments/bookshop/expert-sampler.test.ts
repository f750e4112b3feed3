import { describe, expect, test } from "vitest";
import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { bookshopSource, createExpertSampler, expertAction } from "./index.ts";
import { play } from "./play.test-helper.ts";

const tokenizer = createReadableTokenizer();
const params = { seed: null };
const prompts = await collectPrompts();

/**
 * Collects prompts as an engine sees them, ending with the generation prompt, from conversations of
 * a noisy expert.
 */
async function collectPrompts(): Promise<readonly string[]> {
  const source = bookshopSource();
  const found: string[] = [];
  for (let index = 0; index < 21; index++) {
    const agent = (prompt: string): string => {
      found.push(prompt);
      return expertAction(prompt, { noise: 0.1, seed: index }).text;
    };
    await play(source, source.taskset("train").task(index), agent);
  }
  return found;
}

describe("createExpertSampler()", () => {
  test("answers token ids with the tokens of the expert's action and its end token", async () => {
    const sampler = createExpertSampler({ tokenizer });
    for (const prompt of prompts) {
      const { ids, logprobs, finish } = await sampler.sample({ promptIds: tokenizer.encode(prompt), params });
      expect(tokenizer.decode(ids)).toBe(`${expertAction(prompt).text}<|im_end|>`);
      expect(logprobs).toEqual(ids.map(() => 0));
      expect(finish).toBe("end");
    }
  });

  test("depends on seeds and prompt, not on the order of calls", async () => {
    const one = createExpertSampler({ tokenizer, noise: 0.5, seed: 3 });
    const other = createExpertSampler({ tokenizer, noise: 0.5, seed: 3 });
    const ask = async (sampler: typeof one, prompt: string, seed: number | null): Promise<string> =>
      tokenizer.decode((await sampler.sample({ promptIds: tokenizer.encode(prompt), params: { seed } })).ids);
    const forward = await Promise.all(prompts.map((prompt) => ask(one, prompt, 9)));
    const backward = await Promise.all(prompts.toReversed().map((prompt) => ask(other, prompt, 9)));
    expect(backward.toReversed()).toEqual(forward);
    const reseeded = await Promise.all(prompts.map((prompt) => ask(one, prompt, 10)));
    const differing = reseeded.filter((text, index) => text !== forward[index]).length;
    expect(differing).toBeGreaterThan(prompts.length * 0.3);
  });

  test("gives an action the probability with which it comes up", async () => {
    const noise = 0.4;
    const sampler = createExpertSampler({ tokenizer, noise, seed: 1 });
    const promptIds = tokenizer.encode(prompts[1]!);
    const counts = new Map<string, { count: number; logprob: number }>();
    const draws = 4000;
    for (let seed = 0; seed < draws; seed++) {
      const { ids, logprobs } = await sampler.sample({ promptIds, params: { seed } });
      // Wrong ids differ in their digits but count as one mistake.
      const text = tokenizer.decode(ids).replace(/\d/g, "0");
      const entry = counts.get(text) ?? { count: 0, logprob: logprobs[0]! };
      counts.set(text, { ...entry, count: entry.count + 1 });
    }
    expect(counts.size).toBeGreaterThan(3);
    const shares = [...counts.values()].sort((a, b) => b.count - a.count);
    for (const { count, logprob } of shares.slice(1)) {
      expect(Math.abs(count / draws - Math.exp(logprob))).toBeLessThan(0.03);
    }
  });

  test("goes on with an action that was cut off", async () => {
    const sampler = createExpertSampler({ tokenizer, noise: 0.3, seed: 5 });
    for (const prompt of prompts.slice(0, 40)) {
      const promptIds = tokenizer.encode(prompt);
      const { ids } = await sampler.sample({ promptIds, params });
      const begun = Uint32Array.from([...promptIds, ...ids.slice(0, Math.floor(ids.length / 2))]);
      const rest = await sampler.sample({ promptIds: begun, params });
      expect(tokenizer.decode([...begun, ...rest.ids])).toBe(tokenizer.decode([...promptIds, ...ids]));
    }
  });

  test("refuses a noise out of bounds and a tokenizer without an end token when it is made", () => {
    expect(() => createExpertSampler({ tokenizer, noise: 1.5 })).toThrow("noise is 1.5");
    expect(() => createExpertSampler({ tokenizer, habit: -1 })).toThrow("habit is -1");
    expect(() => createExpertSampler({ tokenizer: { ...tokenizer, name: "plain", tokenId: () => null } })).toThrow(
      'tokenizer "plain": it has no token "<|im_end|>"',
    );
  });
});

describe("an expert with a habit", () => {
  const refusal = /\/(?:foreign|shipped|delivered|signed|on-its-way|sold-out)$/;

  /**
   * Runs tasks with one goal. For each: its reward, and whether it needs a refusal that the habit
   * forgets.
   */
  async function playWith(habit: number, count: number): Promise<readonly { isForgotten: boolean; reward: number }[]> {
    const source = bookshopSource({ levels: [1, 2] });
    const tasks = Array.from({ length: count }, (_, index) => source.taskset("train").task(index));
    return Promise.all(
      tasks.map(async (task) => {
        const [name] = source.open(task).info.get("cases") as readonly string[];
        const { grade } = await play(source, task, (prompt) => expertAction(prompt, { habit, habitSeed: 1 }).text);
        return { isForgotten: refusal.test(name!), reward: grade.reward ?? 0 };
      }),
    );
  }

  test("refuses what days and amounts forbid and nothing else", async () => {
    const played = await playWith(1, 140);
    expect(played.some(({ isForgotten }) => isForgotten)).toBe(true);
    for (const { isForgotten, reward } of played) expect(reward).toBe(isForgotten ? 0 : 1);
  });

  test("has it in its share of the conversations", async () => {
    const forgotten = (await playWith(0.65, 210)).filter(({ isForgotten }) => isForgotten);
    const kept = forgotten.filter(({ reward }) => reward === 1).length / forgotten.length;
    // Four standard errors around a share of 0.35.
    expect(Math.abs(kept - 0.35)).toBeLessThan(4 * Math.sqrt((0.35 * 0.65) / forgotten.length));
  });
});

test.each([
  "",
  "<|im_start|>",
  "<|im_start|>assistant\n",
  "no markup",
  "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n",
])("expertAction() answers any text, such as %j", (prompt) => {
  expect(expertAction(prompt).text).not.toBe("");
  expect(expertAction(prompt, { noise: 1 }).text).not.toBe("");
});
