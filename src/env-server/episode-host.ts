// Episodes of our environments for external programs: a client opens one, calls its tools, talks to
// its user, has it graded and closes it. It knows no protocol: each protocol has its own file and
// assigns its own ids. The episode of a client that disconnects without closing it stays open until
// it has been idle too long.

import { findViolation } from "../agents/on-demand.ts";
import type { Environment, EnvironmentSource, Grade, Task, ToolResult } from "../core/environment.ts";
import { ConfigurationError, faultAt } from "../core/failure.ts";
import { hasSplit } from "../core/use-environment.ts";
import { freeUsage, type UserLine, type UserSimulator, type UserSource } from "../core/user.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { DeadlineError, withDeadline } from "../lib/deadline.ts";
import { deriveSeed } from "../lib/random.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { checkedOpening } from "../rollout/index.ts";

export type HostOptions = {
  readonly source: EnvironmentSource;
  /** Split of tasks that are requested by number. */
  readonly split: string;
  /** The user that agents talk to; `null` if clients supply the user. */
  readonly user: UserSource | null;
  /** Maximum number of concurrent episodes. @default 1024 */
  readonly maxSessions?: number;
  /** Time without a call after which an episode is closed, in milliseconds. @default 900000 */
  readonly idleMs?: number;
  /** Time limit of one call, in milliseconds. @default 60000 */
  readonly callMs?: number;
  /**
   * Time limit for opening an episode, including its user's first line, in milliseconds. It does
   * not apply to a source that limits its openings itself.
   * @default 300000
   */
  readonly openMs?: number;
  readonly clock?: Clock;
};

/** Error when the host has no room for another episode. */
export class HostFullError extends Error {
  readonly active: number;

  constructor(active: number) {
    super(`Cannot open another episode: ${active} are open, the maximum; close one, or raise --max-sessions.`);
    this.active = active;
  }
}

/**
 * Error of a client that named something that does not exist, or requested something that is not
 * possible now.
 */
export class HostRequestError extends Error {}

export type OpenRequest = {
  /** Id of a task, or its number in the split; `null` for the next one. */
  readonly task: string | null;
  /**
   * Seed of the environment itself, or, with a user, of the episode from which both derive theirs.
   */
  readonly seed: number;
  readonly hasUser: boolean;
};

export type HostCounts = { readonly opened: number; readonly closed: number; readonly active: number };

export class EpisodeHost {
  readonly #options: Required<HostOptions>;
  readonly #episodes = new Set<HostedEpisode>();
  #next = 0;
  #opening = 0;
  #opened = 0;
  #closed = 0;
  #isClosed = false;
  #cancelSweep: (() => void) | null = null;

