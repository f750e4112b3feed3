// The reference's environment step by step, with the customer inside and every quirk visible: the
// behaviour after `done`, the errors that escape, and the state that they leave. For comparison
// with records of the reference and for the preset that imitates a program built on it; our loop
// uses `tau-bench-source.ts`, over the same world, tools and reward.

import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { PythonError } from "../../python-semantics/index.ts";
import type { Random } from "../../lib/random.ts";
import { callAction, type CallResult, respondName, type TauAction } from "./domain.ts";
import type { DomainData, TauTask } from "./domain-data.ts";
import { goldOf, rewardOf, stepInfo } from "./reward.ts";
import { World } from "./world.ts";

/** The customer as the reference calls it. A rejection escapes from `reset` or `step`. */
export interface TauUser {
  /** The customer's first utterance. */
  open(instruction: string): Promise<string>;
  /**
   * The reply to the agent's message, which has any type that the agent gave as content. `null` if
   * no reply came.
   */
  reply(content: JsonValue): Promise<string | null>;
  /** Cost of the last utterance, in US dollars. */
  cost(): number;
}

export type TauEpisodeOptions = {
  readonly split: string;
  readonly user: TauUser;
  /** Draws the task if `reset` gets no index. Default: such a `reset` rejects. */
  readonly random?: Random;
};

export type TauStep = {
  readonly observation: string;
  readonly reward: number;
  readonly done: boolean;
  readonly info: JsonObject;
};

/** Mark in a customer's utterance that ends the episode. */
const stopMark = "###STOP###";

export class TauEpisode {
  readonly #data: DomainData;
  readonly #tasks: readonly TauTask[];
  readonly #user: TauUser;
  readonly #random: Random | null;
  #actions: TauAction[] = [];
  #current: { readonly task: TauTask; readonly world: World } | null = null;

  /** Throws a `ValueError` (as `PythonError`) for a split that the domain does not have. */
  constructor(data: DomainData, { split, user, random }: TauEpisodeOptions) {
    const tasks = data.tasks.get(split);
    if (tasks === undefined) throw new PythonError("ValueError", `Unknown task split: ${split}`);
    this.#data = data;
    this.#tasks = tasks;
    this.#user = user;
    this.#random = random ?? null;
  }

  /** Actions so far; after `done` followed by the replayed gold actions. */
  get actions(): readonly TauAction[] {
    return this.#actions;
  }

  /**
   * Hash of the current data, which are the gold data after `done`. Throws a plain error before the
   * first `reset`.
   */
  digest(): string {
    return this.#started().world.digest();
  }

  /**
   * Starts a task. A negative index counts from the end, as in Python. `null` draws an index; as in
   * the reference, one of n + 1 draws is past the end and raises an `IndexError`.
   */
  async reset(taskIndex: number | null): Promise<{ readonly observation: string; readonly info: JsonObject }> {
    const task = this.#tasks.at(taskIndex ?? this.#drawIndex());
    if (task === undefined) throw new PythonError("IndexError", "list index out of range");
    this.#current = { task, world: new World(this.#data.base) };
    this.#actions = [];
    const observation = await this.#user.open(task.task.instruction ?? "");
    return { observation, info: stepInfo(task, "user") };
  }

  /** Rejects with a `PythonError` where the reference raises; the action is recorded nevertheless. */
  async step(action: TauAction): Promise<TauStep> {
    const { task, world } = this.#started();
    this.#actions.push(action);
    const isSpeech = action.name === respondName;
    const { observation, endsEpisode: done } = isSpeech
      ? await this.#respond(action)
      : callAction(this.#data.domain, world, action);
    const info = stepInfo(task, isSpeech ? "user" : action.name);
    let reward = 0;
    if (done) {
      const result = this.#grade(task, world);
      reward = result.reward;
      info.set("reward_info", result.info);
      info.set("user_cost", new JsonFloat(this.#user.cost()));
    }
    // The observation must be a string, which the reference checks only here.
    if (observation === null)
      throw new PythonError("ValidationError", "1 validation error for EnvResponse: observation");
    return { observation, reward, done, info };
  }

  async #respond({ kwargs }: TauAction): Promise<CallResult> {
    const content = kwargs.get("content");
    if (content === undefined) throw new PythonError("KeyError", "'content'");
    const observation = await this.#user.reply(content);
    if (observation === null) throw new PythonError("TypeError", "argument of type 'NoneType' is not iterable");
    return { observation, endsEpisode: observation.includes(stopMark) };
  }

  /**
   * Grades the episode. Gold data and gold actions replace the current ones even if grading fails:
   * the reference replays them in place.
   */
  #grade(task: TauTask, world: World): ReturnType<typeof rewardOf> {
    const gold = goldOf(this.#data, task);
    this.#actions.push(...gold.actions);
    this.#current = { task, world: gold.world.fork() };
    return rewardOf({ world, actions: this.#actions }, task, gold);
  }

  #started(): { readonly task: TauTask; readonly world: World } {
    if (this.#current === null) throw new Error("Cannot step an episode that was never reset: call reset first.");
    return this.#current;
  }

  #drawIndex(): number {
    if (this.#random === null) {
      throw new Error(
        "Cannot draw a task: the episode has no source of randomness; give an index, or the option random.",
      );
    }
    return this.#random.integer(this.#tasks.length + 1);
  }
}
