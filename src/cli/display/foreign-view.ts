// Episodes of a file of another tool, shown like those of a run by `inspect`: fields that the file
// does not record are dashes.

import { type ForeignEpisode, foreignTurns } from "../../foreign/index.ts";
import { visible, visibleLine } from "../../lib/text.ts";
import { type Colours, shorten, tableLines } from "./terminal-text.ts";

/** The list as lines, its header first. `rows`: episodes with their numbers. */
export function foreignTable(
  rows: readonly (readonly [number: number, episode: ForeignEpisode])[],
  view: { readonly colours: Colours; readonly columns?: number | undefined },
): string[] {
  return tableLines(
    "># | episode | task | >reward | >turns | stop reason",
    rows.map(([number, episode]) => [
      String(number),
      episode.id,
      episode.taskId,
      episode.reward === null ? "–" : String(Number(episode.reward.toFixed(4))),
      String(foreignTurns(episode) ?? "–"),
      episode.error === null ? (episode.stopReason ?? "–") : "error",
    ]),
    view,
  );
}

/** One episode as a conversation. `textLength`: number of characters of a text that are shown. */
export function foreignConversation(
  episode: ForeignEpisode,
  { colours, textLength }: { readonly colours: Colours; readonly textLength: number },
): string[] {
  const { id, taskId, reward, messages, text, error, explanation, scores } = episode;
  const said = (label: string, content: string): string[] =>
    `${label}: ${visible(shorten(content, textLength))}`.split("\n").map((line, at) => (at === 0 ? line : `  ${line}`));
  const spoken = (messages ?? []).flatMap(({ role, content, reasoning, toolCalls, name }) => [
    ...(reasoning === null ? [] : said(colours.dim("thinks"), reasoning)),
    ...(content === "" && toolCalls.length > 0 ? [] : said(colours.cyan(visibleLine(role === "tool" && name !== null ? `result of ${name}` : role)), content)), // prettier-ignore
    ...toolCalls.flatMap((call) => said(colours.green("calls"), `${call.name} ${call.argumentsText}`)),
  ]);
  const rows = text === null ? [] : [...said(colours.cyan("prompt"), text.prompt), ...said(colours.green("response"), text.response)]; // prettier-ignore
  const numbers = Object.entries(scores).map(([name, score]) => `${visibleLine(name)} ${score}`);
  return [
    `${colours.bold(visibleLine(id))}  task ${visibleLine(taskId)}, ${reward === null ? "no reward" : `reward ${reward}`}`,
    "",
    ...(messages === null && text === null ? ["The file records no messages."] : [...spoken, ...rows]),
    "",
    ...(error === null ? [] : said(colours.red("error"), error)),
    ...(explanation === null ? [] : said("grade", explanation)),
    ...(numbers.length === 0 ? [] : [colours.dim(`scores: ${numbers.join(", ")}`)]),
  ];
}

/** The episode as plain JSON, with the number of tokens in place of their ids. */
export function foreignJson({ branches, ...episode }: ForeignEpisode): object {
  return { ...episode, tokens: branches?.map(({ tokens }) => tokens.length) ?? null };
}
