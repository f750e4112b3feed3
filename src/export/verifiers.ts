// An episode as a record of verifiers' `traces.jsonl` (`verifiers.v1` 0.4.0: `Episode`, `Trace`,
// `MessageNode`), from which prime-rl makes training samples. It is a tree like ours: one node per
// message, the tokens on a path form the sequence, and a sampled node that several branches share
// is trained in the first one. Our turns know the tokens of an observation as a whole, not per
// message, so an action's node holds them before its own, unsampled, like its generation prompt;
// nodes of shown messages hold none.

import type { DroppedTokens, Episode, Turn } from "../core/index.ts";
import { untrainedTokens } from "../trajectories/index.ts";
import { actionPlaces } from "./conversations.ts";
import { type ExportOrigin, episodeDigests, withRun, episodeFacts } from "./samples.ts";
import { columns, flag, json, type RowOf, shortestFloat32, string } from "./columns.ts";

type VerifiersNode = {
  readonly parent: number | null;
  readonly message: VerifiersMessage;
  /** True when the policy wrote the message. */
  readonly sampled: boolean;
  readonly timestamp: 0;
  readonly token_ids: readonly number[];
  /** True where the token is sampled and trained. Aligned with `token_ids`. */
  readonly mask: readonly boolean[];
  /** One for each trained token; empty when the engine reported none. */
  readonly logprobs: readonly number[];
};

type VerifiersMessage =
  | { readonly role: "system" | "user" | "assistant"; readonly content: string }
  | { readonly role: "tool"; readonly content: string; readonly tool_call_id: string; readonly name: string };

export const verifiersColumns = columns({
  id: string(),
  env: json<{ readonly id: string }>(),
  task: json<ReturnType<typeof taskOf>>(),
  group: json<{ readonly id: string }>(),
  ok: flag(),
  errors: json<readonly []>(),
  traces: json<readonly [ReturnType<typeof traceOf>]>(
    "one: its nodes are the tree of the episode's messages and tokens",
  ),
});

export type VerifiersRow = RowOf<typeof verifiersColumns>;

type EpisodeOrigin = Omit<ExportOrigin, "groupMean" | "sampleCount">;

/**
 * Throws a plain error for an episode that was not graded. `dropped`: the dropped tokens reported
 * by `toSamples`.
 */
export function toVerifiersRow(origin: EpisodeOrigin, dropped: readonly DroppedTokens[]): VerifiersRow {
  const { episode, run } = origin;
  return {
    id: withRun(run, episode.id),
    env: { id: episode.task.environment },
    task: taskOf(episode),
    group: { id: withRun(run, episode.groupId) },
    ok: true,
    errors: [],
    traces: [traceOf(origin, dropped)],
  };
}

function taskOf({ task }: Episode) {
  const data = { idx: task.index, id: task.id, split: task.split };
  return { type: task.environment, data, key: task.id, hash: task.contentHash };
}

function traceOf(origin: EpisodeOrigin, dropped: readonly DroppedTokens[]) {
  const { episode, run } = origin;
  const { reward } = episode;
  if (reward === null)
    throw new Error(`Cannot export episode "${episode.id}" to verifiers: it was not graded; leave it out.`);
  const { nodes, weights, turns } = treeOf(episode, untrainedTurns(episode, dropped));
  const rewards = episode.grade?.turnRewards ?? null;
  return {
    version: 1,
    id: withRun(run, episode.id),
    // The writer of the record; otherwise verifiers' readers would claim to have made it
    // themselves.
    verifiers: { version: "trainable-agents" },
    task: taskOf(episode),
    agent: { config: {}, name: "agent", trainable: true },
    nodes,
    rewards: { reward: { score: reward, weight: 1 } },
    metrics: episode.grade?.metrics ?? {},
    info: {
      ...episodeFacts(origin),
      weight_spans: weights,
      turn_digests: episodeDigests(episode),
      ...(rewards === null ? {} : { turn_rewards: scoresOf(turns, rewards) }),
    },
    is_completed: true,
    ok: true,
    stop_condition: stopCondition(episode.stopReason),
    timing: { start: 0 },
  };
}

/**
 * Turn scores in the form that prime-rl's turn credit takes: one for each sampled node, in order,
 * each the score of the state after its turn. Its trainer learns from the differences, so these are
 * cumulative rewards; a turn without a known reward leaves the sum unchanged.
 */
function scoresOf(turns: readonly number[], rewards: readonly (number | null)[]): readonly number[] {
  let sum = 0;
  return turns.map((turn) => (sum += rewards[turn] ?? 0));
}

