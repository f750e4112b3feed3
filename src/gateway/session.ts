// One session: the calls of one outside program, as turns of one episode. Each is sampled, recorded, and then answered from the
// record. Prompts come from `record.ts`, wire formats are in `dialects/`, and which sessions there are is in `sessions.ts`.
//
//   call ─┬─ same digest, in flight or not delivered ─► the same answer
//         └─ prompt out of the record ─► sampled ─► turn and exchange recorded ─► answered ─► delivered

import {
  attribute,
  AttributedError,
  type Attempt,
  type Engine,
  type Episode,
  type EpisodeEvent,
  type Failure,
  type Grade,
  outcomeOf,
  type ParsedAction,
  type Renderer,
  type SamplingParams,
  type StopReason,
  type Task,
  toolFromDefinition,
} from "../core/index.ts";
import type { Clock } from "../lib/clock.ts";
import { DeadlineRunner } from "../lib/deadline.ts";
import { deriveSeed } from "../lib/random.ts";
import type { JsonObject } from "../python-semantics/json/index.ts";
import { type EpisodeOptions, resolveOptions, sampleTurn } from "../rollout/index.ts";
import { makeTurn } from "../trajectories/index.ts";
import { Deltas, answerReader, type ReadingOptions } from "./streaming.ts";
import { gradeAtEnd, gradeSoFar, type Prompt, type PromptCounters, SessionRecord } from "./record.ts";
import { conversationOf, type SampledTurn } from "./history.ts";
import {
  type DialectName,
  type GatewayAnswer,
  GatewayError,
  type GatewayRequest,
  type SampledItems,
} from "./request.ts";

/** What is done about sampling parameters that clients set; see `GatewayOptions`. */
export type ClientSampling = "ignore" | "obey" | "refuse";

export type SessionParts = {
  readonly engine: Engine;
  readonly renderer: Renderer;
  /** Resolves once the event has left the process. */
  readonly record: (event: EpisodeEvent) => Promise<void>;
  readonly clock: Clock;
};

export type SessionSettings = {
  readonly id: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly task: Task;
  readonly seed: number;
  readonly sampling: SamplingParams;
  readonly clientSampling: ClientSampling;
  /** "environment": the session's world answers calls of tools that do not exist, so they are calls like every other. */
  readonly unknownTools: "environment" | "loop";
  /** Calls in flight at once, at least 1. */
  readonly maxCalls: number;
  /** As of an episode: limits, retries, deadlines, what to do when the server aborts. */
  readonly episode: Pick<
    EpisodeOptions,
    "limits" | "retry" | "turnTimeoutMs" | "engineAbort" | "requestTag" | "seedTurns"
  >;
};

/** How prompts came about, and what was not done as a client said. */
export type SessionCounters = Readonly<PromptCounters> & {
  readonly calls: number;
  /** Calls that were answered from the record, because their client had not had the answer. */
  readonly replayed: number;
  /** Sampling parameters of clients that were not used, by name. */
  readonly ignoredSampling: Readonly<Record<string, number>>;
  readonly ignoredTools: number;
};

/** A call whose prompt is rendered. */
export type SessionCall = {
  readonly head: Pick<GatewayAnswer, "call" | "idPrefix" | "createdAt">;
  readonly promptTokens: number;
  /** What is known of the answer before its end. */
  readonly deltas: Deltas;
  /** Resolves once the turn is recorded. Rejects with a `GatewayError`. */
  readonly answer: Promise<GatewayAnswer>;
  /** To be called once the whole answer has left. */
  readonly delivered: () => void;
};

type OpenCall = { readonly call: SessionCall; turn: SampledTurn | null };

/** What is sampled for a request. */
type RunningCall = {
  readonly request: GatewayRequest;
  readonly number: number;
  readonly dialect: DialectName;
  readonly digest: string;
  readonly prompt: Prompt;
  readonly sampling: SamplingParams;
  readonly deltas: Deltas;
};

