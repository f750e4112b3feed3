// Records the tokens that the policy was shown and those that it sampled, turn by turn. It appends
// and never re-tokenizes; a prompt that does not extend the record becomes a branch with a stated
// reason. Not a renderer: it receives token ids. Whole sequences are derived from the record, below.
//
//   idle ──begin/extend/rewrite──► observed ──act──► idle        (observations may be added while observed)

import type { SampleResult } from "../core/engine.ts";
import { TokenBuffer } from "../core/token-buffer.ts";
import type { Trajectory, Turn } from "../core/turn.ts";
import { checkConstrained } from "./constrained-tokens.ts";

/** Facts about an observation, as in `Turn`. */
export type ObservationFacts = Pick<Turn, "spelledTokens" | "deviation">;

const plainObservation: ObservationFacts = { spelledTokens: 0, deviation: null };

/** Result of an engine call, with the places where its experts and kept ids are stored. */
export type ActionResult = Pick<SampleResult, "sampledTokens" | "logprobs" | "finish" | "weightSpans"> &
  Pick<Turn, "requestIds" | "routedExperts" | "truncated" | "constrained">;

/**
 * A turn made of an observation and an action. Throws a plain error when the parts of the result do
 * not match.
 */
export function makeTurn(
  result: ActionResult,
  observed: Pick<Turn, "index" | "parent" | "observationTokens" | "spelledTokens" | "deviation" | "rewriteReason">,
): Turn {
  const { sampledTokens, logprobs, finish, weightSpans } = result;
  const { requestIds = [], routedExperts = null, truncated = null, constrained = null } = result;
  const { index, parent, observationTokens, spelledTokens, deviation, rewriteReason } = observed;
  if (logprobs !== null && logprobs.length !== sampledTokens.length) {
    throw new Error(
      `Cannot record turn ${index}: ${logprobs.length} logprobs for ${sampledTokens.length} sampled tokens; pass one per token, or null.`,
    );
  }
  const spanned = weightSpans.reduce((sum, span) => sum + span.tokenCount, 0);
  if (spanned !== sampledTokens.length) {
    throw new Error(
      `Cannot record turn ${index}: weight spans cover ${spanned} of ${sampledTokens.length} sampled tokens; they must cover all.`,
    );
  }
  if (constrained !== null) checkConstrained(constrained, { index, count: sampledTokens.length });
  return {
    index,
    parent,
    observationTokens,
    spelledTokens,
    deviation,
    sampledTokens,
    logprobs,
    finish,
    weightSpans,
    rewriteReason,
    ...(requestIds.length === 0 ? {} : { requestIds }),
    ...(routedExperts === null ? {} : { routedExperts }),
    ...(truncated === null ? {} : { truncated }),
    ...(constrained === null ? {} : { constrained }),
  };
}

/** Records one policy's turns in one episode. Throws plain errors on misuse: they are bugs of the caller. */
export class TrajectoryRecorder {
  readonly #turns: Turn[] = [];
  #prompt = new TokenBuffer();
  #parent: number | null = null;
  #observedFrom = 0;
  /** Index of the first turn that a branch may extend. */
  #firstOwn = 0;
  #rewriteReason: string | null = null;
  #observed: ObservationFacts = plainObservation;

  /**
   * The tokens of the current branch: all observations and actions so far. Pass it to the engine
   * unchanged.
   */
  get prompt(): TokenBuffer {
    return this.#prompt;
  }

  /** Number of prompt tokens that belong to the parent's sequence. */
  get observedFrom(): number {
    return this.#observedFrom;
  }

  get trajectory(): Trajectory {
    return { turns: this.#turns };
  }

  /**
   * Adds turns of an earlier attempt, which no later turn continues. Must be called before anything
   * else. The next turn is a root.
   */
  leaveBehind(turns: readonly Turn[], reason: string): void {
    if (this.#turns.length > 0 || this.#prompt.length > 0 || turns.some(({ index }, at) => index !== at)) {
      throw new Error("Cannot add turns of an earlier attempt: they must come first, in their order.");
    }
    this.#turns.push(...turns);
    this.#firstOwn = turns.length;
    this.#rewriteReason = turns.length === 0 ? null : reason;
  }

  /** Appends a new observation to the prompt. */
  extend(observationTokens: ArrayLike<number>, facts: ObservationFacts = plainObservation): void {
    this.#prompt.append(observationTokens);
    this.#observed = {
      spelledTokens: this.#observed.spelledTokens + facts.spelledTokens,
      deviation: facts.deviation ?? this.#observed.deviation,
    };
  }

