// Tool calls as JSON between tags: Hermes, Qwen, Trinity, Intern-S1 and DeepSeek up to V3.1. The
// formats differ in where the tags must be, in the effect of one invalid call, and in whether the
// name is part of the JSON.

import { dumpJson } from "../../python-semantics/json/index.ts";
import { isTruthy, PythonError, pythonLstrip, pythonRstrip, pythonStrip } from "../../python-semantics/index.ts";
import { createToolCallParser, type ToolCallFormat } from "../tool-call-format.ts";
import type { ToolCallParser } from "../tool-call-parser.ts";
import { blocksBetween, openBlocks } from "../text-pieces.ts";
import { guessName, type ToolCallScan } from "../tool-call-scan.ts";

const openingTag = "<tool_call>";
const closingTag = "</tool_call>";
const openingLine = `${openingTag}\n`;
const closingLine = `\n${closingTag}`;

/** The last call need not be closed. */
export const hermes = createToolCallParser({
  name: "hermes",
  markers: [openingTag, closingTag],
  hints: { nesting: { [openingTag]: closingTag } },
  opening: openingTag,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    for (const body of openBlocks(text, openingTag, closingTag)) {
      if (body !== "") scan.add(scan.callsIn(scan.readJson(pythonStrip(body)), body));
    }
    return pythonStrip(text.slice(0, start));
  },
});

/**
 * Qwen2.5 and Qwen3, `qwen` too: one JSON object between tags on lines of their own. To SGLang the
 * newlines are part of the tags, so it reads a call written on one line as plain text; here that is
 * reported as a problem.
 */
const qwen25Format: ToolCallFormat = {
  name: "qwen25",
  markers: [openingTag, closingTag],
  hints: {
    contentEnd: [openingLine],
    nesting: { [openingTag]: closingLine },
    straighten: onOwnLines,
  },
  opening: null,
  hasToolCall: (text) => text.includes(openingLine),
  detect: (text, scan) => {
    let rest = 0;
    for (const block of blocksBetween(text, openingLine, closingLine)) {
      reportStrayTags(text.slice(rest, block.start), scan);
      const body = pythonStrip(block.body);
      const value = scan.tryJson(body);
      if (value !== undefined) scan.add(scan.callsIn(value, body));
      rest = block.end;
    }
    reportStrayTags(text.slice(rest), scan);
    const first = text.indexOf(openingLine);
    return first === -1 ? text : pythonStrip(text.slice(0, first));
  },
};
export const qwen25 = createToolCallParser(qwen25Format);

/** An opening tag outside a complete block: the policy meant a call that SGLang does not see. */
function reportStrayTags(text: string, scan: ToolCallScan): void {
  const start = text.indexOf(openingTag);
  if (start === -1) return;
  const isClosed = text.includes(closingTag, start);
  const detail = isClosed
    ? `${openingTag} and ${closingTag} must each stand on a line of their own.`
    : `The call does not end with ${closingTag}.`;
  const source = text.slice(start);
  scan.report("unterminated-call", source, detail, guessName(source));
}

/** Puts each tag on a line of its own, as the format requires. */
function onOwnLines(text: string): string {
  const opened = text.split(openingTag);
  const behind = opened.map((part, index) => (index === 0 ? part : `\n${pythonLstrip(part)}`)).join(openingTag);
  const closed = behind.split(closingTag);
  return closed.map((part, index) => (index === closed.length - 1 ? part : `${pythonRstrip(part)}\n`)).join(closingTag);
}

const withoutThinkTags = (text: string): string => text.replaceAll("<think>", "").replaceAll("</think>", "");

/**
 * Qwen's format, after deletion of every thinking tag, inside strings too; a call in thinking
 * counts.
 */
export const trinity = createToolCallParser({
  ...qwen25Format,
  name: "trinity",
  hints: { ...qwen25Format.hints, contentEnd: [openingLine, "<think>", "</think>"] },
  hasToolCall: (text) => withoutThinkTags(text).includes(openingLine),
  detect: (text, scan) => qwen25Format.detect(withoutThinkTags(text), scan, -1),
});

const actionOpening = "<|action_start|> <|plugin|>";
const actionClosing = "<|action_end|>";

/**
 * Arguments under "parameters" if that key is present, else "arguments". Text that is not JSON is
 * skipped; other errors drop all calls.
 */
export const interns1 = createToolCallParser({
  name: "interns1",
  markers: ["<|action_start|>", "<|plugin|>", actionClosing],
  hints: { nesting: { [actionOpening]: actionClosing } },
  opening: actionOpening,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    let isText = true;
    for (const { body } of scan.blocks(text, actionOpening, actionClosing)) {
      isText = false;
      const value = scan.tryJson(pythonStrip(body));
      if (value === undefined) continue;
      const call = scan.object(value, body);
      const given = (call.has("parameters") ? call.get("parameters") : call.get("arguments")) ?? null;
      const name = call.get("name") ?? null;
      if (!scan.isCallable(name, body)) continue;
      if (typeof name !== "string" || !scan.hasTool(name)) throw new PythonError("KeyError", "unknown tool");
      scan.add([scan.call(name, isTruthy(given) ? dumpJson(given) : "{}")]);
    }
    return isText ? text : pythonStrip(text.slice(0, start));
  },
});

const section = "<｜tool▁calls▁begin｜>";
const callOpening = "<｜tool▁call▁begin｜>";
const callClosing = "<｜tool▁call▁end｜>";
const separator = "<｜tool▁sep｜>";
const fence = "\n```json\n";
const fenceEnd = "\n```";

type Parts = { readonly name: string; readonly json: string };

/** The end of the section may be missing, the end of each call may not; one invalid call drops all. */
function createDeepseekParser(
  name: string,
  nesting: Readonly<Record<string, string>>,
  split: (call: string) => Parts | null,
): ToolCallParser {
  return createToolCallParser({
    name,
    markers: [section, "<｜tool▁calls▁end｜>", callOpening, callClosing, separator],
    hints: { nesting: { [callOpening]: callClosing, ...nesting } },
    opening: section,
    isAllOrNothing: true,
    detect: (text, scan, start) => {
      for (const { body } of scan.blocks(text, callOpening, callClosing)) {
        const parts = split(body);
        if (parts === null) {
          scan.report("unterminated-call", body, "The call has no name or no arguments where they belong.");
          throw new PythonError("AttributeError", "a call without its parts");
        }
        const parameters = scan.readJson(parts.json);
        scan.add(scan.callsIn(new Map([["name", parts.name], ["parameters", parameters]]), body)); // prettier-ignore
      }
      return pythonStrip(text.slice(0, start));
    },
  });
}

/** A fenced JSON block after the name; the type before the separator is ignored. */
export const deepseekv3 = createDeepseekParser("deepseekv3", { [fence]: fenceEnd }, (call) => {
  if (!call.endsWith(fenceEnd)) return null;
  const end = call.length - fenceEnd.length;
  const fenceStart = end < fence.length ? -1 : call.lastIndexOf(fence, end - fence.length);
  if (fenceStart < separator.length) return null;
  const separatorStart = call.lastIndexOf(separator, fenceStart - separator.length);
  if (separatorStart === -1) return null;
  return {
    name: call.slice(separatorStart + separator.length, fenceStart),
    json: call.slice(fenceStart + fence.length, end),
  };
});

/** Bare JSON after the name. */
export const deepseekv31 = createDeepseekParser("deepseekv31", {}, (call) => {
  const start = call.lastIndexOf(separator);
  return start === -1 ? null : { name: call.slice(0, start), json: call.slice(start + separator.length) };
});
