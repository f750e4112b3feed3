// An episode as a file of another tool records it. A fact that the file does not record is `null`
// and never zero: a viewer shows "not recorded" instead. Values come from outside, so every field
// is read with a check.

import { createHash } from "node:crypto";

export type ForeignFormat =
  | "slime"
  | "verifiers"
  | "verifiers-traces"
  | "inspect"
  | "atif"
  | "tau-bench"
  | "tau2-bench";

export type ForeignToolCall = { readonly id: string | null; readonly name: string; readonly argumentsText: string };

export type ForeignMessage = {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly reasoning: string | null;
  readonly toolCalls: readonly ForeignToolCall[];
  /** Name of the tool that answers; `null` if it is not recorded, or the message is not a tool's. */
  readonly name: string | null;
  readonly callId: string | null;
};

/** One linear sequence. All arrays are aligned with `tokens`. */
export type ForeignBranch = {
  readonly tokens: Uint32Array;
  /** `null` if not recorded. */
  readonly lossMask: Uint8Array | null;
  /** NaN for tokens without a logprob; `null` if not recorded. */
  readonly logprobs: Float32Array | null;
};

export type ForeignEpisode = {
  readonly id: string;
  /**
   * Identifies the recording in every copy: the id that its writer generated for it, or else a
   * digest of its record.
   */
  readonly recording: string;
  readonly taskId: string;
  /**
   * SHA-256 of the task in the file, or the hash that the file records; `null` if it records
   * neither.
   */
  readonly contentHash: string | null;
  /** The user's instruction, as prose; `null` if not recorded. */
  readonly instruction: string | null;
  /** Calls that the task expects, in order; `null` if not recorded. */
  readonly expectedActions: readonly { readonly name: string; readonly arguments: Fields }[] | null;
  readonly groupId: string | null;
  readonly trial: number | null;
  readonly reward: number | null;
  /** Other numbers that graders gave. */
  readonly scores: Readonly<Record<string, number>>;
  readonly explanation: string | null;
  readonly stopReason: string | null;
  readonly isTruncated: boolean | null;
  /** Error that ended the episode; `null` if the file names none. */
  readonly error: string | null;
  readonly model: string | null;
  /** `null` if messages are not recorded as such. */
  readonly messages: readonly ForeignMessage[] | null;
  /** `null` if token ids are not recorded. */
  readonly branches: readonly ForeignBranch[] | null;
  readonly weightVersions: readonly string[] | null;
  readonly sampledTokens: number | null;
  /** Cost in US dollars. */
  readonly agentCost: number | null;
  readonly userCost: number | null;
  readonly durationMs: number | null;
  /** Text of slime's rows that record no messages: up to the first action, and from it on. */
  readonly text: { readonly prompt: string; readonly response: string } | null;
};

/** An episode as its record is read. `recording`: `null` if its writer generated no id for it. */
export type ReadEpisode = Omit<ForeignEpisode, "recording"> & { readonly recording: string | null };

/** An episode of which nothing is recorded. */
export const nothingRecorded = {
  recording: null,
  contentHash: null,
  instruction: null,
  expectedActions: null,
  groupId: null,
  trial: null,
  reward: null,
  scores: {},
  explanation: null,
  stopReason: null,
  isTruncated: null,
  error: null,
  model: null,
  messages: null,
  branches: null,
  weightVersions: null,
  sampledTokens: null,
  agentCost: null,
  userCost: null,
  durationMs: null,
  text: null,
} as const;

/** Number of calls of the model in the conversation; `null` if not recorded. */
export function foreignTurns({ messages }: Pick<ForeignEpisode, "messages">): number | null {
  return messages === null ? null : messages.filter(({ role }) => role === "assistant").length;
}

export type Fields = Readonly<Record<string, unknown>>;

/** An object's own field, `undefined` if the value is not an object with this field. */
export function field(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key) ? (value as Fields)[key] : undefined;
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

export function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

/** Ids may be numbers. */
export function idOf(value: unknown): string | null {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : null;
}

/**
 * An id that no other writer generates: a UUID, also in the short spelling of `shortuuid`. `null`
 * for anything else.
 */
export function uniqueIdOf(value: unknown): string | null {
  const id = textOf(value) ?? "";
  const isUnique = /^[0-9a-f]{8}(-?[0-9a-f]{4}){4}[0-9a-f]{8}$/i.test(id) || /^[2-9A-HJ-NP-Za-km-z]{22}$/.test(id);
  return isUnique ? id : null;
}

