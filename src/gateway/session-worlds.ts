// The environments that sessions may bring along, as a contract: the gateway knows no environment and no protocol of tools. And what
// it does with them: a world opens before its session, and grades it when it ends.

import { attribute, type Episode, type Failure, type Grade, type StopReason } from "../core/index.ts";
import { deriveSeed } from "../lib/random.ts";
import { GatewayError } from "./request.ts";
import type { ProgramSession } from "./program-session.ts";

/** An answer of a session's world to a client of its tools. */
export type WorldAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/**
 * The environments that sessions may bring along: each has tools that its program calls, and grades the session at its end. They
 * live in this process: a session that another process left has none any more.
 */
export interface SessionWorlds {
  /** The answerer of calls of tools that do not exist: the same field of an environment's source. */
  readonly unknownTools: "environment" | "loop";
  /** Resolves with the id of its task. Rejects with a `GatewayError` for a task that is none. */
  open(sessionId: string, world: { readonly task: string; readonly seed: number }): Promise<string>;
  /** Answers a request of MCP; `null`: the session has no world. */
  handle(
    sessionId: string,
    request: {
      readonly method: string;
      readonly url: string;
      readonly headers: Readonly<Record<string, string | undefined>>;
      readonly body: string;
    },
  ): Promise<WorldAnswer | null>;
  grade(sessionId: string): Promise<Grade>;
  /** Once for each that was opened. */
  close(sessionId: string): Promise<void>;
}

/**
 * Id of the world's task; `null` if the session has no world. Throws a `GatewayError` if there are
 * no worlds, or no such task.
 */
export async function openWorld(
  worlds: SessionWorlds | null,
  session: {
    readonly id: string;
    readonly environmentTask?: string | undefined;
    readonly seed?: number | undefined;
    readonly runSeed: number;
  },
): Promise<string | null> {
  const { id, environmentTask, seed, runSeed } = session;
  if (environmentTask === undefined) return null;
  if (worlds !== null)
    return worlds.open(id, { task: environmentTask, seed: seed ?? deriveSeed(runSeed, id, "world") });
  throw new GatewayError(
    "invalid-request",
    "Cannot open a session with an environment: the gateway was started without one; give it --env.",
    { param: "environment_task" },
  );
}

/** The answerer of calls of tools that do not exist in a session. `worlds`: `null` for a session without a world. */
export function answererIn(worlds: SessionWorlds | null): "environment" | "loop" {
  return worlds === null ? "loop" : worlds.unknownTools;
}

/**
 * Ends a session. The reward of one with a world is the world's; one that cannot be graded has none, and `onFault` is told.
 * `worlds`: `null` for a session without a world.
 */
export async function endWithWorld(
  session: ProgramSession,
  stopReason: StopReason,
  { worlds, onFault }: { readonly worlds: SessionWorlds | null; readonly onFault: (error: unknown) => void },
): Promise<Episode> {
  if (worlds === null) return session.end(stopReason);
  const { id } = session.settings;
  let reason = stopReason;
  let failure: Failure | null = null;
  try {
    if (reason === "session_ended") await session.grade(await worlds.grade(id));
  } catch (error) {
    // Without its world a session just ends; a world that cannot grade has failed.
    if (error instanceof GatewayError) reason = "cancelled";
    else [reason, failure] = ["fault", attribute(error, "grader").failure];
    onFault(error);
  }
  try {
    return await session.end(reason, failure);
  } finally {
    await worlds.close(id).catch(onFault);
  }
}
