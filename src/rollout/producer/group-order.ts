// The groups of a producer from their beginning until they are decided: the order in which they
// begin, their names, and the age of their tokens. Groups that an earlier process began come first,
// in its order; then tasks whose groups became too old; then draws of the task source. The producer
// decides when a group may begin.

import type { GroupRecord, Task } from "../../core/index.ts";
import { groupIdOf, type GroupResult, type PlannedGroup } from "../groups.ts";
import type { BegunGroup, EarlierProduction, ProducerPlan } from "./producer-options.ts";
import type { UsedWeights, WeightHistory } from "./staleness.ts";

export type GroupOrderOptions = {
  readonly earlier: EarlierProduction | null;
  readonly history: WeightHistory;
  /** True: tasks of groups that became too old are run again. */
  readonly requeues: boolean;
  readonly nameGroup?: ((task: Task, visit: number) => string) | undefined;
};

type OpenGroup = {
  /**
   * Number of the version when the group was begun: none of its tokens is older, even if the engine
   * names another version.
   */
  readonly begunAt: number;
  /**
   * Each pair of versions of its tokens, once: a server may have weights before the trainer reports
   * them.
   */
  readonly spans: Map<string, UsedWeights>;
  /** Number of its draw until its result is reported; `null` if its task is run again. */
  draw: number | null;
};

export class GroupOrder {
  readonly #plan: ProducerPlan;
  readonly #history: WeightHistory;
  readonly #nameGroup: (task: Task, visit: number) => string;
  readonly #decided: ReadonlyMap<string, GroupRecord>;
  readonly #earlier: BegunGroup[];
  /** Open groups by number. */
  readonly #open = new Map<number, OpenGroup>();
  /** Number of times that each task was run. */
  readonly #visits = new Map<number, number>();
  /** Tasks whose groups became too old. */
  readonly #requeued: number[];
  #draws = 0;
  #begun = 0;

  constructor(plan: ProducerPlan, { earlier, history, requeues, nameGroup = groupIdOf }: GroupOrderOptions) {
    this.#plan = plan;
    this.#history = history;
    this.#nameGroup = nameGroup;
    this.#decided = earlier?.decided ?? new Map<string, GroupRecord>();
    // Reversed, so that the next one is taken from the end.
    this.#earlier = [...(earlier?.begun ?? [])].toReversed();
    this.#requeued = earlier !== null && requeues ? leftToRequeue(earlier) : [];
  }

  /** True while groups that an earlier process began are still to come. */
  get isReopening(): boolean {
    return this.#earlier.length > 0;
  }

  requeue(taskIndex: number): void {
    this.#requeued.push(taskIndex);
  }

  /**
   * The next group; `begins` is `null` if an earlier process began it. "decided": the next group
   * was begun and decided by an earlier process. "later": the task source cannot say yet. `null`:
   * there are none left.
   */
  next(): { readonly plan: PlannedGroup; readonly begins: BegunGroup | null } | "decided" | "later" | null {
    const before = this.#earlier.at(-1);
    const isRequeued = before?.isRequeued ?? this.#requeued.length > 0;
    // Also called for groups of an earlier process, since sources remember their draws.
    const drawn = isRequeued ? null : this.#plan.tasks.next(this.#draws);
    if (drawn === "later") return "later";
    const taskIndex = before?.taskIndex ?? drawn ?? this.#requeued.shift();
    if (taskIndex === undefined) return null;
    this.#earlier.pop();
    const visit = (this.#visits.get(taskIndex) ?? 0) + 1;
    this.#visits.set(taskIndex, visit);
    const task = this.#plan.taskset.task(taskIndex);
    const groupId = this.#nameGroup(task, visit);
    const plan = { groupId, task, groupIndex: this.#begun++ };
    const version = before?.version ?? this.#history.current;
    this.#open.set(plan.groupIndex, { begunAt: version, spans: new Map(), draw: isRequeued ? null : this.#draws++ });
    const record = this.#decided.get(groupId);
    if (record !== undefined) {
      this.report(plan, record.rewards, { isCancelled: record.reason === "stale" });
      this.forget(plan);
      return "decided";
    }
    return { plan, begins: before === undefined ? { groupId, taskIndex, isRequeued, version } : null };
  }

  /** Reports the result of a group to the task source that drew it. */
  report(
    { groupIndex, task }: PlannedGroup,
    rewards: readonly (number | null)[],
    { isCancelled }: Pick<GroupResult, "isCancelled">,
  ): void {
    const group = this.#open.get(groupIndex);
    if (group === undefined || group.draw === null) return;
    const graded = rewards.filter((reward) => reward !== null);
    this.#plan.tasks.report({ groupIndex: group.draw, taskIndex: task.index, rewards: graded, isCancelled });
    group.draw = null;
  }

  /** Adds the weights that sampled tokens of the group. */
  see({ groupIndex }: PlannedGroup, spans: readonly UsedWeights[]): void {
    for (const span of spans) {
      if (span.tokenCount !== 0)
        this.#open.get(groupIndex)?.spans.set(JSON.stringify([span.dispatch, span.reply]), span);
    }
  }

  /** Staleness of its oldest token, in versions. */
  staleness({ groupIndex }: PlannedGroup): number {
    const group = this.#open.get(groupIndex);
    if (group === undefined) return 0;
    return this.#history.current - this.#history.oldest([...group.spans.values()], group.begunAt);
  }

  /** Called when the group is decided. */
  forget({ groupIndex }: PlannedGroup): void {
    this.#open.delete(groupIndex);
  }
}

/** Tasks whose groups an earlier process dropped as too old and did not begin again, in that order. */
function leftToRequeue({ begun, decided }: EarlierProduction): number[] {
  const again = new Map<number, number>();
  for (const { taskIndex, isRequeued } of begun) {
    if (isRequeued) again.set(taskIndex, (again.get(taskIndex) ?? 0) + 1);
  }
  const taskOf = new Map(begun.map(({ groupId, taskIndex }) => [groupId, taskIndex]));
  const left: number[] = [];
  for (const { groupId, reason } of decided.values()) {
    const taskIndex = taskOf.get(groupId);
    if (reason !== "stale" || taskIndex === undefined) continue;
    const times = again.get(taskIndex) ?? 0;
    if (times > 0) again.set(taskIndex, times - 1);
    else left.push(taskIndex);
  }
  return left;
}
