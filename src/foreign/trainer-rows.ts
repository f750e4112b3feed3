// Rows of trainers: slime's JSON lines, and both shapes of verifiers' results.

import {
  field,
  type ForeignBranch,
  hashOf,
  idOf,
  isFields,
  listOf,
  nothingRecorded,
  numberOf,
  type ReadEpisode,
  readMessages,
  textOf,
  uniqueIdOf,
} from "./foreign-episode.ts";

/** Finite numbers that graders gave. */
export function scoresOf(value: unknown): Record<string, number> {
  return Object.fromEntries(
    Object.entries(isFields(value) ? value : {}).flatMap(([name, score]) => {
      const number = typeof score === "boolean" ? Number(score) : numberOf(score);
      return number === null ? [] : [[name, number]];
    }),
  );
}

/** Token ids; `null` if the value is not a list, or a member is not an id. */
function tokensOf(value: unknown): Uint32Array | null {
  if (!Array.isArray(value)) return null;
  const isId = (id: unknown): boolean => Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 32;
  return (value as readonly unknown[]).every(isId) ? Uint32Array.from(value as number[]) : null;
}

/** Reads a row of slime (`Sample.to_dict()`). The mask and logprobs are those of the response. */
export function readSlimeRow(row: unknown, place: number): ReadEpisode {
  const metadata = field(row, "metadata");
  const id = idOf(field(metadata, "episode_id")) ?? idOf(field(row, "rollout_id")) ?? idOf(field(row, "index"));
  const groupId = idOf(field(metadata, "group_id")) ?? idOf(field(row, "group_index"));
  const status = textOf(field(row, "status"));
  const reward = field(row, "reward");
  const prompt = field(row, "prompt");
  const response = textOf(field(row, "response"));
  const branch = slimeBranch(row);
  const versions = field(row, "weight_versions");
  return {
    ...nothingRecorded,
    id: id ?? String(place),
    // The group serves as the task if the task has no name.
    taskId: idOf(field(metadata, "task_id")) ?? (groupId === null ? `row ${place}` : `group ${groupId}`),
    contentHash: textOf(field(metadata, "content_hash")),
    groupId,
    // A reward may be a table of parts; only the trainer's settings say which of them counts.
    reward: numberOf(reward),
    scores: { ...scoresOf(reward), ...scoresOf(field(metadata, "metrics")) },
    stopReason: textOf(field(metadata, "stop_reason")) ?? status,
    isTruncated: status === null ? null : status === "truncated",
    error: status === "failed" || status === "aborted" ? status : null,
    messages: Array.isArray(prompt)
      ? readMessages([...(prompt as unknown[]), { role: "assistant", content: response }])
      : null,
    branches: branch === null ? null : [branch],
    weightVersions: Array.isArray(versions) ? versions.flatMap((version) => idOf(version) ?? []) : null,
    sampledTokens: branch?.lossMask?.reduce<number>((sum, bit) => sum + bit, 0) ?? null,
    text: typeof prompt === "string" && response !== null ? { prompt, response } : null,
  };
}

function slimeBranch(row: unknown): ForeignBranch | null {
  const tokens = tokensOf(field(row, "tokens"));
  if (tokens === null) return null;
  const responseOf = (key: string): readonly unknown[] | null => {
    const list = field(row, key);
    return Array.isArray(list) && list.length <= tokens.length ? (list as unknown[]) : null;
  };
  const mask = responseOf("loss_mask");
  const logprobs = responseOf("rollout_log_probs");
  const lossMask = mask === null ? null : new Uint8Array(tokens.length);
  lossMask?.set(mask!.map(Number), tokens.length - mask!.length);
  if (logprobs === null) return { tokens, lossMask, logprobs: null };
  // A logprob of 0 means none for tokens that were not sampled.
  const shown = new Float32Array(tokens.length).fill(NaN);
  const start = tokens.length - logprobs.length;
  for (const [at, logprob] of logprobs.entries()) {
    if (lossMask?.[start + at] !== 0 || logprob !== 0) shown[start + at] = numberOf(logprob) ?? NaN;
  }
  return { tokens, lossMask, logprobs: shown };
}

/**
 * Reads a line of verifiers' results.jsonl, which 0.1 to 0.3 write. An errored episode has a reward
 * of 0 there; here it is an error without a reward, as in a trace of 0.4.
 */
