// All sessions: opened by a request or by first use, found by their keys, graded, ended, expired;
// and the groups of their episodes. The inside of a session is in `session.ts`. A full group is
// decided.
//
//   opened ─► in use ─┬─ ended by request ► "session_ended", graded by its last reward ─┐
//                     ├─ idle too long ───► graded with a reward, "cancelled" without ──┼─► stored
//                     └─ process stops ───► in the journal; the next process resumes it ┘

import { hash, randomBytes } from "node:crypto";
import type { Episode, EpisodeEvent, Grade, LineageCredit, SamplingParams, StopReason, Task } from "../core/index.ts";
import type { Clock } from "../lib/clock.ts";
import { deriveSeed } from "../lib/random.ts";
import { fromPlain, type JsonObject, toPlain } from "../python-semantics/json/index.ts";
import {
  type EpisodeOptions,
  episodeSamples,
  type ExportSamples,
  type FinishedGroup,
  type GroupPolicy,
  groupRecord,
  reasonToDrop,
  endedOf,
} from "../rollout/index.ts";
import type { EpisodeJournal, RunStore } from "../store/index.ts";
import { GatewayError, sessionEnded } from "./request.ts";
import { EndedSessions } from "./ended-sessions.ts";
import { SessionRecord } from "./record.ts";
import { type OpenGroup, SessionGroups, taskOf } from "./session-groups.ts";
import { sessionName } from "./session-names.ts";
import { makeSession, type ProgramSession, type SessionModel, unopenedSession } from "./program-session.ts";
import type { Session } from "./session.ts";
import type { ConstraintSettings } from "./session-constraint.ts";
import type { ClientSampling } from "./session-sampling.ts";
import type { ClientTemplate } from "./session-template.ts";
import type { ForwardedSession } from "./forward/forwarded-session.ts";
import { answererIn, endWithWorld, openWorld, type SessionWorlds, type WorldAnswer } from "./session-worlds.ts";

export type SessionsParts = {
  readonly answers: SessionModel;
  readonly store: Pick<RunStore, "append" | "appendGroup"> & Pick<EpisodeJournal, "record" | "kept">;
  /** Rows that are stored together with a kept group. */
  readonly exportSamples: ExportSamples;
  /** Worlds of sessions; `null` if they have none. */
  readonly worlds: SessionWorlds | null;
  readonly clock: Clock;
};

export type SessionsOptions = {
  readonly seed: number;
  readonly sampling: SamplingParams;
  readonly clientSampling: ClientSampling;
  readonly clientTemplate: ClientTemplate;
  readonly constraints: ConstraintSettings;
  readonly credit: LineageCredit;
  readonly episode: Pick<EpisodeOptions, "limits" | "retry" | "turnTimeoutMs" | "engineAbort" | "seedTurns">;
  /** Number of sessions in a group, unless its first session sets another. */
  readonly groupSize: number;
  readonly policy: GroupPolicy;
  /** Time without a call after which a session is ended, in milliseconds. */
  readonly idleMs: number;
  readonly maxSessions: number;
  /** Maximum number of calls in flight in one session. */
  readonly maxCalls: number;
  /** True if an unknown key opens a session. */
  readonly opensByUse: boolean;
  /** Receives faults that no caller waits for. */
  readonly onFault: (error: unknown) => void;
};

/** Settings of a new session. */
export type NewSession = {
  readonly id?: string | undefined;
  readonly task?: string | undefined;
  readonly group?: string | undefined;
  readonly groupSize?: number | undefined;
  readonly sampling?: Partial<SamplingParams> | undefined;
  readonly tags?: Readonly<Record<string, unknown>> | undefined;
  readonly seed?: number | undefined;
  /** Number or id of a task of the gateway's environment, which becomes the session's world. */
  readonly environmentTask?: string | undefined;
};

type OpenSession = {
  readonly session: ProgramSession;
  readonly facts: SessionFacts;
  /** Hash of the valid key. */
  keyHash: string;
};

