// The loop: one attempt at one task, from the first observation to the stop. It requests an action,
// steps environment or user, and shows the result. It imports no implementation, retries nothing
// itself, and turns every fault into data. Every step goes through `episode-events.ts`, which
// records it, or replays its record in an episode whose process died.
//
//   open ─► act ─► read action ─┬─ call ─► environment ─┬─► show ─► act ...
//                               ├─ say ──► user ────────┤
//                               └─ format error ─► feedback ─┘   ending ─► grade ─► close ─► episode

import type { ChatAgent, Decision } from "../../core/agent.ts";
import type {
  AgentCallOptions,
  Ending as EndingToGrade,
  EnvironmentCall,
  Grade,
  Task,
  UserOutcome,
} from "../../core/environment.ts";
import type { Episode } from "../../core/episode.ts";
import { attribute, type Failure, faultAt, outcomeOf } from "../../core/failure.ts";
import type { Message } from "../../core/message.ts";
import type { ParsedAction } from "../../core/renderer.ts";
import type { UserCallOptions, UserLine, UserSimulator } from "../../core/user.ts";
import { deriveSeed } from "../../lib/random.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";
import { type CheckedEnvironment, cutResult, openChecked, readTask, readUserLine } from "./checked-environment.ts";
import { ChatActions, EngineActions, type ActionSource } from "./actions.ts";
import { type EpisodeOptions, type EpisodeParts, resolveOptions, type ResolvedOptions } from "./episode-options.ts";
import { EpisodeEvents } from "./episode-events.ts";
import { gradeEpisode } from "./grade-episode.ts";
import { makeUser } from "./recorded-events.ts";
import { StepDeadlines, type Ending, endingOf, stop } from "./step-deadlines.ts";

/**
 * Lines of calls that a user may write in a row; environments with acting users end such an episode
 * earlier.
 */
const mostLinesOfCalls = 1000;

/**
 * Runs one episode of `task`. Resolves with an `Episode` for every outcome; throws a `RangeError`
 * for options out of bounds and a `ConfigurationError` when the user simulator does not support the
 * task, both before any side effect.
 */
export async function runEpisode(task: Task, parts: EpisodeParts, options: EpisodeOptions = {}): Promise<Episode> {
  const resolved = resolveOptions(task.id, options);
  return new EpisodeRun(task, { ...parts, actions: new EngineActions(parts, resolved) }, resolved).run();
}

/** {@link EpisodeParts} with an agent in place of engine and renderer. */
export type ChatEpisodeParts = Omit<EpisodeParts, "engine" | "renderer"> & { readonly agent: ChatAgent };

/**
 * Runs one episode of `task`. The agent's own settings define its sampling, retries and deadlines;
 * only the seed of `sampling` is used, and `maxSampledTokens` bounds the tokens that its provider
 * reports. Otherwise equal to `runEpisode`. The episode's history policy is "no-tokens", and it has
 * no samples.
 */
export async function runChatEpisode(
  task: Task,
  parts: ChatEpisodeParts,
  options: Omit<EpisodeOptions, "retry" | "turnTimeoutMs"> = {},
): Promise<Episode> {
  const resolved = resolveOptions(task.id, options);
  return new EpisodeRun(task, { ...parts, actions: new ChatActions(parts.agent, resolved) }, resolved).run();
}

/** Parts of one run; `actions` belongs to this episode only. */
type RunParts = Pick<EpisodeParts, "environment" | "strategy" | "user" | "grading"> & {
  readonly actions: ActionSource;
};

/** One episode. Single use: `run` resolves with an `Episode` for every outcome. */
class EpisodeRun {
  /**
   * The task as it was given, because its environment may compare it by identity; `#task` is its
   * recorded copy.
   */
  readonly #given: Task;
  readonly #task: Task;
  readonly #parts: RunParts;
  readonly #user: UserSimulator;
  readonly #options: ResolvedOptions;
  readonly #messages: Message[] = [];
  readonly #steps: StepDeadlines;
  readonly #events: EpisodeEvents;
  /** True: an earlier process began the episode, and its world cannot be replayed. */
  readonly #restarts: boolean;
  #environment: CheckedEnvironment | null = null;
  #info: JsonObject = new Map();

