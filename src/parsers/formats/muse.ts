// Muse Glimmer's channels: each names a recipient, and those to tools contain calls in tags of
// their own. Thoughts are addressed to the model itself. The reasoning parser leaves channels
// framed for the tool-call parser if the text contains any call, as SGLang does when both are used.

import { dumpJson, parseJson } from "../../python-semantics/json/index.ts";
import { isSpace, type PythonValue, space, unlessRaised, wordCharacters } from "../../python-semantics/index.ts";
import { type ReasoningParser, silentStep } from "../reasoning-parser.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";

const start = "<|start|>";
const message = "<|message|>";
const messageEnds = ["<|eom|>", "<|eot|>"] as const;
const section = "<atem:function_calls>";
const sectionEnd = "</atem:function_calls>";
const invoke = "<atem:invoke";
const invokeEnd = "</atem:invoke>";
const parameter = "<atem:parameter";
const parameterEnd = "</atem:parameter>";

const hasCalls = (text: string): boolean => text.includes(invoke) || text.includes(section);

export const muse = createToolCallParser({
  name: "muse",
  markers: [start, message, ...messageEnds, section, sectionEnd, invokeEnd],
  hints: {
    contentEnd: ["<|", "<atem:", "to="],
    contentEndAtStart: [" "],
    callEnds: [invokeEnd],
    nesting: { [section]: sectionEnd, [invoke]: invokeEnd, [parameter]: parameterEnd },
  },
  opening: null,
  hasToolCall: hasCalls,
  detect: (text, scan) => {
    const outside: string[] = [];
    for (const { recipient, body } of channelsOf(text)) {
      if (recipient === null || ["commentary", "self", "user"].includes(recipient)) outside.push(body);
      else readCalls(body, scan);
    }
    return outside.join("");
  },
});

type Channel = {
  /** `null`: text without a channel. */
  readonly recipient: string | null;
  /** Text that opens the channel, without its last token. */
  readonly header: string;
  readonly body: string;
  /** The token that ends the channel; "" at the end of the text. */
  readonly end: string;
  /** The text ends inside the token that opens a channel. */
  readonly isCut: boolean;
};

const recipientPattern = new RegExp(`to=([^${space.slice(1, -1)}<]+)`, "u");

/** Channels and the text between them, in order; a truncated header is text. */
function* channelsOf(text: string): Generator<Channel> {
  const plain = (body: string): Channel => ({ recipient: null, header: "", body, end: "", isCut: false });
  const ends = messageEnds.map((token) => ({ token, at: -1 }));
  let at = 0;
  for (let isFirst = true; at < text.length; isFirst = false) {
    let recipient: string | null = null;
    let header = "";
    const bare = skipBlanks(text, at);
    const isHeader = (isFirst && mayOpen(text)) || start.startsWith(text.slice(bare, bare + start.length));
    if (isHeader) {
      const isOpened = isFirst && mayOpen(text);
      if (!isOpened) {
        yield plain(text.slice(at, bare));
        at = bare;
      }
      const open = text.indexOf(message, at);
      if (open === -1) {
        yield { ...plain(text.slice(at)), isCut: !isOpened && text.length - at < start.length };
        return;
      }
      header = text.slice(at, open);
      recipient = recipientPattern.exec(header)?.[1] ?? "user";
      at = open + message.length;
    }
    for (const end of ends) {
      if (end.at >= at) continue;
      const found = text.indexOf(end.token, at);
      end.at = found === -1 ? Infinity : found;
    }
    const end = ends[0]!.at <= ends[1]!.at ? ends[0]! : ends[1]!;
    const body = text.slice(at, Math.min(end.at, text.length));
    yield { recipient, header, body, end: end.at === Infinity ? "" : end.token, isCut: false };
    at = end.at === Infinity ? text.length : end.at + end.token.length;
  }
}

function skipBlanks(text: string, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text[at]!)) at++;
  return at;
}

const freeRecipient = new RegExp(`^[^${space.slice(1, -1)}<]*(<|$)`, "u");

/** True if a text may begin with the header of a channel: the prompt has opened the first message. */
function mayOpen(text: string): boolean {
  const bare = text.slice(skipBlanks(text, 0));
  if (bare === "") return true;
  if (!bare.startsWith("to=") && !"to=".startsWith(bare.slice(0, 3))) return false;
  if (bare.includes(message)) return true;
  const rest = bare.slice(3);
  const end = freeRecipient.exec(rest);
  return end !== null && (end[1] === "" || message.startsWith(rest.slice(end[0].length - 1)));
}

