// Contract for the environments of sessions, and their use: a world opens before its session, and
// grades it at the end. The gateway knows no specific environment and no tool protocol.

import { attribute, type Ending, type Episode, type Failure, type Grade, type StopReason } from "../core/index.ts";
import { deriveSeed } from "../lib/random.ts";
import { GatewayError } from "./request.ts";
import type { ProgramSession } from "./program-session.ts";

/** Answer of a session's world to a request for its tools. */
export type WorldAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** A conversation between the agent of a session and the user of its world. */
export interface WorldConversation {
  /** The environment's rules for its agent; may be empty. */
  readonly guidelines: string;
  /** The user's first line. */
  readonly firstUtterance: string;
  /** "tool_ended" or "user_hung_up" once the episode has ended; `null` before. */
  readonly stopReason: StopReason | null;
  /**
   * Passes a message of the agent to the user. Resolves with the user's reply, which may end the
   * episode. Rejects if the user or the environment fails.
   */
  reply(message: string): Promise<string>;
}

/**
 * Environments of sessions: each has tools for its program, and grades the session at its end. They
 * live in this process: a session resumed from another process has lost its world.
 */
export interface SessionWorlds {
  /**
   * The side that answers calls of tools that do not exist: the same field as in an environment's
   * source.
   */
  readonly unknownTools: "environment" | "loop";
  /**
   * Opens a world. Resolves with the id of its task. Rejects with a `GatewayError` for an unknown
   * task. `hasConversationTools`: see {@link conversation}.
   */
  open(
    sessionId: string,
    world: { readonly task: string; readonly seed: number; readonly hasConversationTools?: boolean },
  ): Promise<string>;
  /**
   * The conversation with the user of an open world, for agents that do not talk to the user with
   * tools. @default agents talk with tools only
   */
  conversation?(sessionId: string): WorldConversation;
  /** Answers an MCP request; `null` if the session has no world. */
  handle(
    sessionId: string,
    request: {
      readonly method: string;
      readonly url: string;
      readonly headers: Readonly<Record<string, string | undefined>>;
      readonly body: string;
    },
  ): Promise<WorldAnswer | null>;
  grade(sessionId: string, outcome: Ending["outcome"]): Promise<Grade>;
  /** Closes a world; called once for each opened world. */
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
    "Cannot open a session with an environment: the gateway was started without one; start it with --env.",
    { param: "environment_task" },
  );
}

/**
 * The side that answers calls of tools that do not exist in a session. `worlds`: `null` for a
 * session without a world.
 */
export function answererIn(worlds: SessionWorlds | null): "environment" | "loop" {
  return worlds === null ? "loop" : worlds.unknownTools;
}

/**
 * Ends a session. A world's reward is the reward of its session; if the world cannot grade, the
 * session has none, and `onFault` is called. `worlds`: `null` for a session without a world.
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
    if (reason === "session_ended") await session.grade(await worlds.grade(id, "completed"));
  } catch (error) {
    // A session that lost its world ends ungraded; a world that cannot grade is a fault.
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
