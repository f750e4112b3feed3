// Random episodes with all features that formats may lose: several branches with shared beginnings,
// dropped turns, tokens that a constraint keeps out of the loss, missing logprobs, weight versions
// that change within an action. A function of the seed.

import type {
  DroppedTokens,
  Episode,
  EpisodeEvent,
  EpisodeSamples,
  Message,
  ParsedAction,
  Turn,
} from "../core/index.ts";
import { createRandom, type Random } from "../lib/random.ts";
import { toSamples } from "../trajectories/index.ts";
import type { GroupToExport } from "./index.ts";

export type RandomOptions = {
  /** True: history may be rewritten, which starts branches. Default: true. */
  readonly canBranch?: boolean;
  /** True: turns may be dropped, and constrained. Default: true. */
  readonly canDrop?: boolean;
  /** Reward of the n-th episode. Default: random quarters. */
  readonly reward?: (sampleIndex: number) => number | null;
};

export function randomGroup(seed: number, options: RandomOptions & { readonly size?: number } = {}): GroupToExport {
  const episodes = Array.from({ length: options.size ?? 3 }, (_, sampleIndex) => {
    const { episode, result } = randomEpisode(seed * 31 + sampleIndex, { ...options, sampleIndex });
    return { episode, result, index: sampleIndex };
  });
  return { run: null, groupIndex: 4, decision: "kept", reason: null, episodes };
}

export function randomEpisode(
  seed: number,
  options: RandomOptions & { readonly sampleIndex?: number } = {},
): { readonly episode: Episode; readonly result: EpisodeSamples } {
  const random = createRandom(seed);
  const constraints = createRandom(seed + 1);
  const { sampleIndex = 0, canDrop = true, canBranch = true } = options;
  const turns: Turn[] = [];
  const messages: Message[] = [
    { role: "system", content: "Rules." },
    { role: "user", content: "I want a book." },
  ];
  const events: EpisodeEvent[] = [];
  const hasLogprobs = random.next() < 0.9;
  const count = 1 + random.integer(6);
  let last: number | null = null;
  const act = (parent: number | null): number => {
    const free = randomTurn(random, { index: turns.length, parent, hasLogprobs });
    const turn = canDrop && constraints.next() < 0.4 ? constrain(free, constraints) : free;
    turns.push(turn);
    const usage = { promptTokens: 1, completionTokens: 1, cachedTokens: null };
    events.push({ type: "turn", turn, attempts: [], usage, durationMs: 250 });
    return turn.index;
  };
  const discarded = new Set<number>();
  const decided: number[] = [];
  for (let index = 0; index < count; index++) {
    // The server aborted an attempt, which was sampled again, with its own prompt.
    if (canDrop && random.next() < 0.1) {
      discarded.add(act(last));
      last = null;
    }
    const isRewrite = canBranch && decided.length > 0 && random.next() < 0.3;
    // The history is rewritten completely, or continues from an earlier turn.
    if (isRewrite) last = random.next() < 0.5 ? null : random.pick(decided);
    last = act(last);
    decided.push(last);
    const call = { id: `call_${index}_0`, name: "find", argumentsText: '{"title": "Zoë \\"x\\""}' };
    const isCall = random.next() < 0.5;
    const action: ParsedAction = {
      text: isCall ? `hm<call>${call.argumentsText}</call>` : `word ${index}`,
      reasoning: random.next() < 0.3 ? "thought" : null,
      content: isCall ? "hm" : `word ${index}`,
      toolCalls: isCall ? [call] : [],
      problems: [],
      isTerminated: true,
    };
    messages.push({ role: "assistant", content: action.text, reasoning: null, toolCalls: [] });
    const decision = isCall
      ? ({ type: "call", problems: [], call, arguments: new Map() } as const)
      : ({ type: "say", problems: [], content: action.content } as const);
    events.push({ type: "decision", turn: index, action, decision });
    if (index === count - 1 && random.next() < 0.5) break;
    messages.push(
      isCall
        ? { role: "tool", content: `found ${index}`, name: "find", callId: call.id }
        : { role: "user", content: `answer ${index}` },
    );
  }
  const reward = options.reward === undefined ? random.integer(5) / 4 : options.reward(sampleIndex);
  const dropReason: DroppedTokens["reason"] | null = reward === null ? "not-graded" : null;
  const dropTurns = new Set(decided.filter(() => canDrop && random.next() < 0.1));
  const episode: Episode = {
    id: `desk:train:3#${sampleIndex}`,
    groupId: "desk:train:3",
    sampleIndex,
    task: {
      id: "desk:train:3",
      environment: "desk",
      split: "train",
      index: 3,
      contentHash: "ab",
      instruction: null,
      agenda: null,
    },
    seed,
    outcome: "completed",
    stopReason: "tool_ended",
    failure: null,
    reward,
    grade: reward === null ? null : { reward, metrics: { db: reward }, log: "", info: new Map() },
    info: new Map(),
    messages,
    trajectory: { turns },
    historyPolicy: "branch",
    events,
    problems: [],
  };
  const origin = { episodeId: episode.id, groupId: episode.groupId, taskId: episode.task.id, reward } as const;
  const result = toSamples(
    episode.trajectory,
    { ...origin, tokenAccounting: "token-exact", historyPolicy: "branch" },
    {
      dropTurn: ({ index }) =>
        dropReason ?? (discarded.has(index) ? "discarded-turn" : dropTurns.has(index) ? "too-long" : null),
    },
  );
  return { episode, result };
}

function randomTurn(
  random: Random,
  options: { readonly index: number; readonly parent: number | null; readonly hasLogprobs: boolean },
): Turn {
  const { index, parent, hasLogprobs } = options;
  const ids = (length: number): Uint32Array => Uint32Array.from({ length }, () => random.integer(200_000));
  const sampledTokens = ids(1 + random.integer(8));
  const first = random.integer(sampledTokens.length + 1);
  const version = (): string | null => random.pick(["1", "2", null]);
  return {
    index,
    parent,
    observationTokens: ids(1 + random.integer(6)),
    sampledTokens,
    logprobs: hasLogprobs ? Float32Array.from(sampledTokens, () => -random.next() * 3) : null,
    finish: { reason: "stop", matched: null, raw: null },
    weightSpans: [
      { tokenCount: first, dispatch: version(), reply: version() },
      { tokenCount: sampledTokens.length - first, dispatch: version(), reply: version() },
    ],
    spelledTokens: 0,
    deviation: null,
    rewriteReason: parent === null && index > 0 ? "test rewrote history" : null,
  };
}

/** The turn with its last tokens under a constraint, which forced some of them. */
function constrain(turn: Turn, random: Random): Turn {
  const count = turn.sampledTokens.length;
  const start = random.integer(count);
  const logprobs = turn.logprobs?.map((logprob, at) => (at >= start && random.next() < 0.5 ? 0 : logprob)) ?? null;
  const loss = random.pick(["train", "mask", "drop"] as const);
  const allowedMass = random.next() < 0.5 ? null : Float32Array.from({ length: count }, () => random.next());
  return { ...turn, logprobs, constrained: { ranges: [{ start, end: count }], allowedMass, loss } };
}
