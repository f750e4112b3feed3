// Harmony, the format of gpt-oss: blocks of `<|channel|>kind<|message|>content` that end with a marker, or, where markers
// were lost, bare words ("analysis...assistantfinal..."). Reads finished text into events; both parsers of the family use it.

import { pythonLower, pythonStrip } from "../python-semantics/index.ts";
import type { HarmonyEvent } from "./harmony-event.ts";
import { harmonyMarkers, type HarmonyPiece, splitHarmony } from "./harmony-pieces.ts";
import { readBareHarmony, withoutEnding } from "./harmony-words.ts";

export { harmonyMarkers } from "./harmony-pieces.ts";

export function readHarmony(text: string): readonly HarmonyEvent[] {
  const isMarked = text.includes("<|channel|>") || text.includes("<|start|>");
  return withoutFiller(isMarked ? readPieces(text) : readBareHarmony(text), pythonStrip(text).endsWith("<|call|>"));
}

/** What models sometimes write on its own behind a call. */
const filler = "commentary";

/** Drops filler behind calls, in one event or spelled out over several; blanks among its letters go with it. */
function withoutFiller(events: readonly HarmonyEvent[], endsWithCall: boolean): readonly HarmonyEvent[] {
  /** Letters of the filler that may still come; `null`: none is looked for. */
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
  /** The block counts where the text ends before it does. */
  readonly mayStayOpen: boolean;
  /** Text right behind the block belongs to it. */
  readonly takesTrailing: boolean;
};

const channels: Readonly<Record<"analysis" | "commentary" | "final", Channel>> = {
  analysis: { endings: ["end", "call"], type: "reasoning", maySayCalls: true, mayStayOpen: true, takesTrailing: false },
  commentary: { endings: ["end", "call"], type: "normal", maySayCalls: true, mayStayOpen: false, takesTrailing: false },
  final: { endings: ["return"], type: "normal", maySayCalls: false, mayStayOpen: true, takesTrailing: true },
};

/** Messages without a channel: what tools answer. */
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
      // A marker out of place says nothing.
      const words = marker === null ? wordsBetween(text, pieces, at) : "";
      if (words !== "") events.push({ type: "normal", content: words, raw: words });
      at++;
    }
  }
  return events;
}

/** Text outside of blocks, "" for what only looks like it: filler, a marker in disguise, a marker that is cut off. */
function wordsBetween(text: string, pieces: readonly HarmonyPiece[], at: number): string {
  const words = text.slice(pieces[at]!.start, pieces[at]!.end);
  const bare = pythonStrip(words);
  const isLast = at === pieces.length - 1;
  if (harmonyMarkers.includes(bare) && (!isLast || words.endsWith(bare))) return "";
  if (isLast) return withoutEnding(words, harmonyMarkers);
  return pieces[at - 1]?.marker === "call" && pythonLower(bare) === filler ? "" : words;
}

/** A block from its first marker on, and the piece behind it; `null` when nothing from here on can be read. */
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

/** The channel that the header of a block names first; `null` for one that there is not. */
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
