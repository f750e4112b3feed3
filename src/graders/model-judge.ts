// A second opinion of a model on failures that no rule explains. It is off unless a model is given;
// its answer is a label with a reason, never a reward. The prompt is our own.

import { attribute, type EnvironmentCall, type EnvironmentSource, type Task, useEnvironment } from "../core/index.ts";
import { splitReasoning } from "../lib/reasoning.ts";
import { dumpJson } from "../python-semantics/json/index.ts";
import type { Conversation, TaskFacts } from "./conversation.ts";
import { type FailedEpisode, type Fault, type FaultAttribution, faults, attributeFault } from "./fault-attribution.ts";

/** A model that completes a chat; the chat models of simulated users fit. */
export interface JudgeModel {
  complete(
    messages: readonly { readonly role: "system" | "user"; readonly content: string }[],
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<{ readonly text: string }>;
}

export type JudgeOptions = {
  /** Attribution by the rules, which is used if the answer of the model cannot be parsed. */
  readonly byRules: FaultAttribution;
  /** Guidelines that the agent had to follow. */
  readonly guidelines: string;
  readonly signal?: AbortSignal;
};

/**
 * Asks the model, unless a rule has already explained the failure. Rejects with the error of the
 * model.
 */
export async function judgeFault(
  model: JudgeModel,
  episode: FailedEpisode,
  { byRules, guidelines, signal }: JudgeOptions,
): Promise<FaultAttribution> {
  if (byRules.fault !== "agent") return byRules;
  const { text } = await model.complete(
    [
      { role: "system", content: question },
      { role: "user", content: material(episode, guidelines) },
    ],
    { signal },
  );
  const { content } = splitReasoning(text);
  const fault = readFault(content);
  if (fault === null) return byRules;
  const evidence = /^[^\S\n\r\u2028\u2029]*because\s{0,20}:\s{0,20}(.+)$/im.exec(content)?.[1]?.trim() ?? "";
  return {
    fault,
    rule: "model-judge",
    evidence: evidence === "" ? "The judge gave no reason." : evidence,
    by: "judge",
  };
}

const question = `You are shown a conversation between a customer, played by a program, and a service agent under test. The customer did not end up with the result that the task wanted. Decide whose mistake was the first that put that result out of reach, given that everybody else goes on as they should:
- user: the customer left its instruction: it told something else, held back what it knew when asked, wanted something else, or left too early.
- environment: the task itself: its wanted result breaks the guidelines, or nobody could have known it from the instruction.
- agent: everything else, such as breaking the guidelines, not looking things up, or doing something else than was asked for.
Answer with two lines and nothing more:
fault: user, environment or agent
because: one sentence`;

function material({ conversation, facts }: FailedEpisode, guidelines: string): string {
  const shown = (call: EnvironmentCall): string => `${call.name} ${dumpJson(call.arguments)}`;
  const expected = [
    ...(facts.expectedCalls ?? []).map(shown),
    ...(facts.expectedUserCalls ?? []).map((call) => `customer's own call: ${shown(call)}`),
  ];
  return [
    `Guidelines of the agent:\n${guidelines}`,
    `Instruction of the customer:\n${facts.instruction ?? "(not in words)"}`,
    `Calls that lead to the wanted result:\n${expected.length === 0 ? "(none)" : expected.join("\n")}`,
    `Conversation:\n${transcript(conversation)}`,
  ].join("\n\n");
}

function transcript(conversation: Conversation): string {
  return conversation
    .map((step) => {
      if (step.type === "call" || step.type === "user-call") {
        return `${step.type === "call" ? "call" : "customer's own call"}: ${step.name} ${dumpJson(step.arguments)}\nresult: ${step.result.slice(0, 1_000)}`;
      }
      return `${step.type === "user" ? "customer" : "agent"}: ${step.text}${step.type === "user" && step.hangsUp ? " (hangs up)" : ""}`;
    })
    .join("\n");
}

/** The label in an answer; `null` if it names none, or two. */
function readFault(answer: string): Fault | null {
  const named = new Set(
    Array.from(answer.matchAll(/^\W{0,20}fault\W{0,20}:\W{0,20}(\w+)/gim), ([, name]) => name!.toLowerCase()),
  );
  return named.size === 1 ? (faults.find((fault) => named.has(fault)) ?? null) : null;
}

/** Function that attributes a failed episode of a task. */
export type FaultGrader = (task: Task, failed: Omit<FailedEpisode, "facts">) => Promise<FaultAttribution>;

/**
 * Combines the rules, with the known facts of each task, and a model, if given, for failures that
 * no rule explains.
 */
export function createFaultGrader(options: {
  readonly environment: EnvironmentSource;
  readonly factsOf: (task: Task) => Promise<TaskFacts>;
  /** `null` for rules only. */
  readonly judge: JudgeModel | null;
  /** Receives the reason whenever the judge cannot be reached; then only the rules decide. */
  readonly onJudgeFault: (reason: string) => void;
  readonly signal?: AbortSignal;
}): FaultGrader {
  const { environment, factsOf, judge, onJudgeFault, signal } = options;
  return async (task, failed) => {
    const episode = { ...failed, facts: await factsOf(task) };
    const byRules = attributeFault(episode);
    if (judge === null) return byRules;
    try {
      const guidelines = await useEnvironment(environment, task, (world) => world.guidelines);
      return await judgeFault(judge, episode, { byRules, guidelines, ...(signal === undefined ? {} : { signal }) });
    } catch (error) {
      onJudgeFault(attribute(error, "grader").failure.message);
      return byRules;
    }
  };
}
