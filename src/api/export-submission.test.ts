import { expect, test } from "vitest";
import { submissionOf, type SubmittedFile } from "./export-submission.ts";

const trials = 4;
/** A file whose tasks all differ in their number of actions, which decides upstream's order of additions. */
function fileOf(
  domain: string,
  { model = "a-model", user = "a-user" }: { readonly model?: string; readonly user?: string | null } = {},
): SubmittedFile {
  const ids = Array.from({ length: 50 }, (_, at) => `t${String(at).padStart(2, "0")}`);
  const call = { name: "look_up", requestor: "user" };
  return {
    tasks: ids.map((id, at) => ({ id, evaluation_criteria: { actions: Array.from({ length: (at * 13) % 53 }, () => call) } })), // prettier-ignore
    simulations: ids.flatMap((id, at) =>
      Array.from({ length: trials }, (_, trial) => ({
        task_id: id,
        agent_cost: (at + trial) % 9 === 0 ? null : 0.1 * ((at * 3 + trial) % 7) + 0.013,
        reward_info: { reward: trial < (at * 7) % 5 ? 1 : 0.5 },
        end_time: `2026-01-0${1 + trial}T10:00:00.000000`,
      })),
    ),
    info: {
      num_trials: trials,
      user_info: { implementation: user === null ? "rules" : "user_simulator", llm: user },
      agent_info: { llm: model },
      environment_info: { domain_name: domain },
      ...(domain === "banking_knowledge" ? { retrieval_config: "bm25" } : {}),
    },
  };
}

test("submissionOf() gives the figures of pandas 3.1.1, bit for bit, with models and retrieval", () => {
  const files = new Map(["airline", "banking_knowledge"].map((domain) => [domain, fileOf(domain)]));
  const figures = { pass_1: 50, pass_2: 33.333333333333336, pass_3: 25, pass_4: 20, cost: 0.31020670391061456 };
  expect(submissionOf(files)).toMatchObject({
    model_name: "a-model",
    submission_type: "standard",
    results: { airline: figures, banking_knowledge: { ...figures, retrieval_config: "bm25" } },
    trajectory_files: { airline: "airline_results.json", banking_knowledge: "banking_knowledge_results.json" },
    methodology: { evaluation_date: "2026-01-04", user_simulator: "a-user" },
  });
});

test("submissionOf() calls a run with another user custom, and refuses several models", () => {
  const custom = submissionOf(new Map([["retail", fileOf("retail", { user: null })]]));
  expect(custom).toMatchObject({ submission_type: "custom" });
  expect(custom).not.toHaveProperty("methodology.user_simulator");
  const files = new Map([
    ["retail", fileOf("retail")],
    ["airline", fileOf("airline", { model: "b-model" })],
  ]);
  expect(() => submissionOf(files)).toThrow("submit each model separately");
});
