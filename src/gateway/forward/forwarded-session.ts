// A session whose calls an API model answers: it is evaluated, not trained. Its program talks to
// the API as if the gateway did not exist; the content is recorded as a conversation without
// tokens, like that of an agent that calls an API. Its counterpart is `session.ts`, where the
// policy samples.
//
//   call ─┬─ its format is the API's ─► forwarded ─► answer recorded ─► returned unchanged
//         └─ otherwise ─► parsed ─► a chat completion ─► answer recorded ─► written by the dialect

import type { ApiModel, ChatSampling } from "../../chat-models/index.ts";
import {
  attribute,
  type Episode,
  type EpisodeEvent,
  type Failure,
  type Grade,
  type StopReason,
  toolFromDefinition,
} from "../../core/index.ts";
import type { Clock } from "../../lib/clock.ts";
import { deriveSeed } from "../../lib/random.ts";
import { takeTurns } from "../../lib/steps.ts";
import type { JsonObject } from "../../python-semantics/json/index.ts";
import { lastMainTurn, lineagesOf } from "../lineages.ts";
import { OpenFaults } from "../open-faults.ts";
import { gradeSoFar } from "../session-grade.ts";
import {
  type Dialect,
  type GatewayAnswer,
  GatewayError,
  type GatewayRequest,
  type SampledItems,
  sessionEnded,
} from "../request.ts";
import { endedEpisode } from "../session-episode.ts";
import { spentLimit } from "../session-room.ts";
import type { SessionSettings } from "../session-settings.ts";
import type { SessionCall, SessionCounters } from "../session-call.ts";
import { Deltas } from "../streaming.ts";
import { UnusedFields, unusedNames } from "../unused-fields.ts";
import { conversationTo, ForwardedRecord, type ForwardedTurn, type PlacedRequest } from "./forwarded-record.ts";
import { isWireDialect } from "./forwarded-request.ts";
import {
  type BegunCall,
  type CallAnswer,
  type ForwardedReply,
  type ForwardingSession,
  forwardRequest,
  type ProgramRequest,
} from "./forward-request.ts";

export type ForwardedParts = {
  /**
   * The API model; `null` if the program calls a model of its own, and any call to the gateway is
   * refused.
   */
  readonly model: ApiModel | null;
  /** Sampling parameters that replace the programs'. */
  readonly sampling: ChatSampling;
  /** Records an event. Resolves once the event has left the process. */
  readonly record: (event: EpisodeEvent) => Promise<void>;
  readonly clock: Clock;
};

export class ForwardedSession implements ForwardingSession {
  readonly settings: SessionSettings;
  readonly #parts: ForwardedParts;
  readonly #record: ForwardedRecord;
  readonly #events: EpisodeEvent[] = [];
  readonly #controller = new AbortController();
  readonly #faults = new OpenFaults();
  /** Failed attempts of unanswered calls, recorded with the next answered call. */
  #failedAttempts: BegunCall["attempts"] = [];
  readonly #unused = new UnusedFields();
  #calls = 0;
  #running = 0;
  #outputTokens = 0;
  #extended = 0;
  #usedAt: number;
  #isEnded = false;
  #ended: Promise<Episode> | null = null;
  /**
   * Number of times that the program began again: a call of an earlier generation is not recorded.
   */
  #generation = 0;
  #grade: Grade | null = null;
  /** Total duration of all calls of the model so far, in milliseconds. */
  modelMs = 0;
  /**
   * The limit that refused the most recent call; `null` if none did, or if a later call was
   * answered.
   */
  limit: "max_turns" | "max_tokens" | "context_length" | null = null;

  constructor(settings: SessionSettings, parts: ForwardedParts) {
    this.settings = settings;
    this.#parts = parts;
    this.#record = new ForwardedRecord(deriveSeed(0, settings.id).toString(16).padStart(8, "0"));
    this.#usedAt = parts.clock.now();
  }

  /** Earlier answers, for dialects that refer to them. */
  get items(): SampledItems {
    return this.#record;
  }

  get counters(): SessionCounters {
    const branched = this.#record.turns.length - this.#extended;
    return {
      calls: this.#calls,
      replayed: 0,
      extended: this.#extended,
      reencoded: 0,
      branched: branched <= 1 ? {} : { "another-conversation": branched - 1 },
      ...this.#unused.counters,
    };
  }

  get turns(): number {
    return this.#record.turns.length;
  }

  /** Number of calls in flight. */
  get running(): number {
    return this.#running;
  }

