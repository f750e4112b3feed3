// Environments that OpenEnv serves over its WebSocket (`/ws`): one socket is one session, and a
// session that loses its socket is lost. Stateless HTTP (`/reset`, `/step`) is not used, because
// each of its calls has a world of its own.
//
//   connect ─► reset ─► [list_tools] ─► step ... ─► close        CAPACITY_REACHED instead of the first answer: no room

import { createHash } from "node:crypto";
import { createTaskset } from "../../../core/taskset.ts";
import type { EnvironmentCall, Grade, Task, ToolResult } from "../../../core/environment.ts";
import { ConfigurationError } from "../../../core/failure.ts";
import type { Tool } from "../../../core/message.ts";
import { type AnsweringSocket, parseBaseUrl } from "../../../http/index.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import { fromForeign } from "../../../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import {
  asObject,
  asText,
  fieldOf,
  orNull,
  type RemoteCallOptions,
  remoteFault,
  RemoteHttp,
  type RemoteService,
  type RemoteSession,
  type RewardRule,
  StepRewards,
  type UnrewardedRule,
  type OwnTasks,
  WorldRewards,
} from "../index.ts";
import { ask, connectTo, farewell, faultOfFrame, type Place, steps } from "./frames.ts";
import { openOwnSession, ownTasks } from "./own-server.ts";
import { servedTasks } from "./task-api.ts";
import { flavourOf, observationText, readTools, type WorldFlavour } from "./world.ts";

/** A task: the arguments with which the world is reset. */
export type OpenEnvTask = {
  /** Text in front of the first observation. @default null */
  readonly instruction?: string | null;
  /** Arguments of the reset, as JSON. Without a `seed`, the task's index is its seed. @default {} */
  readonly reset?: Readonly<Record<string, unknown>>;
};

/**
 * Tasks by split and number, for tasks that are read when they are run: a million of them need not
 * be in memory.
 */
export interface OpenEnvTaskList {
  /** Number of tasks by split. */
  readonly sizes: Readonly<Record<string, number>>;
  /** Hash of each split as a whole, for `run.json`. @default none */
  readonly hashes?: Readonly<Record<string, string>>;
  /** `index` is within the size of the split. */
  task(split: string, index: number): OpenEnvTask;
}

export type OpenEnvOptions = {
  /** Address: `ws://`, `wss://`, `http://` or `https://`, with or without `/ws`. */
  readonly url: string;
  /** Sent as `Authorization: Bearer`. @default none */
  readonly token?: string;
  /** Value of the `Authorization` header, instead of a token. @default null: none */
  readonly authorization?: string | null;
  /**
   * Tasks by split. @default null: those of the server, from its Task API; an `env-server`'s tasks
   * keep their user and grades exactly
   */
  readonly tasks?: Readonly<Record<string, readonly OpenEnvTask[]>> | OpenEnvTaskList | null;
  /** System message. @default the description that the server gives of itself */
  readonly guidelines?: string;
  /** @default "sum" */
  readonly reward?: RewardRule;
  /**
   * Treatment of an episode without any reward; "fault" is a fault only while the world has
   * rewarded no episode. @default "fault"
   */
  readonly unrewarded?: UnrewardedRule;
  /** Name of an environment that the server's Task API lists. @default the first */
  readonly environment?: string;
  /**
   * The field of an observation that the policy reads, such as `message` or `metadata.message`.
   * @default the only field if it is text, otherwise all fields as JSON; `metadata` is excluded
   */
  readonly observationField?: string;
  /**
   * Effect of an exception in a step (EXECUTION_ERROR): "fault" fails the episode; "observation"
   * shows the message to the policy, for worlds that raise an exception for a forbidden action.
   * @default "fault"
   */
  readonly exceptions?: "fault" | "observation";
  /** Maximum number of concurrent sessions. @default null: until the server says that it is full */
  readonly capacity?: number | null;
  /**
   * True if equal resets and steps give equal answers; a killed episode is then replayed.
   * @default false
   */
  readonly deterministic?: boolean;
  /** Maximum size of one message. @default 16777216 */
  readonly maxBytes?: number;
};

/** Tasks that differ only in the seed of their reset, `from` to `to`, both included. */
export function seedTasks(from: number, to: number): readonly OpenEnvTask[] {
  return Array.from({ length: to - from + 1 }, (_, index) => ({ reset: { seed: from + index } }));
}

/**
 * Queries the server for its description and tasks. Rejects with a `ConfigurationError` for an
 * invalid `url`, and with a `remoteFault` if no OpenEnv server answers.
 */
