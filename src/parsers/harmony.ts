// Harmony, the format of gpt-oss: blocks of `<|channel|>kind<|message|>content` that end with a
// marker, or, if the markers were lost, bare words ("analysis...assistantfinal..."). Reads finished
// text into events; both parsers of the family use it.

import { isSpace, pythonLower, pythonStrip } from "../python-semantics/index.ts";
import { beginningOfOne } from "./text-pieces.ts";

/** A piece of a reply in Harmony, the format of gpt-oss. */
export type HarmonyEvent = {
  readonly type: "reasoning" | "normal" | "tool-call";
  readonly content: string;
  /** For calls: the whole block with its markers. */
  readonly raw: string;
};

export function readHarmony(text: string): readonly HarmonyEvent[] {
  const isMarked = text.includes("<|channel|>") || text.includes("<|start|>");
  return withoutFiller(isMarked ? readPieces(text) : readBareHarmony(text), pythonStrip(text).endsWith("<|call|>"));
}

/** Word that models sometimes write on its own after a call. */
const filler = "commentary";

/**
 * Drops filler after calls, in one event or spelled out over several, with the blanks among its
 * letters.
 */
function withoutFiller(events: readonly HarmonyEvent[], endsWithCall: boolean): readonly HarmonyEvent[] {
  /** Letters of the filler that may still come; `null` if no filler is expected. */
  let awaited: string | null = null;
  return events.filter(({ type, content }) => {
    if (type === "normal" && awaited !== null) {
      const word = pythonLower(pythonStrip(content));
      const isFiller = awaited.startsWith(word);
      awaited = isFiller && word.length < awaited.length ? awaited.slice(word.length) : null;
      if (isFiller) return false;
    }
    if (type === "tool-call") awaited = filler;
    else if (endsWithCall) awaited ??= filler;
    return true;
  });
}

type Channel = {
  /** Markers that end a block of this channel. */
  readonly endings: readonly string[];
  readonly type: "reasoning" | "normal";
  /** `<|call|>` makes the block a call. */
  readonly maySayCalls: boolean;
  /** The block counts even if the text ends before it does. */
  readonly mayStayOpen: boolean;
  /** Text directly after the block belongs to it. */
  readonly takesTrailing: boolean;
};

const channels: Readonly<Record<"analysis" | "commentary" | "final", Channel>> = {
  analysis: { endings: ["end", "call"], type: "reasoning", maySayCalls: true, mayStayOpen: true, takesTrailing: false },
  commentary: { endings: ["end", "call"], type: "normal", maySayCalls: true, mayStayOpen: false, takesTrailing: false },
  final: { endings: ["return"], type: "normal", maySayCalls: false, mayStayOpen: true, takesTrailing: true },
};

/** Messages without a channel: results of tools. */
const noChannel: Channel = {
  endings: ["end", "call", "return"],
  type: "normal",
  maySayCalls: false,
  mayStayOpen: false,
  takesTrailing: false,
};

function readPieces(text: string): readonly HarmonyEvent[] {
  const pieces = splitHarmony(text);
  const events: HarmonyEvent[] = [];
  for (let at = 0; at < pieces.length;) {
    const { marker } = pieces[at]!;
    if (marker === "start" || marker === "channel") {
      const block = readBlock(text, pieces, at);
      if (block?.event) events.push(block.event);
      at = block?.next ?? pieces.length;
    } else {
      // A misplaced marker has no content.
      const content = marker === null ? textBetween(text, pieces, at) : "";
      if (content !== "") events.push({ type: "normal", content, raw: content });
      at++;
    }
  }
  return events;
}

/**
 * Text outside of blocks; "" for pieces that only look like text: filler, a marker in disguise, an
 * incomplete marker.
 */
function textBetween(text: string, pieces: readonly HarmonyPiece[], at: number): string {
  const content = text.slice(pieces[at]!.start, pieces[at]!.end);
  const bare = pythonStrip(content);
  const isLast = at === pieces.length - 1;
  if (harmonyMarkers.includes(bare) && (!isLast || content.endsWith(bare))) return "";
  if (isLast) return withoutEnding(content, harmonyMarkers);
  return pieces[at - 1]?.marker === "call" && pythonLower(bare) === filler ? "" : content;
}

/**
 * A block from its first marker on, and the piece after it; `null` if nothing from here on can be
 * read.
 */