export function readVerifiersResult(row: unknown, place: number): ReadEpisode {
  const prompt = field(row, "prompt");
  const completion = field(row, "completion");
  const taskId = idOf(field(row, "example_id")) ?? idOf(field(row, "id")) ?? String(place);
  const asMessages = (value: unknown, role: string): unknown[] =>
    typeof value === "string" ? [{ role, content: value }] : [...listOf(value)];
  const error = verifiersError(field(row, "error"));
  const truncated = field(row, "is_truncated");
  return {
    ...nothingRecorded,
    id: String(place),
    taskId,
    contentHash: prompt === undefined ? null : hashOf({ prompt, answer: field(row, "answer") ?? null }),
    groupId: taskId,
    reward: error === null ? numberOf(field(row, "reward")) : null,
    scores: verifiersScores(row),
    stopReason: textOf(field(row, "stop_condition")),
    isTruncated: typeof truncated === "boolean" ? truncated : null,
    error,
    messages: readMessages([...asMessages(prompt, "user"), ...asMessages(completion, "assistant")]),
    sampledTokens: numberOf(field(field(row, "token_usage"), "output_tokens")),
    durationMs: verifiersDuration(row),
  };
}

/** Columns of 0.1.9 and older that are not scores; the metrics are columns as well. */
const verifiersColumns = new Set(["example_id", "id", "reward", "generation_ms", "scoring_ms", "total_ms"]);

function verifiersScores(row: unknown): Record<string, number> {
  const metrics = field(row, "metrics");
  if (isFields(metrics)) return scoresOf(metrics);
  const others = Object.entries(isFields(row) ? row : {}).filter(([name]) => !verifiersColumns.has(name));
  return scoresOf(Object.fromEntries(others));
}

/**
 * Duration in milliseconds, from the row (to 0.1.9), from its timing (to 0.1.12), or from its
 * seconds, which are 0 where nothing was scored.
 */
function verifiersDuration(row: unknown): number | null {
  const timing = field(row, "timing");
  const milliseconds = numberOf(field(timing, "total_ms")) ?? numberOf(field(row, "total_ms"));
  const seconds = numberOf(field(timing, "total"));
  return milliseconds ?? (seconds === null || seconds <= 0 ? null : seconds * 1000);
}

/** An error as text. For an object: its message with its causes, without the traceback. */
function verifiersError(error: unknown): string | null {
  if (!isFields(error)) return textOf(error);
  const [type, message] = [textOf(field(error, "type")), textOf(field(error, "message"))];
  const chain = textOf(field(error, "error_chain_repr")) ?? textOf(field(error, "error"));
  return (
    chain ?? (type === null || message === null ? (message ?? type) : `${type}: ${message}`) ?? JSON.stringify(error)
  );
}

const isNotFinite = (value: unknown): boolean => typeof value === "number" && !Number.isFinite(value);

/** Real episodes stay far below these limits; a path is walked for each branch. */
const mostNodes = 100_000;
const mostBranches = 200;

/**
 * Reads a line of verifiers' traces.jsonl (`verifiers.v1`): one episode, its first trainable trace.
 */
export function readVerifiersTrace(row: unknown, place: number): ReadEpisode {
  const traces = listOf(field(row, "traces"));
  const trace = traces.find((one) => field(field(one, "agent"), "trainable") === true) ?? traces[0];
  const task = field(row, "task") ?? field(trace, "task");
  const entries = Object.entries(isFields(field(trace, "rewards")) ? (field(trace, "rewards") as object) : {});
  // A sum is not a number if one of its parts is not.
  const isUnscored = entries.some(([, entry]: [string, unknown]) => isNotFinite(field(entry, "score")));
  const rewards = entries.flatMap(([name, entry]: [string, unknown]) => {
    const score = numberOf(field(entry, "score"));
    return score === null ? [] : [{ name, score, weight: numberOf(field(entry, "weight")) ?? 1 }];
  });
  const nodes = listOf(field(trace, "nodes"));
  if (nodes.length > mostNodes)
    throw new RangeError(`a trace has ${nodes.length} nodes, expected at most ${mostNodes}`);
  const leaves = leavesOf(nodes).slice(0, mostBranches);
  const paths = leaves.map((leaf) => pathTo(nodes, leaf));
  const branches = paths.flatMap((path) => branchOf(path.map((at) => nodes[at])) ?? []);
  const longest = paths.toSorted((a, b) => b.length - a.length)[0] ?? [];
  const errors = [...listOf(field(row, "errors")), ...listOf(field(trace, "errors"))];
  // Errors of an earlier attempt remain after a successful retry.
  const isBroken = errors.length > 0 && field(row, "ok") !== true;
  const stopReason = textOf(field(trace, "stop_condition"));
  const data = field(task, "data");
  return {
    ...nothingRecorded,
    id: idOf(field(row, "id")) ?? String(place),
    recording: uniqueIdOf(field(row, "id")),
    taskId: idOf(field(task, "key")) ?? idOf(field(data, "id")) ?? idOf(field(data, "idx")) ?? String(place),
    contentHash: textOf(field(task, "hash")) ?? (data === undefined ? null : hashOf(data)),
    groupId: idOf(field(field(row, "group"), "id")),
    reward:
      isUnscored || rewards.length === 0 ? null : rewards.reduce((sum, { score, weight }) => sum + score * weight, 0),
    scores: {
      ...Object.fromEntries(rewards.map(({ name, score }) => [name, score])),
      ...scoresOf(field(trace, "metrics")),
    },
    stopReason,
    isTruncated: stopReason === null ? null : isTraceTruncated(trace, stopReason),
    error: isBroken ? errors.map((one) => verifiersError(one)).join("; ") : null,
    model: textOf(field(field(field(trace, "agent"), "config"), "model")),
    messages: readMessages(longest.map((at) => field(nodes[at], "message"))),
    branches: branches.length === 0 ? null : branches,
    sampledTokens: branches.length === 0 ? numberOf(field(trace, "num_output_tokens")) : sampledIn(nodes),
    durationMs: traceDuration(field(trace, "timing")),
  };
}

