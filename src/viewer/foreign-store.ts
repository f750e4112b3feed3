// A file of another tool as episodes of the viewer: converted once, when it is opened. Facts that
// the file does not record are omitted and named; nothing is invented, so that a token view of a
// file without tokens says so.

import { basename } from "node:path";
import type { Message } from "../core/index.ts";
import { type ForeignBranch, type ForeignEpisode, type ForeignFile, foreignTurns } from "../foreign/index.ts";
import type { EpisodeStore } from "./episode-store.ts";
import { countOnes } from "../trajectories/index.ts";
import { parseWhere, type WhereFields } from "../store/index.ts";
import { utterancesOf } from "./episode-extract.ts";
import { phrasesOf } from "./summary.ts";
import type { Hit, Row, StoredEpisode } from "./wire/index.ts";

/** Rejects with a `ConfigurationError` that names the record, for a file that cannot be read. */
export async function openForeignStore(path: string, file: ForeignFile): Promise<EpisodeStore> {
  const lines: Buffer[] = [];
  const rows: Row[] = [];
  const models = new Set<string>();
  let repeated = 0;
  for await (const episode of file.episodes({ onRepeated: () => void repeated++ })) {
    const stored = storedEpisode(episode);
    lines.push(Buffer.from(JSON.stringify(stored)));
    rows.push(rowOf(stored, episode, rows.length + 1));
    if (episode.model !== null) models.add(episode.model);
  }
  const missing =
    file.neverRecorded.length === 0
      ? []
      : [`A file of ${file.format} does not record ${file.neverRecorded.join(", ")}.`];
  if (repeated > 0) missing.push(`Of ${repeated} recordings that are in it more than once, the first is shown.`);
  return {
    facts: {
      name: file.title ?? basename(path),
      location: path,
      kind: "file",
      status: "done",
      isLive: false,
      startedAt: null,
      environment: file.format,
      split: null,
      engine: null,
      historyPolicy: null,
      planned: null,
      model: models.size === 0 ? null : [...models].join(", "),
      calls: null,
      hasEpisodes: true,
      hasTraining: false,
      missing,
    },
    count: lines.length,
    refresh: () => Promise.resolve(true),
    rows: (from, to) => Promise.resolve(rows.slice(from, to)),
    line: (place) => Promise.resolve(lines[place]!),
    filter: async function* (where) {
      const keep = parseWhere(where);
      yield* rows.filter((row) => keep(fieldsOf(row))).map(({ number }) => number - 1);
    },
    search: async function* (text) {
      for (const [place, line] of lines.entries()) {
        const hit = hitIn(line, text, rows[place]!);
        if (hit !== null) yield hit;
      }
    },
    close: () => Promise.resolve(),
    // The ids belong to a vocabulary that the file does not name.
    modelFolder: null,
    hasTokenizer: false,
  };
}

const notRecorded = "not recorded";
/** Maximum length of a row's text. */
const mostCharacters = 240;
const excerptCharacters = 60;

function rowOf(stored: StoredEpisode, episode: ForeignEpisode, number: number): Row {
  const { id, groupId, sampleIndex, outcome, stopReason, failure, reward, grade } = stored;
  const tokens = episode.branches?.reduce((sum, branch) => sum + branch.tokens.length, 0) ?? null;
  const trained = episode.branches?.map(({ lossMask }) => (lossMask === null ? null : countOnes(lossMask))) ?? [null];
  return {
    number,
    id,
    groupId,
    taskId: episode.taskId,
    taskIndex: null,
    domain: null,
    contentHash: episode.contentHash,
    sampleIndex,
    outcome,
    stopReason,
    failure: failure === null ? null : failure.boundary,
    reward,
    tokens,
    turns: foreignTurns(episode),
    sampledTokens:
      episode.sampledTokens ?? trained.reduce((sum, ones) => (sum === null || ones === null ? null : sum + ones), 0),
    formatErrors: {},
    durationMs: episode.durationMs,
    fault: null,
    extract: { ...utterancesOf(stored), cost: episode.agentCost },
    sentence: (failure?.message ?? grade?.log ?? "").slice(0, mostCharacters),
    phrases: phrasesOf((grade?.log ?? "").slice(0, mostCharacters)),
  };
}

/** A field that the file does not record equals only `null`. */
function fieldsOf(row: Row): WhereFields {
  return {
    reward: row.reward,
    outcome: row.outcome,
    stop_reason: row.stopReason,
    environment: null,
    split: null,
    task_id: row.taskId,
    task_index: null,
    group_id: row.groupId,
    group_mean: null,
    decision: null,
    episode_id: row.id,
    sample_index: row.sampleIndex,
    run: null,
    turns: row.turns,
    tokens: row.tokens,
    sampled_tokens: row.sampledTokens,
    samples: null,
    problems: null,
    history_policy: null,
  };
}