  /**
   * Time when the last call ended, in milliseconds of the clock; the current time while a call is
   * in flight.
   */
  get usedAt(): number {
    return this.#running > 0 ? this.#parts.clock.now() : this.#usedAt;
  }

  get reward(): number | null {
    return this.#grade?.reward ?? null;
  }

  /**
   * The first call that failed because of the model and from which the program has not recovered.
   */
  get fault(): Failure | null {
    return this.#faults.first;
  }

  get retries(): boolean {
    return this.fault === null;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Records the settings with which the session was opened. */
  async open(session: JsonObject): Promise<void> {
    const { id: episodeId, task, seed } = this.settings;
    await Promise.all([
      this.add({ type: "episode-start", episodeId, taskId: task.id, seed }),
      this.add({ type: "session", session }),
    ]);
  }

  /**
   * Restores the events of an earlier process, before the first call. An answer without its
   * exchange was never sent.
   */
  restore(events: readonly EpisodeEvent[]): void {
    let isOpened = false;
    for (const event of events) {
      if (event.type === "delivered") {
        const turn = this.#record.turns[event.turn];
        if (turn !== undefined) turn.isDelivered = true;
        continue;
      }
      if (event.type !== "lineages") this.#events.push(event);
      if (event.type === "grade") this.#grade = event.grade;
      if (event.type === "session" && isOpened) this.#forget();
      isOpened ||= event.type === "session";
      if (event.type === "agent-reply") this.#outputTokens += event.usage.outputTokens;
      if (event.type !== "exchange") continue;
      const { call, messages, action, response } = event;
      const basis = event.basis === null ? null : (this.#record.turns[event.basis] ?? null);
      const known = event.tools === null && basis !== null ? basis.tools : null;
      const tools = known ?? this.#record.toolSet((event.tools ?? []).map(toolFromDefinition));
      this.#calls = Math.max(this.#calls, call + 1);
      this.#record.add({ call, basis, messages, tools, action, response }, null);
    }
  }

  /**
   * Forwards a request unchanged. Resolves to `null` if the API does not speak its format. Rejects
   * with a `GatewayError`.
   */
  async forward(dialect: Dialect, request: ProgramRequest): Promise<ForwardedReply | null> {
    const model = this.#model();
    if (!isWireDialect(dialect) || !model.supports(dialect.name)) return null;
    const { sampling } = this.#parts;
    const seedOf = (call: number): number | null => this.#seedOf(call);
    return forwardRequest(this, { model, dialect, request, sampling, seedOf, record: this.#record });
  }

  /**
   * Completes a chat for a request that its dialect has parsed. Throws a `GatewayError` for a
   * request that cannot be answered.
   */
  begin(request: GatewayRequest, call: Pick<BegunCall, "dialect" | "digest" | "client">): SessionCall {
    const model = this.#model();
    if (request.promptTokens !== null) {
      const message = "Cannot forward the request: a prompt of token ids means nothing to this API; send messages.";
      throw new GatewayError("unsupported", message, { param: request.promptField });
    }
    const begun = this.beginCall(call);
    const placed = this.#record.place(request);
    const deltas = new Deltas();
    const told: { turn: ForwardedTurn | null } = { turn: null };
    const answer = this.#complete({ model, request, placed, begun })
      .then((done) => {
        told.turn = done.turn;
        const { reasoning, content } = done.answer.action;
        if (reasoning !== null && reasoning !== "") deltas.push({ type: "reasoning", text: reasoning });
        if (content !== "") deltas.push({ type: "content", text: content });
        return done.answer;
      })
      .finally(() => {
        this.endCall();
        deltas.end();
      });
    answer.catch(() => undefined);
    const head = { call: begun.number, idPrefix: this.#record.idPrefix, createdAt: seconds() };
    return { head, promptTokens: 0, deltas, answer, delivered: () => this.delivered(told.turn), left: () => undefined };
  }

  beginCall(call: Pick<BegunCall, "dialect" | "digest" | "client">): BegunCall {
    if (this.#isEnded) throw sessionEnded(this.settings.id);
    const { turns } = this.#record;
    const use = { running: this.#running, answered: turns.length, sampledTokens: this.#outputTokens };
    const spent = spentLimit(this.settings, use);
    if (spent !== null) {
      this.limit = spent.limit;
      throw spent.error;
    }
    this.#running++;
    const startedAt = this.#parts.clock.now();
    return {
      ...call,
      number: this.#calls++,
      startedAt,
      attempts: [],
      ignored: [],
      generation: this.#generation,
    };
  }

  endCall(): void {
    this.#running--;
    this.#usedAt = this.#parts.clock.now();
  }

  dropCall(): void {
    this.#running--;
    this.#calls--;
  }

  async answered(begun: BegunCall, placed: PlacedRequest, answer: CallAnswer): Promise<ForwardedTurn> {
    if (this.#isEnded || begun.generation !== this.#generation) throw sessionEnded(this.settings.id);
    const { basis, messages, tools, response } = placed;
    const { number: call, dialect, digest, client, startedAt } = begun;
    const { action, names } = answer;
    const turn = this.#record.add({ call, basis, messages, tools, action, response }, names);
    if (basis !== null) {
      this.#extended++;
      // A program that continues from an answer has received it.
      basis.isDelivered = true;
    }
    this.#outputTokens += answer.usage.outputTokens;
    this.#faults.answered(placed.all);
    this.limit = null;
    const attempts = [...this.#failedAttempts, ...begun.attempts];
    this.#failedAttempts = [];
    const usage = { ...answer.usage, modelCalls: answer.usage.modelCalls + attempts.length };
    const durationMs = this.#parts.clock.now() - startedAt;
    this.modelMs += durationMs;
    try {
      await Promise.all([
        this.add({ type: "agent-reply", turn: turn.index, attempts, usage, durationMs }),
        this.add({
          type: "exchange",
          turn: turn.index,
          call,
          dialect,
          digest,
          messages,
          action,
          response,
          ignored: unusedNames(begun.ignored),
          basis: basis?.index ?? null,
          continues: null,
          tools: basis !== null && basis.tools === tools ? null : tools.tools.map(({ definition }) => definition),
          ...(client && { client }),
        }),
      ]);
    } catch (error) {
      throw new GatewayError("internal", attribute(error, "store").failure.message, { cause: error });
    }
    return turn;
  }

  failed(error: unknown, placed: PlacedRequest): GatewayError {
    if (this.#isEnded) return sessionEnded(this.settings.id);
    if (error instanceof GatewayError) return error;
    const { failure } = attribute(error, "engine");
    const { code, message } = failure;
    this.#failedAttempts.push({ failure, waitedMs: 0 });
    if (code === "context-length") {
      this.limit = "context_length";
      return new GatewayError("context-length", message, { cause: error });
    }
    this.#faults.add(failure, placed.all);
    // The call has used up its retries: without a retry delay, clients do not retry it.
    switch (code) {
      case "unauthorized":
        return new GatewayError("unauthorized", message, { cause: error });
      case "bad-request":
        return new GatewayError("invalid-request", message, { cause: error });
      case "rate-limited":
        return new GatewayError("rate-limited", message, { cause: error });
      default:
        return new GatewayError(failure.retryable ? "overloaded" : "engine-failed", message, { cause: error });
    }
  }

  delivered(turn: ForwardedTurn | null): void {
    if (turn === null || turn.isDelivered) return;
    turn.isDelivered = true;
    // This event exists only in the journal.
    if (!this.#isEnded) this.#parts.record({ type: "delivered", turn: turn.index }).catch(() => undefined);
  }

  /**
   * Restarts the session, because the program begins again: no earlier conversation is continued.
   * `session`: the new settings.
   */
  async reopen(session: JsonObject): Promise<void> {
    const turns = this.#record.turns.map(({ index }) => index);
    this.#forget();
    await Promise.all([this.add({ type: "undelivered", turns }), this.add({ type: "session", session })]);
  }

  /**
   * Records a grade; the last one counts. Throws a `GatewayError` once the session has ended, and
   * for rewards of single turns.
   */
  async grade(given: Grade): Promise<void> {
    if (this.#isEnded) throw sessionEnded(this.settings.id);
    const grade = gradeSoFar(given, { turns: [], ofTurn: () => null });
    this.#grade = grade;
    await this.add({ type: "grade", grade, durationMs: 0 });
  }

  /**
   * Ends the session; a second call returns the same episode. If the model did not answer a call
   * and the program did not recover from it, the episode has failed, even if the program reports
   * success.
   */
  end(stopReason: StopReason, failure: Failure | null = null): Promise<Episode> {
    const fault = stopReason === "session_ended" ? this.fault : null;
    this.#ended ??= fault === null ? this.#end(stopReason, failure) : this.#end("fault", fault);
    return this.#ended;
  }

  /** Records an event. Resolves once the event has left the process. */
  async add(event: EpisodeEvent): Promise<void> {
    this.#events.push(event);
    await this.#parts.record(event);
  }

  async #end(stopReason: StopReason, failure: Failure | null): Promise<Episode> {
    this.#isEnded = true;
    this.#controller.abort(new Error("The session was ended."));
    const unread = this.#record.turns.filter(({ isDelivered, isContinued }) => !isDelivered && !isContinued);
    if (unread.length > 0) await this.add({ type: "undelivered", turns: unread.map(({ index }) => index) });
    const lineages = await takeTurns(lineagesOf(this.#events));
    if (lineages.length > 1) await this.add({ type: "lineages", credit: this.settings.credit, lineages });
    await this.add({ type: "episode-end", stopReason, failure });
    const last = this.#record.turns.at(lastMainTurn(lineages) ?? -1);
    return endedEpisode(this.settings, {
      stopReason,
      failure,
      grade: this.#grade,
      events: this.#events,
      problems: [],
      messages: last === undefined ? [] : conversationTo(last),
      trajectory: { turns: [] },
      historyPolicy: "no-tokens",
    });
  }

  async #complete({
    model,
    request,
    placed,
    begun,
  }: {
    readonly model: ApiModel;
    readonly request: GatewayRequest;
    readonly placed: PlacedRequest;
    readonly begun: BegunCall;
  }): Promise<{ readonly answer: GatewayAnswer; readonly turn: ForwardedTurn }> {
    const { messages, mayCall, tools, model: named } = request;
    const { sampling, unused } = this.#samplingOf(request);
    const constrained = request.constraint?.fields ?? [];
    const ignoredFields = [...request.ignoredFields, ...request.template.names, ...constrained];
    this.#unused.count({ ...request, ignoredFields }, unused);
    begun.ignored.push(...unused, ...ignoredFields);
    const seed = this.#seedOf(begun.number) ?? request.sampling.seed ?? null;
    let told: CallAnswer;
    try {
      const asked = { messages, tools: mayCall ? tools : [], turn: begun.number, seed, model: named, sampling };
      const { action, usage } = await model.reply(asked, {
        signal: this.signal,
        retries: this.retries,
        onRetry: (attempt) => begun.attempts.push(attempt),
      });
      // Its usage already counts the failed attempts.
      told = { action, usage: { ...usage, modelCalls: usage.modelCalls - begun.attempts.length }, names: null };
    } catch (error) {
      throw this.failed(error, placed);
    }
    const { action, usage } = told;
    const turn = await this.answered(begun, placed, told);
    const reason = action.isTerminated ? "stop" : "length";
    return {
      turn,
      answer: {
        call: begun.number,
        idPrefix: this.#record.idPrefix,
        action,
        createdAt: seconds(),
        sampledTokens: new Uint32Array(),
        logprobs: null,
        weightSpans: [],
        finish: { reason, matched: null, raw: null },
        usage: { promptTokens: usage.inputTokens, cachedTokens: null, sampledTokens: usage.outputTokens },
      },
    };
  }

  /** Seed of a call; `null` for the program's own, or none. */
  #seedOf(call: number): number | null {
    const { seed, episode } = this.settings;
    return episode.seedTurns === true ? deriveSeed(seed, "turn", call) : null;
  }

  /** Parameters that not every provider accepts in a chat completion are counted and not sent. */
  #samplingOf({ sampling: said, samplingNames, maxTokens, stop }: GatewayRequest): {
    readonly sampling: ChatSampling;
    readonly unused: readonly string[];
  } {
    const own = this.#parts.sampling;
    const unused = samplingNames.filter((name) => !["temperature", "top_p", "seed"].includes(name));
    const caps = [maxTokens, own.maxNewTokens ?? null].filter((cap) => cap !== null);
    const sampling = {
      ...(said.temperature === undefined ? {} : { temperature: said.temperature }),
      ...(said.topP === undefined ? {} : { topP: said.topP }),
      ...(stop.length === 0 ? {} : { stop }),
      ...own,
      ...(caps.length === 0 ? {} : { maxNewTokens: Math.min(...caps) }),
    };
    return { sampling, unused };
  }

  /** The API model. Throws a `GatewayError` if there is none. */
  #model(): ApiModel {
    const { model } = this.#parts;
    if (model !== null) return model;
    throw new GatewayError(
      "unsupported",
      "Cannot serve the request: this evaluation has no model (--engine none); call your own model, or name one with --agent-model.",
    );
  }

  #forget(): void {
    this.#generation++;
    this.#record.forget();
    this.#faults.clear();
    this.#grade = null;
  }
}

export function seconds(): number {
  return Math.floor(Date.now() / 1000);
}
