// Environments of the Open Reward Standard, as ors-sdk 0.1.0 serves them: plain HTTP, a session
// that the client names in a header, and calls that are answered by a stream of events. Each call
// has an id, so an answer whose connection was lost is requested again without running the tool
// twice.
//
//   POST /create_session ─► POST /create ─► GET prompt, task_tools ─► POST call ... ─► POST /delete, /delete_session
//                           (then a ping every 10 s, because a session that is silent for 15 minutes expires)

import { createHash } from "node:crypto";
import { createTaskset } from "../../../core/taskset.ts";
import type { EnvironmentCall, Grade, Task, ToolResult } from "../../../core/environment.ts";
import { AttributedError } from "../../../core/failure.ts";
import type { Tool } from "../../../core/message.ts";
import { parseBaseUrl } from "../../../http/index.ts";
import { type Clock, systemClock } from "../../../lib/clock.ts";
import { fromPlain } from "../../../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import {
  asCount,
  asList,
  asObject,
  asText,
  blockText,
  fieldOf,
  readListedTool,
  type RemoteCallOptions,
  remoteFault,
  RemoteHttp,
  type RemoteService,
  type RemoteSession,
  type RewardRule,
  StepRewards,
  type UnrewardedRule,
  WorldRewards,
} from "../index.ts";
import { callTool, openSession } from "./streams.ts";
import { wellFormed } from "../../../lib/text.ts";
import { setOwn } from "../../../lib/counts.ts";

export type OrsOptions = {
  /** Address of the server, `http://` or `https://`, without the name of an environment. */
  readonly url: string;
  /** Name of an environment that the server offers. @default the first */
  readonly environment?: string;
  /** Sent as `X-API-Key`. @default none */
  readonly apiKey?: string;
  /** Value of the `Authorization` header. @default null: none */
  readonly authorization?: string | null;
  /** Secrets for the environment of each session: keys of services that it uses. @default {} */
  readonly secrets?: Readonly<Record<string, string>>;
  /** System message. @default "" */
  readonly guidelines?: string;
  /** @default "sum" */
  readonly reward?: RewardRule;
  /**
   * Treatment of an episode without any reward; "fault" is a fault only while the world has
   * rewarded no episode. @default "fault"
   */
  readonly unrewarded?: UnrewardedRule;
  /** Maximum number of concurrent sessions. @default null: until the server says that it is full */
  readonly capacity?: number | null;
  /**
   * True if equal tasks and calls give equal answers; a killed episode is then replayed.
   * @default false
   */
  readonly deterministic?: boolean;
  /** Time between two pings in milliseconds. @default 10000 */
  readonly pingMs?: number;
  /** @default the system clock */
  readonly clock?: Clock;
};

const where = "an answer of the ORS server";

/**
 * Queries the server for its environments and tasks. Rejects with a `ConfigurationError` for an
 * invalid `url`, and with a `remoteFault` if no ORS server answers there or it does not have the
 * environment.
 */
