// Searches all messages of a run for a text: the bytes of the files are scanned, and only lines
// that contain the text are parsed.

import { join } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { fileOf } from "./episode-index.ts";
import { checkLine, readRawLines } from "./lines.ts";
import { episodeFromJson, parseRecord } from "./records.ts";
import type { IndexView } from "./run-index.ts";
import type { Message } from "../core/index.ts";

/** One occurrence in a message. */
export type MessageHit = {
  /** Number of the episode in the run, and its id. */
  readonly number: number;
  readonly id: string;
  /** Index in `messages`, and the message's role. */
  readonly message: number;
  readonly role: Message["role"];
  /** Text around the hit, cut. */
  readonly before: string;
  readonly after: string;
};

const shownAround = 60;

type SearchedRun = { readonly folder: string; readonly hasShards: boolean; readonly index: IndexView };

export async function* searchMessages(
  { folder, hasShards, index }: SearchedRun,
  text: string,
): AsyncGenerator<MessageHit> {
  if (text === "") throw new ConfigurationError("Cannot search for an empty string; enter at least one character.");
  // Escaped as in a JSON string, which also escapes lone surrogates.
  const needle = Buffer.from(JSON.stringify(text).slice(1, -1));
  const files = new Map<string | null, Map<number, number>>();
  if (hasShards) {
    for await (const { number, place } of index.rows()) {
      const numbers = files.get(place.shard) ?? new Map<number, number>();
      files.set(place.shard, numbers.set(place.offset, number));
    }
  } else {
    files.set(null, new Map());
  }
  for (const [shard, numbers] of files) {
    const file = join(folder, fileOf(shard));
    let line = 0;
    for await (const { bytes, start } of readRawLines(file, () => undefined)) {
      const number = hasShards ? numbers.get(start) : ++line;
      if (number === undefined || !bytes.includes(needle)) continue;
      const place = `at byte ${start}`;
      checkLine(bytes, { file, place });
      const { id, messages } = episodeFromJson(parseRecord(bytes, `"${file}" ${place}`), `"${file}" ${place}`);
      for (const [message, one] of messages.entries()) {
        for (const hit of hitsIn(one, text)) yield { number, id, message, role: one.role, ...hit };
      }
    }
  }
}

function* hitsIn(message: Message, text: string): Generator<Pick<MessageHit, "before" | "after">> {
  for (const content of textsOf(message)) {
    for (let at = content.indexOf(text); at !== -1; at = content.indexOf(text, at + text.length)) {
      const end = at + text.length;
      yield { before: content.slice(Math.max(0, at - shownAround), at), after: content.slice(end, end + shownAround) };
    }
  }
}

function textsOf(message: Message): readonly string[] {
  if (message.role !== "assistant") return [message.content];
  const calls = message.toolCalls.flatMap(({ name, argumentsText }) => [name, argumentsText]);
  return [message.content, message.reasoning ?? "", ...calls];
}