function readCalls(text: string, scan: ToolCallScan): void {
  const called = tagsOf(invoke, text);
  let at = 0;
  for (let tag = called(0); tag !== null; tag = called(at)) {
    const end = text.indexOf(invokeEnd, tag.end);
    if (end === -1) {
      scan.report("unterminated-call", text.slice(tag.start), `The call does not end with ${invokeEnd}.`, tag.name);
      return;
    }
    at = end + invokeEnd.length;
    const body = text.slice(tag.end, end);
    const name = knownName(tag.name, scan);
    if (scan.isCallable(name, body)) scan.add([scan.call(name, dumpJson(readArguments(body)), scan.calls.length)]);
  }
  if (at === 0 && hasCalls(text)) scan.report("unterminated-call", text, "The tags hold no complete call.");
}

function readArguments(body: string): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  const given = tagsOf(parameter, body);
  for (let tag = given(0); tag !== null;) {
    const end = body.indexOf(parameterEnd, tag.end);
    if (end === -1) break;
    const value = body.slice(tag.end, end);
    const read = unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(value));
    result.set(tag.name, read === undefined ? value : read);
    tag = given(end + parameterEnd.length);
  }
  return result;
}

/**
 * Corrects a tool's name if the model has doubled its namespace, or has written one that the tool
 * does not have.
 */
function knownName(name: string, scan: ToolCallScan): string {
  if (scan.hasTool(name) || !name.includes(".")) return name;
  const dot = name.indexOf(".");
  const head = name.slice(0, dot);
  if (head === name.slice(dot + 1) && scan.hasTool(head)) return head;
  const leafOf = (full: string): string => full.slice(full.lastIndexOf(".") + 1);
  const names = new Set(scan.tools.map((tool) => tool.name).filter((known) => known !== ""));
  const alike = [...names].filter((known) => leafOf(known) === leafOf(name));
  return alike.length === 1 ? alike[0]! : name;
}

type OpeningTag = { readonly start: number; readonly name: string; readonly end: number };

/**
 * Finds opening tags of a kind that have a name, from a position that only grows. The name begins
 * before the first ">" of the tag, and may contain one itself.
 */
function tagsOf(tag: string, text: string): (from: number) => OpeningTag | null {
  const opening = new RegExp(`${tag}(?![${wordCharacters}])`, "gu");
  const named = new RegExp(`(?<![${wordCharacters}])name="`, "gu");
  return (from) => {
    opening.lastIndex = from;
    for (let match = opening.exec(text); match !== null; match = opening.exec(text)) {
      const first = opening.lastIndex;
      const limit = text.indexOf(">", first);
      if (limit === -1) return null;
      named.lastIndex = first;
      for (let name = named.exec(text); name !== null && name.index < limit; name = named.exec(text)) {
        const nameStart = named.lastIndex;
        const nameEnd = text.indexOf('"', nameStart);
        const end = nameEnd === -1 ? -1 : text.indexOf(">", nameEnd);
        if (end === -1) return null;
        if (nameEnd > nameStart) return { start: match.index, name: text.slice(nameStart, nameEnd), end: end + 1 };
      }
      // A tag that begins before the same ">" has no other name.
      opening.lastIndex = limit;
    }
    return null;
  };
}

export const museReasoning: ReasoningParser = {
  name: "muse",
  markers: [` to=self${message}`, messageEnds[0]],
  hasTags: false,
  split: (text) => {
    const channels = [...channelsOf(text)];
    const isShown = (recipient: string | null): boolean => recipient === "user" || recipient === "commentary";
    const restOf = (keepsFrames: boolean): string =>
      channels
        .filter(({ recipient, isCut }) => recipient !== "self" && !isCut)
        .map(({ recipient, header, body, end }) => {
          const isFramed = recipient !== null && (keepsFrames || !isShown(recipient));
          const isEnded = keepsFrames || !isShown(recipient);
          return (isFramed ? header + message : "") + body + (isEnded ? end : "");
        })
        .join("");
    const reasoning = channels.filter(({ recipient }) => recipient === "self").map(({ body }) => body);
    const rest = restOf(false);
    return { reasoning: reasoning.join("\n"), normalText: hasCalls(rest) ? restOf(true) : rest };
  },
  // The type of a channel is known from its header, whose end may be far away.
  startSplitting: () => silentStep,
};
