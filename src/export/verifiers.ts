// An episode as a record of verifiers' `traces.jsonl` (`verifiers.v1` 0.4.0: `Episode`, `Trace`, `MessageNode`), which prime-rl
// makes training samples of. It is a tree like ours: a node for each message, tokens on the path add up to the sequence, and
// a sampled node that several branches share is trained in the first one.
//
// Our turns know the tokens of an observation as a whole, not message by message, so an action's node holds them before its
// own, unsampled, as their generation prompt stands there; nodes of shown messages hold none.

import type { DroppedTokens, Episode, Message, Turn } from "../core/index.ts";
import { openingLength } from "./conversations.ts";
import { type ExportOrigin, withRun, episodeFacts, type EpisodeFacts } from "./samples.ts";
import { columns, flag, json, type RowOf, shortestFloat32, string } from "./columns.ts";

export type VerifiersTask = {
  readonly type: string;
  readonly data: { readonly idx: number; readonly id: string; readonly split: string };
  readonly key: string;
  readonly hash: string;
};

export type VerifiersTrace = {
  readonly version: 1;
  readonly id: string;
  readonly verifiers: { readonly version: string };
  readonly task: VerifiersTask;
  readonly agent: {
    readonly config: Readonly<Record<string, never>>;
    readonly name: "agent";
    readonly trainable: true;
  };
  readonly nodes: readonly VerifiersNode[];
  readonly rewards: { readonly reward: { readonly score: number; readonly weight: 1 } };
  readonly metrics: Readonly<Record<string, number>>;
  readonly info: EpisodeFacts & { readonly weight_spans: readonly VerifiersWeights[] };
  readonly is_completed: true;
  readonly ok: boolean;
  readonly stop_condition: string;
  readonly timing: { readonly start: 0 };
};

/** Which weights sampled `count` tokens of a node, in the order of nodes and tokens. */
export type VerifiersWeights = {
  readonly node: number;
  readonly count: number;
  readonly dispatch: string | null;
  readonly reply: string | null;
};

export type VerifiersNode = {
  readonly parent: number | null;
  readonly message: VerifiersMessage;
  /** True when the policy wrote the message. */
  readonly sampled: boolean;
  readonly timestamp: 0;
  readonly token_ids: readonly number[];
  /** True where the token is sampled and trained. Aligned with `token_ids`. */
  readonly mask: readonly boolean[];
  /** One for each token that is trained; empty when the engine reported none. */
  readonly logprobs: readonly number[];
};

export type VerifiersMessage =
  | { readonly role: "system" | "user" | "assistant"; readonly content: string }
  | { readonly role: "tool"; readonly content: string; readonly tool_call_id: string; readonly name: string };

export const verifiersColumns = columns({
  id: string(),
  env: json<{ readonly id: string }>(),
  task: json<VerifiersTask>(),
  group: json<{ readonly id: string }>(),
  ok: flag(),
  errors: json<readonly []>(),
  traces: json<readonly [VerifiersTrace]>("one: its nodes are the tree of the episode's messages and tokens"),
});

export type VerifiersRow = RowOf<typeof verifiersColumns>;

/** Throws a plain error for an episode that was not graded. `dropped` as `toSamples` reports it. */
export function toVerifiersRow(
  origin: Omit<ExportOrigin, "groupMean" | "sampleCount">,
  dropped: readonly DroppedTokens[],
): VerifiersRow {
  const { episode, run } = origin;
  const { task, reward } = episode;
  if (reward === null)
    throw new Error(`Cannot export episode "${episode.id}" to verifiers: it was not graded; leave it out.`);
  const id = withRun(run, episode.id);
  const traceTask: VerifiersTask = {
    type: task.environment,
    data: { idx: task.index, id: task.id, split: task.split },
    key: task.id,
    hash: task.contentHash,
  };
  const tree = new NodeTree(origin, new Set(dropped.map(({ turn }) => turn)));
  return {
    id,
    env: { id: task.environment },
    task: traceTask,
    group: { id: withRun(run, episode.groupId) },
    ok: true,
    errors: [],
    traces: [
      {
        version: 1,
        id,
        // Who wrote the record; readers of ours would otherwise claim to have made it themselves.
        verifiers: { version: "trainable-agents" },
        task: traceTask,
        agent: { config: {}, name: "agent", trainable: true },
        nodes: tree.nodes,
        rewards: { reward: { score: reward, weight: 1 } },
        metrics: episode.grade?.metrics ?? {},
        info: { ...episodeFacts(origin), weight_spans: tree.weights },
        is_completed: true,
        ok: true,
        stop_condition: stopCondition(episode.stopReason),
        timing: { start: 0 },
      },
    ],
  };
}

