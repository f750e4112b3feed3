// Which group is begun next, and what it is called: first those that an earlier process began, in its order; then tasks whose
// groups became too old; then what the task source draws. When a group may begin is the producer's matter.

import type { GroupRecord, Task } from "../../core/index.ts";
import { groupIdOf, type PlannedGroup } from "../groups.ts";
import type { BegunGroup, EarlierProduction, ProducerPlan } from "./producer-options.ts";

export type NextGroup = {
  readonly plan: PlannedGroup;
  /** How many versions had been reported when it was begun. */
  readonly begunAt: number;
  /** An earlier process decided it. */
  readonly record: GroupRecord | null;
  /** `null`: an earlier process began it. */
  readonly begins: BegunGroup | null;
};

export type GroupOrderOptions = {
  readonly earlier: EarlierProduction | null;
  /** Tasks of groups that became too old are run again. */
  readonly requeues: boolean;
  readonly nameGroup?: ((task: Task, visit: number) => string) | undefined;
};

export class GroupOrder {
  readonly #plan: ProducerPlan;
  readonly #nameGroup: (task: Task, visit: number) => string;
  readonly #decided: ReadonlyMap<string, GroupRecord>;
  readonly #earlier: BegunGroup[];
  /** How often each task was run. */
  readonly #visits = new Map<number, number>();
  /** Tasks whose groups became too old. */
  readonly #requeued: number[];
  /** By number of the group, until its result is reported; none for tasks that are run again. */
  readonly #drawOf = new Map<number, number>();
  #draws = 0;
  #begun = 0;

  constructor(plan: ProducerPlan, { earlier, requeues, nameGroup = groupIdOf }: GroupOrderOptions) {
    this.#plan = plan;
    this.#nameGroup = nameGroup;
    this.#decided = earlier?.decided ?? new Map<string, GroupRecord>();
    // Backwards, so that the next one is taken from the end.
    this.#earlier = [...(earlier?.begun ?? [])].toReversed();
    this.#requeued = earlier !== null && requeues ? leftToRequeue(earlier) : [];
  }

  /** Groups that an earlier process began are still to come. */
  get isReopening(): boolean {
    return this.#earlier.length > 0;
  }

  requeue(taskIndex: number): void {
    this.#requeued.push(taskIndex);
  }

  /** `version`: reported so far. "later": the task source cannot say yet. `null`: there is no further group. */
  next(version: number): NextGroup | "later" | null {
    const before = this.#earlier.at(-1);
    const isRequeued = before?.isRequeued ?? this.#requeued.length > 0;
    // Called for groups of an earlier process too, since sources remember their draws.
    const drawn = isRequeued ? null : this.#plan.tasks.next(this.#draws);
    if (drawn === "later") return "later";
    const taskIndex = before?.taskIndex ?? drawn ?? this.#requeued.shift();
    if (taskIndex === undefined) return null;
    this.#earlier.pop();
    const visit = (this.#visits.get(taskIndex) ?? 0) + 1;
    this.#visits.set(taskIndex, visit);
    const task = this.#plan.taskset.task(taskIndex);
    const plan = { groupId: this.#nameGroup(task, visit), task, groupIndex: this.#begun++ };
    if (!isRequeued) this.#drawOf.set(plan.groupIndex, this.#draws++);
    const record = this.#decided.get(plan.groupId) ?? null;
    const begins = before === undefined ? { groupId: plan.groupId, taskIndex, isRequeued, version } : null;
    return { plan, begunAt: before?.version ?? version, record, begins };
  }

  /** Tells the task source what became of a group that it drew. */
  report({ groupIndex, task }: PlannedGroup, rewards: readonly (number | null)[]): void {
    const draw = this.#drawOf.get(groupIndex);
    if (draw === undefined) return;
    this.#drawOf.delete(groupIndex);
    const graded = rewards.filter((reward) => reward !== null);
    this.#plan.tasks.report({ groupIndex: draw, taskIndex: task.index, rewards: graded });
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
