// Harmony, the format of gpt-oss: blocks of `<|channel|>kind<|message|>content` that end with a marker, or, where markers
// were lost, bare words ("analysis...assistantfinal..."). Reads finished text into events; both parsers of the family use it.

import { pythonLower, pythonStrip } from "../lib/python/index.ts";
import type { HarmonyEvent } from "./harmony-event.ts";
import { readBareHarmony, withoutEnding } from "./harmony-words.ts";

type Kind = "start" | "channel" | "message" | "constrain" | "end" | "call" | "return" | "text";
type Token = { readonly kind: Kind; readonly start: number; readonly end: number };

const kinds: readonly Kind[] = ["start", "channel", "message", "constrain", "end", "call", "return"];
export const harmonyMarkers: readonly string[] = kinds.map((kind) => `<|${kind}|>`);

export function readHarmony(text: string): readonly HarmonyEvent[] {
  const isMarked = text.includes("<|channel|>") || text.includes("<|start|>");
  return withoutFiller(isMarked ? readBlocks(text) : readBareHarmony(text), text);
}

/** Models sometimes write a lone "commentary" after a call; it is dropped, and so are blanks there. */
function withoutFiller(events: readonly HarmonyEvent[], text: string): readonly HarmonyEvent[] {
  const endsWithCall = pythonStrip(text).endsWith("<|call|>");
  let isAfterCall = false;
  let partial = "";
  return events.filter((event) => {
    if (event.type === "normal" && (isAfterCall || partial !== "")) {
      const filler = partial + pythonLower(pythonStrip(event.content));
      if (filler === "commentary") {
        isAfterCall = false;
        partial = "";
        return false;
      }
      if ("commentary".startsWith(filler)) {
        partial = filler;
        return false;
      }
      isAfterCall = false;
      partial = "";
    } else if (event.type === "normal") {
      partial = "";
    }
    if (event.type === "tool-call") partial = "";
    if (event.type === "tool-call" || endsWithCall) isAfterCall = true;
    return true;
  });
}

function readBlocks(text: string): readonly HarmonyEvent[] {
  const tokens = tokenize(text);
  const events: HarmonyEvent[] = [];
  const emit = (type: HarmonyEvent["type"], content: string): number => events.push({ type, content, raw: content });
  for (let at = 0; at < tokens.length;) {
    const token = tokens[at]!;
    if (token.kind === "text") {
      const content = text.slice(token.start, token.end);
      if (at === tokens.length - 1) {
        const shown = withoutEnding(content, harmonyMarkers);
        if (shown !== "") emit("normal", shown);
      } else if (!isFiller(pythonStrip(content), tokens[at - 1])) {
        emit("normal", content);
      }
      at++;
    } else if (token.kind === "start" || token.kind === "channel") {
      const block = readBlock(text, tokens, at);
      if (block.event !== null) events.push(block.event);
      if (block.next === null) break;
      at = block.next;
    } else {
      // A marker out of place says nothing.
      at++;
    }
  }
  return events;
}

/** A lone "commentary" after a call, or a marker that an unknown marker before it has made into text. */
function isFiller(text: string, before: Token | undefined): boolean {
  return harmonyMarkers.includes(text) || (before?.kind === "call" && pythonLower(text) === "commentary");
}

/** `next` is `null` when the block does not end: then nothing after its beginning is read. */
type Block = { readonly event: HarmonyEvent | null; readonly next: number | null };

