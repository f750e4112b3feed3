// The client of an `env-server` over the same protocol: it requests the tasks (`GET /tasks`), the
// user stays with the client, and everything that OpenEnv has no place for travels in observations,
// exact to the byte. The other side is `env-server/openenv-face.ts`.

import type { Grade, Task, ToolResult } from "../../../core/environment.ts";
import { type Tool, toolFromDefinition } from "../../../core/message.ts";
import { toPlain } from "../../../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/value.ts";
import {
  asList,
  asObject,
  asText,
  fieldOf,
  orNull,
  parseMessage,
  remoteFault,
  type OwnTasks,
  readOwnTasks,
  type RemoteHttp,
  type RemoteSession,
} from "../index.ts";
import { ask, connectTo, farewell, faultOfFrame, type Place, type StepAnswer, steps } from "./frames.ts";
import { wellFormed } from "../../../lib/text.ts";

const where = "what our own server sends";

/** The server's tasks; `null` if it is not an `env-server`. */
export async function ownTasks(http: RemoteHttp, headers: Readonly<Record<string, string>>): Promise<OwnTasks | null> {
  const get = async (path: string): Promise<JsonObject> => {
    const answer = asObject.read(await http.json({ method: "GET", path, headers }));
    if (answer === undefined) throw remoteFault("remote-invalid", `Cannot read ${where}: its tasks are not an object.`);
    return answer;
  };
  const about = asObject.read((await http.jsonIfServed({ method: "GET", path: "/tasks", headers })) ?? null);
  if (about === undefined) return null;
  return readOwnTasks(about, ({ split, from, count }) =>
    get(`/tasks?split=${encodeURIComponent(wellFormed(split))}&from=${from}&count=${count}`),
  );
}

/** Opens a session whose user runs in the client; nothing else of the environment is missing. */
export async function openOwnSession(
  task: Task,
  { place, signal, seed }: { readonly place: Place; readonly signal: AbortSignal; readonly seed: number },
): Promise<RemoteSession> {
  const socket = await connectTo(place, signal);
  const step = async (action: JsonObject, what: string, stop: AbortSignal): Promise<StepAnswer> => {
    const answer = await steps(socket, action, what, stop);
    if (answer.type === "error") throw faultOfFrame(answer, what);
    return answer;
  };
  try {
    const reset = new Map<string, JsonValue>([["task", task.id], ["seed", seed], ["user", "client"]]); // prettier-ignore
    const what = `reset task "${task.id}"`;
    const first = await ask(socket, { type: "reset", data: reset }, what, signal);
    if (first.type === "error") throw faultOfFrame(first, what);
    const { tools, respond, finish } = readTools(
      await step(new Map([["type", "list_tools"]]), "list the tools", signal),
    );
    const { observation } = first;
    return {
      guidelines: fieldOf(observation, "guidelines", asText, where),
      info: fieldOf(observation, "info", asObject, where),
      opening: fieldOf(observation, "opening", orNull(asText), where),
      tools,
      call: async ({ name, arguments: args }, { signal: stop }) =>
        readResult(await step(new Map([...callOf(name, args), ["is_call", true]]), `carry out "${name}"`, stop)),
      receiveUtterance: async (utterance, { signal: stop }) => {
        await step(callOf(respond, new Map([["message", utterance]])), "deliver the utterance", stop);
      },
      grade: async ({ outcome }, { signal: stop }) =>
        readGrade(await step(callOf(finish, new Map([["outcome", outcome]])), "grade", stop)),
      close: () => socket.close({ farewell }),
    };
  } catch (error) {
    await socket.close();
    throw error;
  }
}

function callOf(name: string, args: JsonObject): JsonObject {
  return new Map<string, JsonValue>([["type", "call_tool"], ["tool_name", name], ["arguments", args]]); // prettier-ignore
}

/**
 * The tools of the environment, as it defines them, and the names of the last two listed tools,
 * which pass on an utterance and request the grade.
 */
function readTools({ observation }: StepAnswer): {
  readonly tools: readonly Tool[];
  readonly respond: string;
  readonly finish: string;
} {
  const rows = fieldOf(observation, "tools", asList, where).map(
    (row) => asObject.read(row) ?? new Map<string, JsonValue>(),
  );
  const [respond = "", finish = ""] = rows.slice(-2).map((row) => fieldOf(row, "name", asText, where));
  const tools = rows.slice(0, -2).map((row) => toolFromDefinition(fieldOf(row, "definition", asObject, where)));
  return { tools, respond, finish };
}

function readResult({ observation, reward, done }: StepAnswer): ToolResult {
  const result = fieldOf(observation, "result", asObject, where);
  return {
    text: fieldOf(result, "data", asText, where),
    isError: result.get("is_error") === true,
    endsEpisode: done,
    info: fieldOf(observation, "info", asObject, where),
    ...(reward === null ? {} : { reward }),
  };
}

/** The types of the grade are checked in one place for all grades. */
function readGrade({ observation }: StepAnswer): Grade {
  const said = fieldOf(fieldOf(observation, "result", asObject, where), "data", asText, where);
  const grade = asObject.read(parseMessage(said, where)) ?? new Map<string, JsonValue>();
  const { reward, metrics, log, turn_rewards } = toPlain(grade) as Readonly<Record<string, unknown>>;
  return { reward, metrics, log, info: fieldOf(grade, "info", asObject, where), turnRewards: turn_rewards } as Grade;
}