export async function openEnvService(options: OpenEnvOptions): Promise<RemoteService> {
  const { capacity = null, deterministic = false } = options;
  const address = options.url.trim().replace(/^ws(s?):\/\//i, "http$1://");
  const { authorization = null } = options;
  const [placeOf = "", query] = address.split(/\?(.*)/s);
  const base = parseBaseUrl(placeOf.replace(/\/ws\/?$/, "") + (query === undefined ? "" : `?${query}`), {
    what: "OpenEnv server",
    authorization,
    setting: "--env-authorization-env",
  });
  const headers: Readonly<Record<string, string>> =
    options.token === undefined ? {} : { authorization: `Bearer ${options.token}` };
  const http = new RemoteHttp(base);
  const place: Place = { base, headers, maxBytes: options.maxBytes ?? 16 * 1024 * 1024 };
  try {
    const own = options.tasks === undefined || options.tasks === null ? await ownTasks(http, headers) : null;
    if (own !== null) return ownService(own, place, capacity);
    const listed = listOf(options.tasks ?? null);
    const served =
      listed === null ? await servedTasks(http, { headers, environment: options.environment ?? null }) : null;
    if (listed === null && served === null) throw withoutTasks(base.origin);
    const schema = asObject.read(await http.json({ method: "GET", path: "/schema", headers }));
    const flavour = flavourOf(schema?.get("action") ?? null, options.observationField ?? null);
    const { name, description } = await describe(http, headers);
    const settings: Settings = {
      place,
      flavour,
      guidelines: options.guidelines ?? description,
      rewards: new WorldRewards({ rule: options.reward, unrewarded: options.unrewarded }),
      exceptions: options.exceptions ?? "fault",
      field: options.observationField ?? null,
    };
    const sizes = served?.sizes ?? listed?.sizes ?? {};
    const specOf = (split: string, index: number): OpenEnvTask =>
      listed === null ? { reset: { split, index } } : listed.task(split, index);
    // The server selects its own tasks by index; a seed from us would give another world.
    const resetFor = (spec: OpenEnvTask, index: number): JsonObject => resetOf(spec, served === null ? index : null);
    return {
      name,
      splits: Object.keys(sizes),
      users: ["task", "human", "scripted"],
      argumentErrors: "environment",
      // A typed world has only one action, which is not selected by name.
      unknownTools: flavour.type === "mcp" ? "environment" : "loop",
      capacity,
      isDeterministic: deterministic,
      taskset: (split) =>
        createTaskset(name, split, {
          sizes,
          hashes: listed?.hashes ?? {},
          task: (index) => {
            const spec = specOf(split, index);
            return taskOf({ environment: name, split, index }, spec.instruction ?? null, resetFor(spec, index));
          },
        }),
      open: (task, { signal }) =>
        OpenEnvSession.open(task, resetFor(specOf(task.split, task.index), task.index), { ...settings, signal }),
      close: () => Promise.resolve(),
    };
  } finally {
    await http.close();
  }
}

function listOf(tasks: NonNullable<OpenEnvOptions["tasks"]> | null): OpenEnvTaskList | null {
  // A split may have any name, so only the function tells a list from splits.
  if (tasks === null || typeof tasks["task"] === "function") return tasks as OpenEnvTaskList | null;
  const splits = tasks as Readonly<Record<string, readonly OpenEnvTask[]>>;
  return {
    sizes: Object.fromEntries(Object.entries(splits).map(([split, { length }]) => [split, length])),
    task: (split, index) => splits[split]![index]!,
  };
}

function withoutTasks(origin: string): ConfigurationError {
  return new ConfigurationError(
    `Cannot run the OpenEnv server at ${origin}: it has no tasks of its own (no Task API), and none are given; pass seeds, like --env-tasks seeds:100, or a file with one task per line.`,
  );
}

function ownService(own: OwnTasks, place: Place, capacity: number | null): RemoteService {
  return {
    ...own,
    capacity,
    open: (task, { signal, seed }) => openOwnSession(task, { place, signal, seed }),
    close: () => Promise.resolve(),
  };
}

/** Name and description of the environment; older servers have no metadata. */
async function describe(
  http: RemoteHttp,
  headers: Readonly<Record<string, string>>,
): Promise<{ readonly name: string; readonly description: string }> {
  const what = "the metadata of the OpenEnv server";
  const read = await http.json({ method: "GET", path: "/metadata", headers }).catch(() => null);
  const metadata = asObject.read(read) ?? new Map<string, JsonValue>();
  const name = fieldOf(metadata, "name", orNull(asText), what) ?? "environment";
  return {
    name: `openenv/${
      name
        .replaceAll(/[^\w.-]+/g, "-")
        .toLowerCase()
        .slice(0, 80) || "environment"
    }`,
    description: fieldOf(metadata, "description", orNull(asText), what) ?? "",
  };
}

function taskOf(
  { environment, split, index }: Pick<Task, "environment" | "split" | "index">,
  instruction: string | null,
  reset: JsonObject,
): Task {
  const contentHash = createHash("sha256")
    .update(dumpJson([environment, instruction, reset]))
    .digest("hex");
  return { id: `${environment}:${split}:${index}`, environment, split, index, contentHash, instruction, agenda: null };
}

/**
 * The user's arguments of the reset; values that JSON cannot hold are refused. `seed`: seed for a
 * task that has none; `null` to send none.
 */
function resetOf({ reset = {} }: OpenEnvTask, seed: number | null): JsonObject {
  const given = fromForeign(reset, { maxSize: 1_000_000 }) as JsonObject;
  return seed === null || given.has("seed") ? given : new Map<string, JsonValue>([["seed", seed], ...given]);
}

type Settings = {
  readonly place: Place;
  readonly flavour: WorldFlavour;
  readonly guidelines: string;
  readonly rewards: WorldRewards;
  readonly exceptions: "fault" | "observation";
  readonly field: string | null;
};

class OpenEnvSession implements RemoteSession {
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  readonly opening: string;
  readonly info: JsonObject = new Map();
  readonly #socket: AnsweringSocket;
  readonly #settings: Settings;
  readonly #rewards: StepRewards;

  private constructor(
    socket: AnsweringSocket,
    opened: { readonly tools: readonly Tool[]; readonly opening: string },
    settings: Settings,
  ) {
    this.#socket = socket;
    this.#settings = settings;
    this.#rewards = new StepRewards(settings.rewards);
    this.guidelines = settings.guidelines;
    this.tools = opened.tools;
    this.opening = opened.opening;
  }

  static async open(
    task: Task,
    given: JsonObject,
    { signal, ...settings }: Settings & RemoteCallOptions,
  ): Promise<OpenEnvSession> {
    const { place, flavour, field } = settings;
    const socket = await connectTo(place, signal);
    try {
      const reset = new Map(given);
      // Many worlds ignore the episode id; those that log episodes use it.
      if (!reset.has("episode_id")) reset.set("episode_id", task.id.slice(0, 255));
      const first = await ask(socket, { type: "reset", data: reset }, `reset task "${task.id}"`, signal);
      if (first.type === "error") throw faultOfFrame(first, `reset task "${task.id}"`);
      if (first.done) {
        throw remoteFault(
          "remote-error",
          `Cannot run task "${task.id}": the world reports that it is done right after its reset.`,
        );
      }
      const listed =
        flavour.listTools === null ? null : await steps(socket, flavour.listTools, "list the tools", signal);
      if (listed?.type === "error") throw faultOfFrame(listed, "list the tools");
      const parts = [task.instruction ?? "", observationText(first.observation, field)];
      const opening = parts.filter((part) => part !== "").join("\n\n") || "Begin.";
      return new OpenEnvSession(
        socket,
        { tools: listed === null ? flavour.tools : readTools(listed), opening },
        settings,
      );
    } catch (error) {
      await socket.close();
      throw error;
    }
  }

  async call(call: EnvironmentCall, { signal }: RemoteCallOptions): Promise<ToolResult> {
    const { flavour, exceptions } = this.#settings;
    const isKnown = flavour.type === "mcp" || this.tools.some(({ name }) => name === call.name);
    if (!isKnown) return refused(`unknown tool ${call.name}`);
    const what = `carry out "${call.name}"`;
    const answer = await steps(this.#socket, flavour.action(call), what, signal);
    if (answer.type === "error") {
      if (answer.code === "VALIDATION_ERROR") return refused(answer.problems.join("; ") || answer.message);
      if (answer.code === "EXECUTION_ERROR" && exceptions === "observation") return refused(answer.message);
      throw faultOfFrame(answer, what);
    }
    const reward = this.#rewards.add(answer.reward);
    return { ...flavour.read(answer), endsEpisode: answer.done, info: new Map(), reward };
  }

  /** Does nothing: an utterance of the policy is not an action, and the world has no listener. */
  receiveUtterance(): Promise<void> {
    return Promise.resolve();
  }

  async grade(): Promise<Grade> {
    return this.#rewards.grade();
  }

  close(): Promise<void> {
    return this.#socket.close({ farewell });
  }
}

/** A refused call, for which the server took no step. */
function refused(reason: string): ToolResult {
  return { text: `Error: ${reason}`, isError: true, endsEpisode: false, info: new Map() };
}