/** Turns of which no token is in the loss. */
export function untrainedTurns(
  { trajectory }: Pick<Episode, "trajectory">,
  dropped: readonly DroppedTokens[],
): ReadonlySet<number> {
  const counts = new Map<number, number>();
  for (const { turn, count } of dropped) counts.set(turn, (counts.get(turn) ?? 0) + count);
  return new Set(
    [...counts].filter(([turn, count]) => count === trajectory.turns[turn]?.sampledTokens.length).map(([turn]) => turn),
  );
}

/** Verifiers' names of limits, so that its readers recognise a truncated episode. */
function stopCondition(stopReason: string): string {
  if (stopReason === "max_tokens") return "max_output_tokens";
  if (stopReason === "context_length") return "max_total_tokens";
  return stopReason;
}

/**
 * Converts turns to message nodes, in the order of turns. Also returns the turn of each sampled
 * node, and the weights that sampled `count` tokens of a node, in the order of nodes and tokens. A
 * discarded attempt is a dead end and is omitted.
 */
function treeOf(episode: Episode, dropped: ReadonlySet<number>) {
  const { messages, trajectory } = episode;
  const nodes: VerifiersNode[] = [];
  const turns: number[] = [];
  const weights: { node: number; count: number; dispatch: string | null; reply: string | null }[] = [];
  const places = turnPlaces(episode);
  const needed = withAncestors(trajectory.turns, dropped);
  const nodeOf = new Map<number | null, number>();
  for (const turn of trajectory.turns) {
    const { index, parent: before, observationTokens, sampledTokens, logprobs, weightSpans } = turn;
    const isTrained = !dropped.has(index);
    if (!needed.has(index)) continue;
    const place = places.get(index) ?? messages.length;
    const parentPlace = before === null ? -1 : (places.get(before) ?? -1);
    let parent = nodeOf.get(before) ?? null;
    for (const shown of messages.slice(parentPlace + 1, place)) {
      const { role, content } = shown;
      const message: VerifiersMessage =
        role === "tool" ? { role, content, tool_call_id: shown.callId ?? "", name: shown.name } : { role, content };
      const unsampled = { sampled: false, timestamp: 0, token_ids: [], mask: [], logprobs: [] } as const;
      parent = nodes.push({ parent, message, ...unsampled }) - 1;
    }
    const node = nodes.length;
    const reasons = untrainedTokens(turn);
    const masks = Array.from(sampledTokens, (_, at) => isTrained && (reasons?.[at] ?? null) === null);
    nodes.push({
      parent,
      message: { role: "assistant", content: messages[place]?.content ?? "" },
      sampled: true,
      timestamp: 0,
      token_ids: [...observationTokens, ...sampledTokens],
      mask: [...Array.from(observationTokens, () => false), ...masks],
      logprobs:
        logprobs === null
          ? []
          : Array.from(
              logprobs.filter((_, at) => masks[at]),
              finiteLogprob,
            ),
    });
    nodeOf.set(index, node);
    turns.push(index);
    for (const { tokenCount, dispatch, reply } of weightSpans)
      weights.push({ node, count: tokenCount, dispatch, reply });
  }
  return { nodes, weights, turns };
}

/**
 * Refuses infinite logprobs: JSON without a schema cannot hold them, and no engine samples a token
 * with one.
 */
function finiteLogprob(logprob: number): number {
  if (!Number.isFinite(logprob))
    throw new Error(`Cannot export to verifiers: a sampled token has the logprob ${logprob}.`);
  return shortestFloat32(logprob);
}

/** Index of each turn's action in the messages. Discarded attempts have none. */
function turnPlaces(episode: Episode): ReadonlyMap<number, number> {
  const decided: number[] = [];
  let turn: number | null = null;
  for (const event of episode.events) {
    if (event.type === "turn") turn = event.turn.index;
    else if (event.type === "decision" && turn !== null) decided.push(turn);
  }
  const places = actionPlaces(episode);
  return new Map(decided.map((index, at) => [index, places[at]!]));
}

/** The trained turns, and those whose tokens precede them. */
export function withAncestors(turns: readonly Turn[], dropped: ReadonlySet<number>): ReadonlySet<number> {
  const needed = new Set<number>();
  for (const { index } of turns.toReversed()) {
    if (!dropped.has(index)) needed.add(index);
    const { parent } = turns[index]!;
    if (needed.has(index) && parent !== null) needed.add(parent);
  }
  return needed;
}
