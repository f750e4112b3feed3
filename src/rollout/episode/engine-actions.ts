// Actions sampled by an engine: prompts are rendered once and then extended, every token is recorded, and a history that
// the template rewrites becomes a branch. Nothing is ever encoded again.

import type { Engine } from "../../core/engine.ts";
import type { Attempt } from "../../core/failure.ts";
import type { AssistantMessage, Message, Tool } from "../../core/message.ts";
import type { ParsedAction, Renderer } from "../../core/renderer.ts";
import type { Trajectory, Turn } from "../../core/turn.ts";
import { DeadlineRunner } from "../../lib/deadline.ts";
import { isSameValue } from "../../python-semantics/json/is-same-value.ts";
import { TrajectoryRecorder } from "../../trajectories/index.ts";
import type { ActionEvent, ActionSource, AskedAction, Shown } from "./action-source.ts";
import { Stop } from "./stop.ts";
import type { ResolvedOptions } from "./episode-options.ts";
import type { RecordedEvents } from "./recorded-events.ts";
import { sampleTurn, type SampledTurn } from "./sample-turn.ts";

const restarted = "the engine aborted the turn before, which is discarded";

export class EngineActions implements ActionSource {
  readonly eventType = "turn";
  readonly #engine: Engine;
  readonly #renderer: Renderer;
  readonly #options: ResolvedOptions;
  readonly #deadlines: DeadlineRunner;
  readonly #recorder = new TrajectoryRecorder();
  #shownTools: readonly Tool[] = [];
  #tools: readonly Tool[] = [];
  #lastAction: Uint32Array = new Uint32Array();
  #sampledTokens = 0;
  /** How often the turn under way was sampled and discarded. */
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

  open(opening: Parameters<ActionSource["open"]>[0]): void {
    this.#shownTools = opening.shownTools;
    this.#tools = opening.tools;
    const { tokens, spelledTokens } = this.#renderer.renderPrompt(opening.messages, opening.shownTools);
    this.#recorder.extend(tokens, { spelledTokens, deviation: null });
  }

  async ask(turn: number): Promise<AskedAction> {
    const { clock, limits } = this.#options;
    const budget = limits.maxSampledTokens === null ? null : limits.maxSampledTokens - this.#sampledTokens;
    if (budget !== null && budget < 1) throw new Stop("max_tokens");
    const attempts: Attempt[] = [];
    const start = clock.now();
    const { prompt } = this.#recorder;
    const { result, next } = await sampleTurn(
      this.#engine,
      { prompt, stopTokenIds: this.#renderer.stopTokenIds, turn, budget, discarded: this.#discarded },
      { options: this.#options, deadlines: this.#deadlines, attempts },
    );
    const recorded = this.#recorder.act(result);
    const event = {
      type: "turn",
      turn: recorded,
      attempts,
      usage: result.usage,
      durationMs: clock.now() - start,
    } as const;
    return { event, next: this.#next(recorded, next, turn) };
  }

  replay(event: ActionEvent, { turn, recorded }: Parameters<ActionSource["replay"]>[1]): AskedAction {
    if (event.type !== "turn") throw recorded.diverged("engine", "an agent behind an API answered");
    const again = this.#recorder.act(event.turn);
    if (!isSameValue(again, event.turn)) {
      throw recorded.diverged("renderer", `the prompt of turn ${turn} is not the recorded one`);
    }
    return { event: { ...event, turn: again }, next: this.#next(again, this.#recordedNext(again, recorded), turn) };
  }

  #next(acted: Turn, next: SampledTurn["next"], turn: number): AskedAction["next"] {
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
      const action = this.#renderer.parseAction(sampledTokens, { tools: this.#tools, turn });
      // At a stop string the server stops without a stop token.
      return acted.finish.reason === "stop" ? { ...action, isTerminated: true } : action;
    };
    return { type: "read", read };
  }

  /** A turn that the server aborted is never read: it ended the episode, or was asked for again. */
  #recordedNext({ finish }: Turn, recorded: RecordedEvents): SampledTurn["next"] {
    if (finish.reason !== "abort") return { type: "read" };
    const error = recorded.ending();
    if (error !== null) return { type: "end", error };
    if (recorded.peek() === null && this.#options.engineAbort.onAbort === "end") {
      return { type: "end", error: new Stop("engine_abort") };
    }
    return { type: "again" };
  }

  asMessage(action: ParsedAction): AssistantMessage {
    return { role: "assistant", content: action.text, reasoning: null, toolCalls: [] };
  }

  close(): void {
    this.#recorder.close();
  }

  /** Appended to the record where the renderer allows it, as a branch where it does not. */
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