function readBlock(
  text: string,
  pieces: readonly HarmonyPiece[],
  first: number,
): { readonly event: HarmonyEvent; readonly next: number } | null {
  const message = placeOf(pieces, first, ["message"]);
  const channel = message === -1 ? null : channelOf(text, pieces, first, message);
  if (channel === null) return null;
  const ending = placeOf(pieces, message, channel.endings);
  if (ending === -1 && !channel.mayStayOpen) return null;
  const content = text.slice(pieces[message]!.end, pieces[ending]?.start ?? text.length);
  const raw = text.slice(pieces[first]!.start, pieces[ending]?.end ?? text.length);
  if (ending === -1) return { event: { type: channel.type, content, raw }, next: pieces.length };
  if (channel.maySayCalls && pieces[ending]!.marker === "call") {
    return { event: { type: "tool-call", content: pythonStrip(content), raw }, next: ending + 1 };
  }
  const following = channel.takesTrailing ? pieces[ending + 1] : undefined;
  const trailing = following?.marker === null ? text.slice(following.start, following.end) : null;
  return {
    event: { type: channel.type, content: content + (trailing ?? ""), raw },
    next: ending + (trailing === null ? 1 : 2),
  };
}

/** The channel that the header of a block names first; `null` for an unknown channel. */
function channelOf(text: string, pieces: readonly HarmonyPiece[], first: number, message: number): Channel | null {
  const at = placeOf(pieces, first, ["channel", "message"]);
  if (at === message) return noChannel;
  const name = pythonLower(pythonStrip(text.slice(pieces[at]!.end, pieces[message]!.start)));
  return Object.entries(channels).find(([known]) => name.startsWith(known))?.[1] ?? null;
}

function placeOf(pieces: readonly HarmonyPiece[], from: number, markers: readonly string[]): number {
  for (let at = from; at < pieces.length; at++) if (markers.includes(pieces[at]!.marker ?? "")) return at;
  return -1;
}

// Text in pieces: markers and the text between them. Text is cut at every "<|", and adjacent pieces
// of text stay separate, since the text of a reply is joined with blanks.

const names = ["start", "channel", "message", "constrain", "end", "call", "return"] as const;

export const harmonyMarkers: readonly string[] = names.map((name) => `<|${name}|>`);

export type HarmonyPiece = {
  /** `null`: text. */
  readonly marker: (typeof names)[number] | null;
  readonly start: number;
  readonly end: number;
};

const opening = "<|";

export function splitHarmony(text: string): readonly HarmonyPiece[] {
  const pieces: HarmonyPiece[] = [];
  const add = (marker: HarmonyPiece["marker"], start: number, end: number): void => {
    if (end > start) pieces.push({ marker, start, end });
  };
  const cuts = cutsOf(text);
  // Computed once: without a "|>" the text would otherwise be searched to its end for every unknown
  // marker.
  const lastClose = text.lastIndexOf("|>");
  add(null, 0, cuts[0]!);
  for (let index = 0; index < cuts.length - 1; index++) {
    const start = cuts[index]!;
    const end = cuts[index + 1]!;
    const marker = names.find((name) => text.startsWith(`${name}|>`, start + opening.length));
    if (marker !== undefined) {
      const behind = start + marker.length + 4;
      add(marker, start, behind);
      add(null, behind, end);
    } else if (end === text.length && isCutMarker(text.slice(start, start + 16))) {
      add(null, start, end);
    } else {
      const body = start + opening.length;
      add(null, start, body);
      // Text that looks like a marker but is not one extends to its "|>", across markers in
      // between.
      if (lastClose >= body) index = closingCut(text, cuts, index);
      add(null, body, cuts[index + 1]!);
    }
  }
  return pieces;
}

/** Positions of every "<|", and the end. */
function cutsOf(text: string): readonly number[] {
  const cuts: number[] = [];
  for (let at = text.indexOf(opening); at !== -1; at = text.indexOf(opening, at + opening.length)) cuts.push(at);
  return [...cuts, text.length];
}

const isCutMarker = (tail: string): boolean => harmonyMarkers.some((marker) => marker.startsWith(tail));

/** The last cut before the first "|>" after the cut at `index`. */
function closingCut(text: string, cuts: readonly number[], index: number): number {
  const close = text.indexOf("|>", cuts[index]! + opening.length);
  let last = index;
  while (last + 2 < cuts.length && cuts[last + 1]! <= close) last++;
  return last;
}

// Harmony after its markers were stripped: channel names run into the text ("analysisLet me see.assistantfinalHello").

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
    const normal = shown === content ? pythonStrip(shown) : shown;
    return [{ type: "normal", content: normal, raw: normal }];
  }
  const shown = withoutEnding(text, ["analysis", "commentary", finalWord]);
  return shown === "" ? [] : [{ type: "normal", content: shown, raw: shown }];
}

function event(type: HarmonyEvent["type"], text: string): readonly HarmonyEvent[] {
  const content = pythonStrip(text);
  return content === "" ? [] : [{ type, content, raw: content }];
}

type Header = { readonly channel: "analysis" | "commentary"; readonly end: number };

/** `assistant` if present, and the channel's name, at the beginning of the text. */
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

/** Finds a word at the beginning, after white space, or after an `assistant` in such a position. */
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
function withoutEnding(text: string, words: readonly string[]): string {
  return text.slice(0, text.length - beginningOfOne(text, text.length, words));
}
