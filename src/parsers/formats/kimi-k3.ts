// Kimi K3's channels: thoughts, an answer and a section of calls, each between an opening and a
// closing tag of three tokens. Calls of unknown tools are accepted, and calls are numbered.

import { dumpJson, parseJson } from "../../python-semantics/json/index.ts";
import { isSpace, type PythonValue, unlessRaised, wordCharacters } from "../../python-semantics/index.ts";
import { type ReasoningParser, type ReasoningSplit, silentStep } from "../reasoning-parser.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";

const separator = "<|sep|>";
const open = (channel: string): string => `<|open|>${channel}${separator}`;
const close = (channel: string): string => `<|close|>${channel}${separator}`;
const tools = open("tools");
const toolsEnd = close("tools");

export const kimiK3 = createToolCallParser({
  name: "kimi_k3",
  markers: ["<|open|>", "<|close|>", separator],
  hints: {
    contentEnd: ["<|open|>", "<|close|>"],
    callEnds: [close("call")],
    nesting: { [tools]: toolsEnd, "<|open|>call": close("call"), "<|open|>argument": close("argument") },
  },
  opening: null,
  hasToolCall: (text) => text.includes(tools),
  detect: (text, scan) => {
    const start = text.indexOf(tools);
    if (start === -1) return withoutChannels(text);
    const end = text.indexOf(toolsEnd, start + tools.length);
    const calls = text.slice(start + tools.length, end === -1 ? text.length : end);
    // One unreadable call drops all calls.
    scan.add(unlessRaised(null, () => readCalls(calls, scan)) ?? []);
    return withoutChannels(text.slice(0, start));
  },
});

function readCalls(text: string, scan: ToolCallScan) {
  return [...elementsOf(text, "call")].flatMap(({ attributes, body }) => {
    const name = attributes.get("tool") ?? "";
    if (name === "") {
      scan.report("no-name", body, "The call names no tool.");
      return [];
    }
    scan.reportUnknown(name, body);
    return [scan.call(name, dumpJson(readArguments(body)))];
  }).map((call, toolIndex) => ({ ...call, toolIndex }));
} // prettier-ignore

function readArguments(text: string): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  for (const { attributes, body } of elementsOf(text, "argument")) {
    const isText = (attributes.get("type") ?? "string") === "string";
    const value = isText ? undefined : unlessRaised(["JSONDecodeError"], () => parseJson(body));
    result.set(attributes.get("key") ?? "", value === undefined ? body : value);
  }
  return result;
}

type Element = { readonly attributes: ReadonlyMap<string, string>; readonly body: string };

function* elementsOf(text: string, tag: string): Generator<Element> {
  const begin = `<|open|>${tag}`;
  const end = close(tag);
  for (let start = text.indexOf(begin); start !== -1;) {
    const attributesStart = start + begin.length;
    if (!isSpace(text[attributesStart] ?? "")) {
      start = text.indexOf(begin, attributesStart);
      continue;
    }
    const attributesEnd = text.indexOf(separator, attributesStart);
    const bodyStart = attributesEnd + separator.length;
    const bodyEnd = attributesEnd === -1 ? -1 : text.indexOf(end, bodyStart);
    if (bodyEnd === -1) return;
    yield {
      attributes: readAttributes(text.slice(attributesStart, attributesEnd)),
      body: text.slice(bodyStart, bodyEnd),
    };
    start = text.indexOf(begin, bodyEnd + end.length);
  }
}

const attribute = new RegExp(`(?<![${wordCharacters}])([${wordCharacters}]+)="([^"]*)"`, "gu");

const readAttributes = (text: string): ReadonlyMap<string, string> =>
  new Map(
    Array.from(text.matchAll(attribute), ([, key, value]) => [
      key!,
      value!.replaceAll("&quot;", '"').replaceAll("&amp;", "&"),
    ]),
  );

const answer = open("response");
const answerEnd = close("response");
const messageEnd = close("message");
/** Tags that a token limit has truncated. */
const cutTags = [
  "<|open|>",
  "<|close|>",
  ...[close("think"), answer, answerEnd, tools, toolsEnd, messageEnd].map((tag) => tag.slice(0, -separator.length)),
];

function withoutCutTag(text: string): string {
  const cut = cutTags.find((tag) => text.endsWith(tag));
  return cut === undefined ? text : text.slice(0, -cut.length);
}

/** The answer without its tags, or the text without closing tags if no answer is opened. */
function withoutChannels(text: string): string {
  const start = text.indexOf(answer);
  const inside = start === -1 ? 0 : start + answer.length;
  const end = start === -1 ? -1 : text.indexOf(answerEnd, inside);
  const bare = start === -1 ? text.replaceAll(answerEnd, "") : text.slice(inside, end === -1 ? text.length : end);
  return withoutCutTag(bare.replaceAll(messageEnd, ""));
}

/** The same for the text before the calls, which stay for their parser. */
function contentOf(text: string): string {
  const start = text.indexOf(tools);
  return start === -1 ? withoutChannels(text) : withoutChannels(text.slice(0, start)) + text.slice(start);
}

const thought = open("think");
const thoughtEnd = close("think");

/** The prompt opens the thinking. An answer that is closed before the thinking is not reasoning. */
export const kimiK3Reasoning: ReasoningParser = {
  name: "kimi_k3",
  markers: [thought, thoughtEnd],
  hasTags: true,
  split: (text) => {
    const opened = text.indexOf(thought);
    const start = opened === -1 ? 0 : opened + thought.length;
    const place = (tag: string): number => {
      const at = text.indexOf(tag, start);
      return at === -1 ? Infinity : at;
    };
    const [end, calls] = [place(thoughtEnd), place(tools)];
    const channel = Math.min(place(answer), calls);
    const answered = place(answerEnd);
    if (answered !== Infinity && answered < Math.min(end, channel)) {
      return { reasoning: "", normalText: contentOf(text.slice(start).replaceAll(thoughtEnd, "")) };
    }
    const cutAt = (at: number): ReasoningSplit => ({
      reasoning: withoutCutTag(text.slice(start, at)),
      normalText: contentOf(text.slice(at)),
    });
    if (end !== Infinity && calls < end) return cutAt(calls);
    if (end === Infinity) return cutAt(Math.min(channel, text.length));
    return { reasoning: text.slice(start, end), normalText: contentOf(text.slice(end + thoughtEnd.length)) };
  },
  // A closing tag may turn all text before it into content.
  startSplitting: () => silentStep,
};