function readBlock(text: string, tokens: readonly Token[], at: number): Block {
  const first = tokens[at]!.kind === "start" ? at + 1 : at;
  const message = findKind(tokens, first, ["message"]);
  if (message === -1) return { event: null, next: null };
  const channel = tokens.slice(first, message).findIndex(({ kind }) => kind === "channel");
  const contentStart = tokens[message]!.end;
  const eventOf = (type: HarmonyEvent["type"], end: number, raw: number = end): HarmonyEvent => ({
    type,
    content: text.slice(contentStart, end),
    raw: text.slice(tokens[at]!.start, raw),
  });
  if (channel === -1) {
    const end = findKind(tokens, message + 1, ["end", "call", "return"]);
    return end === -1 ? { event: null, next: null } : { event: eventOf("normal", tokens[end]!.start), next: end + 1 };
  }
  const header = text.slice(tokens[first + channel + 1]!.start, tokens[message]!.start);
  const kind = channelOf(header);
  if (kind === null) return { event: null, next: null };
  const end = findKind(tokens, message + 1, kind === "final" ? ["return"] : ["end", "call"]);
  if (end === -1) {
    // A final answer may end with the text; unfinished reasoning is still reasoning; an unfinished call is nothing.
    if (kind === "final") return { event: eventOf("normal", text.length), next: tokens.length };
    return { event: kind === "analysis" ? eventOf("reasoning", text.length) : null, next: null };
  }
  const ending = tokens[end]!;
  if (kind === "final") {
    const trailing = tokens[end + 1];
    const event = eventOf("normal", ending.start);
    if (trailing?.kind !== "text") return { event, next: end + 1 };
    return { event: { ...event, content: event.content + text.slice(trailing.start, trailing.end) }, next: end + 2 };
  }
  if (ending.kind === "call") {
    const event = eventOf("tool-call", ending.start, ending.end);
    return { event: { ...event, content: pythonStrip(event.content) }, next: end + 1 };
  }
  return { event: eventOf(kind === "analysis" ? "reasoning" : "normal", ending.start), next: end + 1 };
}

function findKind(tokens: readonly Token[], from: number, wanted: readonly Kind[]): number {
  for (let at = from; at < tokens.length; at++) if (wanted.includes(tokens[at]!.kind)) return at;
  return -1;
}

function channelOf(header: string): "analysis" | "commentary" | "final" | null {
  const word = pythonLower(pythonStrip(header));
  return (["analysis", "commentary", "final"] as const).find((kind) => word.startsWith(kind)) ?? null;
}

/** Markers and the text between them. An unknown marker is text, in pieces that end before the next marker. */
function tokenize(text: string): readonly Token[] {
  const tokens: Token[] = [];
  const add = (kind: Kind, start: number, end: number): number => tokens.push({ kind, start, end });
  let hasUnknown = false;
  // Searched for once: a text without it would otherwise be searched to its end for every unknown marker.
  const lastClose = text.lastIndexOf("|>");
  let at = 0;
  while (at < text.length) {
    const marker = text.indexOf("<|", at);
    if (marker === -1) break;
    if (marker > at) add("text", at, marker);
    const kind = kinds.find((candidate) => text.startsWith(`<|${candidate}|>`, marker));
    if (kind !== undefined) {
      at = marker + kind.length + 4;
      add(kind, marker, at);
      continue;
    }
    const tail = text.slice(marker, marker + 16);
    if (marker + tail.length === text.length && harmonyMarkers.some((literal) => literal.startsWith(tail))) {
      add("text", marker, text.length);
      return tokens.concat(emptyTail(text, hasUnknown));
    }
    hasUnknown = true;
    add("text", marker, marker + 2);
    at = marker + 2;
    if (lastClose < at) continue;
    const close = text.indexOf("|>", at);
    const next = text.indexOf("<|", close + 2);
    const end = next === -1 ? text.length : next;
    add("text", at, end);
    at = end;
  }
  if (at < text.length) add("text", at, text.length);
  return tokens.concat(at >= text.length ? emptyTail(text, hasUnknown) : []);
}

/** After unknown markers a text that ends with a marker counts as followed by empty text. */
function emptyTail(text: string, hasUnknown: boolean): readonly Token[] {
  const isNeeded = hasUnknown && harmonyMarkers.some((literal) => text.endsWith(literal));
  return isNeeded ? [{ kind: "text", start: text.length, end: text.length }] : [];
}
