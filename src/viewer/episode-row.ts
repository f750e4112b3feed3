// An episode of a file as a row of the table. Reads the line as it stands, without unpacking tokens.

import type { Row, StoredEpisode } from "./wire/index.ts";

/** Longest text of a row. */
const mostCharacters = 240;

/** The row of a line; one that cannot be read is a row that says so. */
export function rowOf(line: Buffer, number: number): Row {
  try {
    return rowOfEpisode(JSON.parse(line.toString("utf8")) as StoredEpisode, number);
  } catch (error) {
    const sentence = `This line cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    const id = `line ${number}`;
    return {
      ...{
        number,
        id,
        groupId: id,
        taskId: id,
        contentHash: null,
        sampleIndex: 0,
        outcome: "unreadable",
        stopReason: "unreadable",
      },
      ...{
        failure: null,
        reward: null,
        turns: 0,
        tokens: null,
        sampledTokens: null,
        formatErrors: {},
        durationMs: null,
      },
      ...{ sentence: sentence.slice(0, mostCharacters), phrases: [] },
    };
  }
}

function rowOfEpisode(episode: StoredEpisode, number: number): Row {
  const { turns, events, failure, grade, outcome, stopReason, reward } = episode;
  const hasTokens = episode.historyPolicy !== "no-tokens";
  const formatErrors: Record<string, number> = {};
  for (const { code } of episode.problems) formatErrors[code] = (formatErrors[code] ?? 0) + 1;
  const sampled = turns.reduce((sum, turn) => sum + packedLength(turn.sampledTokens.base64), 0);
  const observed = turns.reduce((sum, turn) => sum + packedLength(turn.observationTokens.base64), 0);
  let durationMs: number | null = null;
  let replies = 0;
  for (const event of events) {
    if ("durationMs" in event) durationMs = (durationMs ?? 0) + event.durationMs;
    if (event.type === "agent-reply") replies++;
  }
  return {
    ...{
      number,
      id: episode.id,
      groupId: episode.groupId,
      taskId: episode.task.id,
      contentHash: episode.task.contentHash,
    },
    ...{ sampleIndex: episode.sampleIndex, outcome, stopReason, reward },
    failure: failure === null ? null : `${failure.boundary}/${failure.code}`,
    turns: turns.length + replies,
    tokens: hasTokens ? sampled + observed : null,
    sampledTokens: hasTokens ? sampled : null,
    ...{ formatErrors, durationMs },
    sentence: (failure?.message ?? grade?.log ?? "").slice(0, mostCharacters),
    phrases: phrasesOf((grade?.log ?? "").slice(0, mostCharacters)),
  };
}

/** Entries of an array of four bytes each. */
function packedLength(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return ((base64.length / 4) * 3 - padding) / 4;
}

/** What a grader said, sentence by sentence, without what differs from task to task: names in quotes, ids, numbers, what is listed. */
export function phrasesOf(log: string): readonly string[] {
  const phrases = log.split(/(?<=[.!?])\s+|\n+/).map((sentence) =>
    sentence
      .replaceAll(/"[^"]*"/g, "…")
      .replaceAll(/[#$]?\w*\d[\w.:%-]*/g, "…")
      .replace(/: .*….*$/, ": …")
      .replace(/….?$/, "…")
      .trim(),
  );
  return [...new Set(phrases.filter((phrase) => phrase !== "" && phrase !== "…"))];
}
