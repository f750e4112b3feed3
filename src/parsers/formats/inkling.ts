// Inkling's messages of typed blocks: thoughts, text, calls in JSON and calls in bare text. One
// call without strict framing drops all but the last call, which is then read as far as possible.
// Calls of unknown tools are accepted, and calls are numbered.

import { dumpJson, type JsonObject, parseJson } from "../../python-semantics/json/index.ts";
import { pythonStrip, unlessRaised, verbatim } from "../../python-semantics/index.ts";
import { type ReasoningParser, silentStep } from "../reasoning-parser.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { DetectedCall, ToolCallScan } from "../tool-call-scan.ts";

const jsonCall = "<|content_invoke_tool_json|>";
const textCall = "<|content_invoke_tool_text|>";
const messageOpening = "<|message_model|>";
const messageEnd = "<|end_message|>";
const thinking = "<|content_thinking|>";
const content = "<|content_text|>";
const samplingEnd = "<|content_model_end_sampling|>";
const controls: readonly string[] = [
  "<|endoftext|>",
  "<|message_user|>",
  messageOpening,
  "<|message_system|>",
  "<|message_tool|>",
  content,
  "<|content_image|>",
  samplingEnd,
  thinking,
  messageEnd,
  "<|content_audio_input|>",
  "<|content_tool_error|>",
  "<|content_xml|>",
  "<|audio_end|>",
  jsonCall,
  textCall,
  "<|content_invoke_tool|>",
  "<|model_trigger_generation|>",
];

export const inkling = createToolCallParser({
  name: "inkling",
  markers: [jsonCall, textCall, messageOpening, messageEnd],
  hints: { contentEnd: ["<|"], callEnds: [messageEnd], nesting: { [jsonCall]: messageEnd } },
  opening: null,
  hasToolCall: (text) => text.includes(jsonCall) || text.includes(textCall),
  detect: (text, scan) => {
    if (!text.includes(jsonCall) && !text.includes(textCall)) return withoutControls(text);
    const framed = readFramed(text, scan);
    if (framed !== null) {
      for (const { name } of framed.calls) if (name !== null && name !== "") scan.reportUnknown(name, text);
      scan.add(framed.calls);
      return withoutControls(framed.outside);
    }
    const recovered = readLast(text, scan);
    scan.add(recovered);
    return recovered.length > 0 ? "" : withoutControls(text);
  },
});

const withoutControls = (text: string): string =>
  controls.reduce((rest, control) => rest.replaceAll(control, ""), text);

type Framed = { readonly outside: string; readonly calls: readonly DetectedCall[] };

const marker = new RegExp(`${verbatim(jsonCall)}|${verbatim(textCall)}`, "g");

/** `null`: a call is not framed correctly. */
function readFramed(text: string, scan: ToolCallScan): Framed | null {
  const calls: DetectedCall[] = [];
  let outside = "";
  let rest = 0;
  for (marker.lastIndex = 0; ;) {
    const match = marker.exec(text);
    if (match === null) return { outside: outside + text.slice(rest), calls };
    outside += withoutHeader(text.slice(rest, match.index));
    const start = marker.lastIndex;
    const end = text.indexOf(messageEnd, start);
    const body = text.slice(start, end);
    if (end === -1) {
      scan.report("unterminated-call", text.slice(match.index), `The call does not end with ${messageEnd}.`);
      return null;
    }
    const call = match[0] === jsonCall ? readJsonCall(body, scan, calls.length) : bareCall(body, scan, calls.length);
    if (call === null) {
      scan.report("not-json", body, 'The call is not a JSON object with "name" and "args".');
      return null;
    }
    calls.push(call);
    rest = end + messageEnd.length;
    marker.lastIndex = rest;
  }
}

/** The text before a call without the header of its message. */
function withoutHeader(text: string): string {
  const start = text.lastIndexOf(messageOpening);
  const header = start === -1 ? "" : text.slice(start + messageOpening.length);
  return start === -1 || controls.some((control) => header.includes(control)) ? text : text.slice(0, start);
}

const bareCall = (body: string, scan: ToolCallScan, place: number): DetectedCall =>
  scan.call("", dumpJson(new Map([["text", withoutControls(body)]]), { ensureAscii: true }), place);

/** Numbers that JSON does not have are refused here. */
function readJsonCall(body: string, scan: ToolCallScan, place: number): DetectedCall | null {
  const value = unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(pythonStrip(body)));
  const isFinite = !/NaN|Infinity/.test(body) || !/NaN|Infinity/.test(body.replace(/"(?:[^"\\]|\\.)*"/gs, '""'));
  return value instanceof Map && isFinite ? calledWith(value, scan, place) : null;
}

function calledWith(value: JsonObject, scan: ToolCallScan, place: number): DetectedCall | null {
  const [name, given] = [value.get("name"), value.get("args")];
  return typeof name === "string" && given instanceof Map ? scan.call(name, dumpJson(given), place) : null;
}

/** The last call in JSON, truncated or not. */
function readLast(text: string, scan: ToolCallScan): readonly DetectedCall[] {
  const last = text.lastIndexOf(jsonCall);
  if (last === -1) return [];
  const start = last + jsonCall.length;
  const end = text.indexOf(messageEnd, start);
  const body = pythonStrip(withoutControls(text.slice(start, end === -1 ? text.length : end)));
  const value = unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(body));
  const call = value instanceof Map ? calledWith(value, scan, 0) : null;
  return call === null || call.name === "" ? [] : [call];
}

const control = new RegExp(controls.map(verbatim).join("|"), "g");

export const inklingReasoning: ReasoningParser = {
  name: "inkling",
  markers: [thinking, messageEnd, content],
  hasTags: false,
  split: (text) => {
    const reasoning: string[] = [];
    const rest: string[] = [];
    let block: "none" | "header" | "reasoning" | "content" | "call" = "none";
    let header = "";
    const add = (piece: string): void => {
      if (block === "header") header += piece;
      else (block === "reasoning" ? reasoning : rest).push(piece);
    };
    let at = 0;
    for (const match of text.matchAll(control)) {
      add(text.slice(at, match.index));
      const [token] = match;
      at = match.index + token.length;
      const isEnd = token === messageEnd || token === samplingEnd;
      if (token === messageOpening) {
        // Inside a block the token is a quotation by the model.
        if (block !== "none" && block !== "header") add(token);
        else [block, header] = ["header", ""];
      } else if (token === jsonCall || token === textCall) {
        rest.push(...(block === "header" ? [messageOpening, header, token] : [token]));
        block = "call";
      } else if (block === "call") {
        rest.push(token);
        if (isEnd) block = "none";
      } else if (token === thinking || token === content) {
        block = token === thinking ? "reasoning" : "content";
      } else if (isEnd) {
        block = "none";
      }
    }
    add(text.slice(at));
    return { reasoning: reasoning.join(""), normalText: rest.join("") };
  },
  // The block to which a text belongs is known only at the next control token.
  startSplitting: () => silentStep,
};