function hitIn(line: Buffer, text: string, { number, id, reward }: Row): Hit | null {
  // Strings are escaped in the line's JSON, so the escaped text is searched.
  if (!line.includes(JSON.stringify(text).slice(1, -1))) return null;
  const { messages } = JSON.parse(line.toString("utf8")) as StoredEpisode;
  for (const { role, content } of messages) {
    const at = role === "system" ? -1 : content.indexOf(text);
    if (at === -1) continue;
    const end = at + text.length;
    const before = content.slice(Math.max(0, at - excerptCharacters), at);
    return { number, id, reward, before, match: text, after: content.slice(end, end + excerptCharacters) };
  }
  return null;
}

function storedEpisode(episode: ForeignEpisode): StoredEpisode {
  const { id, taskId, reward, error, branches } = episode;
  const outcome = error !== null ? "failed" : episode.isTruncated === true ? "truncated" : "completed";
  const failure =
    error === null ? null : { boundary: "error", code: "recorded", message: error, retryable: false, cause: null };
  const stored = {
    id,
    groupId: episode.groupId ?? taskId,
    sampleIndex: episode.trial ?? 0,
    seed: 0,
    task: {
      id: taskId,
      environment: notRecorded,
      split: notRecorded,
      index: 0,
      contentHash: episode.contentHash,
      instruction: episode.instruction,
      agenda: null,
    },
    outcome,
    stopReason: episode.stopReason ?? notRecorded,
    failure,
    reward,
    grade: reward === null ? null : gradeOf(episode, reward),
    info: { not_recorded: notRecordedOf(episode) },
    messages: messagesOf(episode),
    historyPolicy: branches === null ? "no-tokens" : "append-only",
    problems: [],
    events: [],
    turns: turnsOf(branches ?? [], episode.weightVersions),
  };
  // Outcomes and boundaries keep the names of the file.
  return stored as unknown as StoredEpisode;
}

function gradeOf({ scores, explanation, expectedActions }: ForeignEpisode, reward: number): StoredEpisode["grade"] {
  const info = expectedActions === null ? {} : { expected_actions: expectedActions };
  return { reward, metrics: scores, log: explanation ?? "", info } as StoredEpisode["grade"];
}

/** Names of facts that the file does not record; the page shows them. */
function notRecordedOf(episode: ForeignEpisode): string[] {
  const { branches, messages, text, error } = episode;
  const isMissing: Readonly<Record<string, boolean>> = {
    messages: messages === null && text === null,
    "tool calls as such": messages === null && text !== null,
    reward: episode.reward === null && error === null,
    "stop reason": episode.stopReason === null,
    "token ids": branches === null,
    "loss mask": branches?.some(({ lossMask }) => lossMask === null) ?? true,
    logprobs: branches?.some(({ logprobs }) => logprobs === null) ?? true,
    "weight versions": episode.weightVersions === null,
    duration: episode.durationMs === null,
    cost: episode.agentCost === null,
  };
  return Object.keys(isMissing).filter((name) => isMissing[name]);
}

function messagesOf({ messages, text }: ForeignEpisode): Message[] {
  if (messages === null) {
    if (text === null) return [];
    const answer = { role: "assistant", content: text.response, reasoning: null, toolCalls: [] } as const;
    return [{ role: "user", content: text.prompt }, answer];
  }
  return messages.map(({ role, content, reasoning, toolCalls, name, callId }, place): Message => {
    if (role === "tool") return { role, content, name: name ?? notRecorded, callId };
    if (role !== "assistant") return { role, content };
    const calls = toolCalls.map((call, at) => ({ ...call, id: call.id ?? `call_${place}_${at}` }));
    return { role, content, reasoning, toolCalls: calls };
  });
}

type StoredTurn = StoredEpisode["turns"][number];

/**
 * Turns made from masks, as the file records nothing else: masked-out tokens are observations, the
 * others actions.
 */
function turnsOf(branches: readonly ForeignBranch[], versions: readonly string[] | null): StoredTurn[] {
  const turns: StoredTurn[] = [];
  for (const { tokens, lossMask, logprobs } of branches) {
    let parent: number | null = null;
    for (let start = 0; start < tokens.length;) {
      let action = start;
      while (action < tokens.length && lossMask?.[action] !== 1) action++;
      let end = action;
      while (end < tokens.length && lossMask?.[end] === 1) end++;
      const own = logprobs?.subarray(action, end) ?? null;
      const hasLogprobs = own !== null && own.every((one) => !Number.isNaN(one));
      const version = versions?.[Math.min(turns.length, versions.length - 1)] ?? null;
      turns.push({
        index: turns.length,
        parent,
        spelledTokens: 0,
        deviation: null,
        rewriteReason: null,
        observationTokens: packed(tokens.subarray(start, action), "<u4"),
        sampledTokens: packed(tokens.subarray(action, end), "<u4"),
        logprobs: hasLogprobs ? packed(own, "<f4") : null,
        finish: { reason: "stop", matched: null, raw: null },
        weightSpans: [{ tokenCount: end - action, dispatch: null, reply: version }],
      });
      parent = turns.length - 1;
      start = end;
    }
  }
  return turns;
}

function packed(
  values: Uint32Array | Float32Array,
  dtype: "<u4" | "<f4",
): { readonly dtype: string; readonly base64: string } {
  return { dtype, base64: Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64") };
}