export async function orsService(options: OrsOptions): Promise<RemoteService> {
  const { apiKey, secrets = {}, guidelines = "", capacity = null, deterministic = false } = options;
  const rewards = new WorldRewards({ rule: options.reward, unrewarded: options.unrewarded });
  const { authorization = null } = options;
  const http = new RemoteHttp(
    parseBaseUrl(options.url, { what: "ORS server", authorization, setting: "--env-authorization-env" }),
  );
  const headers: Readonly<Record<string, string>> = apiKey === undefined ? {} : { "x-api-key": apiKey };
  try {
    const served = await listOf(http, "/list_environments", headers);
    const environment = chooseEnvironment(served, options.environment);
    const path = `/${encodeURIComponent(wellFormed(environment))}`;
    const splits = (await listOf(http, `${path}/splits`, headers)).map((split) =>
      fieldOf(split instanceof Map ? split : new Map([["name", split]]), "name", asText, where),
    );
    const sizes: Record<string, number> = {};
    for (const split of splits) {
      const request = { method: "POST", path: `${path}/num_tasks`, body: fromPlain({ split }), headers } as const;
      setOwn(sizes, split, fieldOf(asRecord(await http.json(request)), "num_tasks", asCount, where));
    }
    const name = `ors/${environment}`;
    const world = {
      http,
      headers,
      environment,
      path,
      secrets,
      guidelines,
      rewards,
      pingMs: options.pingMs ?? 10_000,
      clock: options.clock ?? systemClock,
    };
    return {
      name,
      splits,
      users: ["task", "human", "scripted"],
      argumentErrors: "environment",
      unknownTools: "environment",
      capacity,
      isDeterministic: deterministic,
      taskset: (split) => createTaskset(name, split, { sizes, task: (index) => taskOf(name, split, index) }),
      open: (task, { signal }) => OrsSession.open(task, world, signal),
      close: () => http.close(),
    };
  } catch (error) {
    await http.close();
    throw error;
  }
}

function chooseEnvironment(served: readonly JsonValue[], wanted: string | undefined): string {
  const names = served.filter((name) => typeof name === "string");
  const chosen = wanted === undefined ? names[0] : names.find((name) => name.toLowerCase() === wanted.toLowerCase());
  if (chosen !== undefined) return chosen;
  const state = names.length === 0 ? "it serves no environments" : `it serves ${names.join(", ")}`;
  throw remoteFault("remote-error", `Cannot find environment "${wanted ?? ""}" of the ORS server: ${state}.`);
}

/** A task known only by its index: the server keeps its content, which may include the answer. */
function taskOf(environment: string, split: string, index: number): Task {
  const contentHash = createHash("sha256")
    .update(JSON.stringify([environment, split, index]))
    .digest("hex");
  const id = `${environment}:${split}:${index}`;
  return { id, environment, split, index, contentHash, instruction: null, agenda: null };
}

function asRecord(value: JsonValue): JsonObject {
  const record = asObject.read(value);
  if (record !== undefined) return record;
  throw remoteFault("remote-invalid", `Cannot read ${where}: it is not an object.`);
}

async function listOf(
  http: RemoteHttp,
  path: string,
  headers: Readonly<Record<string, string>>,
  options: Partial<RemoteCallOptions> = {},
): Promise<readonly JsonValue[]> {
  const list = asList.read(await http.json({ method: "GET", path, headers }, options));
  if (list !== undefined) return list;
  throw remoteFault("remote-invalid", `Cannot read ${where} to ${path}: it is not a list.`);
}

type World = {
  readonly http: RemoteHttp;
  readonly headers: Readonly<Record<string, string>>;
  readonly environment: string;
  readonly path: string;
  readonly secrets: Readonly<Record<string, string>>;
  readonly guidelines: string;
  readonly rewards: WorldRewards;
  readonly pingMs: number;
  readonly clock: Clock;
};

class OrsSession implements RemoteSession {
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  readonly opening: string;
  readonly info: JsonObject = new Map();
  readonly #world: World;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #rewards: StepRewards;
  #stopPinging: () => void = () => undefined;
  /** The fault that a ping found; thrown by the next call, because no caller awaits the ping. */
  #lost: AttributedError | null = null;

  private constructor(
    world: World,
    session: {
      readonly headers: Readonly<Record<string, string>>;
      readonly tools: readonly Tool[];
      readonly opening: string;
    },
  ) {
    this.#world = world;
    this.#headers = session.headers;
    this.#rewards = new StepRewards(world.rewards);
    this.guidelines = world.guidelines;
    this.tools = session.tools;
    this.opening = session.opening;
    this.#pingLater();
  }

