// The loop: one attempt at one task, from the first observation to the stop. It renders, asks the engine, reads the
// action, steps environment or user, and records every token. It imports no implementation, retries only the engine, and
// turns every fault into data: it rejects for misuse alone.
//
//   open ─► ask engine ─► read action ─┬─ call ─► environment ─┬─► bridge or branch ─► ask engine ...
//                                      ├─ say ──► user ────────┤
//                                      └─ problem ─► feedback ─┘        stop ─► grade ─► episode

import type { Decision } from "../core/agent-strategy.ts";
import type { Environment } from "../core/environment.ts";
import type { Attempt, Episode, EpisodeEvent } from "../core/episode.ts";
import { attribute, type Boundary, type Failure } from "../core/failure.ts";
import type { Message } from "../core/message.ts";
import { outcomeOf, type StopReason } from "../core/stop-reason.ts";
import type { Task } from "../core/task.ts";
import type { UserSimulator } from "../core/user.ts";
import type { JsonObject } from "../lib/json/value.ts";
import { deriveSeed } from "../lib/random.ts";
import { TrajectoryRecorder } from "../trajectories/index.ts";
import { type EpisodeOptions, type EpisodeParts, resolveOptions, type ResolvedOptions } from "./episode-options.ts";
import { sampleTurn } from "./sample-turn.ts";

/**
 * Plays one episode of `task`. Resolves with an `Episode` whatever happens in it; throws a `RangeError` for options out of
 * bounds and a `ConfigurationError` when the user simulator cannot play the task, both before any side effect.
 */
export async function runEpisode(task: Task, parts: EpisodeParts, options: EpisodeOptions = {}): Promise<Episode> {
  const resolved = resolveOptions(task.id, options);
  const user = parts.user.create(task, { seed: deriveSeed(resolved.seed, "user") });
  return new EpisodeRun(task, parts, resolved, user).play();
}

/** Thrown inside the loop to end it; never leaves this file. */
class Stop extends Error {
  readonly reason: StopReason;
  constructor(reason: StopReason) {
    super(reason);
    this.reason = reason;
  }
}

class EpisodeRun {
  readonly #task: Task;
  readonly #parts: EpisodeParts;
  readonly #options: ResolvedOptions;
  readonly #user: UserSimulator;
  readonly #recorder = new TrajectoryRecorder();
  readonly #events: EpisodeEvent[] = [];
  readonly #messages: Message[] = [];
  #info: JsonObject = new Map();
  #sampledTokens = 0;

  constructor(task: Task, parts: EpisodeParts, options: ResolvedOptions, user: UserSimulator) {
    this.#task = task;
    this.#parts = parts;
    this.#options = options;
    this.#user = user;
  }

  async play(): Promise<Episode> {
    const { seed, episodeId } = this.#options;
    let environment: Environment | null = null;
    let stopReason: StopReason;
    let failure: Failure | null = null;
    let grade: Episode["grade"] = null;
    try {
      await this.#emit({ type: "episode-start", episodeId, taskId: this.#task.id, seed });
      const opened = await this.#guard("environment", () => this.#parts.environment.open(this.#task));
      environment = opened;
      this.#merge(opened.info);
      stopReason = await this.#converse(opened);
    } catch (error) {
      ({ stopReason, failure } = this.#ending(error));
    }
    const outcome = outcomeOf(stopReason);
    if (environment !== null && (outcome === "completed" || outcome === "truncated")) {
      const graded = environment;
      try {
        const { result, durationMs } = await this.#timed("grader", () => graded.grade({ outcome }));
        await this.#emit({ type: "grade", grade: result, durationMs });
        grade = result;
        this.#merge(result.info);
      } catch (error) {
        ({ stopReason, failure } = this.#ending(error));
      }
    }
    try {
      await this.#emit({ type: "episode-end", stopReason, failure });
    } catch (error) {
      ({ stopReason, failure } = this.#ending(error));
    }
    return this.#finish(stopReason, failure, grade);
  }

  #finish(stopReason: StopReason, failure: Failure | null, grade: Episode["grade"]): Episode {
    const { episodeId, groupId, sampleIndex, seed } = this.#options;
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
      trajectory: this.#recorder.trajectory,
      historyPolicy: this.#parts.renderer.historyPolicy,
      events: this.#events,
      problems: this.#events.flatMap((event) => (event.type === "decision" ? event.decision.problems : [])),
    };
  }

  /** Plays turns until something stops the episode; throws `Stop` or an attributed fault otherwise. */
  async #converse(environment: Environment): Promise<StopReason> {
    const { strategy, renderer } = this.#parts;
    const firstWords = await this.#userLine(() => this.#user.open(this.#signal()));
    const { messages, tools } = strategy.open({
      guidelines: environment.guidelines,
      tools: environment.tools,
      firstWords,
      seed: deriveSeed(this.#options.seed, "agent"),
    });
    this.#messages.push(...messages);
    const prompt = await this.#guard("renderer", () => renderer.renderPrompt(this.#messages, tools));
    this.#recorder.extend(prompt.tokens);

    for (let turn = 0; turn < this.#options.limits.maxTurns; turn++) {
      const lastAction = await this.#ask(turn);
      const action = await this.#guard("parser", () =>
        renderer.parseAction(lastAction, { tools: environment.tools, turn }),
      );
      this.#messages.push({ role: "assistant", content: action.text, reasoning: null, toolCalls: [] });
      const decision = strategy.decide(action, {
        tools: environment.tools,
        argumentErrors: this.#parts.environment.argumentErrors,
        turn,
      });
      await this.#emit({ type: "decision", turn, action, decision });
      const observation = await this.#carryOut(decision, environment, turn);
      const newMessages = [strategy.observe(decision, observation)];
      await this.#show({ newMessages, lastAction, tools });
    }
    return "max_turns";
  }