  constructor(options: HostOptions) {
    this.#options = {
      maxSessions: 1024,
      idleMs: 900_000,
      callMs: 60_000,
      openMs: 300_000,
      clock: systemClock,
      ...options,
    };
  }

  get source(): EnvironmentSource {
    return this.#options.source;
  }

  get counts(): HostCounts {
    return { opened: this.#opened, closed: this.#closed, active: this.#episodes.size + this.#opening };
  }

  /**
   * Tasks of a split, starting at a number. Throws a {@link HostRequestError} for an unknown split.
   */
  tasks(split: string, from: number, count: number): readonly Task[] {
    const { source } = this.#options;
    if (!hasSplit(source, split)) throw new HostRequestError(`There is no split "${split}".`);
    const taskset = source.taskset(split);
    const end = Math.min(taskset.size, from + count);
    return Array.from({ length: Math.max(0, end - from) }, (_, index) => taskset.task(from + index));
  }

  /** Number of tasks of a split. Throws a {@link HostRequestError} for an unknown split. */
  size(split: string): number {
    const { source } = this.#options;
    if (!hasSplit(source, split)) throw new HostRequestError(`There is no split "${split}".`);
    return source.taskset(split).size;
  }

  /**
   * Opens an episode. Rejects with a {@link HostFullError}, a {@link HostRequestError}, or a
   * failure of the environment or the user.
   */
  async open({ task: named, seed, hasUser }: OpenRequest): Promise<HostedEpisode> {
    const { source, user: users, maxSessions, callMs, openMs, clock } = this.#options;
    const active = this.counts.active;
    if (active >= maxSessions) throw new HostFullError(active);
    const task = this.#findTask(named);
    if (hasUser && users === null) throw new HostRequestError("This server has no user; supply one.");
    const simulator = hasUser ? users!.create(task, { seed: deriveSeed(seed, "user") }) : null;
    this.#opening++;
    let isOpening = true;
    const settle = (): void => {
      if (isOpening) this.#opening--;
      isOpening = false;
    };
    try {
      const environmentSeed = hasUser ? deriveSeed(seed, "environment") : seed;
      const ended = new AbortController();
      const opening = checkedOpening(source).open(task, { seed: environmentSeed, signal: ended.signal });
      const environment = opening instanceof Promise ? await this.#awaitOpening(opening, ended) : opening;
      if (this.#isClosed) {
        await environment.close?.();
        throw new HostRequestError("The server is closing.");
      }
      const episode = new HostedEpisode(environment, simulator, {
        source,
        callMs,
        clock,
        ended,
        onClose: () => {
          this.#episodes.delete(episode);
          this.#closed++;
        },
      });
      this.#opened++;
      this.#episodes.add(episode);
      // The user may take long to begin, and the episode must count only once during that time.
      settle();
      this.#sweepLater();
      try {
        await withDeadline((signal) => episode.begin(signal), { timeoutMs: openMs, clock, signal: ended.signal });
      } catch (error) {
        await episode.close();
        throw error;
      }
      return episode;
    } finally {
      settle();
    }
  }

  /** Awaits an opening environment; one that opens too late is closed. */
  async #awaitOpening(opening: Promise<Environment>, ended: AbortController): Promise<Environment> {
    const { source, openMs, clock } = this.#options;
    const timeoutMs = source.boundsOpening === true ? Infinity : openMs;
    try {
      return await withDeadline(() => opening, { timeoutMs, clock });
    } catch (caught) {
      const late = `The environment did not open within ${openMs} ms; raise --open-timeout, or find out why it takes so long.`;
      const isLate = caught instanceof DeadlineError;
      const error = isLate ? faultAt("environment", "timeout", late, { retryable: true, cause: caught }) : caught;
      ended.abort(error);
      opening.then((environment) => environment.close?.()).catch(() => undefined);
      throw error;
    }
  }

  /** Closes all episodes; those that are being opened are closed once they are open. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelSweep?.();
    await Promise.all([...this.#episodes].map((episode) => episode.close()));
  }

  #findTask(named: string | null): Task {
    const { source, split } = this.#options;
    const taskset = source.taskset(split);
    if (named === null) return taskset.task(this.#next++ % taskset.size);
    // Task ids usually end with the number of the task; other ids are searched for.
    const number = Number(/(?<!\d)(\d+)$/.exec(named)?.[1] ?? NaN);
    const isNumber = /^\d+$/.test(named);
    const splits = isNumber ? [split] : [...new Set([split, ...source.splits])];
    for (const one of splits) {
      const tasks = source.taskset(one);
      if (!(number < tasks.size)) continue;
      const task = tasks.task(number);
      if (isNumber || task.id === named) return task;
    }
    if (!isNumber) {
      for (const one of splits) {
        const tasks = source.taskset(one);
        // Ids of other forms belong to lists that people wrote, which are short.
        for (let index = 0; index < Math.min(tasks.size, 10_000); index++) {
          const task = tasks.task(index);
          if (task.id === named) return task;
        }
      }
    }
    throw new HostRequestError(`There is no task "${named.slice(0, 200)}".`);
  }

  /**
   * Schedules one timer for all episodes; it does not keep the process alive without the server's
   * socket.
   */
  #sweepLater(): void {
    if (this.#cancelSweep !== null) return;
    const { clock, idleMs } = this.#options;
    this.#cancelSweep = clock.after(Math.min(idleMs, 30_000), () => {
      this.#cancelSweep = null;
      const before = clock.now() - idleMs;
      for (const episode of this.#episodes) if (episode.usedAt < before) void episode.close().catch(() => undefined);
      if (this.#episodes.size > 0) this.#sweepLater();
    });
  }
}

type EpisodeParts = {
  readonly source: EnvironmentSource;
  readonly callMs: number;
  readonly clock: Clock;
  readonly ended: AbortController;
  readonly onClose: () => void;
};

export class HostedEpisode {
  readonly environment: Environment;
  readonly #user: UserSimulator | null;
  readonly #parts: EpisodeParts;
  #last: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;
  /** The fault that closed the episode. */
  #fault: { readonly error: unknown } | null = null;
  #grade: Grade | null = null;
  usedAt: number;
  /** The user's first line; empty without a user. */
  firstUtterance = "";
  /** True once a tool or the user has ended the episode; then only grading is left. */
  isDone = false;
  /** True once the user has ended the episode by hanging up. */
  hasHungUp = false;

  constructor(environment: Environment, user: UserSimulator | null, parts: EpisodeParts) {
    this.environment = environment;
    this.#user = user;
    this.#parts = parts;
    this.usedAt = parts.clock.now();
  }