/** Facts about a session in the format of the journal. */
type SessionFacts = {
  readonly key_sha256: string;
  readonly group: string;
  /** Name as requested; `group` says which group of that name it is. */
  readonly group_name: string;
  /** Index of the session in its group. */
  readonly sample_index: number;
  readonly group_size: number;
  readonly group_index: number;
  readonly sampling: Readonly<Record<string, unknown>>;
  readonly tags: Readonly<Record<string, unknown>>;
  /** Task of its world; omitted if it has none. */
  readonly environment_task?: string;
};

export class Sessions {
  readonly #parts: SessionsParts;
  readonly #options: SessionsOptions;
  readonly #open = new Map<string, OpenSession>();
  readonly #byKey = new Map<string, string>();
  readonly #ended = new EndedSessions();
  readonly #groups: SessionGroups;
  /** Sessions that are being opened, by the hashes of their keys. */
  readonly #opening = new Map<string, Promise<{ readonly session: ProgramSession }>>();
  /** Ids that are being opened. */
  readonly #openingIds = new Set<string>();
  /** Sessions that are being ended. */
  readonly #ending = new Map<string, Promise<Episode>>();
  readonly #requestTag = randomBytes(4).toString("hex");
  #cancelSweep: (() => void) | null = null;

  constructor(parts: SessionsParts, options: SessionsOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#groups = new SessionGroups(async (id) => (await parts.store.kept(id)) !== null);
    this.#sweepLater();
  }

