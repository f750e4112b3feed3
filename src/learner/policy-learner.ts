// Learning from episodes, step by step: run groups with the current weights, compare rewards, take
// one gradient, make one update, publish the new weights to the engine. On-policy: episodes of a
// step are used once and only by that step. The caller decides when to stop, what to evaluate and
// what to keep.

import { callsOf, type Taskset, type Task, type Episode } from "../core/index.ts";
import { type FinishedEpisode, type RankGroup, type RunEpisode, runGroups } from "../rollout/index.ts";
import {
  type Baseline,
  weighSamples,
  policySequences,
  type Sabotage,
  type WeightedSample,
  hasZeroVariance,
} from "./group-advantages.ts";
import {
  disagreement,
  type LogprobAgreement,
  logprobAgreement,
  type LossOptions,
  type LossSequence,
  type SequenceOutcome,
} from "./loss.ts";
import { distilled, type DistillOptions } from "./distillation.ts";
import type { UpdateOptions } from "./model/index.ts";
import { liveShares, type LiveShares, type TaskOrder } from "./task-order.ts";
import type { LossOutcome } from "./trainer.ts";
import { type Credit, earnedTurns, turnAdvantages } from "./turn-credit.ts";

/** Settings of updates that every algorithm shares. */
export type UpdateSchedule = {
  readonly learningRate: number;
  /** Number of steps over which the learning rate rises from 0. */
  readonly warmUpSteps: number;
  readonly maxGradientNorm: number | null;
  readonly weightDecay: number;
  readonly seed: number;
};

export type PolicyOptions = UpdateSchedule & {
  /** Number of groups per step whose rewards differ. */
  readonly groups: number;
  /** Maximum number of groups per step, including those without variance. */
  readonly maxGroups: number;
  /** Number of episodes per group. */
  readonly groupSize: number;
  readonly baseline: Baseline;
  readonly normalizeAdvantages: boolean;
  /** The rewards that are credited to a token; see `turn-credit.ts`. @default "outcome" */
  readonly credit?: Credit;
  /**
   * Discount per turn with credit "turn": the factor that a reward is worth one turn earlier.
   * @default 1
   */
  readonly creditDiscount?: number;
  readonly loss: LossOptions;
  /** Penalty for broken rules; see `WeighOptions`. */
  readonly penalty: number;
  /** Differences of logprobs that stop the training. @default those that rounding explains */
  readonly agreement?: Pick<LogprobAgreement, "mean" | "largest">;
  /** Deliberate mistakes, for experiments that show the purpose of the checks. */
  readonly sabotage: Sabotage;
  /** Weights of the teacher and of rewards, if there is a teacher. @default both 1 */
  readonly distill?: DistillOptions;
};

/** The two calls of a trainer that make a step: gradients of a loss, and an update from them. */
export interface PolicyTrainer {
  accumulate(sequences: readonly LossSequence[], loss?: LossOptions): Promise<LossOutcome>;
  /** Resolves with the norm of the gradients. */
  update(options: UpdateOptions): Promise<number>;
}

export type PolicyParts = {
  readonly trainer: PolicyTrainer;
  /** Runs an episode with the weights that were published last, and seeds every turn. */
  readonly runEpisode: RunEpisode;
  /** Compares the episodes of a group. Default: each has the reward of its own grade. */
  readonly rank?: RankGroup | null;
  readonly taskset: Taskset;
  readonly order: TaskOrder;
  /** Publishes the trainer's weights to the engine; resolves once it samples from them. */
  readonly publish: (version: string) => Promise<void>;
  /** Outcomes under the weights to stay close to; called only if the loss has `kl`. */
  readonly reference: (sequences: readonly LossSequence[]) => Promise<readonly SequenceOutcome[]>;
  /** Logprobs of a teacher at the targets of each sequence. @default no teacher */
  readonly teacher?: ((sequences: readonly LossSequence[]) => Promise<readonly Float32Array[]>) | null;
};

/** Progress of a learner, apart from the weights and the optimizer. */
export type LearnerState = {
  /** Steps made. */
  readonly step: number;
  /** Groups run. */
  readonly groups: number;
  readonly liveShare: number;
  /** Live share for each name of the task order. */
  readonly liveShares: LiveShares;
};

export const firstState: LearnerState = Object.freeze({ step: 0, groups: 0, liveShare: 1, liveShares: {} });

