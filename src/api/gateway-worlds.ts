// Environments for the sessions of a gateway: a session that is opened with `environment_task` has
// the tools of that task's world over MCP, at `/s/<key>/mcp`, and the world's reward at its end.
// The episodes are hosted in the same way as those of `env-server`.

import { EpisodeHost, type HostedEpisode, HostFullError, HostRequestError, McpFace } from "../env-server/index.ts";
import { attribute, type EnvironmentSource, lookIntoEnvironment, type Tool, type UserSource } from "../core/index.ts";
import { GatewayError, type SessionWorlds, type WorldConversation } from "../gateway/index.ts";
import { environmentOptionNames } from "./environments.ts";
import { hostedUserOptionNames } from "../users/on-demand.ts";
import { packageVersion } from "./surroundings.ts";
import { requestAddress } from "../lib/address.ts";

/** The settings that choose the worlds which sessions may have. */
export const worldSettingNames = [
  ...(["env", ...environmentOptionNames, "split", "user", ...hostedUserOptionNames] as const),
] as const;

type World = { readonly episode: HostedEpisode; readonly face: McpFace };

/** An environment, its user, and the redactor of their secrets. */
export type HostedEnvironment = {
  readonly source: EnvironmentSource;
  readonly split: string;
  readonly user: UserSource;
  readonly redact: (text: string) => string;
  /** Deadline of one call, in milliseconds. */
  readonly callMs: number;
  /** Deadline of an opening, in milliseconds. */
  readonly openMs: number;
};

export type WorldOptions = {
  readonly maxSessions: number;
  readonly idleMs: number;
  /** Receives the tools of the first task, if its environment opens at once. @default none */
  readonly onTools?: (tools: readonly Tool[]) => void;
};

/** Opens a world only when a session requests one. */
export function openWorlds(
  hosted: HostedEnvironment,
  { maxSessions, idleMs, onTools }: WorldOptions,
): SessionWorlds & { closeAll(): Promise<void> } {
  const { source, split, user, redact, callMs, openMs } = hosted;
  // The gateway counts sessions and lets them expire; their worlds end with them.
  const host = new EpisodeHost({ source, split, user, callMs, openMs, maxSessions, idleMs: 2 * idleMs + 60_000 });
  const worlds = new Map<string, World>();
  if (onTools !== undefined && source.boundsOpening !== true && source.taskset(split).size > 0) {
    try {
      lookIntoEnvironment(source, source.taskset(split).task(0), ({ tools }) => onTools(tools));
    } catch {
      // The first session reports the error.
    }
  }
  const needed = (id: string): World => {
    const world = worlds.get(id);
    if (world !== undefined) return world;
    throw new GatewayError("not-found", `Cannot grade session "${id}": its environment was another process's.`);
  };
  return {
    unknownTools: source.unknownTools ?? "loop",
    open: async (id, { task, seed, hasConversationTools = true }) => {
      try {
        const episode = await host.open({ task, seed, hasUser: true });
        const face = new McpFace(host, { version: packageVersion(), redact, episode, hasConversationTools });
        worlds.set(id, { episode, face });
        return episode.environment.task.id;
      } catch (error) {
        if (error instanceof HostFullError) throw new GatewayError("rate-limited", error.message, { cause: error });
        if (!(error instanceof HostRequestError)) throw error;
        throw new GatewayError("invalid-request", error.message, { param: "environment_task", cause: error });
      }
    },
    conversation: (id) => conversationOf(needed(id).episode),
    handle: async (id, { method, url, headers, body }) => {
      const world = worlds.get(id);
      if (world === undefined) return null;
      // Any holder of a session's key acts as its agent.
      const isTrusted = false;
      const address = requestAddress(url);
      if (address === null) return { status: 404, headers: {}, body: "" };
      const request = { method, url: address, headers, body, isTrusted };
      const answer = await world.face.handle(request);
      const text = answer.body === null ? "" : JSON.stringify(answer.body);
      const type = answer.body === null ? {} : { "content-type": "application/json" };
      return { status: answer.status, headers: { ...type, ...answer.headers }, body: text };
    },
    grade: (id, outcome) => needed(id).episode.grade(outcome),
    close: async (id) => {
      const world = worlds.get(id);
      worlds.delete(id);
      await world?.episode.close();
    },
    closeAll: () => host.close(),
  };
}

function conversationOf(episode: HostedEpisode): WorldConversation {
  return {
    guidelines: episode.environment.guidelines,
    firstUtterance: episode.firstUtterance,
    get stopReason() {
      if (!episode.isDone) return null;
      return episode.hasHungUp ? "user_hung_up" : "tool_ended";
    },
    reply: async (message) => {
      try {
        return (await episode.respond(message)).text;
      } catch (error) {
        throw attribute(error, "user");
      }
    },
  };
}
