// Harmony after its markers were stripped: channel names run into the text ("analysisLet me see.assistantfinalHello").

import { isSpace, pythonLower, pythonStrip } from "../python-semantics/index.ts";
import type { HarmonyEvent } from "./harmony-event.ts";

const finalWord = "assistantfinal";

export function readBareHarmony(text: string): readonly HarmonyEvent[] {
  if (findChannelWord(text, ["analysis", "commentary", finalWord]) === -1) return [];
  const header = readHeader(text);
  const lower = pythonLower(text);
  if (header !== null) {
    const final = searchIgnoringCase(text, finalWord, header.end);
    if (final !== -1) {
      const type = header.channel === "analysis" ? "reasoning" : "normal";
      return [event(type, text.slice(header.end, final)), event("normal", text.slice(final + finalWord.length))].flat();
    }
  }
  const mayBecomeFinal = lower.includes("assistantfin") && !lower.includes(finalWord);
  if (mayBecomeFinal && findChannelWord(text, ["analysis", "commentary"]) !== -1) return [];
  const start = skipSpace(text, 0);
  if (isWordAt(text, finalWord, start)) return event("normal", text.slice(start + finalWord.length));
  if (header !== null) {
    const content = text.slice(header.end);
    const shown = withoutEnding(content, [finalWord]);
    if (shown === "") return [];
    if (header.channel === "analysis") return [{ type: "reasoning", content: shown, raw: shown }];
    const words = shown === content ? pythonStrip(shown) : shown;
    return [{ type: "normal", content: words, raw: words }];
  }
  const shown = withoutEnding(text, ["analysis", "commentary", finalWord]);
  return shown === "" ? [] : [{ type: "normal", content: shown, raw: shown }];
}

function event(type: HarmonyEvent["type"], text: string): readonly HarmonyEvent[] {
  const content = pythonStrip(text);
  return content === "" ? [] : [{ type, content, raw: content }];
}

type Header = { readonly channel: "analysis" | "commentary"; readonly end: number };

/** `assistant` if it is there, and the channel's name, at the beginning of the text. */
function readHeader(text: string): Header | null {
  const start = skipSpace(text, 0);
  const places = isWordAt(text, "assistant", start) ? [skipSpace(text, start + "assistant".length), start] : [start];
  for (const place of places) {
    for (const channel of ["analysis", "commentary"] as const) {
      if (isWordAt(text, channel, place)) return { channel, end: place + channel.length };
    }
  }
  return null;
}

/** A word at the beginning, after white space, or after an `assistant` that stands so. */
function findChannelWord(text: string, words: readonly string[]): number {
  const pattern = new RegExp(words.join("|"), "giu");
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    pattern.lastIndex = match.index + 1;
    let before = match.index;
    while (before > 0 && isSpace(text[before - 1]!)) before--;
    if (before < match.index || before === 0) return match.index;
    const assistant = before - "assistant".length;
    if (assistant < 0 || !isWordAt(text, "assistant", assistant)) continue;
    if (assistant === 0 || isSpace(text[assistant - 1]!)) return match.index;
  }
  return -1;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (at < text.length && isSpace(text[at]!)) at++;
  return at;
}

function isWordAt(text: string, word: string, at: number): boolean {
  return searchIgnoringCase(text.slice(at, at + word.length), word, 0) === 0;
}

function searchIgnoringCase(text: string, word: string, from: number): number {
  const pattern = new RegExp(word, "giu");
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? -1;
}

/** The text without an ending that could become one of the words. */
export function withoutEnding(text: string, words: readonly string[]): string {
  let held = 0;
  for (const word of words) {
    for (let length = Math.min(word.length - 1, text.length); length > held; length--) {
      if (word.startsWith(text.slice(-length))) held = length;
    }
  }
  return held === 0 ? text : text.slice(0, -held);
}
