// Facts that graders may know about a task of τ²-bench: the calls that its reference solution makes
// on either side, whether they earn the reward, and the instruction of the user.

import type { EnvironmentCall } from "../core/index.ts";
import {
  loggedReadsOf,
  Conversation,
  countedIds,
  type DomainData,
  evaluate,
  judgedAssertions,
  scenarioText,
  stopToken,
  type Tau2Task,
  Tau2World,
} from "../environments/tau2-bench/index.ts";
import type { KnownFact, TaskFacts } from "../graders/index.ts";
import { PythonError } from "../python-semantics/index.ts";

/** Facts of a task with a user. */
export async function tau2Facts(data: DomainData, task: Tau2Task): Promise<TaskFacts> {
  const instruction = scenarioText(task);
  const actions = task.criteria?.actions ?? [];
  const of = (side: string): EnvironmentCall[] =>
    actions.flatMap(({ requestor, name, arguments: given }) =>
      requestor === side ? [{ name, arguments: given }] : [],
    );
  const { userTools } = task;
  return {
    instruction,
    tools: data.tools,
    userTools: data.userTools.filter(({ name }) => userTools === null || userTools.includes(name)),
    expectedCalls: (task.criteria?.actions ?? null) === null ? null : of("assistant"),
    expectedUserCalls: of("user"),
    isReachable: await isReachable(data, task),
    knownFacts: knownFacts(instruction),
  };
}

const patterns: readonly (readonly [name: string, pattern: RegExp])[] = [
  ["phone number", /\b\d{3}-\d{3}-\d{4}\b/g],
  ["email", /\b[\w.+-]+@[\w-]+\.[\w.]*\w/g],
  ["user id", /\b[a-z]+_[a-z]+_\d{3,}\b/g],
];

function knownFacts(instruction: string): KnownFact[] {
  return patterns.flatMap(([name, pattern]) => [...instruction.matchAll(pattern)].map(([value]) => ({ name, value })));
}

/**
 * Replays the reference solution, each side its part, and says the required information; a judge
 * would find no mistake.
 */
async function isReachable(data: DomainData, task: Tau2Task): Promise<boolean> {
  const actions = [...(task.criteria?.actions ?? [])];
  const closing = ["That is all.", ...(task.criteria?.communicated ?? [])].join(" ");
  try {
    const world = new Tau2World(data.world, {
      isSolo: false,
      createId: countedIds("B"),
      loggedReads: loggedReadsOf(task),
    });
    const conversation = new Conversation(world, task, { maxSteps: Infinity, maxErrors: Infinity });
    for (let isSaid = false; conversation.state.type === "turn";) {
      const { speaker } = conversation.state;
      const next = actions[0]?.requestor === speaker ? actions.shift() : undefined;
      if (next !== undefined) {
        const { name, arguments: given, requestor, id } = next;
        conversation.say({ role: speaker, content: null, toolCalls: [{ id, name, arguments: given, requestor }] });
        continue;
      }
      const isEnd = actions.length === 0;
      const content = !isEnd ? "Go on, please." : speaker === "assistant" ? closing : isSaid ? stopToken : "And?";
      isSaid ||= isEnd && speaker === "assistant";
      conversation.say({ role: speaker, content, toolCalls: null });
    }
    const verdicts = judgedAssertions(task).map((assertion) => ({ assertion, isMet: true, reason: "" }));
    const judge = async () => verdicts;
    return (await evaluate(data, task, conversation.messages, { reason: "user_stop", judge })).reward === 1;
  } catch (error) {
    if (error instanceof PythonError) return false;
    throw error;
  }
}
