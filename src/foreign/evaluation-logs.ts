// Logs of evaluations: samples of inspect, trajectories of ATIF, simulations of τ-bench and τ²-bench.

import {
  field,
  type ForeignEpisode,
  type ForeignMessage,
  hashOf,
  idOf,
  isFields,
  listOf,
  nothingRecorded,
  numberOf,
  readActions,
  readContent,
  readMessages,
  type ReadEpisode,
  textOf,
  uniqueIdOf,
} from "./foreign-episode.ts";
import { pythonFloat, unlessRaised } from "../python-semantics/index.ts";
import { scoresOf } from "./trainer-rows.ts";

/** Facts of a whole file that its episodes share. */
export type FileFacts = { readonly model: string | null };

/**
 * Reads a sample of an inspect log. Its reward is that of its first score: a number, or correct,
 * partially correct, incorrect.
 */
export function readInspectSample(sample: unknown, place: number, { model }: FileFacts): ReadEpisode {
  const id = idOf(field(sample, "id")) ?? String(place);
  const epoch = numberOf(field(sample, "epoch"));
  const scores = Object.entries(isFields(field(sample, "scores")) ? (field(sample, "scores") as object) : {}).map(
    ([name, score]: [string, unknown]) => ({ name, score, value: inspectValue(field(score, "value")) }),
  );
  const usage = Object.values(isFields(field(sample, "model_usage")) ? (field(sample, "model_usage") as object) : {});
  const limit = textOf(field(field(sample, "limit"), "type"));
  const seconds = numberOf(field(sample, "total_time"));
  const attachments = field(sample, "attachments");
  const output = field(sample, "output");
  return {
    ...nothingRecorded,
    id: epoch === null ? id : `${id} (epoch ${epoch})`,
    recording: uniqueIdOf(field(sample, "uuid")),
    taskId: id,
    contentHash:
      textOf(field(field(sample, "metadata"), "content_hash")) ??
      hashOf({ input: field(sample, "input") ?? null, target: field(sample, "target") ?? null }),
    groupId: id,
    trial: epoch === null ? null : epoch - 1,
    reward: scores[0]?.value ?? null,
    scores: Object.fromEntries(scores.flatMap(({ name, value }) => (value === null ? [] : [[name, value]]))),
    explanation: textOf(field(scores[0]?.score, "explanation")),
    stopReason: limit ?? textOf(field(listOf(field(output, "choices"))[0], "stop_reason")),
    isTruncated: limit !== null,
    error: textOf(field(field(sample, "error"), "message")),
    model: textOf(field(output, "model")) ?? model,
    messages: readMessages(attached(field(sample, "messages"), attachments)),
    sampledTokens: sumOrNull(usage.map((one: unknown) => numberOf(field(one, "output_tokens")))),
    durationMs: seconds === null ? null : seconds * 1000,
  };
}

/**
 * Replaces references with the long strings that the sample stores elsewhere under their hashes.
 */
function attached(messages: unknown, attachments: unknown): unknown[] {
  const textAt = (value: unknown): unknown => {
    const [, hash] = typeof value === "string" ? (/^attachment:\/\/(\w+)$/.exec(value) ?? []) : [];
    return hash === undefined ? value : (textOf(field(attachments, hash)) ?? value);
  };
  return listOf(messages).map((message) => {
    if (!isFields(message)) return message;
    const content = field(message, "content");
    const parts = Array.isArray(content)
      ? content.map((part: unknown) => (isFields(part) ? { ...part, text: textAt(field(part, "text")) } : part))
      : textAt(content);
    return { ...message, content: parts };
  });
}

const inspectGrades: Readonly<Record<string, number>> = { C: 1, P: 0.5, I: 0, N: 0 };
const inspectWords: Readonly<Record<string, number>> = { yes: 1, true: 1, no: 0, false: 0 };

/**
 * The number that inspect's `value_to_float` gives: a string that is neither one of its known
 * values nor a number is 0. NaN, inspect's sign of a score that was not given, is `null`, and so is
 * a list or an object, whose entries are values of their own.
 */
