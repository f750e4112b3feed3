// Sources of an episode's actions: an engine that continues tokens, or an agent behind an API that
// answers messages. The loop calls both in the same way. With an engine, prompts are rendered once
// and then extended, every token is recorded, and a history that the template rewrites becomes a
// branch; nothing is ever encoded again. An agent behind an API leaves no record that could be
// trained: its sampled tokens are unknown.

import { type Decision, type ChatAgent, callsOf } from "../../core/agent.ts";
import type { Engine } from "../../core/engine.ts";
import type { Episode, EpisodeEvent } from "../../core/episode.ts";
import { type Attempt, attribute } from "../../core/failure.ts";
import type { AssistantMessage, Message, Tool } from "../../core/message.ts";
import type { ParsedAction, Renderer } from "../../core/renderer.ts";
import type { Trajectory, Turn } from "../../core/turn.ts";
import { DeadlineRunner } from "../../lib/deadline.ts";
import { deriveSeed } from "../../lib/random.ts";
import { isSameValue } from "../../python-semantics/json/value.ts";
import { TrajectoryRecorder } from "../../trajectories/index.ts";
import type { ResolvedOptions } from "./episode-options.ts";
import type { RecordedEvents } from "./recorded-events.ts";
import { sampleTurn, type SampledTurn } from "./sample-turn.ts";
import { type Ending, stop } from "./step-deadlines.ts";

/** The event of an action; its type depends on the source. */
export type ActionEvent = Extract<EpisodeEvent, { type: "turn" | "agent-reply" }>;

/** The action of a turn. */
export type RequestedAction = {
  /** Emitted before the action is parsed. */
  readonly event: ActionEvent;
  readonly next:
    | { readonly type: "read"; readonly read: () => ParsedAction }
    /** The action is discarded; the same turn is requested again. */
    | { readonly type: "again" }
    /** The episode ends with this action, unread. */
    | { readonly type: "end"; readonly ending: Ending };
};

/** The next observation. */
export type Shown = {
  /** The conversation up to and including the last action. */
  readonly history: readonly Message[];
  readonly newMessages: readonly Message[];
};

/** Single use; calls arrive one at a time, `restart` or `open` first. Errors are attributed by the loop. */
export interface ActionSource extends Pick<Episode, "trajectory" | "historyPolicy"> {
  /** Begins the episode again after turns of an earlier process, which are dropped. */
  restart(turns: readonly Turn[]): void;
  /**
   * Opens the conversation. `shownTools` are the tools of the opening; calls may name any of
   * `tools`, and others if the environment answers them.
   */
  open(opening: {
    readonly messages: readonly Message[];
    readonly shownTools: readonly Tool[];
    readonly tools: readonly Tool[];
    readonly unknownTools: "environment" | "loop";
  }): void;
  readonly eventType: ActionEvent["type"];
  /** Requests the next action; returns an ending when a limit is already reached. */
  act(turn: number): Promise<RequestedAction | Ending>;
  /**
   * Replays a recorded action in place of `act`, given the events after it. Throws a divergence
   * when it cannot belong here.
   */
  replay(event: ActionEvent, rest: { readonly turn: number; readonly recorded: RecordedEvents }): RequestedAction;
  /** The action as a message of the history. */
  asMessage(action: ParsedAction, decision: Decision): AssistantMessage;
  show(shown: Shown): void;
  /** Called when the episode has ended. */
  close(): void;
}

export class ChatActions implements ActionSource {
  readonly eventType = "agent-reply";
  readonly historyPolicy = "no-tokens";
  readonly trajectory = { turns: [] };
  readonly #agent: ChatAgent;
  readonly #options: ResolvedOptions;
  #messages: readonly Message[] = [];
  #tools: readonly Tool[] = [];
  #outputTokens = 0;

  constructor(agent: ChatAgent, options: ResolvedOptions) {
    this.#agent = agent;
    this.#options = options;
  }

  restart(): void {
    // An agent behind an API has no recorded turns.
  }

  open(opening: Parameters<ActionSource["open"]>[0]): void {
    this.#messages = [...opening.messages];
    this.#tools = opening.shownTools;
  }