/** Result of a step. Losses and similar figures are means over the tokens in the loss. */
export type PolicyStep = {
  /** Number of the step, from 1. */
  readonly step: number;
  /** The version of the weights that sampled the step. */
  readonly weightVersion: string;
  readonly groups: readonly StepGroup[];
  readonly hasTeacher: boolean;
  /** `null` if no group taught anything; the weights are unchanged then. */
  readonly update: PolicyUpdate | null;
  readonly rolloutMs: number;
  readonly trainMs: number;
};

export type PolicyUpdate = Awaited<ReturnType<typeof updatePolicy>>;

/**
 * Sampling and training disagree about the logprobs of the same tokens. The weights are those from
 * before the step.
 */
export class DisagreementError extends Error {
  readonly agreement: LogprobAgreement;

  constructor(step: number, reason: string, agreement: LogprobAgreement) {
    super(`Cannot train at step ${step}: ${reason}.`);
    this.name = "DisagreementError";
    this.agreement = agreement;
  }
}

export class PolicyLearner {
  readonly #parts: PolicyParts;
  readonly #options: PolicyOptions;
  #state: LearnerState;

  /** `state`: the state to continue from, together with the trainer's weights and optimizer. */
  constructor(parts: PolicyParts, options: PolicyOptions, state: LearnerState = firstState) {
    this.#parts = parts;
    this.#options = options;
    this.#state = state;
  }

  get state(): LearnerState {
    return this.#state;
  }

