import { expect, test } from "vitest";

import { canCopyState, copyState, type LlamaSequence } from "./llama-library.ts";
import { takeTurns } from "./taking-turns.ts";

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

/** Its changes end when `end` is called with their number, or fail with an error. */
function openSequences() {
  const changes: { end(): void; fail(error: Error): void }[] = [];
  let evaluations = 0;
  const change = (): Promise<void> => new Promise((end, fail) => changes.push({ end, fail }));
  const sequence = (): LlamaSequence => ({
    nextTokenIndex: 3,
    contextTokens: [1, 2, 3],
    adaptStateToTokens: change,
    clearHistory: change,
    controlledEvaluate: async (input) => {
      evaluations++;
      return input.map(() => undefined);
    },
    _copyStateFromOtherSequence: async (other, tokens) => {
      await change();
      return raw.includes(other) && tokens === 2;
    },
  });
  const raw = [sequence(), sequence()];
  const [first, second] = takeTurns(raw);
  return { first: first!, second: second!, changes, evaluations: () => evaluations };
}

test("evaluations of all sequences wait until the last change has ended, or failed", async () => {
  const { first, second, changes, evaluations } = openSequences();
  await second.controlledEvaluate([1]);
  expect(evaluations()).toBe(1);
  const cleared = first.clearHistory();
  const adapted = second.adaptStateToTokens([1], false);
  const computed = Promise.all([first.controlledEvaluate([1]), second.controlledEvaluate([1, 2])]);
  changes[0]!.end();
  await cleared;
  await turns();
  expect(evaluations()).toBe(1);
  changes[1]!.fail(new Error("no memory"));
  await expect(adapted).rejects.toThrow("no memory");
  expect((await computed).map((rows) => rows.length)).toEqual([1, 2]);
  expect(evaluations()).toBe(3);
});

test("a copy names the sequence of the library as its source", async () => {
  const { first, second, changes } = openSequences();
  const copied = copyState(first, second, 2);
  changes[0]!.end();
  expect(await copied).toBe(true);
  expect([first.nextTokenIndex, [...first.contextTokens]]).toEqual([3, [1, 2, 3]]);
});

test("a library that cannot copy is seen as such", () => {
  const [plain] = takeTurns([
    {
      nextTokenIndex: 0,
      contextTokens: [],
      adaptStateToTokens: async () => undefined,
      clearHistory: async () => undefined,
      controlledEvaluate: async () => [],
    },
  ]);
  expect(canCopyState(plain!)).toBe(false);
});
