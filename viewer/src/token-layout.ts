// The tokens of a branch as pieces that are shown: an observation and an action for each turn, each
// with the state of its mask and the reason, cut into chunks of one text node. Only data; drawn in
// `tokens.tsx`. `src/trajectories` decides which tokens are trained.

import type { Sample, Turn } from "../../src/core/index.ts";
import { branchesOf, turnSpans, untrainedTokens } from "../../src/trajectories/index.ts";
import type {
  BranchOverlay,
  Plain,
  ShownEpisode,
  ShownSamples,
  TokenText,
  TurnText,
} from "../../src/viewer/wire/index.ts";
import { count, plural } from "./format.tsx";

export type PieceKind = "observed" | "trained" | "masked";

export type Piece = {
  readonly turn: Turn;
  readonly kind: PieceKind;
  /** Reason why it is not trained, or that it is trained. */
  readonly reason: string;
  /** Place of its first token in the branch. */
  readonly start: number;
  readonly tokens: Uint32Array;
  /** Aligned with `tokens`; `null` if none were recorded, or it is an observation. */
  readonly logprobs: Float32Array | null;
  /**
   * Aligned with `tokens`, NaN for tokens without one; `null` if no trainer's logprobs are laid
   * over it.
   */
  readonly trainer: Float32Array | null;
  /** `null` if the tokenizer is not available. */
  readonly text: TokenText | null;
  readonly reward: number | null;
};

export type BranchLayout = {
  readonly branch: number;
  readonly turns: readonly Turn[];
  readonly pieces: readonly Piece[];
  readonly tokens: number;
  readonly trained: number;
  readonly masked: number;
  /** The row of the branch; `null` if it trains nothing. */
  readonly sample: Sample | null;
};

/** Root-to-leaf paths, in the order of their leaves. */
export function branchPaths({ trajectory }: ShownEpisode): readonly (readonly Turn[])[] {
  return branchesOf(trajectory);
}

export function layoutOf(
  episode: ShownEpisode,
  {
    samples,
    texts,
    branch,
    overlay = null,
    masks = "ours",
  }: {
    readonly samples: ShownSamples;
    readonly texts: readonly TurnText[] | null;
    readonly branch: number;
    /** Logprobs of a trainer. @default none */
    readonly overlay?: BranchOverlay | null;
    /**
     * Origin of the masks: files of other tools keep tokens out of the loss and do not say why.
     * @default "ours"
     */
    readonly masks?: "ours" | "of the file" | "not recorded";
  },
): BranchLayout {
  const path = branchPaths(episode)[branch] ?? [];
  const sample = samples.samples.find((one) => one.branch === branch) ?? null;
  const rewards = episode.grade?.turnRewards ?? [];
  const spans = sample === null ? [] : turnSpans(sample, episode.trajectory, rewards);
  const trainedIn = trainedBranches(samples, episode);
  const pieces: Piece[] = [];
  let [start, trained, masked] = [0, 0, 0];
  for (const [place, turn] of path.entries()) {
    const { observationTokens, sampledTokens, logprobs } = turn;
    const text = texts?.[turn.index] ?? null;
    if (observationTokens.length > 0) {
      const reason =
        masks !== "ours"
          ? masks === "of the file"
            ? "masked in the file"
            : "its mask is not recorded"
          : turn.rewriteReason === null
            ? "the policy was shown it"
            : `the policy was shown it; history was rewritten: ${turn.rewriteReason}`;
      pieces.push({
        turn,
        kind: "observed",
        reason,
        start,
        tokens: observationTokens,
        logprobs: null,
        trainer: null,
        text: text?.observation ?? null,
        reward: null,
      });
    }
    start += observationTokens.length;
    if (sampledTokens.length > 0) {
      const isTrainedHere = spans[place]?.isTrained === true;
      const lossMask = sample?.lossMask.subarray(start, start + sampledTokens.length) ?? new Uint8Array();
      const kept = isTrainedHere ? untrainedTokens(turn) : null;
      for (const { from, to } of runsOf(lossMask, sampledTokens.length)) {
        const isTrained = lossMask[from] === 1;
        const keptOut = kept?.[from] ?? null;
        const untrained =
          keptOut === null ? untrainedReason(turn, { samples, trainedIn, branch }) : dropReasons[keptOut]!;
        pieces.push({
          turn,
          kind: isTrained ? "trained" : "masked",
          reason: isTrained ? "sampled, and trained here" : untrained,
          start: start + from,
          tokens: sampledTokens.subarray(from, to),
          logprobs: logprobs?.subarray(from, to) ?? null,
          trainer: isTrained ? (overlay?.logprobs.subarray(start + from, start + to) ?? null) : null,
          text: text === null ? null : textBetween(text.action, from, to),
          reward: from === 0 ? (rewards[turn.index] ?? null) : null,
        });
        if (isTrained) trained += to - from;
        else masked += to - from;
      }
    }
    start += sampledTokens.length;
  }
  return { branch, turns: path, pieces, tokens: start, trained, masked, sample };
}