  /** The version of the weights that sample the next step. */
  get weightVersion(): string {
    return versionOf(this.#state.step);
  }

  /**
   * Runs groups, compares, updates, publishes. Resolves with `null` if the signal aborted it;
   * nothing has changed then. Rejects with a {@link DisagreementError}, or an `Error` for samples
   * that are not aligned, before anything is updated.
   */
  async step(signal: AbortSignal): Promise<PolicyStep | null> {
    const { baseline, penalty, credit = "outcome", creditDiscount: discount = 1 } = this.#options;
    const state = this.#state;
    const begun = performance.now();
    const groups = await collectGroups(this.#parts, this.#options, state, signal);
    if (signal.aborted) return null;
    const { weightVersion } = this;
    const trained = performance.now();
    const rows = weighSamples(groups, {
      baseline,
      penalty,
      credit,
      discount,
      normalize: this.#options.normalizeAdvantages,
      keepsAll: (this.#parts.teacher ?? null) !== null,
    });
    const update =
      rows.length === 0 ? null : await updatePolicy(this.#parts, this.#options, { step: state.step, rows });
    const live = groups.filter((group) => !group.hasZeroVariance).length;
    const found = groups.map(
      ({ task, hasZeroVariance: isSilent }) => [this.#parts.order.nameOf(task.index), !isSilent] as const,
    );
    this.#state = {
      step: state.step + 1,
      groups: state.groups + groups.length,
      liveShare: live / groups.length,
      liveShares: liveShares(state.liveShares, found),
    };
    await this.#parts.publish(this.weightVersion);
    const [rolloutMs, trainMs] = [trained - begun, performance.now() - trained];
    const hasTeacher = (this.#parts.teacher ?? null) !== null;
    return { step: this.#state.step, weightVersion, groups, hasTeacher, update, rolloutMs, trainMs };
  }
}

async function updatePolicy(
  { trainer, reference, teacher = null }: PolicyParts,
  options: PolicyOptions,
  { step: made, rows }: { readonly step: number; readonly rows: readonly WeightedSample[] },
) {
  const { loss, maxGradientNorm, weightDecay, sabotage } = options;
  if (sabotage === "none") checkVersions(rows, versionOf(made));
  let sequences: readonly LossSequence[] = policySequences(rows, sabotage);
  if ((loss.kl ?? 0) !== 0) {
    const outcomes = await reference(sequences);
    sequences = sequences.map((sequence, index) => ({ ...sequence, referenceLogprobs: outcomes[index]!.logprobs }));
  }
  let teacherKl: number | null = null;
  if (teacher !== null) {
    const { distill = { teacherWeight: 1, rewardWeight: 1 } } = options;
    ({ sequences, teacherKl } = distilled(sequences, await teacher(sequences), distill));
  }
  const outcome = await trainer.accumulate(sequences, loss);
  const agreement = logprobAgreement(sequences, outcome.sequences);
  const reason = sabotage === "none" ? disagreement(agreement, options.agreement) : null;
  if (reason !== null) throw new DisagreementError(made + 1, reason, agreement);
  const learningRate = warmedUp(options, made + 1);
  const gradientNorm = await trainer.update({ learningRate, maxGradientNorm, weightDecay });
  return {
    samples: rows.length,
    /** Number of tokens in the loss. */
    tokens: outcome.targets,
    loss: outcome.loss,
    entropy: outcome.entropy,
    kl: outcome.kl,
    /** Share of tokens whose ratio left the clip. */
    clipped: outcome.targets === 0 ? 0 : outcome.clipped / outcome.targets,
    /** Tokens whose weight was corrected for sampling; `null` if the trainer corrects none. */
    corrected: outcome.corrected ?? null,
    gradientNorm,
    learningRate,
    agreement,
    /** Estimate of KL(policy, teacher) over the tokens in the loss; `null` without a teacher. */
    teacherKl,
  };
}

/** The learning rate of the `step`-th update, from 1. */
export function warmedUp({ learningRate, warmUpSteps }: UpdateSchedule, step: number): number {
  return learningRate * Math.min(1, step / Math.max(1, warmUpSteps));
}

function versionOf(step: number): string {
  return `step-${step}`;
}

/**
 * On-policy requires these weights: the samples of an engine that has not loaded them yet belong to
 * another gradient.
 */
function checkVersions(rows: readonly WeightedSample[], expected: string): void {
  for (const { sample } of rows) {
    const other = sample.weightRanges.find(({ reply }) => reply !== expected);
    if (other === undefined) continue;
    throw new Error(
      `Cannot train: sample "${sample.id}" was sampled with weights "${other.reply ?? "unknown"}", but weights "${expected}" are being trained; ` +
        "wait until the engine has loaded the weights.",
    );
  }
}

export type StepGroup = {
  readonly task: Task;
  readonly episodes: readonly FinishedEpisode[];
  /**
   * True if all rewards are equal, or those of turns if turns are credited: there is nothing to
   * compare.
   */
  readonly hasZeroVariance: boolean;
};

/**
 * Smallest share of the groups for which another wave is worth its cost: small batches are slow.
 */
const worthAWave = 0.25;

/**
 * The groups of one step, run with the current weights, in the order of tasks. A group without
 * variance teaches nothing; further tasks replace it, wave after wave, up to a limit. Waves make
 * the result independent of which episode ends first.
 */
async function collectGroups(
  { runEpisode, rank = null, taskset, order, teacher = null }: PolicyParts,
  { groups, groupSize, maxGroups, seed, credit, creditDiscount = 1 }: PolicyOptions,
  state: LearnerState,
  signal: AbortSignal,
): Promise<readonly StepGroup[]> {
  const collected: StepGroup[] = [];
  // The share of the previous step is a good estimate.
  let { liveShare } = state;
  let missing = groups;
  do {
    const wave = Math.min(Math.ceil(missing / Math.max(liveShare, groups / maxGroups)), maxGroups - collected.length);
    const plans = Array.from({ length: wave }, (_, index) => {
      const groupIndex = state.groups + collected.length + index;
      const task = taskset.task(order.taskIndex(groupIndex, state.liveShares));
      // A task may come up again after all others did; that is another group.
      return { groupId: `${task.id}@${groupIndex}`, task, groupIndex };
    });
    const finished = await runGroups(plans, { runEpisode, rank, groupSize, seed, signal });
    for (const { plan, members } of finished) {
      const episodes = await Promise.all(members.map(({ ended }) => ended.open()));
      const rewards = episodes.flatMap(({ episode }) => episode.reward ?? []);
      // A teacher values every token, also of groups with equal rewards.
      const isSilent =
        teacher !== null
          ? rewards.length === 0
          : credit === "turn"
            ? teachesNothing(episodes, { discount: creditDiscount })
            : hasZeroVariance(rewards);
      collected.push({ task: plan.task, episodes, hasZeroVariance: isSilent });
    }
    if (signal.aborted) break;
    const live = collected.filter((group) => !group.hasZeroVariance).length;
    missing = groups - live;
    liveShare = live / collected.length;
  } while (missing > groups * worthAWave && collected.length < maxGroups);
  return collected;
}

/** Episodes with equal rewards may have earned them at other turns. */
function teachesNothing(episodes: readonly FinishedEpisode[], options: { readonly discount: number }): boolean {
  const graded = episodes.flatMap(({ episode }) => (episode.reward === null ? [] : [earnedTurns(episode).rewards]));
  return turnAdvantages(graded, { ...options, normalize: false }).every((list) => list.every((one) => one === 0));
}

/** Numbers by name, in the order of columns. */
export type StepMetrics = Readonly<Record<string, number | null>>;

export function stepMetrics(step: PolicyStep): StepMetrics {
  const { groups, update } = step;
  const agreement = update === null || update.agreement.tokens === 0 ? null : update.agreement;
  const episodes = groups.flatMap((group) => group.episodes.map(({ episode }) => episode));
  const rewards = episodes.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const sampled = episodes.map(({ trajectory }) =>
    trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0),
  );
  return {
    step: step.step,
    pass_rate: mean(rewards.map((reward) => (reward === 1 ? 1 : 0))),
    mean_reward: mean(rewards),
    groups: groups.length,
    live_groups: groups.filter((group) => !group.hasZeroVariance).length,
    episodes: episodes.length,
    failed_episodes: episodes.filter(({ outcome }) => outcome === "failed").length,
    truncated_episodes: episodes.filter(({ outcome }) => outcome === "truncated").length,
    turns_per_episode: mean(episodes.map(({ trajectory }) => trajectory.turns.length)),
    sampled_tokens: sampled.reduce((sum, count) => sum + count, 0),
    problems_per_episode: mean(episodes.map(({ problems }) => problems.length)),
    rule_violations_per_episode: mean(episodes.flatMap(({ grade }) => grade?.metrics["ruleViolations"] ?? [])),
    commonest_behaviour: commonestBehaviour(episodes),
    trained_samples: update?.samples ?? 0,
    trained_tokens: update?.tokens ?? 0,
    loss: update?.loss ?? null,
    entropy: update?.entropy ?? null,
    kl: update?.kl ?? null,
    clipped: update?.clipped ?? null,
    gradient_norm: update?.gradientNorm ?? null,
    learning_rate: update?.learningRate ?? null,
    logprob_difference_mean: agreement?.mean ?? null,
    sampling_kl: agreement?.kl ?? null,
    corrected_tokens: update?.corrected ?? null,
    logprob_difference_largest: agreement?.largest ?? null,
    ...(step.hasTeacher ? { teacher_kl: update?.teacherKl ?? null } : {}),
    rollout_seconds: step.rolloutMs / 1000,
    train_seconds: step.trainMs / 1000,
  };
}

/** A group of a step as groups.jsonl records it: its rewards, without its episodes. */
export type GroupRecord = {
  readonly task: string;
  /** Place of the task in its split. */
  readonly index: number;
  /** One per episode; `null` where it has none. */
  readonly rewards: readonly (number | null)[];
  /** True if the group had something to teach. */
  readonly taught: boolean;
  /** Format errors of all its episodes, and tokens that were sampled in them. */
  readonly problems: number;
  readonly sampledTokens: number;
};

export function groupRecords({ groups }: Pick<PolicyStep, "groups">): readonly GroupRecord[] {
  return groups.map(({ task, episodes, hasZeroVariance: isSilent }) => ({
    task: task.id,
    index: task.index,
    rewards: episodes.map(({ episode }) => episode.reward),
    taught: !isSilent,
    problems: episodes.reduce((sum, { episode }) => sum + episode.problems.length, 0),
    sampledTokens: episodes.reduce(
      (sum, { episode }) => episode.trajectory.turns.reduce((own, turn) => own + turn.sampledTokens.length, sum),
      0,
    ),
  }));
}

/**
 * Largest number of steps by which the weights that sampled a token are older than those that the
 * step trains; `null` if a version is not named by a number.
 */
export function stalenessOf({ groups, weightVersion }: Pick<PolicyStep, "groups" | "weightVersion">): number | null {
  const numberIn = (version: string | null): number => Number(/(\d{1,15})$/.exec(version ?? "")?.[1] ?? Number.NaN);
  const current = numberIn(weightVersion);
  let oldest = current;
  for (const { episodes } of groups) {
    for (const { episode } of episodes) {
      for (const { weightSpans } of episode.trajectory.turns) {
        for (const { dispatch, reply } of weightSpans) oldest = Math.min(oldest, numberIn(dispatch ?? reply));
      }
    }
  }
  return Number.isNaN(oldest) ? null : current - oldest;
}

/** The share of episodes with the most frequent sequence of tool calls. */
function commonestBehaviour(episodes: readonly Episode[]): number | null {
  if (episodes.length === 0) return null;
  const counts = new Map<string, number>();
  for (const { events } of episodes) {
    const calls = events.flatMap((event) => {
      // An outside program decides itself what it carries out; only the calls that it was sent are
      // known.
      if (event.type === "exchange") return event.action.toolCalls.map(({ name }) => name);
      const made = event.type === "decision" ? callsOf(event.decision) : [];
      return made.flatMap(({ call, feedback }) => (call !== null && feedback === null ? [call.name] : []));
    });
    const signature = calls.join(" ");
    counts.set(signature, (counts.get(signature) ?? 0) + 1);
  }
  return Math.max(...counts.values()) / episodes.length;
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}
