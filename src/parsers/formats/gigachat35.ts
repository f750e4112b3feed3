// Tool calls of GigaChat 3.5: invoke and parameter tags in a section; parameters state whether they
// are strings. Markers of the end of a message are removed from content, with or without calls.

import { type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { pythonRstrip, space, unlessRaised } from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";

const opening = "<｜GCML｜tool_calls>";
const closing = "</｜GCML｜tool_calls>";
const invokeClosing = "</｜GCML｜invoke>";
const parameterClosing = "</｜GCML｜parameter>";
const endMarks = ["<|message_sep|>", "</s>"];

export const gigachat35 = createToolCallParser({
  name: "gigachat35",
  markers: [opening, closing, invokeClosing, parameterClosing, ...endMarks],
  hints: {
    contentEnd: [opening, ...endMarks],
    nesting: { [opening]: closing, "<｜GCML｜invoke": invokeClosing, "<｜GCML｜parameter": parameterClosing },
  },
  opening: null,
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    const start = text.indexOf(opening);
    if (start === -1) return withoutEndMarks(text);
    const behind = text.slice(start + opening.length);
    const end = behind.indexOf(closing);
    let found = 0;
    const section = end === -1 ? behind : behind.slice(0, end);
    for (const { captured, body } of elements(
      section,
      `<｜GCML｜invoke${space}+name="([^"]*)"${space}*>`,
      invokeClosing,
    )) {
      found++;
      const parameters = readParameters(body);
      scan.add(scan.callsIn(new Map<string, JsonValue>([["name", captured[0]!], ["arguments", parameters]]), body)); // prettier-ignore
    }
    if (found === 0) return withoutEndMarks(text);
    return pythonRstrip(withoutEndMarks(text.slice(0, start)), "\n");
  },
});

function readParameters(body: string): Map<string, JsonValue> {
  const parameters = new Map<string, JsonValue>();
  const header = `<｜GCML｜parameter${space}+name="([^"]*)"${space}+string="(true|false)"${space}*>`;
  for (const { captured, body: raw } of elements(body, header, parameterClosing)) {
    const json =
      captured[1] === "true" ? undefined : unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(raw));
    parameters.set(captured[0]!, json === undefined ? raw : json);
  }
  return parameters;
}

type Element = { readonly captured: readonly string[]; readonly body: string };

/** Yields the text between each opening tag that matches the pattern and the next closing tag. */
function* elements(text: string, pattern: string, end: string): Generator<Element> {
  const header = new RegExp(pattern, "gu");
  for (let match = header.exec(text); match !== null; match = header.exec(text)) {
    const bodyEnd = text.indexOf(end, header.lastIndex);
    if (bodyEnd === -1) return;
    yield { captured: match.slice(1), body: text.slice(header.lastIndex, bodyEnd) };
    header.lastIndex = bodyEnd + end.length;
  }
}

function withoutEndMarks(text: string): string {
  let content = pythonRstrip(text);
  if (!endMarks.some((mark) => content.endsWith(mark))) return text;
  for (let mark = endMarks.find((one) => content.endsWith(one)); mark !== undefined;) {
    content = content.slice(0, -mark.length);
    mark = endMarks.find((one) => content.endsWith(one));
  }
  return content;
}