/** Their terms for limits, so that their readers see a truncated episode as one. */
function stopCondition(stopReason: string): string {
  if (stopReason === "max_tokens") return "max_output_tokens";
  if (stopReason === "context_length") return "max_total_tokens";
  return stopReason;
}

/** Turns as nodes of messages, in the order of turns. A try that was discarded is a dead end, and left out. */
class NodeTree {
  readonly nodes: VerifiersNode[] = [];
  readonly weights: VerifiersWeights[] = [];

  constructor({ episode }: Pick<ExportOrigin, "episode">, dropped: ReadonlySet<number>) {
    const { turns } = episode.trajectory;
    const places = actionPlaces(episode);
    const parents = new Set(turns.map(({ parent }) => parent));
    const nodeOf = new Map<number | null, number>();
    for (const turn of turns) {
      if (dropped.has(turn.index) && !parents.has(turn.index)) continue;
      const place = places.get(turn.index) ?? episode.messages.length;
      const parentPlace = turn.parent === null ? -1 : (places.get(turn.parent) ?? -1);
      let parent = nodeOf.get(turn.parent) ?? null;
      for (const message of episode.messages.slice(parentPlace + 1, place)) parent = this.#show(parent, message);
      const content = episode.messages[place]?.content ?? "";
      nodeOf.set(turn.index, this.#act(parent, { turn, content, isTrained: !dropped.has(turn.index) }));
    }
  }

  #show(parent: number | null, message: Message): number {
    const { role, content } = message;
    const shown: VerifiersMessage =
      role === "tool" ? { role, content, tool_call_id: message.callId ?? "", name: message.name } : { role, content };
    return this.#add({ parent, message: shown, sampled: false, timestamp: 0, token_ids: [], mask: [], logprobs: [] });
  }

  #act(
    parent: number | null,
    action: { readonly turn: Turn; readonly content: string; readonly isTrained: boolean },
  ): number {
    const { turn, content, isTrained } = action;
    const { observationTokens, sampledTokens, logprobs } = turn;
    const node = this.#add({
      parent,
      message: { role: "assistant", content },
      sampled: true,
      timestamp: 0,
      token_ids: [...observationTokens, ...sampledTokens],
      mask: [
        ...Array<boolean>(observationTokens.length).fill(false),
        ...Array<boolean>(sampledTokens.length).fill(isTrained),
      ],
      logprobs: isTrained && logprobs !== null ? Array.from(logprobs, finiteLogprob) : [],
    });
    for (const { tokenCount, dispatch, reply } of turn.weightSpans)
      this.weights.push({ node, count: tokenCount, dispatch, reply });
    return node;
  }

  #add(node: VerifiersNode): number {
    return this.nodes.push(node) - 1;
  }
}

/** JSON without a schema has no infinities, and no engine samples a token that has none. */
function finiteLogprob(logprob: number): number {
  if (!Number.isFinite(logprob))
    throw new Error(`Cannot export to verifiers: a sampled token has the logprob ${logprob}.`);
  return shortestFloat32(logprob);
}

/** Where the action of each turn stands in the messages. Tries that were discarded stand nowhere. */
function actionPlaces({ events, messages }: Episode): ReadonlyMap<number, number> {
  const decided: number[] = [];
  let turn: number | null = null;
  for (const event of events) {
    if (event.type === "turn") turn = event.turn.index;
    else if (event.type === "decision" && turn !== null) decided.push(turn);
  }
  const start = openingLength(messages, decided.length);
  return new Map(decided.map((index, at) => [index, start + 2 * at]));
}