  static async open(task: Task, world: World, signal: AbortSignal): Promise<OrsSession> {
    const { http, path, environment, secrets } = world;
    const sid = await openSession(http, world.headers, signal);
    const headers = { ...world.headers, "x-session-id": sid };
    try {
      const body = fromPlain({ env_name: environment, split: task.split, index: task.index, secrets });
      await http.json({ method: "POST", path: "/create", body, headers }, { signal });
      // The prompt is answered when the set-up, which continues after the reply of /create, has
      // finished.
      const prompt = await listOf(http, `${path}/prompt`, headers, { signal });
      const tools = await listTools(world, headers, signal);
      return new OrsSession(world, { headers, tools, opening: blockText(prompt) });
    } catch (error) {
      await endSession(world, headers).catch(() => undefined);
      throw error;
    }
  }

  async call(call: EnvironmentCall, { signal }: RemoteCallOptions): Promise<ToolResult> {
    if (this.#lost !== null) throw this.#lost;
    const { http, path, clock } = this.#world;
    const answer = await callTool(http, { path: `${path}/call`, headers: this.#headers, call }, { signal, clock });
    if (answer.type === "refused") {
      return { text: `Error: ${answer.error}`, isError: true, endsEpisode: false, info: new Map() };
    }
    const { blocks, reward, finished } = answer;
    return {
      text: blockText(blocks),
      isError: false,
      endsEpisode: finished,
      info: new Map(),
      reward: this.#rewards.add(reward),
    };
  }

  /** Does nothing: an utterance of the policy is not an action, and the world has no listener. */
  receiveUtterance(): Promise<void> {
    return Promise.resolve();
  }

  async grade(): Promise<Grade> {
    return this.#rewards.grade();
  }

  async close(): Promise<void> {
    this.#stopPinging();
    await endSession(this.#world, this.#headers);
  }

  #pingLater(): void {
    const { clock, pingMs } = this.#world;
    this.#stopPinging = clock.after(pingMs, () => void this.#ping());
  }

  /**
   * Pings the session. A lost ping proves nothing; an answer "not found" proves that the session
   * has expired.
   */
  async #ping(): Promise<void> {
    const { http } = this.#world;
    let isClosed = false;
    this.#stopPinging = () => {
      isClosed = true;
    };
    try {
      await http.json({ method: "POST", path: "/ping", headers: this.#headers }, { timeoutMs: 30_000 });
    } catch (error) {
      if (error instanceof AttributedError && error.failure.code === "remote-expired") this.#lost = error;
    }
    if (!isClosed && this.#lost === null) this.#pingLater();
  }
}

/** Shared tools and those of the task; older servers only have shared ones. */
async function listTools(
  { http, path }: World,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<readonly Tool[]> {
  const list = (place: string): Promise<JsonValue> =>
    http.json({ method: "GET", path: `${path}/${place}`, headers }, { signal });
  const answer = await list("task_tools").catch((error: unknown) => {
    if (error instanceof AttributedError && error.failure.code === "remote-expired") return list("tools");
    throw error;
  });
  return fieldOf(asRecord(answer), "tools", asList, where).map((tool) => readListedTool(tool, where));
}

/**
 * Maximum number of attempts to end a session, the timeout of each, and the base of the growing
 * pause between two.
 */
const farewells = { most: 6, timeoutMs: 1500, pauseMs: 50 };

/**
 * Tells the server that the session is no longer needed, with retries; a session that is already
 * gone is not a fault. Rejects if all attempts fail; the server then expires the session after its
 * idle time.
 */
async function endSession({ http, clock }: World, headers: Readonly<Record<string, string>>): Promise<void> {
  for (const path of ["/delete", "/delete_session"]) {
    for (let attempt = 1; ; attempt++) {
      try {
        await http.json({ method: "POST", path, headers }, { timeoutMs: farewells.timeoutMs });
        break;
      } catch (error) {
        if (error instanceof AttributedError && error.failure.code === "remote-expired") break;
        if (attempt === farewells.most) throw error;
        await clock.sleep(farewells.pauseMs * attempt);
      }
    }
  }
}
