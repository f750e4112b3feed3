// Reads upstream's result format: each entry becomes a recorded run with the actions of the agent.
// Trajectories of all of upstream's agents are supported: tool calls as fields of messages, or
// written as text (act and react).

import { createHash } from "node:crypto";
import { ConfigurationError, type Episode } from "../core/index.ts";
import { pythonStrip } from "../python-semantics/index.ts";
import {
  JsonFloat,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
  dumpJson,
} from "../python-semantics/json/index.ts";
import { episodeUsage } from "../rollout/index.ts";
import { type Conversation, type ConversationStep, conversationOf } from "./conversation.ts";

export type RecordedRun = {
  /** SHA-256 of the record. */
  readonly recording: string;
  readonly taskIndex: number;
  readonly trial: number;
  /** Reward; `null` for NaN, which Python writes for runs that were not scored. */
  readonly reward: number | null;
  /** Message of the runner if the run crashed, otherwise `null`. */
  readonly error: string | null;
  /** The conversation; empty if the run crashed. */
  readonly conversation: Conversation;
  readonly userCost: number | null;
};

/**
 * Reads a result file; `name` is for messages. Throws a `ConfigurationError` that names the first
 * invalid entry.
 */
export function readTauResults(text: string, name: string): RecordedRun[] {
  const entries = parse(text, (error) => {
    throw new ConfigurationError(`Cannot read "${name}": it is not JSON (${error.pythonMessage}); correct --from.`);
  });
  if (!Array.isArray(entries)) {
    throw new ConfigurationError(
      `Cannot read "${name}": expected a list of results, as upstream's runner writes it; correct --from.`,
    );
  }
  return entries.map((entry, at) => {
    const run = entry instanceof Map ? readRun(entry) : "it is not an object";
    if (typeof run !== "string") return run;
    throw new ConfigurationError(`Cannot read result ${at + 1} of "${name}": ${run}; correct the file, or --from.`);
  });
}

/** The run of an entry, or a string that describes the error. */
function readRun(entry: JsonObject): RecordedRun | string {
  const taskIndex = entry.get("task_id");
  const trial = entry.get("trial");
  const given = entry.get("reward");
  const reward = numberOf(given);
  const messages = entry.get("traj");
  if (typeof taskIndex !== "number" || taskIndex < 0) return '"task_id" is not an index of a task';
  if (typeof trial !== "number") return '"trial" is not a number';
  const isUnscored = given instanceof JsonFloat && !Number.isFinite(given.value);
  if (reward === null && !isUnscored) return '"reward" is not a number';
  if (!Array.isArray(messages)) return '"traj" is not a list of messages';
  const info = entry.get("info");
  const error = info instanceof Map ? info.get("error") : undefined;
  return {
    recording: createHash("sha256").update(dumpJson(entry)).digest("hex"),
    taskIndex,
    trial,
    reward,
    error: typeof error === "string" ? error : null,
    conversation: readConversation(messages.filter((message) => message instanceof Map)),
    userCost: info instanceof Map ? numberOf(info.get("user_cost")) : null,
  };
}

function numberOf(value: JsonValue | undefined): number | null {
  const number = value instanceof JsonFloat ? value.value : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}

function readConversation(messages: readonly JsonObject[]): Conversation {
  const isWritten = writesActions(messages);
  const steps: ConversationStep[] = [];
  let open: Action | null = null;
  const close = (result: string): void => {
    if (open === null) return;
    const isError = result.startsWith("Error: ") || result === `Unknown action ${open.name}`;
    steps.push({ type: "call", ...open, result, isError });
    open = null;
  };
  for (const message of messages) {
    const role = message.get("role");
    const content = message.get("content");
    const text = typeof content === "string" ? content : "";
    if (role === "assistant") {
      const action = readCall(message) ?? (isWritten ? readWritten(text) : null);
      if (action === null || action.name === "respond") {
        const said = action?.arguments.get("content") ?? text;
        steps.push({ type: "agent", text: typeof said === "string" ? said : "" });
      } else {
        open = action;
      }
    } else if (role === "tool" || (role === "user" && open !== null)) {
      close(role === "tool" ? text : text.replace(/^API output: /, ""));
    } else if (role === "user") {
      const hangsUp = text.includes(stopMark);
      steps.push({ type: "user", text: text.replaceAll(stopMark, "").trim(), hangsUp });
    }
  }
  return steps;
}

type Action = { readonly name: string; readonly arguments: JsonObject };

function actionOf(name: JsonValue | undefined, values: JsonValue | undefined): Action | null {
  return typeof name === "string" && values instanceof Map ? { name, arguments: values } : null;
}