export function numberOf(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Reads the spellings of τ-bench and τ²-bench. `null` if the value is not a list of calls. */
export function readActions(value: unknown): ForeignEpisode["expectedActions"] {
  if (!Array.isArray(value)) return null;
  const actions = (value as readonly unknown[]).flatMap((action) => {
    const name = textOf(field(action, "name"));
    const given = field(action, "arguments") ?? field(action, "kwargs");
    // Calls of the user are not expected from the agent.
    if (name === null || field(action, "requestor") === "user") return [];
    return [{ name, arguments: isFields(given) ? given : {} }];
  });
  return actions;
}

/** Hash of a task as the file records it: equal for equal values, in any order of keys. */
export function hashOf(task: unknown): string {
  return createHash("sha256").update(canonical(task, 0)).digest("hex");
}

function canonical(value: unknown, depth: number): string {
  if (depth > 100 || typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, depth + 1)).join(",")}]`;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item, depth + 1)}`).join(",")}}`;
}

/**
 * Reads chat messages in the spellings of OpenAI, verifiers, inspect and τ²-bench. Values that are
 * not messages are omitted.
 */
export function readMessages(value: unknown): ForeignMessage[] {
  const messages: ForeignMessage[] = [];
  const names = new Map<string, string>();
  // Calls of the last action; verifiers 0.1 answers them in order, without their ids.
  let calls: readonly ForeignToolCall[] = [];
  for (const message of listOf(value)) {
    const role = field(message, "role");
    if (role !== "system" && role !== "user" && role !== "assistant" && role !== "tool" && role !== "developer")
      continue;
    const { content, reasoning } = readContent(field(message, "content"));
    const toolCalls = listOf(field(message, "tool_calls")).flatMap(readCall);
    for (const { id, name } of toolCalls) if (id !== null) names.set(id, name);
    if (role === "assistant") calls = toolCalls;
    // τ²-bench stores the id of the call in `id`.
    const callId = role === "tool" ? (textOf(field(message, "tool_call_id")) ?? textOf(field(message, "id"))) : null;
    const answered = role === "tool" && callId === null ? calls[0] : undefined;
    if (answered !== undefined) calls = calls.slice(1);
    const named = textOf(field(message, "name")) ?? textOf(field(message, "function"));
    messages.push({
      role: role === "developer" ? "system" : role,
      content,
      reasoning: textOf(field(message, "reasoning_content")) ?? reasoning,
      toolCalls,
      name: role === "tool" ? (named ?? names.get(callId ?? "") ?? answered?.name ?? null) : null,
      callId: callId ?? answered?.id ?? null,
    });
  }
  return messages;
}

/** Reads a text, or a list of parts. Parts that are not text are replaced by their names. */
export function readContent(value: unknown): { readonly content: string; readonly reasoning: string | null } {
  if (!Array.isArray(value)) return { content: textOf(value) ?? "", reasoning: null };
  const parts: string[] = [];
  const thoughts: string[] = [];
  for (const part of value as readonly unknown[]) {
    const type = textOf(field(part, "type")) ?? "part";
    const text = textOf(part) ?? textOf(field(part, "text"));
    if (type === "reasoning" || type === "thinking") {
      thoughts.push(textOf(field(part, "reasoning")) ?? textOf(field(part, "thinking")) ?? text ?? "");
    } else {
      parts.push(text ?? `[${type}]`);
    }
  }
  return { content: parts.join("\n"), reasoning: thoughts.length === 0 ? null : thoughts.join("\n") };
}

function readCall(given: unknown): ForeignToolCall[] {
  // verifiers also writes calls as JSON strings.
  const call = typeof given === "string" ? parseOr(given, null) : given;
  const body = field(call, "function");
  const name = textOf(body) ?? textOf(field(body, "name")) ?? textOf(field(call, "name"));
  if (name === null) return [];
  const values = field(body, "arguments") ?? field(call, "arguments");
  const argumentsText = typeof values === "string" ? values : JSON.stringify(values ?? {});
  return [{ id: textOf(field(call, "id")), name, argumentsText }];
}

function parseOr(text: string, otherwise: unknown): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return otherwise;
  }
}