  /** Asks the engine and records what it sampled. */
  async #ask(turn: number): Promise<Uint32Array> {
    const { maxSampledTokens } = this.#options.limits;
    const budget = maxSampledTokens === null ? null : maxSampledTokens - this.#sampledTokens;
    if (budget !== null && budget < 1) throw new Stop("max_tokens");
    const attempts: Attempt[] = [];
    const start = this.#options.clock.now();
    const result = await sampleTurn(
      this.#parts.engine,
      { prompt: this.#recorder.prompt, stopTokenIds: this.#parts.renderer.stopTokenIds, turn, budget },
      { options: this.#options, attempts },
    );
    const recorded = this.#recorder.act(result);
    this.#sampledTokens += recorded.sampledTokens.length;
    const durationMs = this.#options.clock.now() - start;
    await this.#emit({ type: "turn", turn: recorded, attempts, usage: result.usage, durationMs });
    if (recorded.finish.reason === "abort") throw new Stop("engine_abort");
    return recorded.sampledTokens;
  }

  /** Does what was decided and returns what the policy gets to read. */
  async #carryOut(decision: Decision, environment: Environment, turn: number): Promise<string> {
    switch (decision.type) {
      case "call": {
        const call = { name: decision.call.name, arguments: decision.arguments };
        const { result, durationMs } = await this.#timed("environment", () => environment.call(call));
        await this.#emit({ type: "tool-result", turn, result, durationMs });
        this.#merge(result.info);
        if (result.endsEpisode) throw new Stop("tool_ended");
        return result.text;
      }
      case "say":
        await this.#guard("environment", () => environment.hear(decision.words));
        return this.#userLine(() => this.#user.reply(decision.words, this.#signal()));
      case "observe":
        return decision.feedback;
      case "end":
        throw new Stop("bad_action");
      case "abort":
        throw new Stop("bad_action_aborted");
      default:
        return decision satisfies never;
    }
  }

  async #userLine(speak: () => Promise<Awaited<ReturnType<UserSimulator["open"]>>>): Promise<string> {
    const { result: line, durationMs } = await this.#timed("user", speak);
    await this.#emit({ type: "user-line", line, durationMs });
    if (line.type === "hang-up") throw new Stop("user_hung_up");
    return line.text;
  }

  /** Shows the policy what is new: appended to the record where the renderer allows it, as a branch where it does not. */
  async #show(shown: {
    readonly newMessages: readonly Message[];
    readonly lastAction: Uint32Array;
    readonly tools: Environment["tools"];
  }): Promise<void> {
    const { renderer } = this.#parts;
    const { newMessages, lastAction, tools } = shown;
    const history = [...this.#messages];
    this.#messages.push(...newMessages);
    await this.#guard("renderer", () => {
      const bridged = renderer.bridge({ messages: history, tools, lastAction, newMessages });
      if (bridged.type === "extended") this.#recorder.extend(bridged.tokens);
      else this.#recorder.rewrite(renderer.renderPrompt(this.#messages, tools).tokens, bridged.reason);
    });
  }

  #ending(error: unknown): { stopReason: StopReason; failure: Failure | null } {
    if (error instanceof Stop) return { stopReason: error.reason, failure: null };
    if (this.#options.signal?.aborted) return { stopReason: "cancelled", failure: null };
    const { failure } = attribute(error, "environment");
    if (failure.boundary === "engine" && failure.code === "context-length") {
      return { stopReason: "context_length", failure: null };
    }
    return { stopReason: "fault", failure };
  }

  /** Runs extension code and attributes what escapes from it. */
  async #guard<T>(boundary: Boundary, action: () => T | Promise<T>): Promise<T> {
    if (this.#options.signal?.aborted) throw new Stop("cancelled");
    try {
      return await action();
    } catch (error) {
      throw attribute(error, boundary);
    }
  }

  async #timed<T>(boundary: Boundary, action: () => T | Promise<T>): Promise<{ result: T; durationMs: number }> {
    const start = this.#options.clock.now();
    const result = await this.#guard(boundary, action);
    return { result, durationMs: this.#options.clock.now() - start };
  }

  async #emit(event: EpisodeEvent): Promise<void> {
    try {
      await this.#options.onEvent?.(event);
    } catch (error) {
      throw attribute(error, "store", "event-not-recorded");
    }
    this.#events.push(event);
  }

  #merge(info: JsonObject): void {
    this.#info = new Map([...this.#info, ...info]);
  }

  #signal(): { readonly signal?: AbortSignal } {
    return this.#options.signal === null ? {} : { signal: this.#options.signal };
  }
}
