// One session: the calls of one external program, as turns of one episode. Each call is sampled,
// recorded, and then answered from the record. Prompts are built in `record.ts`, wire formats are
// in `dialects/`, and `sessions.ts` manages all sessions.
//
//   call ─┬─ an existing answer (see `open-calls.ts`) ─► the same answer
//         └─ prompt from the record ─► sampled ─► turn, exchange recorded ─► answered ─► delivered

import {
  attribute,
  type Attempt,
  type Episode,
  type EpisodeEvent,
  type Failure,
  type Grade,
  type ParsedAction,
  type StopReason,
  toolFromDefinition,
} from "../core/index.ts";
import { DeadlineRunner } from "../lib/deadline.ts";
import { deriveSeed } from "../lib/random.ts";
import { type Steps, takeTurns } from "../lib/steps.ts";
import type { JsonObject } from "../python-semantics/json/index.ts";
import { resolveOptions, sampleTurn } from "../rollout/index.ts";
import { makeTurn } from "../trajectories/index.ts";
import { lastMainTurn, lineagesOf } from "./lineages.ts";
import { OpenFaults } from "./open-faults.ts";
import { allowsCalls, constrainedTokens, constraintOfCall } from "./session-constraint.ts";
import { endedEpisode } from "./session-episode.ts";
import { engineError, recorded } from "./session-errors.ts";
import { spentLimit } from "./session-room.ts";
import { samplingOfCall } from "./session-sampling.ts";
import type { CallAnswer, RunningCall, SessionCall, SessionCounters, SessionParts } from "./session-call.ts";
import { answerOf, seconds } from "./session-call.ts";
import type { SessionSettings } from "./session-settings.ts";
import { type ReadingOptions, shownAction, shownFinish } from "./shown-action.ts";
import { ClientTemplates } from "./session-template.ts";
import { stopStringsOf } from "./stop-strings.ts";
import { Deltas, answerReader } from "./streaming.ts";
import { UnusedFields, unusedNames } from "./unused-fields.ts";
import { type OpenCall, OpenCalls } from "./open-calls.ts";
import { SessionRecord } from "./record.ts";
import { gradeSoFar } from "./session-grade.ts";
import { conversationOf, type SampledTurn } from "./history.ts";
import { type GatewayAnswer, GatewayError, type GatewayRequest, type SampledItems, sessionEnded } from "./request.ts";

export class Session {
  readonly settings: SessionSettings;
  readonly #parts: SessionParts;
  readonly #templates: ClientTemplates;
  readonly #record: SessionRecord;
  readonly #events: EpisodeEvent[] = [];
  readonly #open = new OpenCalls<CallAnswer>();
  /** Calls whose prompts are being rendered, by the digests of their requests. */
  readonly #beginning = new Map<string, Promise<SessionCall>>();
  readonly #controller = new AbortController();
  /** Options of every call, except its sampling. */
  readonly #options: ReturnType<typeof resolveOptions>;
  readonly #unused = new UnusedFields();
  #calls = 0;
  #replayed = 0;
  #running = 0;
  #usedAt: number;
  #isEnded = false;
  #ended: Promise<Episode> | null = null;
  /**
   * Number of times that the program began again: calls of an earlier generation are not recorded.
   */
  #generation = 0;
  #grade: Grade | null = null;
  readonly #faults = new OpenFaults();
  /** Total duration of all calls of the engine so far, in milliseconds. */
  modelMs = 0;
  /**
   * The limit that refused the most recent call, only for readers; `null` if none did, or if a
   * later call was served.
   */
  limit: "max_turns" | "max_tokens" | "context_length" | null = null;