  async act(turn: number): Promise<RequestedAction | Ending> {
    const { clock, limits, seed, seedTurns, sampling, signal } = this.#options;
    if (limits.maxSampledTokens !== null && this.#outputTokens >= limits.maxSampledTokens) return stop("max_tokens");
    const start = clock.now();
    const request = {
      messages: this.#messages,
      tools: this.#tools,
      turn,
      seed: seedTurns ? deriveSeed(seed, "turn", turn) : sampling.seed,
    };
    const answer = this.#agent.reply(request, signal === null ? {} : { signal });
    const { action, usage, attempts } = await answer.catch((error: unknown) => {
      throw attribute(error, "engine");
    });
    this.#outputTokens += usage.outputTokens;
    return {
      event: { type: "agent-reply", turn, attempts, usage, durationMs: clock.now() - start },
      next: { type: "read", read: () => action },
    };
  }

  /** The agent's answer is recorded in the decision about it. */
  replay(event: ActionEvent, { recorded }: Parameters<ActionSource["replay"]>[1]): RequestedAction {
    if (event.type === "agent-reply") this.#outputTokens += event.usage.outputTokens;
    const next = recorded.peek();
    if (next?.type === "decision") return { event, next: { type: "read", read: () => next.action } };
    const ending = recorded.ending();
    if (ending === null) throw recorded.diverged("engine", "the answer of the agent is missing");
    return { event, next: { type: "end", ending } };
  }

  /** Keeps only the calls that get an answer: servers refuse a history in which a call has none. */
  asMessage({ content, reasoning, toolCalls }: ParsedAction, decision: Decision): AssistantMessage {
    const answered = new Set(callsOf(decision).map(({ call }) => call));
    return { role: "assistant", content, reasoning, toolCalls: toolCalls.filter((call) => answered.has(call)) };
  }

  show({ history, newMessages }: Shown): void {
    this.#messages = [...history, ...newMessages];
  }

  close(): void {
    // An agent behind an API holds no resources here.
  }
}

const restarted = "the engine aborted the previous turn, which is discarded";

export class EngineActions implements ActionSource {
  readonly eventType = "turn";
  readonly #engine: Engine;
  readonly #renderer: Renderer;
  readonly #options: ResolvedOptions;
  readonly #deadlines: DeadlineRunner;
  readonly #recorder = new TrajectoryRecorder();
  #shownTools: readonly Tool[] = [];
  #tools: readonly Tool[] = [];
  #unknownTools: "environment" | "loop" = "loop";
  #lastAction: Uint32Array = new Uint32Array();
  #sampledTokens = 0;
  /** Number of times that the current turn was sampled and discarded. */
  #discarded = 0;

  constructor(parts: { readonly engine: Engine; readonly renderer: Renderer }, options: ResolvedOptions) {
    this.#engine = parts.engine;
    this.#renderer = parts.renderer;
    this.#options = options;
    this.#deadlines = new DeadlineRunner({ clock: options.clock, signal: options.signal ?? undefined });
  }

  get trajectory(): Trajectory {
    return this.#recorder.trajectory;
  }

  get historyPolicy(): Renderer["historyPolicy"] {
    return this.#renderer.historyPolicy;
  }

  restart(turns: readonly Turn[]): void {
    this.#recorder.leaveBehind(turns, "the environment cannot be replayed, so the episode was restarted");
  }

  open(opening: Parameters<ActionSource["open"]>[0]): void {
    this.#shownTools = opening.shownTools;
    this.#tools = opening.tools;
    this.#unknownTools = opening.unknownTools;
    const { tokens, spelledTokens } = this.#renderer.renderPrompt(opening.messages, opening.shownTools);
    this.#recorder.extend(tokens, { spelledTokens, deviation: null });
  }

