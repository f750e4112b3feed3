// Facts of a whole episode that its row shows: the first text of the user, the last of the agent, the cost.

import type { EpisodeExtract, PlainJson, StoredEpisode } from "./wire/index.ts";
import { objectOf } from "./episode-store.ts";

const mostCharacters = 160;

/** Reads records of any origin: a field of another kind counts as absent. */
export function extractOf(stored: StoredEpisode): EpisodeExtract {
  return { ...utterancesOf(stored), cost: costOf(stored.events) };
}

export function utterancesOf({
  events,
  messages,
}: Pick<StoredEpisode, "events" | "messages">): Pick<EpisodeExtract, "firstUserText" | "lastAgentText"> {
  let [first, last, called] = ["", "", ""];
  const ask = (text: string): void => void (first ||= text.trim());
  const say = (text: string): void => void (last = text.trim() || last);
  for (const event of events) {
    if (event.type === "user-line") ask(event.line.text);
    else if (event.type === "decision") {
      const { decision, action } = event;
      say(
        decision.type === "say"
          ? decision.content
          : decision.type === "call" || decision.type === "calls"
            ? action.content
            : "",
      );
      if (decision.type === "calls") called = `${decision.calls.at(-1)?.call?.name ?? ""}(…)`;
      if (decision.type === "call") called = `${decision.call.name}(…)`;
    } else if (event.type === "exchange") {
      for (const message of event.messages) if (message.role === "user") ask(message.content);
      say(event.action.content);
      called = event.action.toolCalls.map(({ name }) => `${name}(…)`).at(-1) ?? called;
    }
  }
  for (const message of events.length > 0 && first !== "" ? [] : messages) {
    if (message.role === "user") ask(message.content);
    if (message.role !== "assistant" || events.length > 0) continue;
    say(message.content);
    called = message.toolCalls.map(({ name }) => `${name}(…)`).at(-1) ?? called;
  }
  return { firstUserText: line(first), lastAgentText: line(last === "" ? called : last) };
}

function line(text: string): string {
  const whole = text.slice(0, 4 * mostCharacters).replaceAll(/\s+/g, " ");
  return whole.length > mostCharacters ? `${whole.slice(0, mostCharacters)}…` : whole;
}

/** Models behind APIs have costs; an engine has none of its own. */
function costOf(events: StoredEpisode["events"]): number | null {
  let sum: number | null = 0;
  for (const event of events) {
    for (const usage of usagesOf(event as unknown as PlainJson)) {
      const cost = objectOf(usage)?.["cost"];
      if (cost === undefined) continue;
      sum = sum === null || typeof cost !== "number" ? null : sum + cost;
    }
  }
  return sum;
}

function usagesOf(value: PlainJson): (PlainJson | undefined)[] {
  const event = objectOf(value);
  const type = event?.["type"];
  if (type === "agent-reply") return [event?.["usage"]];
  if (type === "user-line") return [objectOf(event?.["line"])?.["usage"]];
  if (type === "judgement") return [objectOf(event?.["judgement"])?.["usage"]];
  const usage = type === "restart" ? objectOf(event?.["usage"]) : null;
  return usage === null ? [] : Object.values(usage);
}