/** The first tool call of a message: upstream's agents make one call at a time. */
function readCall(message: JsonObject): Action | null {
  const calls = message.get("tool_calls");
  const first = Array.isArray(calls) ? calls[0] : null;
  const fn = first instanceof Map ? first.get("function") : null;
  if (!(fn instanceof Map)) return null;
  const written = fn.get("arguments");
  return actionOf(fn.get("name"), typeof written === "string" ? parse(written) : null);
}

/**
 * An action in the format of act and react agents: JSON after the last "Action:"; anything else is
 * text.
 */
function readWritten(text: string): Action {
  const written = pythonStrip(text.split("Action:").at(-1) ?? "");
  const action = parse(written);
  const read = action instanceof Map ? actionOf(action.get("name"), action.get("arguments")) : null;
  return read ?? { name: "respond", arguments: new Map([["content", written]]) };
}

/** True if actions are written as text: such a prompt lists the tools in its first message. */
function writesActions(messages: readonly JsonObject[]): boolean {
  if (messages.some((message) => message.get("role") === "tool")) return false;
  const prompt = messages[0]?.get("content");
  return typeof prompt === "string" && prompt.includes("\n#Available tools\n");
}

function parse(text: string, refuse: (error: JsonSyntaxError) => null = () => null): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return refuse(error);
    throw error;
  }
}

/** Text that ends a conversation when upstream's customer says it. */
const stopMark = "###STOP###";

/**
 * One entry. An episode without a reward is written like a crash in upstream's files: reward 0.0,
 * the fault in `info`.
 */
export function tauResult(episode: Episode, guidelines: string): JsonObject {
  const { failure, reward, stopReason } = episode;
  const isLost = reward === null;
  const error = failure?.message ?? `The episode ended with "${stopReason}" and was not graded.`;
  return new Map<string, JsonValue>([
    ["task_id", episode.task.index],
    ["reward", new JsonFloat(reward ?? 0)],
    ["info", isLost ? new Map([["error", error], ["traceback", failure?.cause ?? ""]]) : infoOf(episode)], // prettier-ignore
    ["traj", isLost ? [] : trajectoryOf(conversationOf(episode), guidelines)],
    ["trial", episode.sampleIndex],
  ]);
}

/** Text of the whole file. */
export function tauResultsText(results: readonly JsonObject[]): string {
  return dumpJson([...results], { indent: 2, ensureAscii: true });
}

/**
 * Keys in upstream's order. The cost is that of the whole episode; upstream's own cost covers only
 * the last line.
 */
function infoOf({ info, events }: Episode): JsonObject {
  const last = events.findLast(({ type }) => type === "user-line" || type === "tool-result");
  const { cost } = episodeUsage({ events }).user;
  const isDone = info.get("reward_info") instanceof Map;
  const own: JsonObject = new Map<string, JsonValue>([
    ["task", info.get("task") ?? null],
    ["source", last?.type === "user-line" ? "user" : (info.get("source") ?? null)],
    ["user_cost", isDone && cost !== null ? new JsonFloat(cost) : null],
    ["reward_info", info.get("reward_info") ?? null],
  ]);
  // Our own keys, which upstream's files do not have.
  return new Map([...own, ...[...info].filter(([key]) => !own.has(key) && key !== "state_difference")]);
}

function trajectoryOf(conversation: Conversation, guidelines: string): JsonValue[] {
  const messages: JsonObject[] = [messageOf({ role: "system", content: guidelines })];
  let calls = 0;
  for (const step of conversation) {
    if (step.type === "user") {
      messages.push(messageOf({ role: "user", content: step.hangsUp ? withStopMark(step.text) : step.text }));
    } else if (step.type === "agent") {
      messages.push(messageOf({ content: step.text, role: "assistant" }));
    } else if (step.type === "call") {
      const id = `call_${calls++}`;
      const fn = messageOf({ arguments: dumpJson(step.arguments), name: step.name });
      const call = new Map<string, JsonValue>([["function", fn], ["id", id], ["type", "function"]]); // prettier-ignore
      messages.push(
        new Map<string, JsonValue>([["content", null], ["role", "assistant"], ["tool_calls", [call]]]), // prettier-ignore
        messageOf({ role: "tool", tool_call_id: id, name: step.name, content: step.result }),
      );
    }
  }
  return messages;
}

function withStopMark(text: string): string {
  if (text.includes(stopMark)) return text;
  return text === "" ? stopMark : `${text} ${stopMark}`;
}

function messageOf(fields: Readonly<Record<string, string>>): JsonObject {
  return new Map(Object.entries(fields));
}
