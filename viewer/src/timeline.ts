// Time and cost of an episode by what took them: made from the durations and usages of its events.

import type { ShownEpisode, ShownEvent } from "../../src/viewer/wire/index.ts";
import { callText } from "./actions.ts";

export type SegmentKind = "sampling" | "waiting" | "tool" | "user" | "judge" | "program";

export type Segment = {
  readonly kind: SegmentKind;
  readonly label: string;
  /** The turn to which it belongs; `null` before the first. */
  readonly turn: number | null;
  /** Milliseconds; `startMs` counts from the beginning of the episode, as if parts never overlapped. */
  readonly startMs: number;
  readonly ms: number;
};

/** Segments in order. Parts without a duration are absent: other tools' files have none. */
export function segmentsOf({ events }: Pick<ShownEpisode, "events">): readonly Segment[] {
  const segments: Segment[] = [];
  let [now, turn]: [number, number | null] = [0, null];
  let calls: readonly string[] = [];
  const add = (kind: SegmentKind, label: string, ms: number): void => {
    if (!(ms > 0)) return;
    segments.push({ kind, label, turn, startMs: now, ms });
    now += ms;
  };
  for (const event of events) {
    if (event.type === "turn" || event.type === "agent-reply") {
      turn = event.type === "turn" ? event.turn.index : event.turn;
      const waited = event.attempts.reduce((sum, { waitedMs }) => sum + waitedMs, 0);
      add(
        "waiting",
        `before turn ${turn}, ${event.attempts.length} failed attempts`,
        Math.min(waited, event.durationMs),
      );
      add("sampling", `turn ${turn}`, event.durationMs - waited);
    } else if (event.type === "decision") calls = callNames(event);
    else if (event.type === "tool-result") add("tool", calls[event.call ?? 0] ?? "tool", event.durationMs);
    else if (event.type === "user-line")
      add("user", event.line.type === "hang-up" ? "hangs up" : "speaks", event.durationMs);
    else if (event.type === "user-outcome") add("tool", "the user's calls", event.durationMs);
    else if (event.type === "judgement") add("judge", event.judgement.grader, event.durationMs);
    else if (event.type === "grade") add("judge", "grading", event.durationMs);
    else if (event.type === "program") add("program", "its own time", event.durationMs);
  }
  return segments;
}

function callNames({ decision }: Extract<ShownEvent, { type: "decision" }>): readonly string[] {
  if (decision.type === "call") return [decision.call.name];
  return decision.type === "calls" ? decision.calls.map(({ call }) => call?.name ?? "tool") : [];
}

/** Each turn in a few words: its call or its text. */
export function turnTitles({ events }: Pick<ShownEpisode, "events">): ReadonlyMap<number, string> {
  const titles = new Map<number, string>();
  for (const event of events) {
    if (event.type === "turn") titles.set(event.turn.index, "");
    else if (event.type === "agent-reply") titles.set(event.turn, "");
    else if (event.type === "exchange") {
      const [call] = event.action.toolCalls;
      titles.set(event.turn, call === undefined ? event.action.content : `${call.name}(${call.argumentsText})`);
    } else if (event.type === "decision") {
      const { decision, action, turn } = event;
      const title =
        decision.type === "call"
          ? callText({ name: decision.call.name, arguments: decision.arguments })
          : decision.type === "calls"
            ? decision.calls.map(({ call }) => call?.name ?? "unreadable").join(", ")
            : decision.type === "say"
              ? decision.content
              : action.content;
      titles.set(turn, title);
    }
  }
  return titles;
}

/** The agent of each turn, in an episode of an outside program that had several; empty for others. */
export function agentsByTurn({ events }: Pick<ShownEpisode, "events">): ReadonlyMap<number, string> {
  const lineages = events.flatMap((event) => (event.type === "lineages" ? event.lineages : []));
  return new Map(lineages.flatMap(({ kind, id, turns }) => turns.map((turn) => [turn, agentName(kind, id)] as const)));
}

export function agentName(kind: string, id: number): string {
  return kind === "main" ? "main agent" : kind === "side" ? `side request ${id}` : `${kind} ${id}`;
}

export type Cost = {
  readonly promptTokens: number;
  /** `null` if an engine does not say. */
  readonly cachedTokens: number | null;
  readonly sampledTokens: number;
  readonly seconds: number;
  /** Cost of agent, user and judge behind APIs in US dollars; `null` if it is not known. */
  readonly dollars: number | null;
};

/** `null` for an episode without events, of which nothing is known. */
export function costOf(episode: Pick<ShownEpisode, "events">): Cost | null {
  if (episode.events.length === 0) return null;
  let [promptTokens, sampledTokens] = [0, 0];
  let [cachedTokens, dollars]: [number | null, number | null] = [0, 0];
  const pay = (cost: number | null): void => {
    dollars = dollars === null || cost === null ? null : dollars + cost;
  };
  for (const event of episode.events) {
    if (event.type === "turn") {
      const { usage } = event;
      promptTokens += usage.promptTokens;
      sampledTokens += event.turn.sampledTokens.length;
      cachedTokens = cachedTokens === null || usage.cachedTokens === null ? null : cachedTokens + usage.cachedTokens;
    } else if (event.type === "agent-reply") {
      promptTokens += event.usage.inputTokens;
      sampledTokens += event.usage.outputTokens;
      cachedTokens = null;
      pay(event.usage.cost);
    } else if (event.type === "user-line") pay(event.line.usage.cost);
    else if (event.type === "judgement") pay(event.judgement.usage.cost);
  }
  const seconds = segmentsOf(episode).reduce((sum, { ms }) => sum + ms, 0) / 1000;
  return { promptTokens, cachedTokens, sampledTokens, seconds, dollars };
}
