// Conversations of scripted sides over worlds of τ²-bench: reference solutions, some of them changed, among other tools' calls, and
// endings of several kinds. All are drawn from a seed.

import { Conversation, evaluate, stopToken, Tau2World } from "../../dist/environments/tau2-bench/index.js";
import { createRandom } from "../../dist/lib/random.js";

/** What is done to a reference solution. */
export const variants = /** @type {const} */ ([
  "gold",
  "silent",
  "dropped",
  "repeated",
  "changed",
  "random-calls",
  "too-many-errors",
  "max-steps",
  "agent-stop",
  "many-calls",
]);

/**
 * @typedef {Awaited<ReturnType<typeof import("../../dist/environments/tau2-bench/index.js").loadTau2Data>>} Data
 * @typedef {Awaited<ReturnType<Data["tasks"]>>[number]} Task
 * @typedef {{ readonly name: string, readonly arguments: import("../../dist/environments/tau2-bench/index.js").ToolCall["arguments"], readonly requestor: "assistant" | "user" }} Call
 */

/**
 * One conversation and its reward.
 *
 * @param {Data} data
 * @param {readonly Task[]} tasks
 * @param {{ readonly at: number, readonly seed: number, readonly verdict: boolean }} options `verdict`: of the judge, on everything.
 */
export async function simulate(data, tasks, { at, seed, verdict }) {
  const variant = variants[at % variants.length] ?? "gold";
  const random = createRandom(seed);
  const task = random.pick(tasks);
  const world = new Tau2World(data.world, { isSolo: false, createId: () => "B00000001" });
  const conversation = new Conversation(world, task, {
    maxSteps: variant === "max-steps" ? 4 : 200,
    maxErrors: variant === "too-many-errors" ? 3 : 10,
    isAgentStop: ({ content }) => variant === "agent-stop" && (content?.includes(stopToken) ?? false),
  });
  const said = variant === "silent" ? [] : (task.criteria?.communicated ?? []);
  const closing = ["That is all.", ...said].join(" ");
  const script = plan(data, tasks, { task, variant, random });
  let calls = 0;
  for (;;) {
    const { state } = conversation;
    if (state.type === "over") break;
    const [next] = script;
    const role = state.speaker;
    /** @type {string | null} */
    let content = null;
    /** @type {Call[]} */
    const made = [];
    if (next?.[0]?.requestor === role) made.push(...(script.shift() ?? []));
    else if (next !== undefined) content = role === "user" ? "Please help me." : "Please do what I say.";
    else if (role === "assistant") content = variant === "agent-stop" ? `${closing} ${stopToken}` : closing;
    else content = conversation.messages.some((message) => message.content?.startsWith(closing)) ? stopToken : "And?";
    const toolCalls = made.map((call) => ({ ...call, id: `call_${calls++}` }));
    conversation.say({ role, content, toolCalls: made.length === 0 ? null : toolCalls });
  }
  const { state, messages } = conversation;
  if (state.type !== "over") throw new Error("A conversation did not end.");
  const reward = await evaluate(data, task, messages, {
    reason: state.reason,
    isStrict: false,
    judge: async (_, assertions) => assertions.map((assertion) => ({ assertion, isMet: verdict, reason: "constant" })),
  });
  const simulation = {
    id: `${data.domain.name}-${at}`,
    taskId: task.id,
    trial: 0,
    seed,
    reason: state.reason,
    messages,
    reward,
    startedAt: Date.UTC(2026, 0, 1) + at * 60_000,
    durationMs: 1000 + at,
    agentCost: null,
    userCost: null,
  };
  return { task, simulation, variant };
}

/**
 * Rounds of calls, each of one side.
 *
 * @param {Data} data
 * @param {readonly Task[]} tasks
 * @param {{ readonly task: Task, readonly variant: (typeof variants)[number], readonly random: ReturnType<typeof createRandom> }} options
 * @returns {Call[][]}
 */
function plan(data, tasks, { task, variant, random }) {
  const gold = (task.criteria?.actions ?? []).map(pickCall);
  const all = tasks.flatMap(({ criteria }) => (criteria?.actions ?? []).map(pickCall));
  const any = () => random.pick(all);
  if (variant === "dropped") gold.splice(random.integer(Math.max(1, gold.length)), 1);
  if (variant === "repeated" && gold.length > 0) gold.push(random.pick(gold));
  if (variant === "changed" && gold.length > 0) gold[random.integer(gold.length)] = any();
  if (variant === "random-calls") for (let n = 0; n < 6; n++) gold.splice(random.integer(gold.length + 1), 0, any());
  if (variant === "too-many-errors") {
    const name = data.tools[0]?.name ?? "";
    for (let n = 0; n < 4; n++) gold.unshift({ name, arguments: new Map([["wrong", n]]), requestor: "assistant" });
  }
  if (variant !== "many-calls") return gold.map((call) => [call]);
  /** @type {Call[][]} */
  const rounds = [];
  for (const call of gold) {
    const last = rounds.at(-1);
    if (last?.[0]?.requestor === call.requestor) last.push(call);
    else rounds.push([call]);
  }
  return rounds;
}

/** @param {Call} call @returns {Call} */
const pickCall = ({ name, arguments: given, requestor }) => ({ name, arguments: given, requestor });