  /**
   * Starts a branch whose prompt is `promptTokens`. Its parent is the latest turn whose whole
   * sequence the prompt still extends, so that shared tokens are stored once; the rest counts as
   * observation, earlier actions in it included.
   */
  rewrite(promptTokens: Uint32Array, reason: string, facts: ObservationFacts = plainObservation): void {
    const shared = this.#latestExtended(promptTokens);
    this.#prompt.close();
    this.#prompt = TokenBuffer.from(promptTokens);
    this.#parent = shared?.turn ?? null;
    this.#observedFrom = shared?.length ?? 0;
    this.#rewriteReason = reason;
    this.#observed = facts;
  }

  /** Records the action that the engine sampled on the current prompt. */
  act(result: ActionResult): Turn {
    if (this.#prompt.length === 0) {
      throw new Error("Cannot record an action before the first observation: the prompt is empty; call extend first.");
    }
    const { spelledTokens, deviation } = this.#observed;
    const turn = makeTurn(result, {
      index: this.#turns.length,
      parent: this.#parent,
      observationTokens: this.#prompt.view(this.#observedFrom),
      rewriteReason: this.#rewriteReason,
      spelledTokens,
      deviation,
    });
    this.#turns.push(turn);
    this.#prompt.append(turn.sampledTokens);
    this.#parent = turn.index;
    this.#observedFrom = this.#prompt.length;
    this.#rewriteReason = null;
    this.#observed = plainObservation;
    return turn;
  }

  /** States that no further action will be requested. */
  close(): void {
    this.#prompt.close();
  }

  #latestExtended(promptTokens: Uint32Array): { turn: number; length: number } | null {
    for (let turn = this.#turns.length - 1; turn >= this.#firstOwn; turn--) {
      const sequence = turnSequence(this.trajectory, turn);
      if (sequence.length <= promptTokens.length && sequence.every((id, place) => promptTokens[place] === id)) {
        return { turn, length: sequence.length };
      }
    }
    return null;
  }
}

/** The root-to-leaf paths of a trajectory, in the order of their leaves. An append-only history has exactly one. */
export function branchesOf(trajectory: Trajectory): Turn[][] {
  const parents = new Set(trajectory.turns.map((turn) => turn.parent));
  return trajectory.turns.filter((turn) => !parents.has(turn.index)).map((leaf) => pathTo(trajectory, leaf.index));
}

/** The turns from the root to `index`, in order. Throws a `RangeError` for a turn that does not exist. */
export function pathTo(trajectory: Trajectory, index: number): Turn[] {
  const path: Turn[] = [];
  for (let at: number | null = index; at !== null;) {
    const turn: Turn | undefined = trajectory.turns[at];
    if (turn === undefined)
      throw new RangeError(`Cannot find turn ${at}: the trajectory has ${trajectory.turns.length} turns.`);
    path.push(turn);
    at = turn.parent;
  }
  return path.reverse();
}

/** The tokens of a path: observation, action, observation, action, ... */
export function joinPath(path: readonly Turn[]): Uint32Array {
  const length = path.reduce((sum, turn) => sum + turn.observationTokens.length + turn.sampledTokens.length, 0);
  const tokens = new Uint32Array(length);
  let at = 0;
  for (const turn of path) {
    tokens.set(turn.observationTokens, at);
    at += turn.observationTokens.length;
    tokens.set(turn.sampledTokens, at);
    at += turn.sampledTokens.length;
  }
  return tokens;
}

/** Prompt and action of a turn as one sequence. */
export function turnSequence(trajectory: Trajectory, index: number): Uint32Array {
  return joinPath(pathTo(trajectory, index));
}

/** The whole prompt of a turn, as the engine received it. */
export function turnPrompt(trajectory: Trajectory, index: number): Uint32Array {
  const sequence = turnSequence(trajectory, index);
  return sequence.subarray(0, sequence.length - (trajectory.turns[index]?.sampledTokens.length ?? 0));
}