  async act(turn: number): Promise<RequestedAction | Ending> {
    const { clock, limits } = this.#options;
    const budget = limits.maxSampledTokens === null ? null : limits.maxSampledTokens - this.#sampledTokens;
    if (budget !== null && budget < 1) return stop("max_tokens");
    const attempts: Attempt[] = [];
    const start = clock.now();
    const { prompt, observedFrom } = this.#recorder;
    const { routedExperts, samplingMasks, episodeId } = this.#options;
    const named = `turn ${turn} of episode "${episodeId}"`;
    // Starts one token earlier, because the parent's last token was sampled and is only fed to the
    // model now.
    const experts = routedExperts?.({ start: Math.max(0, observedFrom - 1), turn: named }) ?? null;
    const { result, requestIds, next } = await sampleTurn(
      this.#engine,
      {
        prompt,
        stopTokenIds: this.#renderer.stopTokenIds,
        turn,
        budget,
        discarded: this.#discarded,
        onTokens: null,
        experts,
        samplingMask: samplingMasks !== null,
      },
      { options: this.#options, deadlines: this.#deadlines, attempts },
    );
    // An action that is never read is never trained.
    const kept = experts === null || next.type !== "read" ? null : await experts.keep();
    const masked =
      samplingMasks === null || next.type !== "read"
        ? {}
        : { truncated: await (await import("./kept-ids.ts")).keepMask(result, samplingMasks, named) };
    const recorded = this.#recorder.act({ ...result, requestIds, routedExperts: kept, ...masked });
    const event = {
      type: "turn",
      turn: recorded,
      attempts,
      usage: result.usage,
      durationMs: clock.now() - start,
    } as const;
    return { event, next: this.#next(recorded, next, turn) };
  }

  replay(event: ActionEvent, { turn, recorded }: Parameters<ActionSource["replay"]>[1]): RequestedAction {
    if (event.type !== "turn") throw recorded.diverged("engine", "an agent behind an API answered");
    const again = this.#recorder.act(event.turn);
    if (!isSameValue(again, event.turn)) {
      throw recorded.diverged("renderer", `the prompt of turn ${turn} is not the recorded one`);
    }
    return { event: { ...event, turn: again }, next: this.#next(again, this.#recordedNext(again, recorded), turn) };
  }

  #next(acted: Turn, next: SampledTurn["next"], turn: number): RequestedAction["next"] {
    if (next.type === "end") return next;
    const { sampledTokens } = acted;
    if (next.type === "again") {
      const { prompt } = this.#recorder;
      this.#discarded++;
      this.#recorder.rewrite(prompt.view(0, prompt.length - sampledTokens.length), restarted, acted);
      return next;
    }
    this.#discarded = 0;
    this.#lastAction = sampledTokens;
    this.#sampledTokens += sampledTokens.length;
    const read = (): ParsedAction => {
      const unknownTools = this.#unknownTools;
      const action = this.#renderer.parseAction(sampledTokens, { tools: this.#tools, turn, unknownTools });
      // A server that stops at a stop string samples no stop token.
      return acted.finish.reason === "stop" ? { ...action, isTerminated: true } : action;
    };
    return { type: "read", read };
  }

  /** A turn that the server aborted is never read: it ended the episode, or was requested again. */
  #recordedNext({ finish }: Turn, recorded: RecordedEvents): SampledTurn["next"] {
    if (finish.reason !== "abort") return { type: "read" };
    const ending = recorded.ending();
    if (ending !== null) return { type: "end", ending };
    if (recorded.peek() === null && this.#options.engineAbort.onAbort === "end") {
      return { type: "end", ending: stop("engine_abort") };
    }
    return { type: "again" };
  }

  asMessage(action: ParsedAction): AssistantMessage {
    const missing = this.#renderer.unclosedThought?.(action.text) ?? "";
    return { role: "assistant", content: action.text + missing, reasoning: null, toolCalls: [] };
  }

  close(): void {
    this.#recorder.close();
  }

  /** Appends to the record if the renderer allows it, and starts a branch otherwise. */
  show({ history, newMessages }: Shown): void {
    const tools = this.#shownTools;
    const bridged = this.#renderer.bridge({ messages: history, tools, lastAction: this.#lastAction, newMessages });
    if (bridged.type === "extended") {
      this.#recorder.extend(bridged.tokens, bridged);
      return;
    }
    const messages: readonly Message[] = [...history, ...newMessages];
    const { tokens, spelledTokens } = this.#renderer.renderPrompt(messages, tools);
    this.#recorder.rewrite(tokens, bridged.reason, { spelledTokens, deviation: null });
  }
}