  get open(): readonly ProgramSession[] {
    return [...this.#open.values()].map(({ session }) => session);
  }

  /** The session of a key. Opens a session if first use does; otherwise throws a `GatewayError`. */
  async find(key: string): Promise<ProgramSession> {
    const keyHash = hashOf(key);
    const known = this.#known(key, keyHash);
    if (known !== null) return known;
    // The first requests of a program may arrive concurrently.
    const opening = this.#opening.get(keyHash) ?? this.#openByUse(key).finally(() => this.#opening.delete(keyHash));
    this.#opening.set(keyHash, opening);
    return (await opening).session;
  }

  async #openByUse(key: string): Promise<{ readonly session: ProgramSession }> {
    const id = sessionName(key);
    if ((await this.#parts.store.kept(id)) !== null) throw sessionEnded(id);
    return this.create({ id }, key);
  }

  /**
   * Counts tokens of prompts for a session, or for the session that the key's first turn would
   * open: counting opens none.
   */
  counter(key: string): Pick<Session, "items" | "countTokens"> | ForwardedSession {
    const known = this.#known(key, hashOf(key));
    if (known !== null) return known;
    const { answers, clock } = this.#parts;
    if (answers.type === "api") return unopenedSession(answers, { ...this.#options, task: taskOf("", 0), clock });
    const record = new SessionRecord(answers.renderer, "");
    return { items: record, countTokens: (request) => record.countTokens(request) };
  }

  /**
   * The session of a key; `null` if first use opens it. Throws a `GatewayError` if first use does
   * not.
   */
  #known(key: string, keyHash: string): ProgramSession | null {
    const id = this.#byKey.get(keyHash);
    const known = id === undefined ? undefined : this.#open.get(id);
    if (known !== undefined) return known.session;
    const ended = this.#ended.find(keyHash);
    if (ended !== null) throw sessionEnded(ended);
    // A key that a gateway issued belongs to a session that was opened on request, here or in
    // another gateway.
    if (!this.#options.opensByUse || isGivenKey(key)) {
      throw new GatewayError(
        "unauthorized",
        "Cannot serve the request: no session has this key; open one with POST /v1/sessions.",
      );
    }
    return null;
  }

  /** True if a session has or had this key. */
  hasKey(key: string): boolean {
    const keyHash = hashOf(key);
    return this.#byKey.has(keyHash) || this.#ended.find(keyHash) !== null;
  }

  /**
   * Id of the session, given its id or its key; a key that is not a plain name differs from the id.
   */
  idOf(named: string): string {
    if (this.#open.has(named)) return named;
    const keyHash = hashOf(named);
    return this.#byKey.get(keyHash) ?? this.#ended.find(keyHash) ?? named;
  }

  /** An open session. Throws a `GatewayError` if there is none of this id. */
  get(id: string): ProgramSession {
    const open = this.#open.get(id);
    if (open === undefined)
      throw new GatewayError("not-found", `Cannot find session "${id}": it has ended or was never opened.`);
    return open.session;
  }

  isOpen(id: string): boolean {
    return this.#open.has(id) && !this.#ending.has(id);
  }

  tagsOf(id: string): SessionFacts["tags"] {
    return this.#open.get(id)?.facts.tags ?? {};
  }

  /** The episode of an ended session. Throws a `GatewayError` if the session has not ended. */
  async ended(id: string): Promise<Episode> {
    const episode = await this.#parts.store.kept(id);
    if (episode !== null) return episode;
    throw new GatewayError(
      "not-found",
      `Cannot find the episode of session "${id}": it has not ended or was never opened.`,
    );
  }

  /** Opens a session. Its key is returned once, and stored nowhere. */
  async create(
    request: NewSession,
    key = newKey(),
  ): Promise<{ readonly session: ProgramSession; readonly key: string }> {
    const { maxSessions } = this.#options;
    if (this.#open.size + this.#openingIds.size >= maxSessions) {
      throw new GatewayError(
        "rate-limited",
        `Cannot open a session: ${maxSessions} are open, the maximum; end some, or raise the limit.`,
        { retryAfterMs: 5000 },
      );
    }
    const keyHash = hashOf(key);
    const id = request.id ?? `session-${keyHash.slice(0, 12)}`;
    if (this.#open.has(id) || this.#openingIds.has(id) || this.#byKey.has(keyHash)) throw takenError(id);
    this.#openingIds.add(id);
    try {
      if ((await this.#parts.store.kept(id)) !== null) throw takenError(id);
      return { session: await this.#create(request, id, keyHash), key };
    } finally {
      this.#openingIds.delete(id);
    }
  }

  async #create(given: NewSession, id: string, keyHash: string): Promise<ProgramSession> {
    const world = await openWorld(this.#parts.worlds, { ...given, id, runSeed: this.#options.seed });
    // The task of a session with a world is the world's, unless the request sets another.
    const request = world === null ? given : { ...given, task: given.task ?? world };
    try {
      return await this.#createIn(request, { id, keyHash, world });
    } catch (error) {
      if (world !== null) await this.#parts.worlds?.close(id);
      throw error;
    }
  }

  async #createIn(
    request: NewSession,
    { id, keyHash, world }: { readonly id: string; readonly keyHash: string; readonly world: string | null },
  ): Promise<ProgramSession> {
    const { groupSize: defaultSize, seed } = this.#options;
    const { task = request.group ?? id, group: groupName = request.task ?? id } = request;
    // A session without a task and a group is not compared with others.
    const size = request.groupSize ?? (groupName === id ? 1 : defaultSize);
    const { group, place: sampleIndex } = await this.#groups.join(groupName, { sessionId: id, task, size });
    const facts: SessionFacts = {
      key_sha256: keyHash,
      group: group.id,
      group_name: group.name,
      sample_index: sampleIndex,
      group_size: group.size,
      group_index: group.groupIndex,
      sampling: { ...request.sampling },
      tags: request.tags ?? {},
      ...(world === null ? {} : { environment_task: world }),
    };
    const session = this.#add(group.task, facts, { id, seed: request.seed ?? deriveSeed(seed, group.id, sampleIndex) });
    await session.open(fromPlain(facts) as JsonObject);
    return session;
  }

  /**
   * Restarts a session with a new key, for a program that begins again: earlier samples are not
   * trained.
   */
  async reopen(id: string): Promise<string> {
    const session = this.get(id);
    const open = this.#open.get(id)!;
    const key = newKey();
    // Holders of the old key, such as the program of a killed process, can sample nothing more.
    this.#byKey.delete(open.keyHash);
    this.#ended.add(open.keyHash, id);
    open.keyHash = hashOf(key);
    this.#byKey.set(open.keyHash, id);
    await session.reopen(fromPlain({ ...open.facts, key_sha256: open.keyHash }) as JsonObject);
    return key;
  }

  /** Ends a session; a second call returns the same episode. */
  end(id: string, stopReason: StopReason = "session_ended"): Promise<Episode> {
    const known = this.#ending.get(id);
    if (known !== undefined) return known;
    const open = this.#open.get(id);
    const ending = open === undefined ? this.ended(id) : this.#end(open, stopReason);
    if (open !== undefined) {
      this.#ending.set(id, ending);
      ending.finally(() => this.#ending.delete(id)).catch(() => undefined);
    }
    return ending;
  }

  async reward(id: string, grade: Grade): Promise<void> {
    const session = this.get(id);
    if (this.#hasWorld(id)) {
      const message = `Cannot reward session "${id}": its environment grades it when it ends; remove the reward.`;
      throw new GatewayError("invalid-request", message, { param: "reward" });
    }
    await session.grade(grade);
  }

  /** Answers a request for the tools of a session's world. Opens no session. */
  async world(key: string, request: Parameters<SessionWorlds["handle"]>[1]): Promise<WorldAnswer> {
    const id = this.#byKey.get(hashOf(key));
    const answer = id === undefined ? null : await this.#parts.worlds?.handle(id, request);
    if (answer !== null && answer !== undefined) return answer;
    throw new GatewayError(
      "not-found",
      "Cannot find the tools of the session: it has no environment, has ended, or was left by another process; open one with environment_task.",
    );
  }

  #hasWorld(id: string): boolean {
    return this.#open.get(id)?.facts.environment_task !== undefined;
  }

  /**
   * Resumes the state of earlier processes, before the first call: `inFlight` with the recorded
   * events of each session, `ended` with the episodes whose groups may be undecided.
   */
  async restore(earlier: {
    readonly inFlight: readonly (readonly EpisodeEvent[])[];
    /** Ended episodes in the order in which they ended. */
    readonly ended: Iterable<Pick<Episode, "id" | "events"> & { readonly undecidedTask: string | null }>;
  }): Promise<void> {
    for (const { id, events, undecidedTask } of earlier.ended) {
      const facts = factsIn(events);
      for (const keyHash of keysIn(events)) this.#ended.add(keyHash, id);
      if (undecidedTask === null) this.#groups.remember(facts, id);
      else this.#groups.restore(facts, { sessionId: id, task: undecidedTask }).ended.push(id);
    }
    for (const events of earlier.inFlight) {
      const start = events.find((event) => event.type === "episode-start");
      // A session whose opening was not recorded was never announced to a client.
      if (start === undefined || !events.some(({ type }) => type === "session")) continue;
      const facts = factsIn(events);
      const { task } = this.#groups.restore(facts, { sessionId: start.episodeId, task: start.taskId });
      this.#add(task, facts, { id: start.episodeId, seed: start.seed }).restore(events);
      for (const keyHash of keysIn(events)) {
        if (keyHash !== facts.key_sha256) this.#ended.add(keyHash, start.episodeId);
      }
    }
    // The process stopped after the last session of a group and before the group's decision.
    for (const group of this.#groups.open) if (group.ended.length >= group.size) await this.#decide(group, null);
  }

  close(): void {
    this.#cancelSweep?.();
    this.#cancelSweep = null;
  }

  #add(task: Task, facts: SessionFacts, own: { readonly id: string; readonly seed: number }): ProgramSession {
    const { sampling, clientSampling, clientTemplate, constraints, credit, maxCalls, episode } = this.#options;
    const { answers, store, clock } = this.#parts;
    const session = makeSession(
      {
        unknownTools: answererIn(facts.environment_task === undefined ? null : this.#parts.worlds),
        ...own,
        task,
        clientSampling,
        clientTemplate,
        constraints,
        credit,
        maxCalls,
        groupId: facts.group,
        sampleIndex: facts.sample_index,
        sampling: { ...sampling, ...(facts.sampling as Partial<SamplingParams>) },
        // A server may still run the last calls of a process that died, and refuses further calls
        // with the same ids.
        episode: { ...episode, requestTag: this.#requestTag },
      },
      answers,
      { clock, record: (event) => store.record(own.id, event) },
    );
    this.#open.set(own.id, { session, facts, keyHash: facts.key_sha256 });
    this.#byKey.set(facts.key_sha256, own.id);
    return session;
  }

  async #end({ session, keyHash }: OpenSession, stopReason: StopReason): Promise<Episode> {
    const { id, groupId } = session.settings;
    const worlds = this.#hasWorld(id) ? this.#parts.worlds : null;
    const { onFault } = this.#options;
    const episode = await endWithWorld(session, stopReason, { worlds, onFault });
    await this.#parts.store.append(episode);
    this.#open.delete(id);
    this.#byKey.delete(keyHash);
    this.#ended.add(keyHash, id);
    const group = this.#groups.get(groupId);
    group?.ended.push(id);
    if (group !== null && group.ended.length >= group.size) await this.#decide(group, episode);
    return episode;
  }

  async #decide({ id: groupId, groupIndex, size, task, ended }: OpenGroup, last: Episode | null): Promise<void> {
    this.#groups.close(groupId);
    const episodes = await Promise.all(ended.map(async (id) => (id === last?.id ? last : this.ended(id))));
    const members = episodes
      .toSorted((left, right) => left.sampleIndex - right.sampleIndex)
      .map((episode) => {
        const one = endedOf({ episode, result: episodeSamples(episode), origin: "new" });
        return { sampleIndex: episode.sampleIndex, ended: one };
      });
    const group: FinishedGroup = { plan: { groupId, task, groupIndex }, members, ending: "complete" };
    const reason = await reasonToDrop(group, this.#options.policy);
    const record = groupRecord(group, reason);
    const sampleLines: string[] = [];
    for (const { sampleIndex, ended: one } of reason === null ? members : []) {
      const position = { index: groupIndex * size + sampleIndex, groupIndex, group: record };
      sampleLines.push(...this.#parts.exportSamples(await one.open(), position));
    }
    await this.#parts.store.appendGroup({ group: record, sampleLines });
  }

  #sweepLater(): void {
    const { idleMs, onFault } = this.#options;
    const everyMs = Math.min(60_000, Math.max(10, idleMs / 4));
    this.#cancelSweep = this.#parts.clock.after(everyMs, () => {
      const now = this.#parts.clock.now();
      for (const session of this.open) {
        if (now - session.usedAt < idleMs) continue;
        this.end(session.settings.id, session.reward === null ? "cancelled" : "session_ended").catch(onFault);
      }
      this.#sweepLater();
    });
  }
}

function takenError(id: string): GatewayError {
  const message = `Cannot open session "${id}": a session with this name exists; choose another.`;
  return new GatewayError("invalid-request", message, { param: "id" });
}

function newKey(): string {
  return `ta-${randomBytes(24).toString("base64url")}`;
}

function isGivenKey(key: string): boolean {
  return /^ta-[\w-]{32}$/.test(key);
}

function hashOf(key: string): string {
  return hash("sha256", key);
}

/** Hashes of all keys that a session has had. */
function keysIn(events: readonly EpisodeEvent[]): string[] {
  return events.flatMap((event) => {
    const keyHash = event.type === "session" ? event.session.get("key_sha256") : null;
    return typeof keyHash === "string" ? [keyHash] : [];
  });
}

function factsIn(events: readonly EpisodeEvent[]): SessionFacts {
  const event = events.findLast(({ type }) => type === "session");
  return toPlain(event?.type === "session" ? event.session : new Map()) as SessionFacts;
}
