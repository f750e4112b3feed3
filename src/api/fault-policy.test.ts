import { expect, it } from "vitest";
import type { EnvironmentSource, Failure } from "../core/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { createFaultGrader } from "../graders/index.ts";
import { taskFactsOf } from "./fault-policy.ts";

const source = defineEnvironment({
  name: "remote",
  guidelines: "Help.",
  tools: { look: { description: "Looks.", parameters: { type: "object", properties: {} }, run: () => "nothing" } },
  tasks: { test: [{ instruction: "Look.", state: {} }] },
  grade: () => 0,
});
const message = "database is down";
const failure: Failure = { boundary: "environment", code: "error", message, retryable: false, cause: null };

it.each<[string, () => unknown]>([
  [
    "throws",
    () => {
      throw new Error(message);
    },
  ],
  ["rejects", () => Promise.reject(new Error(message))],
  ["opens nothing", () => undefined],
])("an environment whose open() %s fails its episodes, and no evaluation of them", async (_, open) => {
  const environment: EnvironmentSource = { ...source, open: open as EnvironmentSource["open"] };
  const grade = createFaultGrader({
    environment,
    factsOf: taskFactsOf(environment, null),
    judge: null,
    onJudgeFault: () => undefined,
  });
  const failed = { conversation: [], outcome: "failed", failure } as const;
  expect(await grade(source.taskset("test").task(0), failed)).toMatchObject({
    fault: "environment",
    evidence: expect.stringContaining(message) as unknown,
  });
});