  async begin(signal: AbortSignal): Promise<void> {
    const opening = this.environment.opening ?? null;
    const side = this.environment.userSide ?? null;
    const line = await this.#user?.open({ side, signal, ...(opening === null ? {} : { opening }) });
    this.firstUtterance = line === undefined ? "" : (await this.#letAct(line, signal)).text;
  }

  /**
   * Applies a user's line to the world, and the lines that follow its calls; resolves with the line
   * that speaks to the agent.
   */
  async #letAct(first: UserLine, signal: AbortSignal): Promise<UserLine> {
    const side = this.environment.userSide ?? null;
    for (let line = first; ;) {
      const outcome = await side?.act(line, { signal });
      this.hasHungUp ||= line.type === "hang-up";
      this.isDone ||= line.type === "hang-up" || (outcome?.endsEpisode ?? false);
      if (line.type !== "calls" || this.isDone) return line;
      if (outcome === undefined || this.#user?.observe === undefined) {
        throw new HostRequestError("This episode's user calls tools, and nothing here can carry them out.");
      }
      line = await this.#user.observe(outcome.results, { signal, side });
    }
  }

  get isClosed(): boolean {
    return this.#closing !== null;
  }

  get isGraded(): boolean {
    return this.#grade !== null;
  }

  /**
   * True if the environment answers a call of a tool of this name: it has the tool, or answers
   * unknown tools itself.
   */
  answers(name: string): boolean {
    const { unknownTools = "loop" } = this.#parts.source;
    return unknownTools === "environment" || this.environment.tools.some((tool) => tool.name === name);
  }

  /** Calls a tool. `isChecked`: true if the arguments have passed the schema of the tool. */
  call(name: string, args: JsonObject, { isChecked }: { readonly isChecked: boolean }): Promise<ToolResult> {
    return this.#inOrder(async (signal) => {
      const tool = this.environment.tools.find((one) => one.name === name);
      const violation =
        isChecked || tool === undefined || this.#parts.source.argumentErrors === "environment"
          ? null
          : findViolation(tool, args);
      if (violation !== null) return refusal(violation.detail);
      const result = await this.environment.call({ name, arguments: args }, { signal });
      this.isDone ||= result.endsEpisode;
      return result;
    });
  }

  receiveUtterance(text: string): Promise<void> {
    return this.#inOrder(async (signal) => {
      const heard = await this.environment.receiveUtterance(text, { signal });
      this.isDone ||= heard?.endsEpisode ?? false;
    });
  }

  /** Resolves with the user's reply, which may end the episode ({@link isDone}). */
  respond(text: string): Promise<UserLine> {
    return this.#inOrder(async (signal) => {
      const heard = await this.environment.receiveUtterance(text, { signal });
      const user = this.#user;
      if (user === null) throw new HostRequestError("This episode has no user.");
      if (heard?.endsEpisode === true) {
        // A message that ends the episode gets no reply, as in the loop.
        this.isDone = true;
        return { type: "utterance", text: "", usage: freeUsage };
      }
      return this.#letAct(await user.reply(text, { signal, side: this.environment.userSide ?? null }), signal);
    });
  }

  /** Grades the episode once; later calls return the same grade. */
  grade(outcome: "completed" | "truncated"): Promise<Grade> {
    return this.#inOrder(async (signal) => {
      this.#grade ??= await this.environment.grade({ outcome }, { signal });
      this.isDone = true;
      return this.#grade;
    });
  }

  /** Closes the episode once, however often it is called; a call in flight is aborted. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#parts.onClose();
    this.#parts.ended.abort(new HostRequestError("The episode is closed."));
    await this.environment.close?.();
  }

  /** Runs calls one at a time, even if clients send them concurrently. */
  #inOrder<T>(action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { callMs, clock, ended } = this.#parts;
    const result = this.#last.then(() => {
      if (this.#fault !== null) throw this.#fault.error;
      this.usedAt = clock.now();
      return withDeadline(action, { timeoutMs: callMs, clock, signal: ended.signal });
    });
    this.#last = result.catch((error: unknown) => {
      // A fault ends the episode, as in the loop: the effects of the call are unknown, and it may
      // still be running.
      if (error instanceof HostRequestError) return;
      this.#fault ??= { error };
      void this.close().catch(() => undefined);
    });
    return result;
  }
}

function refusal(detail: string): ToolResult {
  return { text: `Error: ${detail}.`, isError: true, endsEpisode: false, info: new Map() };
}

/** Throws a `ConfigurationError` if a user cannot take the tasks of the environment. */
export function checkUser({ source, split, user }: HostOptions): void {
  if (user === null) return;
  const taskset = source.taskset(split);
  if (taskset.size === 0) throw new ConfigurationError(`Cannot serve split "${split}": it has no tasks.`);
  user.create(taskset.task(0), { seed: 0 });
}