export class Session {
  readonly settings: SessionSettings;
  readonly #parts: SessionParts;
  readonly #record: SessionRecord;
  readonly #events: EpisodeEvent[] = [];
  /** Calls in flight, and those whose answers were not delivered. */
  readonly #byDigest = new Map<string, OpenCall>();
  readonly #controller = new AbortController();
  /** Of every call, but for its sampling. */
  readonly #options: ReturnType<typeof resolveOptions>;
  readonly #ignoredSampling: Record<string, number> = {};
  #ignoredTools = 0;
  #calls = 0;
  #replayed = 0;
  #running = 0;
  #usedAt: number;
  #isEnded = false;
  #ended: Promise<Episode> | null = null;
  /** How often the program began again: a call of an earlier time is not recorded. */
  #generation = 0;
  #grade: Grade | null = null;
  /** The limit at which its last call was refused, for readers alone; `null`: none was, or another was served since. */
  limit: "max_turns" | "max_tokens" | "context_length" | null = null;

  constructor(settings: SessionSettings, parts: SessionParts) {
    this.settings = settings;
    this.#parts = parts;
    this.#record = new SessionRecord(parts.renderer, deriveSeed(0, settings.id).toString(16).padStart(8, "0"));
    this.#usedAt = parts.clock.now();
    const { id, groupId, seed, episode } = settings;
    this.#options = resolveOptions(id, {
      ...{ ...episode, episodeId: id, groupId, seed, clock: parts.clock, signal: this.#controller.signal },
      limits: { maxTurns: Number.MAX_SAFE_INTEGER, ...episode.limits },
    });
  }

  /** What earlier answers said, for dialects that refer to them. */
  get items(): SampledItems {
    return this.#record;
  }

  get counters(): SessionCounters {
    return {
      ...this.#record.counters,
      ...{ calls: this.#calls, replayed: this.#replayed, ignoredTools: this.#ignoredTools },
      ignoredSampling: this.#ignoredSampling,
    };
  }

  get turns(): number {
    return this.#record.turns.length;
  }

  /** Calls in flight. */
  get running(): number {
    return this.#running;
  }

  /** When a call ended last, in milliseconds of the clock; now, while one is in flight. */
  get usedAt(): number {
    return this.#running > 0 ? this.#parts.clock.now() : this.#usedAt;
  }

  get reward(): number | null {
    return this.#grade?.reward ?? null;
  }

  /** Records how the session was opened. */
  async open(session: JsonObject): Promise<void> {
    const { id: episodeId, task, seed } = this.settings;
    await Promise.all([
      this.#emit({ type: "episode-start", episodeId, taskId: task.id, seed }),
      this.#emit({ type: "session", session }),
    ]);
  }

  /** Takes up what an earlier process recorded, before the first call. A turn without its exchange was never answered. */
  restore(events: readonly EpisodeEvent[]): void {
    const cached = new Map<number, number | null>();
    let isOpened = false;
    for (const event of events) {
      if (event.type === "delivered") {
        const sampled = this.#record.ofTurn(event.turn);
        if (sampled !== null) sampled.isDelivered = true;
        continue;
      }
      this.#events.push(event);
      if (event.type === "grade") this.#grade = event.grade;
      // A session that is opened again begins again.
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
      this.#remember(digest, { head: answer, promptTokens, answer: Promise.resolve(answer), deltas }).turn = sampled;
    }
    for (const [digest, { turn }] of this.#byDigest) {
      // What is continued was delivered.
      if (turn?.isContinued === true || turn?.isDelivered === true) this.#byDigest.delete(digest);
    }
  }

  /** Tokens of the prompt that this request would have. Throws a `GatewayError` for one that cannot be rendered. */
  countTokens(request: GatewayRequest): number {
    return this.#record.countTokens(request);
  }

  /** Renders the prompt of a request, and begins to sample. Throws a `GatewayError` for what cannot be sampled. */
  begin(
    request: GatewayRequest,
    { dialect, digest }: { readonly dialect: DialectName; readonly digest: string },
  ): SessionCall {
    if (this.#isEnded) throw endedError(this.settings.id);
    const known = this.#byDigest.get(digest);
    if (known !== undefined) {
      this.#replayed++;
      return known.call;
    }
    this.#checkRoom();
    const sampling = this.#samplingOf(request);
    const prompt = this.#record.prompt(request);
    const number = this.#calls++;
    this.#ignoredTools += request.ignoredTools;
    this.#running++;
    const deltas = new Deltas();
    const answer = this.#sample({ request, number, dialect, digest, prompt, sampling, deltas }).finally(() => {
      this.#running--;
      this.#usedAt = this.#parts.clock.now();
    });
    const head = { call: number, idPrefix: this.#record.idPrefix, createdAt: seconds() };
    const open = this.#remember(digest, { head, promptTokens: prompt.buffer.length, answer, deltas });
    answer
      .then(
        () => (open.turn = this.#record.ofCall(number)),
        () => this.#byDigest.delete(digest),
      )
      .finally(() => deltas.end())
      .catch(() => undefined);
    return open.call;
  }

  /** The program begins again: nothing of what was sampled so far is trained. `session`: how it is opened now. */
  async reopen(session: JsonObject): Promise<void> {
    const turns = this.#record.turns.map(({ index }) => index);
    this.#forget();
    await Promise.all([this.#emit({ type: "undelivered", turns }), this.#emit({ type: "session", session })]);
  }

  /** Records a grade; the last one counts. Throws a `GatewayError` once the session has ended, and as `gradeSoFar` does. */
  async grade(given: Grade): Promise<void> {
    if (this.#isEnded) throw endedError(this.settings.id);
    const grade = gradeSoFar(given, this.#record);
    this.#grade = grade;
    await this.#emit({ type: "grade", grade, durationMs: 0 });
  }

  /** Ends the session: calls in flight are cancelled, and nothing more is sampled. A second call gets the same episode. */
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
    await this.#emit({ type: "episode-end", stopReason, failure });
    for (const { buffer } of this.#record.sampled) buffer?.close();
    return this.#episode(stopReason, failure);
  }

  #forget(): void {
    this.#generation++;
    this.#record.forget();
    this.#byDigest.clear();
    this.#grade = null;
  }

  #episode(stopReason: StopReason, failure: Failure | null): Episode {
    const { id, groupId, sampleIndex, task, seed } = this.settings;
    const outcome = outcomeOf(stopReason);
    // An episode that did not come to its end is not graded, whatever was said of it on the way.
    const grade =
      outcome === "completed" || outcome === "truncated"
        ? gradeAtEnd(this.#grade, { trajectory: { turns: this.#record.turns }, events: this.#events })
        : null;
    const last = this.#record.sampled.at(-1);
    return {
      ...{ id, groupId, sampleIndex, task, seed, outcome, stopReason, failure, grade },
      reward: grade?.reward ?? null,
      info: grade?.info ?? new Map(),
      messages: last === undefined ? [] : [...conversationOf(last)],
      trajectory: { turns: this.#record.turns },
      historyPolicy: this.#parts.renderer.historyPolicy,
      events: this.#events,
      problems: this.#record.problems,
    };
  }

  #checkRoom(): void {
    const { maxCalls, episode, id } = this.settings;
    const { maxTurns = Infinity, maxSampledTokens = null } = episode.limits ?? {};
    if (this.#running >= maxCalls) {
      throw new GatewayError(
        "rate-limited",
        `Cannot serve the request: session "${id}" has ${this.#running} calls in flight, the most that it may have.`,
        { retryAfterMs: 1000 },
      );
    }
    const spent =
      this.#record.sampled.length + this.#running >= maxTurns
        ? `${maxTurns} turns`
        : maxSampledTokens !== null && this.#record.sampledTokens >= maxSampledTokens
          ? `${maxSampledTokens} tokens`
          : null;
    if (spent === null) return;
    this.limit = spent.endsWith("turns") ? "max_turns" : "max_tokens";
    throw new GatewayError("session-ended", `Cannot serve the request: session "${id}" has had its ${spent}.`);
  }

  /** Sampling belongs to the session: rows sampled otherwise would not be the policy's. */
  #samplingOf({ sampling: wished, samplingNames, maxTokens, stop }: GatewayRequest): SamplingParams {
    const { sampling, clientSampling, seed } = this.settings;
    if (clientSampling === "refuse" && samplingNames.length > 0) {
      throw new GatewayError(
        "unsupported",
        `Cannot serve the request: it sets ${samplingNames.join(", ")}, and sampling belongs to the session; leave it out.`,
        { param: samplingNames[0] ?? null },
      );
    }
    if (clientSampling === "ignore") {
      for (const name of samplingNames) this.#ignoredSampling[name] = (this.#ignoredSampling[name] ?? 0) + 1;
    }
    const caps = [sampling.maxNewTokens, maxTokens].filter((cap) => cap !== null);
    return {
      ...sampling,
      seed: sampling.seed === null ? null : deriveSeed(sampling.seed, seed, "call", this.#calls),
      ...(clientSampling === "obey" ? wished : {}),
      maxNewTokens: caps.length === 0 ? null : Math.min(...caps),
      ...(stop.length === 0 ? {} : { extra: { ...sampling.extra, stop } }),
    };
  }

  async #sample(call: RunningCall): Promise<GatewayAnswer> {
    const { number, prompt, sampling, request, deltas } = call;
    const { renderer, clock } = this.#parts;
    const generation = this.#generation;
    // A seed that somebody states is used.
    const seedTurns = this.#options.seedTurns && sampling.seed === null;
    const options = { ...this.#options, sampling, seedTurns };
    const { maxSampledTokens } = options.limits;
    const deadlines = new DeadlineRunner({ clock, signal: this.#controller.signal });
    const attempts: Attempt[] = [];
    const start = clock.now();
    for (let discarded = 0; ; discarded++) {
      const { result, next } = await sampleTurn(
        this.#parts.engine,
        {
          // Calls are the turns of the built-in loop, and seeded as they are.
          ...{ prompt: prompt.buffer, stopTokenIds: renderer.stopTokenIds, turn: number, discarded },
          onTokens: request.isStreamed ? answerReader({ renderer, reading: this.#readingOf(call) }, deltas) : null,
          budget: maxSampledTokens === null ? null : Math.max(1, maxSampledTokens - this.#record.sampledTokens),
        },
        { options, deadlines, attempts },
      ).catch((error: unknown) => {
        throw this.#gatewayError(error, prompt.buffer.length);
      });
      if (this.#isEnded || generation !== this.#generation) throw endedError(this.settings.id);
      const turn = makeTurn(result, {
        ...{ index: this.#record.turns.length, parent: prompt.parent, ...prompt.facts },
        observationTokens: prompt.buffer.view(prompt.observedFrom),
      });
      this.#record.addTurn(turn);
      const { usage } = result;
      const recording = this.#emit({ type: "turn", turn, attempts, usage, durationMs: clock.now() - start });
      if (next.type === "read") return this.#read(call, { turn, recording, cachedTokens: usage.cachedTokens });
      await recorded(recording);
      // What was told of the discarded tokens cannot be taken back: the client requests the turn again.
      if (next.type === "again" && deltas.list.length === 0) continue;
      const message = "Cannot finish the turn: the engine aborted it; try again.";
      throw new GatewayError("overloaded", message, { retryAfterMs: 1000 });
    }
  }

  /** Reads a sampled turn. Resolves once all of it is recorded: an answer that is not must not leave. */
  async #read(
    running: RunningCall,
    acted: {
      readonly turn: SampledTurn["turn"];
      readonly recording: Promise<void>;
      readonly cachedTokens: number | null;
    },
  ): Promise<GatewayAnswer> {
    const { turn, recording, cachedTokens } = acted;
    const { number: call, dialect, digest, prompt } = running;
    const { basis, messages, tools, continues } = prompt;
    const { response } = running.request;
    const parsed = this.#parts.renderer.parseAction(turn.sampledTokens, this.#readingOf(running));
    // At a stop string the server stops without a stop token.
    const action: ParsedAction = turn.finish.reason === "stop" ? { ...parsed, isTerminated: true } : parsed;
    prompt.buffer.append(turn.sampledTokens);
    const sampled = this.#record.addSampled({ ...prompt, turn, call, action, response }, prompt.buffer);
    const exchange = this.#emit({
      ...{ type: "exchange", turn: turn.index, call, dialect, digest, messages, action, continues, response },
      basis: basis?.turn.index ?? null,
      tools: basis !== null && basis.tools === tools ? null : tools.tools.map(({ definition }) => definition),
    });
    await recorded(Promise.all([recording, exchange]));
    this.limit = null;
    return this.#answerOf(sampled, cachedTokens);
  }

  /** Options for reading the answer to a call; where the client allows no calls, it holds none. */
  #readingOf({ number, request: { mayCall }, prompt: { tools } }: RunningCall): ReadingOptions {
    const { unknownTools } = this.settings;
    return { turn: number, ...(mayCall ? { tools: tools.tools, unknownTools } : { tools: [] }) };
  }

  #answerOf({ call, action, turn, length }: SampledTurn, cachedTokens: number | null): GatewayAnswer {
    const count = turn.sampledTokens.length;
    const promptTokens = length - count;
    return {
      ...{ call, idPrefix: this.#record.idPrefix, action, finish: turn.finish, createdAt: seconds() },
      ...{ sampledTokens: turn.sampledTokens, logprobs: turn.logprobs },
      usage: { promptTokens, cachedTokens, sampledTokens: count },
    };
  }

  #remember(digest: string, call: Omit<SessionCall, "delivered">): OpenCall {
    const delivered = (): void => {
      this.#byDigest.delete(digest);
      if (open.turn === null || open.turn.isDelivered) return;
      open.turn.isDelivered = true;
      // In the journal alone; a gateway that dies before it is there delivers once more.
      if (!this.#isEnded) this.#parts.record({ type: "delivered", turn: open.turn.turn.index }).catch(() => undefined);
    };
    const open: OpenCall = { turn: null, call: { ...call, delivered } };
    this.#byDigest.set(digest, open);
    return open;
  }

  #gatewayError(error: unknown, promptTokens: number): GatewayError {
    if (this.#isEnded) return endedError(this.settings.id);
    const { code, message, retryable } = attribute(error, "engine").failure;
    if (code === "context-length") {
      this.limit = "context_length";
      const most = this.settings.episode.limits?.maxContextTokens ?? null;
      const context = most === null ? null : { tokens: promptTokens, most };
      return new GatewayError("context-length", message, { context, cause: error });
    }
    if (!retryable) return new GatewayError("engine-failed", message, { cause: error });
    const afterMs = error instanceof AttributedError ? error.retryAfterMs : null;
    return new GatewayError("overloaded", message, { retryAfterMs: afterMs ?? 2000, cause: error });
  }

  async #emit(event: EpisodeEvent): Promise<void> {
    this.#events.push(event);
    await this.#parts.record(event);
  }
}

async function recorded(recording: Promise<unknown>): Promise<void> {
  try {
    await recording;
  } catch (error) {
    throw new GatewayError("internal", attribute(error, "store").failure.message, { cause: error });
  }
}

function endedError(id: string): GatewayError {
  return new GatewayError("session-ended", `Cannot serve the request: session "${id}" has ended.`);
}

function seconds(): number {
  return Math.floor(Date.now() / 1000);
}