/** Runs of sampled tokens that are all trained or all not: several only in a constrained turn. */
function runsOf(lossMask: Uint8Array, length: number): readonly { readonly from: number; readonly to: number }[] {
  const runs: { from: number; to: number }[] = [];
  for (let from = 0; from < length;) {
    let to = from + 1;
    while (to < length && lossMask[to] === lossMask[from]) to++;
    runs.push({ from, to });
    from = to;
  }
  return runs;
}

/** Text of the tokens `[from, to)`. */
function textBetween(whole: TokenText, from: number, to: number): TokenText {
  if (from === 0 && to === whole.lengths.length) return whole;
  const lengthOf = (lengths: Uint16Array): number => lengths.reduce((sum, length) => sum + length, 0);
  const start = lengthOf(whole.lengths.subarray(0, from));
  const lengths = whole.lengths.subarray(from, to);
  return { text: whole.text.slice(start, start + lengthOf(lengths)), lengths };
}

/** The branch in which each turn is trained. */
function trainedBranches({ samples }: ShownSamples, { trajectory }: ShownEpisode): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  for (const sample of samples) {
    for (const { turn, isTrained } of turnSpans(sample, trajectory)) {
      if (isTrained) found.set(turn, sample.branch);
    }
  }
  return found;
}

const dropReasons: Readonly<Record<string, string>> = {
  "discarded-turn": "the engine aborted it, or its answer never arrived, and it was sampled again",
  restarted: "the episode began again in a later process",
  uncredited: "another agent of its program than the main one sampled it",
  "episode-aborted": "the episode was aborted, so its reward is unknown",
  "episode-failed": "the episode failed, so its reward is unknown",
  "not-graded": "the episode has no reward",
  forced: "a constraint left no other token, so there is nothing to learn",
  constrained: "a constraint restricted it, and the run keeps such tokens out of the loss",
  filtered: "a filter of the run takes the episode out",
  "too-long": "the row would be too long",
};

function untrainedReason(
  turn: Turn,
  {
    samples,
    trainedIn,
    branch,
  }: { readonly samples: ShownSamples; readonly trainedIn: ReadonlyMap<number, number>; readonly branch: number },
): string {
  const dropped = samples.dropped.find((drop) => drop.turn === turn.index);
  if (dropped !== undefined) return `in no row (${dropped.reason}): ${dropReasons[dropped.reason] ?? dropped.reason}`;
  const elsewhere = trainedIn.get(turn.index);
  if (elsewhere !== undefined && elsewhere !== branch)
    return `masked here: branch ${elsewhere} trains it, and once is enough`;
  return samples.violation === null ? "masked" : "no row was made: the masks are not in order";
}

/** The weights that sampled a turn, in a few words; `null` if the engine names none. */
export function weightsText({ weightSpans }: Plain<Pick<Turn, "weightSpans">>): string | null {
  const spans = weightSpans.filter(({ tokenCount }) => tokenCount > 0);
  const shown = spans.map(({ dispatch, reply, tokenCount }) => {
    const version = dispatch === reply || dispatch === null ? reply : `${dispatch}→${reply ?? "?"}`;
    return version === null ? null : spans.length === 1 ? version : `${version} (${plural(tokenCount, "token")})`;
  });
  return shown.every((one) => one === null) ? null : `weights ${shown.map((one) => one ?? "?").join(", ")}`;
}

