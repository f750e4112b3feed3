// The session of a program. Its calls are answered by the policy under training, or by an API model
// that is evaluated.

import { type ApiModel, chatSampling } from "../chat-models/index.ts";
import type { Engine, EpisodeEvent, Renderer } from "../core/index.ts";
import type { Clock } from "../lib/clock.ts";
import { ForwardedSession } from "./forward/forwarded-session.ts";
import { Session } from "./session.ts";
import type { SessionSettings } from "./session-settings.ts";

export type ProgramSession = Session | ForwardedSession;

/** The model that answers the calls of sessions. */
export type SessionModel =
  /** The policy: its tokens are recorded and trained. */
  | { readonly type: "policy"; readonly engine: Engine; readonly renderer: Renderer }
  /**
   * An API model; `null` if programs call models of their own. The conversation is recorded, and
   * nothing is trained.
   */
  | { readonly type: "api"; readonly model: ApiModel | null };

/** Creates a session, which the caller opens next. */
export function makeSession(settings: SessionSettings, answers: SessionModel, parts: SessionParts): ProgramSession {
  if (answers.type === "api") return forwarded(settings, answers, parts);
  const { engine, renderer } = answers;
  return new Session(settings, { engine, renderer, ...parts });
}

type SessionParts = { readonly clock: Clock; readonly record: (event: EpisodeEvent) => Promise<void> };

/**
 * Creates a session for requests that open none, such as those that count tokens: none of it is
 * recorded.
 */
export function unopenedSession(
  answers: Extract<SessionModel, { readonly type: "api" }>,
  given: Omit<SessionSettings, "id" | "groupId" | "sampleIndex" | "seed" | "unknownTools"> &
    Pick<SessionParts, "clock">,
): ForwardedSession {
  const { clock, ...shared } = given;
  const own = { id: "", groupId: "", sampleIndex: 0, seed: 0, unknownTools: "loop" as const };
  const settings = { ...own, ...shared };
  return forwarded(settings, answers, { clock, record: async () => undefined });
}

function forwarded(
  settings: SessionSettings,
  { model }: Extract<SessionModel, { readonly type: "api" }>,
  parts: SessionParts,
): ForwardedSession {
  return new ForwardedSession(settings, { model, sampling: chatSampling(settings.sampling), ...parts });
}
