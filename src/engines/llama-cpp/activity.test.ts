import { expect, test } from "vitest";

import { ActivityCounter } from "./activity.ts";

test("counts all calls, and shows the one that advanced last while it is in flight", () => {
  const counter = new ActivityCounter();
  expect(counter.current).toEqual({ promptTokens: 0, sampledTokens: 0, newest: null });
  const [first, second] = [counter.begin(1310), counter.begin(90)];
  first.prompt(512);
  expect(counter.current.newest).toEqual({ promptTokens: 512, ofPromptTokens: 1310, sampledTokens: 0 });
  second.prompt(90);
  second.token();
  expect(counter.current).toEqual({
    promptTokens: 602,
    sampledTokens: 1,
    newest: { promptTokens: 90, ofPromptTokens: 90, sampledTokens: 1 },
  });
  second.end();
  expect(counter.current.newest?.ofPromptTokens).toBe(1310);
  first.end();
  expect(counter.current).toEqual({ promptTokens: 602, sampledTokens: 1, newest: null });
});