  constructor(settings: SessionSettings, parts: SessionParts) {
    this.settings = settings;
    this.#parts = parts;
    this.#templates = new ClientTemplates(parts.renderer, settings.clientTemplate);
    this.#record = new SessionRecord(parts.renderer, deriveSeed(0, settings.id).toString(16).padStart(8, "0"));
    this.#usedAt = parts.clock.now();
    const { id, groupId, seed, episode } = settings;
    this.#options = resolveOptions(id, {
      ...episode,
      episodeId: id,
      groupId,
      seed,
      clock: parts.clock,
      signal: this.#controller.signal,
      limits: { maxTurns: Number.MAX_SAFE_INTEGER, ...episode.limits },
    });
  }

  /** Items of earlier answers, for dialects that refer to them. */
  get items(): SampledItems {
    return this.#record;
  }

  get counters(): SessionCounters {
    return {
      ...this.#record.counters,
      calls: this.#calls,
      replayed: this.#replayed,
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
   * The first call that failed because of the engine and from which the program has not recovered.
   */
  get fault(): Failure | null {
    return this.#faults.first;
  }

  /** Records an event in addition to the calls. */
  add(event: Extract<EpisodeEvent, { readonly type: "program" }>): Promise<void> {
    return this.#emit(event);
  }

  /** Records the settings with which the session was opened. */
  async open(session: JsonObject): Promise<void> {
    const { id: episodeId, task, seed } = this.settings;
    await Promise.all([
      this.#emit({ type: "episode-start", episodeId, taskId: task.id, seed }),
      this.#emit({ type: "session", session }),
    ]);
  }

  /**
   * Restores the events of an earlier process, before the first call. A turn without its exchange
   * was never answered.
   */
  restore(events: readonly EpisodeEvent[]): void {
    const cached = new Map<number, number | null>();
    let isOpened = false;
    for (const event of events) {
      if (event.type === "delivered") {
        const sampled = this.#record.ofTurn(event.turn);
        if (sampled !== null) sampled.isDelivered = true;
        continue;
      }
      if (event.type !== "lineages") this.#events.push(event);
      if (event.type === "grade") this.#grade = event.grade;
      // A second opening means that the program began again.
      if (event.type === "session" && isOpened) this.#forget();
      isOpened ||= event.type === "session";
      if (event.type === "turn") {
        this.#record.addTurn(event.turn);
        cached.set(event.turn.index, event.usage.cachedTokens);
      }
      if (event.type !== "exchange") continue;
      const { call, messages, action, response, digest } = event;
      this.#calls = Math.max(this.#calls, call + 1);
      const basis = event.basis === null ? null : this.#record.ofTurn(event.basis);
      const tools =
        event.tools === null && basis !== null
          ? basis.tools
          : this.#record.toolSet((event.tools ?? []).map((definition) => toolFromDefinition(definition)));
      const rendered = this.#record.rendered(basis, messages, tools);
      const turn = this.#record.turns[event.turn]!;
      const sampled = this.#record.addSampled({ turn, call, basis, messages, rendered, tools, action, response }, null);
      const answer = this.#answerOf(sampled, cached.get(event.turn) ?? null);
      const { promptTokens } = answer.usage;
      const deltas = new Deltas();
      deltas.end();
      this.#open.add(digest, { head: answer, promptTokens, answer: Promise.resolve(answer), deltas }).turn = sampled;
    }
  }

  /**
   * Number of tokens of the prompt that this request would have. Throws a `GatewayError` for a
   * request that cannot be rendered.
   */
  countTokens(request: GatewayRequest): Steps<number> {
    return this.#record.countTokens(request);
  }

  /**
   * Renders the prompt of a request, and starts to sample. Throws a `GatewayError` for a request
   * that cannot be sampled.
   */
  async begin(request: GatewayRequest, call: Pick<RunningCall, "dialect" | "digest" | "client">): Promise<SessionCall> {
    const { digest } = call;
    // An equal request is rendered only once.
    await this.#beginning.get(digest)?.catch(() => undefined);
    const beginning = this.#begin(request, call).finally(() => this.#beginning.delete(digest));
    this.#beginning.set(digest, beginning);
    return beginning;
  }

  async #begin(
    request: GatewayRequest,
    { dialect, digest, client }: Pick<RunningCall, "dialect" | "digest" | "client">,
  ): Promise<SessionCall> {
    const before = this.#admit(digest);
    if (before !== null) return before;
    const generation = this.#generation;
    const template = this.#templates.of(request);
    const own = { ...this.#parts, ...(template.renderer && { renderer: template.renderer }) };
    const { constraint, unused: unconstrained } = await constraintOfCall(request, own, this.settings.constraints);
    const claim = await takeTurns(this.#record.prompt(request, template.renderer), this.#controller.signal).catch(
      (error: unknown) => {
        throw this.#isEnded ? sessionEnded(this.settings.id) : error;
      },
    );
    // Other calls of the session were served in the meantime.
    if (generation !== this.#generation) throw sessionEnded(this.settings.id);
    const known = this.#admit(digest);
    if (known !== null) return known;
    const number = this.#calls;
    const { sampling, stop, unused: unsampled } = samplingOfCall(request, this.settings, number);
    const unread = [...template.unused, ...unconstrained];
    const unused = [...unsampled, ...unread];
    const prompt = claim();
    this.#calls++;
    this.#unused.count({ ...request, ignoredFields: [...request.ignoredFields, ...unread] }, unsampled);
    this.#running++;
    const deltas = new Deltas();
    const call = { request, number, dialect, digest, client, prompt, sampling, constraint, stop, unused, deltas };
    const answer = this.#sample(call).finally(() => {
      this.#running--;
      this.#usedAt = this.#parts.clock.now();
    });
    const head = { call: number, idPrefix: this.#record.idPrefix, createdAt: seconds() };
    const open = this.#open.add(digest, { head, promptTokens: prompt.buffer.length, answer, deltas });
    answer
      .then(
        () => (open.turn = this.#record.ofCall(number)),
        () => this.#open.remove(open),
      )
      .finally(() => deltas.end())
      .catch(() => undefined);
    return this.#readBy(open);
  }

  /**
   * An existing answer to this exact request; `null` if it must be sampled. Throws a `GatewayError`
   * if it cannot be.
   */
  #admit(digest: string): SessionCall | null {
    if (this.#isEnded) throw sessionEnded(this.settings.id);
    const known = this.#open.find(digest);
    if (known === null) {
      this.#checkRoom();
      return null;
    }
    this.#replayed++;
    return this.#readBy(known);
  }

  /**
   * Restarts the session, because the program begins again: earlier samples are not trained.
   * `session`: the new settings.
   */
  async reopen(session: JsonObject): Promise<void> {
    const turns = this.#record.turns.map(({ index }) => index);
    this.#forget();
    await Promise.all([this.#emit({ type: "undelivered", turns }), this.#emit({ type: "session", session })]);
  }

  /**
   * Records a grade; the last one counts. Throws a `GatewayError` once the session has ended, and
   * like `gradeSoFar`.
   */
  async grade(given: Grade): Promise<void> {
    if (this.#isEnded) throw sessionEnded(this.settings.id);
    const grade = gradeSoFar(given, this.#record);
    this.#grade = grade;
    await this.#emit({ type: "grade", grade, durationMs: 0 });
  }

  /**
   * Ends the session: calls in flight are cancelled, and nothing more is sampled. A second call
   * returns the same episode.
   */
  end(stopReason: StopReason, failure: Failure | null = null): Promise<Episode> {
    return (this.#ended ??= this.#end(stopReason, failure));
  }

  async #end(stopReason: StopReason, failure: Failure | null): Promise<Episode> {
    this.#isEnded = true;
    this.#controller.abort(new Error("The session was ended."));
    const unread = this.#record.turns.filter(({ index }) => {
      const sampled = this.#record.ofTurn(index);
      return sampled === null || (!sampled.isDelivered && !sampled.isContinued);
    });
    if (unread.length > 0) await this.#emit({ type: "undelivered", turns: unread.map(({ index }) => index) });
    const lineages = await takeTurns(lineagesOf(this.#events));
    if (lineages.length > 1) await this.#emit({ type: "lineages", credit: this.settings.credit, lineages });
    await this.#emit({ type: "episode-end", stopReason, failure });
    for (const { buffer } of this.#record.sampled) buffer?.close();
    const last = this.#record.ofTurn(lastMainTurn(lineages) ?? -1) ?? this.#record.sampled.at(-1);
    return endedEpisode(this.settings, {
      stopReason,
      failure,
      grade: this.#grade,
      events: this.#events,
      problems: this.#record.problems,
      messages: last === undefined ? [] : [...conversationOf(last)],
      trajectory: { turns: this.#record.turns },
      historyPolicy: this.#parts.renderer.historyPolicy,
    });
  }

  #forget(): void {
    this.#generation++;
    this.#record.forget();
    this.#open.clear();
    this.#faults.clear();
    this.#grade = null;
  }

  #checkRoom(): void {
    const { sampled, sampledTokens } = this.#record;
    const spent = spentLimit(this.settings, { running: this.#running, answered: sampled.length, sampledTokens });
    if (spent === null) return;
    this.limit = spent.limit;
    throw spent.error;
  }

  async #sample(call: RunningCall): Promise<GatewayAnswer> {
    const { number, prompt, sampling, constraint, request, stop, deltas } = call;
    const { clock } = this.#parts;
    const renderer = prompt.tools.renderer ?? this.#parts.renderer;
    const generation = this.#generation;
    const { loss } = this.settings.constraints;
    // An explicit seed takes precedence.
    const seedTurns = this.#options.seedTurns && sampling.seed === null;
    const options = { ...this.#options, sampling, seedTurns };
    const { maxSampledTokens } = options.limits;
    const deadlines = new DeadlineRunner({ clock, signal: this.#controller.signal });
    const attempts: Attempt[] = [];
    const start = clock.now();
    for (let discarded = 0; ; discarded++) {
      const { result, requestIds, next } = await sampleTurn(
        this.#parts.engine,
        {
          // Calls correspond to turns of the built-in loop, and have the same seeds.
          prompt: prompt.buffer,
          stopTokenIds: [...renderer.stopTokenIds, ...request.stopTokenIds],
          turn: number,
          discarded,
          stopStrings: stopStringsOf(stop, renderer),
          ...(constraint === null ? {} : { constraint }),
          onTokens: request.isStreamed
            ? answerReader({ renderer, reading: this.#readingOf(call), stop }, deltas)
            : null,
          budget: maxSampledTokens === null ? null : Math.max(1, maxSampledTokens - this.#record.sampledTokens),
        },
        { options, deadlines, attempts },
      ).catch((error: unknown) => {
        throw this.#gatewayError(error, call);
      });
      if (this.#isEnded || generation !== this.#generation) throw sessionEnded(this.settings.id);
      const finish = next.type === "read" ? shownFinish(result, renderer, stop) : result.finish;
      const facts = next.type === "read" ? this.#record.factsOf(prompt) : prompt.facts;
      const turn = makeTurn(
        { ...result, requestIds, finish, constrained: constrainedTokens(result, constraint, renderer, loss) },
        {
          index: this.#record.turns.length,
          parent: prompt.parent,
          ...facts,
          observationTokens: prompt.buffer.view(prompt.observedFrom),
        },
      );
      this.#record.addTurn(turn);
      const { usage } = result;
      const durationMs = clock.now() - start;
      this.modelMs += durationMs;
      const recording = this.#emit({ type: "turn", turn, attempts, usage, durationMs });
      if (next.type === "read") return this.#read(call, { turn, recording, cachedTokens: usage.cachedTokens });
      await recorded(recording);
      // Deltas of discarded tokens that were already sent cannot be retracted: the client requests
      // the turn again.
      if (next.type === "again" && deltas.list.length === 0) continue;
      const message = "Cannot finish the turn: the engine aborted it; try again.";
      throw new GatewayError("overloaded", message, { retryAfterMs: 1000 });
    }
  }

  /**
   * Parses a sampled turn. Resolves once all of it is recorded; an answer must not be sent before
   * that.
   */
  async #read(
    running: RunningCall,
    acted: {
      readonly turn: SampledTurn["turn"];
      readonly recording: Promise<void>;
      readonly cachedTokens: number | null;
    },
  ): Promise<GatewayAnswer> {
    const { turn, recording, cachedTokens } = acted;
    const { number: call, dialect, digest, client, prompt, stop, unused } = running;
    const { basis, messages, tools, continues } = prompt;
    const { response, maxCalls, ignoredFields } = running.request;
    const parsed = shownAction(turn.sampledTokens, tools.renderer ?? this.#parts.renderer, {
      reading: this.#readingOf(running),
      stop,
      maxCalls,
    });
    // The server stops at a stop string without a stop token.
    const action: ParsedAction = turn.finish.reason === "stop" ? { ...parsed, isTerminated: true } : parsed;
    prompt.buffer.append(turn.sampledTokens);
    const sampled = this.#record.addSampled({ ...prompt, turn, call, action, response }, prompt.buffer);
    const exchange = this.#emit({
      type: "exchange",
      turn: turn.index,
      call,
      dialect,
      digest,
      messages,
      action,
      continues,
      response,
      ignored: unusedNames([...unused, ...ignoredFields]),
      basis: basis?.turn.index ?? null,
      tools: basis !== null && basis.tools === tools ? null : tools.tools.map(({ definition }) => definition),
      ...(client && { client }),
    });
    await recorded(Promise.all([recording, exchange]));
    this.#faults.answered(running.request.messages);
    this.limit = null;
    return this.#answerOf(sampled, cachedTokens);
  }

  /**
   * Options for parsing the answer to a call; if the client allows no calls, the answer has none.
   */
  #readingOf({ number, constraint, request: { mayCall }, prompt: { tools } }: RunningCall): ReadingOptions {
    const { unknownTools } = this.settings;
    return {
      turn: number,
      ...(mayCall && allowsCalls(constraint) ? { tools: tools.tools, unknownTools } : { tools: [] }),
    };
  }

  #answerOf(sampled: SampledTurn, cachedTokens: number | null): GatewayAnswer {
    return answerOf(sampled, { idPrefix: this.#record.idPrefix, cachedTokens });
  }

  /** The same call for one more client. */
  #readBy(open: OpenCall<CallAnswer>): SessionCall {
    open.readers++;
    let isThere = true;
    const left = (): void => {
      if (isThere) open.readers--;
      isThere = false;
    };
    const delivered = (): void => {
      left();
      this.#open.delivered(open);
      if (open.turn === null || open.turn.isDelivered) return;
      open.turn.isDelivered = true;
      // Recorded only in the journal; a gateway that stops before the record is written delivers
      // the answer once more.
      if (!this.#isEnded) this.#parts.record({ type: "delivered", turn: open.turn.turn.index }).catch(() => undefined);
    };
    return { ...open.call, delivered, left };
  }

  #gatewayError(error: unknown, { prompt, request, constraint }: RunningCall): GatewayError {
    if (this.#isEnded) return sessionEnded(this.settings.id);
    const most = this.settings.episode.limits?.maxContextTokens ?? null;
    const constrainedBy = constraint === null ? [] : (request.constraint?.fields ?? []);
    const fault = engineError(error, { tokens: prompt.buffer.length, most, constrainedBy });
    if (fault.code === "context-length") this.limit = "context_length";
    else if (fault.code !== "invalid-request") this.#faults.add(attribute(error, "engine").failure, request.messages);
    return fault;
  }

  async #emit(event: EpisodeEvent): Promise<void> {
    this.#events.push(event);
    await this.#parts.record(event);
  }
}