/** True where verifiers counts the trace as truncated: a limit ended the episode, or its last reply. */
function isTraceTruncated(trace: unknown, stopReason: string): boolean {
  if (/^max_(turns|input_tokens|output_tokens|total_tokens)$|^compaction_failed$/.test(stopReason)) return true;
  const last = listOf(field(trace, "calls")).findLast((call) => field(call, "error") === undefined);
  return field(last, "finish_reason") === "length";
}

/**
 * Time from the agent's start to the end of the last stage that ran; a stage that did not run has
 * zeros. `null` if the agent never ended.
 */
function traceDuration(timing: unknown): number | null {
  const agent = field(timing, "agent");
  const [start, end] = [numberOf(field(agent, "start")), numberOf(field(agent, "end"))];
  if (start === null || end === null || start <= 0 || end <= 0) return null;
  const ends = ["finalize", "scoring"].map((stage) => numberOf(field(field(timing, stage), "end")) ?? 0);
  return (Math.max(end, ...ends) - start) * 1000;
}

/** Indexes of nodes that have no children. */
function leavesOf(nodes: readonly unknown[]): number[] {
  const parents = new Set(nodes.map((node) => field(node, "parent")));
  return nodes.flatMap((_, at) => (parents.has(at) ? [] : [at]));
}

/**
 * Indexes from the root to the leaf. A parent comes before its children; a parent that does not
 * ends the path.
 */
function pathTo(nodes: readonly unknown[], leaf: number): number[] {
  const path: number[] = [];
  for (let at: unknown = leaf; typeof at === "number" && nodes[at] !== undefined;) {
    path.push(at);
    const parent = field(nodes[at], "parent");
    at = typeof parent === "number" && parent < at ? parent : null;
  }
  return path.reverse();
}

/** `null` if no node of the path has token ids. */
function branchOf(path: readonly unknown[]): ForeignBranch | null {
  const parts = path.map((node) => {
    const tokens = tokensOf(field(node, "token_ids")) ?? new Uint32Array();
    return { tokens, mask: listOf(field(node, "mask")), logprobs: listOf(field(node, "logprobs")) };
  });
  const length = parts.reduce((sum, { tokens }) => sum + tokens.length, 0);
  if (length === 0) return null;
  const branch = {
    tokens: new Uint32Array(length),
    lossMask: new Uint8Array(length),
    logprobs: new Float32Array(length).fill(NaN),
  };
  let start = 0;
  for (const { tokens, mask, logprobs } of parts) {
    branch.tokens.set(tokens, start);
    // Only the masked tokens have logprobs.
    let next = 0;
    for (let at = 0; at < tokens.length; at++) {
      if (mask[at] !== true && mask[at] !== 1) continue;
      branch.lossMask[start + at] = 1;
      branch.logprobs[start + at] = numberOf(logprobs[next++]) ?? NaN;
    }
    start += tokens.length;
  }
  return branch;
}

function sampledIn(nodes: readonly unknown[]): number {
  return nodes.reduce<number>(
    (sum, node) => sum + listOf(field(node, "mask")).filter((bit) => bit === true || bit === 1).length,
    0,
  );
}
