// A response template as the two parsers of an action: its field of thoughts is the reasoning, its
// tool calls are the calls, and all other fields are content.

import { dumpJson, type JsonValue } from "../../python-semantics/json/index.ts";
import { pythonStrip } from "../../python-semantics/strings.ts";
import { type ReasoningParser, silentStep } from "../reasoning-parser.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallParser } from "../tool-call-parser.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";
import { ResponseParseError } from "./errors.ts";
import type { Anchor, ResponseTemplate, TemplateField } from "./load-template.ts";
import { responseTemplateName } from "../parser-table.ts";
import { type ResponseEvent, ResponseParser } from "./response-parser.ts";

export type ResponseTemplateParsers = {
  readonly toolCallParser: ToolCallParser;
  /** `null` if the template has no field of thoughts. */
  readonly reasoningParser: ReasoningParser | null;
};

/** Names that templates use for the field of reasoning. */
const thoughtNames = ["thinking", "reasoning_content", "reasoning"];
const callsName = "tool_calls";

/** The parsers of a template, both called "response_template". Nothing is shown of an answer before its end. */
export function responseTemplateParsers(template: ResponseTemplate): ResponseTemplateParsers {
  const thoughts = [...template.fields.values()].filter(({ name }) => thoughtNames.includes(name));
  return {
    toolCallParser: callsParser(template),
    reasoningParser: thoughts.length === 0 ? null : thoughtsParser(template, thoughts),
  };
}

function thoughtsParser(template: ResponseTemplate, thoughts: readonly TemplateField[]): ReasoningParser {
  const texts = plainTexts(template);
  const [opening, closing] = [literalsOf(thoughts.map(({ open }) => open)), literalsOf(thoughts.map(({ close }) => close))]; // prettier-ignore
  const hasTags = opening.length === 1 && closing.length === 1;
  return {
    name: responseTemplateName,
    markers: [...opening, ...closing],
    hasTags,
    split: (text, { forceReasoning = false } = {}) => {
      const prefix = forceReasoning ? (opening[0] ?? "") : "";
      const regions = unlessRefused([], () => regionsOf(text, texts, prefix));
      if (regions.length === 0) return { reasoning: "", normalText: text };
      const isThought = ({ field }: Region): boolean => thoughtNames.includes(field);
      const reasoning = regions.filter((region) => isThought(region) && region.value !== "");
      // Calls stay as the model wrote them, for the other parser.
      const rest = regions.filter((region) => !isThought(region));
      return {
        reasoning: reasoning.map(({ value }) => value).join("\n"),
        normalText: pythonStrip(
          rest.map(({ field, start, end, value }) => (field === callsName ? text.slice(start, end) : value)).join(""),
        ),
      };
    },
    startSplitting: () => silentStep,
  };
}

function callsParser(template: ResponseTemplate): ToolCallParser {
  const field = template.fields.get(callsName);
  const calls: ResponseTemplate = {
    ...template,
    defaults: new Map(),
    fields: new Map(field === undefined ? [] : [[callsName, { ...field, isOptional: true }]]),
    implicit: null,
  };
  const opening = literalsOf([field?.open ?? null]);
  return createToolCallParser({
    name: responseTemplateName,
    markers: [...opening, ...literalsOf([field?.close ?? null])],
    hints: { contentEndAtStart: [""] },
    opening: null,
    signs: opening,
    hasToolCall: (text) =>
      field?.open !== undefined && unlessRefused(true, () => field.open?.pattern.find(text, 0) !== null),
    detect: (text, scan) => (field === undefined ? text : detectCalls(text, calls, scan)),
  });
}

/** `fallback` if a pattern of the template would take too long on the text. */
function unlessRefused<T>(fallback: T, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof ResponseParseError) return fallback;
    throw error;
  }
}

function detectCalls(text: string, template: ResponseTemplate, scan: ToolCallScan): string {
  let regions: readonly Region[];
  let calls: JsonValue;
  try {
    const parser = new ResponseParser(template, { prefix: "", tools: scan.tools });
    const events = parser.feed(text);
    const { message, events: last } = parser.finish();
    regions = pairs([...events, ...last]);
    calls = message.get(callsName) ?? [];
  } catch (error) {
    if (!(error instanceof ResponseParseError)) throw error;
    scan.report("not-json", text, error.message);
    return text;
  }
  for (const call of (Array.isArray(calls) ? calls : [calls]).flat()) {
    const source = dumpJson(call);
    const called = call instanceof Map ? (call.get("function") ?? call) : null;
    if (!(called instanceof Map)) {
      scan.report("not-an-object", source, "A call must be an object.");
      continue;
    }
    const [name, given] = [called.get("name") ?? null, called.get("arguments") ?? new Map<string, JsonValue>()];
    if (typeof name !== "string") scan.report("no-name", source, 'The call has no "name".');
    else if (scan.isCallable(name, source))
      scan.add([scan.call(name, typeof given === "string" ? given : dumpJson(given))]);
  }
  let content = "";
  let at = 0;
  for (const { start, end } of regions) {
    content += text.slice(at, start);
    at = end;
  }
  return pythonStrip(content + text.slice(at));
}

type Region = { readonly field: string; readonly start: number; readonly end: number; readonly value: string };

/** The regions of an answer, in order. */
function regionsOf(text: string, template: ResponseTemplate, prefix: string): readonly Region[] {
  const parser = new ResponseParser(template, { prefix });
  const events = [...parser.initialEvents, ...parser.feed(text)];
  return pairs([...events, ...parser.finish().events]);
}

function pairs(events: readonly ResponseEvent[]): readonly Region[] {
  const regions: Region[] = [];
  let start = 0;
  for (const event of events) {
    if (event.type === "region_open") start = event.at;
    if (event.type === "region_close") {
      const value = typeof event.value === "string" ? event.value : "";
      regions.push({ field: event.field, start, end: event.at, value });
    }
  }
  return regions;
}

/** The same regions with plain text as values: nothing in them is refused. */
function plainTexts(template: ResponseTemplate): ResponseTemplate {
  const plain = (field: TemplateField): TemplateField => ({
    ...field,
    content: "text",
    transform: null,
    transformsEach: false,
    repeats: false,
    join: null,
    isOptional: true,
    // The content may have a call in its middle.
    contentArguments: thoughtNames.includes(field.name) ? field.contentArguments : new Map([["strip", false]]),
  });
  const fields = new Map(Array.from(template.fields, ([name, field]) => [name, plain(field)] as const));
  return { ...template, defaults: new Map(), fields };
}

/** Texts of which anchors are made: their literals, and the fixed texts of their patterns. */
function literalsOf(anchors: readonly (Anchor | null)[]): string[] {
  return [
    ...new Set(anchors.flatMap((anchor) => (anchor === null ? [] : (anchor.literals ?? anchor.pattern.literals)))),
  ];
}