function inspectValue(value: unknown): number | null {
  if (typeof value === "boolean") return Number(value);
  if (typeof value !== "string") return numberOf(value);
  const lower = value.toLowerCase();
  const known = ownNumber(inspectGrades, value) ?? ownNumber(inspectWords, lower);
  if (known !== undefined) return known;
  return numberOf(unlessRaised(["ValueError"], () => pythonFloat(lower).value)) ?? 0;
}

function ownNumber(table: Readonly<Record<string, number>>, key: string): number | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function sumOrNull(values: readonly (number | null)[]): number | null {
  return values.length === 0 || values.includes(null)
    ? null
    : values.reduce<number>((all, value) => all + (value ?? 0), 0);
}

/** Reads a trajectory of ATIF. The format has no reward; our writer puts it into `extra`. */
export function readAtif(trajectory: unknown, place: number): ReadEpisode {
  const steps = listOf(field(trajectory, "steps"));
  const extra = field(trajectory, "extra");
  const metrics = field(trajectory, "final_metrics");
  const id = idOf(field(trajectory, "trajectory_id")) ?? idOf(field(trajectory, "session_id")) ?? String(place);
  const taskId = textOf(field(extra, "task_id"));
  return {
    ...nothingRecorded,
    id,
    recording: uniqueIdOf(field(trajectory, "trajectory_id")),
    taskId: taskId ?? id,
    contentHash: textOf(field(extra, "content_hash")),
    groupId: textOf(field(extra, "group_id")),
    trial: numberOf(field(extra, "sample_index")),
    reward: numberOf(field(extra, "reward")),
    scores: scoresOf(field(extra, "metrics")),
    explanation: textOf(field(trajectory, "notes")),
    stopReason: textOf(field(extra, "stop_reason")),
    model: textOf(field(field(trajectory, "agent"), "model_name")),
    messages: steps.flatMap(atifMessages),
    branches: atifBranches(steps),
    sampledTokens: numberOf(field(metrics, "total_completion_tokens")),
    agentCost: numberOf(field(metrics, "total_cost_usd")),
  };
}

function atifMessages(step: unknown): ForeignMessage[] {
  const source = field(step, "source");
  if (source !== "user" && source !== "agent" && source !== "system") return [];
  const calls = listOf(field(step, "tool_calls")).flatMap((call) => {
    const name = textOf(field(call, "function_name"));
    const id = textOf(field(call, "tool_call_id"));
    return name === null ? [] : [{ id, name, argumentsText: JSON.stringify(field(call, "arguments") ?? {}) }];
  });
  const { content } = readContent(field(step, "message"));
  const results = listOf(field(field(step, "observation"), "results")).map((result): ForeignMessage => {
    const callId = textOf(field(result, "source_call_id"));
    const name = calls.find(({ id }) => id === callId)?.name ?? null;
    return {
      role: "tool",
      content: readContent(field(result, "content")).content,
      reasoning: null,
      toolCalls: [],
      name,
      callId,
    };
  });
  const role = source === "agent" ? "assistant" : source;
  const reasoning = textOf(field(step, "reasoning_content"));
  return [{ role, content, reasoning, toolCalls: calls, name: null, callId: null }, ...results];
}

/**
 * Each call of the model with its prompt is a sequence; one that is a prefix of the next is part of
 * it.
 */
function atifBranches(steps: readonly unknown[]): ForeignEpisode["branches"] {
  type Branch = { tokens: number[]; lossMask: number[]; logprobs: number[] };
  const branches: Branch[] = [];
  for (const step of steps) {
    const metrics = field(step, "metrics");
    const prompt = numbersOf(field(metrics, "prompt_token_ids"));
    const sampled = numbersOf(field(metrics, "completion_token_ids"));
    if (prompt === null || sampled === null) continue;
    const logprobs = numbersOf(field(metrics, "logprobs"));
    const last = branches.at(-1);
    let branch = last;
    if (
      branch === undefined ||
      branch.tokens.length > prompt.length ||
      branch.tokens.some((id, at) => prompt[at] !== id)
    ) {
      branch = { tokens: [], lossMask: [], logprobs: [] };
      branches.push(branch);
    }
    for (const id of prompt.slice(branch.tokens.length)) push(branch, id, 0, NaN);
    for (const [at, id] of sampled.entries()) push(branch, id, 1, logprobs?.[at] ?? NaN);
  }
  function push(branch: Branch, id: number, bit: number, logprob: number): void {
    branch.tokens.push(id);
    branch.lossMask.push(bit);
    branch.logprobs.push(logprob);
  }
  if (branches.length === 0) return null;
  return branches.map(({ tokens, lossMask, logprobs }) => ({
    tokens: Uint32Array.from(tokens),
    lossMask: Uint8Array.from(lossMask),
    logprobs: Float32Array.from(logprobs),
  }));
}