  /** Throws a `ConfigurationError` for a malformed task, and when the user simulator does not support it. */
  constructor(task: Task, parts: RunParts, options: ResolvedOptions) {
    this.#user = makeUser(parts.user, task, {
      ...options,
      resumeFrom: restarts(parts, options) ? [] : options.resumeFrom,
    });
    this.#given = task;
    this.#task = readTask(task);
    this.#parts = parts;
    this.#options = options;
    this.#steps = new StepDeadlines(options);
    this.#events = new EpisodeEvents(options, this.#steps);
    this.#restarts = restarts(parts, options);
  }

  async run(): Promise<Episode> {
    let ending = await this.#converse().catch((error: unknown) => this.#endingOf(error));
    this.#events.endConversation(ending);
    const environment = this.#environment;
    const outcome = outcomeOf(ending.stopReason);
    let grade: Episode["grade"] = null;
    if (environment !== null && (outcome === "completed" || outcome === "truncated")) {
      try {
        const graded = await this.#grade(environment, { outcome });
        if ("stopReason" in graded) ending = graded;
        else {
          grade = graded;
          this.#merge(grade.info);
        }
      } catch (error) {
        ending = this.#endingOf(error);
      }
    }
    if (environment !== null) {
      const closing = await this.#close(environment);
      if (closing !== null) ending = this.#endingOf(closing);
    }
    try {
      ending = (await this.#events.end(ending)) ?? ending;
    } catch (error) {
      ending = this.#endingOf(error);
    }
    this.#parts.actions.close();
    return this.#finish(ending, grade);
  }

  #grade(environment: CheckedEnvironment, ending: EndingToGrade): Promise<Grade | Ending> {
    const { grading, actions } = this.#parts;
    return gradeEpisode(environment, ending, {
      task: this.#task,
      trajectory: actions.trajectory,
      grading,
      events: this.#events,
      steps: this.#steps,
    });
  }

  #endingOf(error: unknown): Ending {
    return endingOf(error, this.#options.signal);
  }

  #finish({ stopReason, failure }: Ending, grade: Episode["grade"]): Episode {
    const { episodeId, groupId, sampleIndex, seed } = this.#options;
    const { events } = this.#events;
    return {
      id: episodeId,
      groupId,
      sampleIndex,
      task: this.#task,
      seed,
      outcome: outcomeOf(stopReason),
      stopReason,
      failure,
      reward: failure === null ? (grade?.reward ?? null) : null,
      grade,
      info: this.#info,
      messages: this.#messages,
      trajectory: this.#parts.actions.trajectory,
      historyPolicy: this.#parts.actions.historyPolicy,
      events,
      problems: events.flatMap((event) => (event.type === "decision" ? event.decision.problems : [])),
    };
  }

  /** Opens the environment and runs turns until something ends the episode. Throws attributed faults. */
  async #converse(): Promise<Ending> {
    const { seed, episodeId } = this.#options;
    const { strategy, actions } = this.#parts;
    const begun = await this.#events.confirm(
      { type: "episode-start", episodeId, taskId: this.#task.id, seed },
      "environment",
    );
    if (begun !== null) return begun;
    const { failure } = this.#options;
    if (failure !== null) return { type: "ending", stopReason: "fault", failure };
    if (this.#restarts) await this.#events.restart(actions);
    const environment = await this.#steps.guard("environment", () => this.#open());
    this.#environment = environment;
    this.#merge(environment.info);
    const { tools, guidelines, opening: begins } = environment;
    const firstUtterance = await this.#userLine((options) => this.#user.open({ ...options, opening: begins }));
    if (typeof firstUtterance !== "string") return firstUtterance;
    const opening = strategy.open({ guidelines, tools, firstUtterance, seed: deriveSeed(seed, "agent") });
    const isLater = ({ role }: Message): boolean => role !== "system";
    const first = opening.messages.findIndex(isLater);
    this.#messages.push(...opening.messages.slice(0, first), ...environment.history, ...opening.messages.slice(first));
    const { argumentErrors, unknownTools = "loop", calls = "several" } = this.#parts.environment;
    const shown = { messages: this.#messages, shownTools: opening.tools, tools, unknownTools };
    await this.#steps.guard("renderer", () => actions.open(shown));

    for (let turn = 0; turn < this.#options.limits.maxTurns; turn++) {
      const parse = await this.#request(turn);
      if (typeof parse !== "function") return parse;
      const action = await this.#steps.guard("parser", parse);
      const decision = strategy.decide(action, { tools, argumentErrors, unknownTools, calls, turn });
      this.#messages.push(actions.asMessage(action, decision));
      const decided = await this.#events.confirm({ type: "decision", turn, action, decision }, "parser");
      if (decided !== null) return decided;
      const observed = await this.#carryOut(decision, environment, { turn, text: action.content });
      if ("stopReason" in observed) return observed;
      const history = [...this.#messages];
      const newMessages = observed.map((observation, call) => strategy.observe(decision, observation, call));
      this.#messages.push(...newMessages);
      await this.#steps.guard("renderer", () => actions.show({ history, newMessages }));
    }
    return stop("max_turns");
  }

  /** Opens the environment; an environment that opens too late is closed at once. */
  #open(): CheckedEnvironment | Promise<CheckedEnvironment> {
    const seed = deriveSeed(this.#options.seed, "environment");
    const { environment } = this.#parts;
    return this.#steps.ask(
      environment.boundsOpening === true ? "long-open" : "open",
      (options) => openChecked(environment, this.#given, { ...options, seed }),
      (late) => void this.#steps.bounded("close", async () => late.close()).catch(() => undefined),
    );
  }

  /**
   * Closes the environment, also of a cancelled episode. Never rejects: a fault of closing becomes
   * an event. Returns a fault of the store, which does count.
   */
  async #close(environment: CheckedEnvironment): Promise<unknown> {
    let failure: Failure;
    try {
      const closed = environment.close();
      if (closed instanceof Promise) await this.#steps.bounded("close", () => closed);
      return null;
    } catch (error) {
      ({ failure } = attribute(error, "environment"));
    }
    try {
      await this.#events.emit({ type: "close-failure", failure });
      return null;
    } catch (error) {
      return error;
    }
  }

  /** Requests the action of a turn until there is one to parse. */
  async #request(turn: number): Promise<(() => ParsedAction) | Ending> {
    const { actions } = this.#parts;
    for (;;) {
      const requested = await this.#events.action(actions, turn);
      if ("stopReason" in requested) return requested;
      const { next } = requested;
      if (next.type === "read") return next.read;
      if (next.type === "end") return next.ending;
    }
  }

  /**
   * Carries out a decision and returns the policy's observations, one for each call. `text`: the
   * policy's text beside its calls.
   */
  async #carryOut(
    decision: Decision,
    environment: CheckedEnvironment,
    { turn, text }: { readonly turn: number; readonly text: string },
  ): Promise<string[] | Ending> {
    switch (decision.type) {
      case "call": {
        const call = { name: decision.call.name, arguments: decision.arguments };
        const result = await this.#call(call, environment, { turn, action: { call: 0, calls: 1, text } });
        return typeof result === "string" ? [result] : result;
      }
      case "calls": {
        const observed: string[] = [];
        const calls = decision.calls.filter((one) => one.arguments !== null).length;
        let carriedOut = 0;
        for (const [at, { call, arguments: given, feedback }] of decision.calls.entries()) {
          if (call === null || given === null) {
            observed.push(feedback ?? "");
            continue;
          }
          const action = { call: carriedOut++, calls, text };
          const result = await this.#call({ name: call.name, arguments: given }, environment, {
            turn,
            call: at,
            action,
          });
          if (typeof result !== "string") return result;
          observed.push(result);
        }
        return observed;
      }
      case "say": {
        const heard = await this.#steps.guard("environment", () =>
          this.#steps.ask("call", (options) => environment.receiveUtterance(decision.content, options)),
        );
        if (heard?.endsEpisode === true) return stop("tool_ended");
        const line = await this.#userLine((options) => this.#user.reply(decision.content, options));
        return typeof line === "string" ? [line] : line;
      }
      case "observe":
        return [decision.feedback];
      case "end":
        return stop("bad_action");
      case "abort":
        return stop("bad_action_aborted");
      default:
        return decision satisfies never;
    }
  }

  /** Lets the environment carry out one call. `place`: turn and index for its result. */
  async #call(
    call: EnvironmentCall,
    environment: CheckedEnvironment,
    {
      action,
      ...place
    }: { readonly turn: number; readonly call?: number; readonly action: NonNullable<AgentCallOptions["action"]> },
  ): Promise<string | Ending> {
    const { result: whole, durationMs } = await this.#steps.timed("environment", () =>
      this.#steps.ask("call", (options) => environment.call(call, { ...options, action })),
    );
    const { result, cutFrom } = cutResult(whole, this.#options.maxResultCharacters);
    const ended = await this.#events.confirm(
      { type: "tool-result", ...place, result, cutFrom, durationMs },
      "environment",
    );
    if (ended !== null) return ended;
    this.#merge(result.info);
    if (result.endsEpisode) return stop("tool_ended");
    return result.text;
  }

  async #userLine(speak: (options: UserCallOptions) => Promise<UserLine>): Promise<string | Ending> {
    const side = this.#environment?.userSide ?? null;
    for (let next = speak, lines = 0; ; lines++) {
      if (lines === mostLinesOfCalls) {
        const message = `The user called tools in ${lines} lines one after another, and said nothing.`;
        throw faultAt("user", "bad-result", message);
      }
      const event = await this.#events.step("user-line", "user", async () => {
        const { result, durationMs } = await this.#steps.timed("user", async () =>
          readUserLine(await this.#steps.bounded("user", async (signal) => next({ signal, side }))),
        );
        return { type: "user-line", line: result, durationMs };
      });
      if (event.type === "ending") return event;
      const { line } = event;
      const outcome = await this.#letAct(line);
      if ("stopReason" in outcome) return outcome;
      if (line.type === "hang-up" || outcome.endsEpisode) return stop("user_hung_up");
      if (line.type === "utterance") return line.text;
      const user = this.#user;
      next = async (options) => {
        if (user.observe !== undefined) return user.observe(outcome.results, options);
        throw new TypeError('a line of the user is calls, and the user has no "observe" that takes their results.');
      };
    }
  }

  /** Applies a line of the user to the world. */
  async #letAct(line: UserLine): Promise<UserOutcome | Ending> {
    const side = this.#environment?.userSide ?? null;
    if (side === null) {
      if (line.type !== "calls") return { results: [], endsEpisode: false };
      throw faultAt("user", "bad-result", "Cannot carry out the user's calls: this environment gives users no tools.");
    }
    const { result: outcome, durationMs } = await this.#steps.timed("environment", () =>
      this.#steps.ask("call", (options) => side.act(line, options)),
    );
    const ended = await this.#events.confirm({ type: "user-outcome", outcome, durationMs }, "environment");
    return ended ?? outcome;
  }

  #merge(info: JsonObject): void {
    this.#info = new Map([...this.#info, ...info]);
  }
}

function restarts({ environment }: RunParts, { resumeFrom }: ResolvedOptions): boolean {
  return environment.resume === "restart" && resumeFrom.length > 0;
}
