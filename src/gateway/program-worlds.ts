// Worlds of programs that are run for episodes: a world opens when its program first requests its
// tools, or when its episode is graded, so that a program with a world of its own opens none.

import type { Ending, Grade } from "../core/index.ts";
import type { ProgramSession } from "./program-session.ts";
import { GatewayError } from "./request.ts";
import type { SessionWorlds, WorldAnswer, WorldConversation } from "./session-worlds.ts";

export class ProgramWorlds {
  readonly #worlds: SessionWorlds | null;
  /** World openings by session id. */
  readonly #opened = new Map<string, Promise<string>>();
  /** Listeners for the ends of episodes in which the agent is prompted, by session id. */
  readonly #ends = new Map<string, () => void>();

  /** `worlds`: `null` if there are none. */
  constructor(worlds: SessionWorlds | null) {
    this.#worlds = worlds;
  }

  /** Answers a request for the tools of a session's world. */
  async handle(session: ProgramSession, request: Parameters<SessionWorlds["handle"]>[1]): Promise<WorldAnswer> {
    const worlds = this.#worlds;
    if (worlds !== null) {
      await this.#open(worlds, session);
      const { id } = session.settings;
      const answer = await worlds.handle(id, request);
      const end = this.#ends.get(id);
      if (end !== undefined && (worlds.conversation?.(id).stopReason ?? null) !== null) end();
      if (answer !== null) return answer;
    }
    throw new GatewayError(
      "not-found",
      "Cannot find the tools of the session: its tasks are of a file, without a world.",
    );
  }

  /**
   * Opens the world of a session whose agent is prompted with the user's utterances. `onEnd` is
   * called when a tool has ended the episode. Rejects if world or user cannot be opened.
   */
  async converse(session: ProgramSession, onEnd: () => void): Promise<WorldConversation> {
    const worlds = this.#worlds;
    if (worlds?.conversation === undefined) throw new TypeError("Only an environment has a user.");
    const { id } = session.settings;
    this.#ends.set(id, onEnd);
    await this.#open(worlds, session, { hasConversationTools: false });
    return worlds.conversation(id);
  }

  /**
   * True if the world grades the session: the program used its world, or printed no reward. The
   * world's grade replaces a printed reward.
   */
  grades(session: ProgramSession, printed: number | null): boolean {
    return this.#worlds !== null && (printed === null || this.#opened.has(session.settings.id));
  }

  /** Grades a session; call it only if {@link grades} returned true. Rejects if the world fails. */
  async grade(session: ProgramSession, outcome: Ending["outcome"]): Promise<Grade> {
    const worlds = this.#worlds;
    if (worlds === null) throw new TypeError("Only an environment grades.");
    await this.#open(worlds, session);
    return worlds.grade(session.settings.id, outcome);
  }

  /**
   * Closes the world of a session. Never rejects: a world that cannot be closed is not a fault of
   * its episode.
   */
  async close({ settings: { id } }: ProgramSession): Promise<void> {
    const opening = this.#opened.get(id);
    this.#opened.delete(id);
    this.#ends.delete(id);
    if (opening === undefined) return;
    await opening.then(() => this.#worlds?.close(id)).catch(() => undefined);
  }

  #open(
    worlds: SessionWorlds,
    { settings: { id, task, seed } }: ProgramSession,
    options: { readonly hasConversationTools?: boolean } = {},
  ): Promise<string> {
    const known = this.#opened.get(id) ?? worlds.open(id, { task: task.id, seed, ...options });
    this.#opened.set(id, known);
    return known;
  }
}