function numbersOf(value: unknown): number[] | null {
  return Array.isArray(value) && value.every((one) => typeof one === "number") ? value : null;
}

/**
 * Reads a result of upstream's τ-bench runner. A crash is a reward of 0 there; here it is an error
 * without a reward.
 */
export function readTauRun(run: unknown, place: number): ReadEpisode {
  const info = field(run, "info");
  const task = field(info, "task");
  const error = textOf(field(info, "error"));
  const taskId = idOf(field(run, "task_id")) ?? String(place);
  return {
    ...nothingRecorded,
    id: String(place),
    taskId,
    contentHash: isFields(task) ? hashOf(task) : null,
    instruction: textOf(field(task, "instruction")),
    expectedActions: readActions(field(field(info, "reward_info"), "actions") ?? field(task, "actions")),
    groupId: taskId,
    trial: numberOf(field(run, "trial")),
    reward: error === null ? numberOf(field(run, "reward")) : null,
    error,
    // A crash loses the messages before it.
    messages: error !== null && listOf(field(run, "traj")).length === 0 ? null : readMessages(field(run, "traj")),
    userCost: numberOf(field(info, "user_cost")),
  };
}

/** Reads a simulation of τ²-bench; `tasks`: those of its file, by id. */
export function readTau2Simulation(
  simulation: unknown,
  place: number,
  { model, tasks }: FileFacts & { readonly tasks: ReadonlyMap<string, unknown> },
): ReadEpisode {
  const info = field(simulation, "reward_info");
  const taskId = idOf(field(simulation, "task_id")) ?? String(place);
  const reason = textOf(field(simulation, "termination_reason"));
  const task = tasks.get(taskId);
  const seconds = numberOf(field(simulation, "duration"));
  const isBroken = reason === "infrastructure_error" || reason === "user_error" || reason === "unexpected_error";
  return {
    ...nothingRecorded,
    id: idOf(field(simulation, "id")) ?? String(place),
    recording: uniqueIdOf(field(simulation, "id")),
    taskId,
    contentHash: task === undefined ? null : hashOf(task),
    instruction: scenarioOf(field(field(task, "user_scenario"), "instructions")),
    expectedActions: readActions(field(field(task, "evaluation_criteria"), "actions")),
    groupId: taskId,
    trial: numberOf(field(simulation, "trial")),
    // An infrastructure error is not the agent's result, so it has no reward; upstream excludes it
    // as well.
    reward: reason === "infrastructure_error" ? null : numberOf(field(info, "reward")),
    scores: scoresOf(field(info, "reward_breakdown")),
    stopReason: reason,
    isTruncated: reason === null ? null : /^(max_steps|timeout|too_many_errors|context_window_exceeded)$/.test(reason),
    error: isBroken ? reason : null,
    model,
    messages: readMessages(field(simulation, "messages")),
    agentCost: numberOf(field(simulation, "agent_cost")),
    userCost: numberOf(field(simulation, "user_cost")),
    durationMs: seconds === null ? null : seconds * 1000,
  };
}

/** The scenario as prose, or its named parts. */
function scenarioOf(instructions: unknown): string | null {
  if (!isFields(instructions)) return textOf(instructions);
  const parts = Object.entries(instructions).flatMap(([name, text]) =>
    typeof text === "string" && text.trim() !== "" ? [`${name.replaceAll("_", " ")}: ${text}`] : [],
  );
  return parts.length === 0 ? null : parts.join("\n");
}
