// The conversation with an episode's user over MCP, which has no means for it: one more tool talks
// to the user, another ends the episode and reports its reward.

import type { Tool } from "../core/message.ts";
import type { HostedEpisode } from "./episode-host.ts";

export const textContent = (text: string): readonly object[] => [{ type: "text", text }];

/** Answer to a call after the end. `hasTools`: false if agents end the episode in another way. */
export function over(hasTools: boolean): object {
  return { content: textContent(`Error: the episode is over${hasTools ? "; call finish" : ""}.`), isError: true };
}

/** Passes a message to the user. */
export async function respond(episode: HostedEpisode, given: Readonly<Record<string, unknown>>): Promise<object> {
  const { message } = given;
  if (typeof message !== "string") return { content: textContent("Error: message is not a string."), isError: true };
  if (episode.isDone) return over(true);
  const { text, type } = await episode.respond(message);
  const { isDone: isOver } = episode;
  const note = type === "hang-up" ? "[The user has hung up; call finish.]" : "[The episode is over; call finish.]";
  const shown = isOver ? `${text}\n${note}`.trim() : text;
  return { content: textContent(shown), isError: false, structuredContent: { text, isOver } };
}

/**
 * Ends the episode. Metrics and log often contain the expected result, which an agent could use in
 * the next attempt at the task, so only a trusted client receives them.
 */
export async function finish(episode: HostedEpisode, isTrusted: boolean): Promise<object> {
  const { reward, metrics, log } = await episode.grade("completed");
  return {
    content: textContent(`The episode is over. Reward: ${reward}`),
    structuredContent: isTrusted ? { reward, metrics, log } : { reward },
  };
}

/** Names of the two tools, which differ if the environment has a tool of that name. */
export function extraNames(tools: readonly Tool[]): { readonly respond: string; readonly finish: string } {
  const names = new Set(tools.map(({ name }) => name));
  const free = (name: string): string => (names.has(name) ? free(`episode_${name}`) : name);
  return { respond: free("respond"), finish: free("finish") };
}

/** The two tools as `tools/list` shows them. */
export function conversationTools(tools: readonly Tool[]): readonly object[] {
  const { respond: talk, finish: end } = extraNames(tools);
  return [
    {
      name: talk,
      description: "Says something to the user, and returns what the user answers.",
      inputSchema: { type: "object", properties: { message: { type: "string" } }, required: ["message"] },
    },
    {
      name: end,
      description: "Ends the episode and returns its reward. Nothing can be done in it afterwards.",
      inputSchema: { type: "object", properties: {} },
    },
  ];
}

/** The `instructions` of a server. `hasTools`: false if agents talk to the user in another way. */
export function instructionsFor(episode: HostedEpisode | null, hasTools: boolean): string {
  if (episode === null) return "";
  const { guidelines, tools } = episode.environment;
  if (!hasTools) return guidelines;
  const { respond: talk, finish: end } = extraNames(tools);
  return `${guidelines}\n\nTalk to the user with the tool "${talk}"; end with the tool "${end}". The user begins: ${episode.firstUtterance}`;
}