/**
 * The oldest and the newest weights of a path; `null` if versions do not end with whole numbers, or
 * none are named.
 */
export function versionSpread(turns: readonly Turn[]): { readonly oldest: number; readonly newest: number } | null {
  const versions = turns.flatMap(({ weightSpans }) => weightSpans.flatMap(({ dispatch, reply }) => [dispatch, reply]));
  const numbers = versions.flatMap((version) => {
    const found = version === null ? null : /(\d{1,15})$/.exec(version);
    return found === null ? [] : [Number(found[1])];
  });
  return numbers.length === 0 ? null : { oldest: Math.min(...numbers), newest: Math.max(...numbers) };
}

export type Chunk = {
  /** `[from, to)` in the tokens of the piece. */
  readonly from: number;
  readonly to: number;
  readonly text: string;
  /** Start of the text of each token; one more entry than tokens. */
  readonly starts: Uint32Array;
};

const chunkTokens = 500;
/** Number of tokens after a chunk within which a line end is searched. */
const slackTokens = 120;

/** A piece in parts of one text node. */
export function chunksOf({ tokens, text }: Pick<Piece, "tokens" | "text">): Chunk[] {
  const lengthAt = (at: number): number => (text === null ? String(tokens[at]).length + 1 : text.lengths[at]!);
  const whole = text === null ? idText(tokens) : text.text;
  const chunks: Chunk[] = [];
  let place = 0;
  for (let from = 0; from < tokens.length;) {
    let to = from;
    let end = place;
    while (to < tokens.length && to < from + chunkTokens) end += lengthAt(to++);
    let [ahead, aheadEnd] = [to, end];
    while (ahead < tokens.length && ahead < to + slackTokens && whole.charCodeAt(aheadEnd - 1) !== 10)
      aheadEnd += lengthAt(ahead++);
    if (whole.charCodeAt(aheadEnd - 1) === 10 || ahead === tokens.length) [to, end] = [ahead, aheadEnd];
    const starts = new Uint32Array(to - from + 1);
    for (let at = from, start = 0; at < to; at++) {
      start += lengthAt(at);
      starts[at - from + 1] = start;
    }
    chunks.push({ from, to, text: whole.slice(place, end), starts });
    from = to;
    place = end;
  }
  return chunks;
}

function idText(tokens: Uint32Array): string {
  return `${tokens.join(" ")} `;
}

/**
 * Meaning of the colours: how unlikely a token was when it was sampled, or how far a trainer's
 * logprob is from the sampled one.
 */
export type Colouring = "logprob" | "difference";

/** Classes from likely to unlikely, and from near to far. */
export const colourBounds: Readonly<Record<Colouring, readonly number[]>> = {
  logprob: [-0.1, -0.5, -1.2, -2.5, -5],
  difference: [0.01, 0.05, 0.2, 0.5, 1],
};

/** The class of a token; -1 if it needs no mark. */
export function colourClass(
  { logprobs, trainer }: Pick<Piece, "logprobs" | "trainer">,
  at: number,
  by: Colouring,
): number {
  const logprob = logprobs?.[at] ?? NaN;
  const distance = Math.abs((trainer?.[at] ?? NaN) - logprob);
  let found = -1;
  for (const [index, bound] of colourBounds[by].entries())
    if (by === "logprob" ? logprob < bound : distance > bound) found = index;
  return found;
}

/** One sentence on the tokens of a branch that are trained. */
export function branchSentence({ tokens, trained, masked, sample }: BranchLayout): string {
  const observed = tokens - trained - masked;
  const parts = [
    `${count(tokens)} tokens`,
    `${count(trained)} trained`,
    `${count(masked)} sampled and masked`,
    `${count(observed)} observed`,
  ];
  return `${parts.join(", ")}${sample === null ? "; no row" : ""}`;
}
