// Tool calls of GigaChat 3: one JSON object after a marker, to the end of the text. Raw line feeds
// inside its strings are allowed.

import { JsonSyntaxError, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { pythonRstrip } from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { guessName, type ToolCallScan } from "../tool-call-scan.ts";

const marker = "function call<|role_sep|>\n";
const messageEnd = "<|message_sep|>";
const textEnd = "</s>";

export const gigachat3 = createToolCallParser({
  name: "gigachat3",
  markers: ["<|role_sep|>", messageEnd, textEnd],
  hints: { contentEnd: [marker, messageEnd, textEnd] },
  opening: null,
  hasToolCall: (text) => text.includes(marker),
  detect: (text, scan) => {
    const output = pythonRstrip(text).endsWith(textEnd) ? text.slice(0, text.lastIndexOf(textEnd)) : text;
    const start = output.indexOf(marker);
    const source = start === -1 ? "" : output.slice(start + marker.length);
    const value = start === -1 ? null : readLenientJson(source, scan);
    if (value === undefined) return output;
    const named = value instanceof Map && value.has("name") && value.get("arguments") instanceof Map ? value : null;
    if (named !== null) {
      // "parameters", which other formats prefer to "arguments", does not count here.
      const call = new Map([...named].filter(([key]) => key === "name" || key === "arguments"));
      scan.add(scan.callsIn(call, output.slice(start)));
    } else if (start !== -1) {
      scan.report("not-an-object", source, 'The call must be a JSON object with "name" and an object "arguments".');
    }
    return output.split(messageEnd, 1)[0]!;
  },
});

function readLenientJson(source: string, scan: ToolCallScan): JsonValue | undefined {
  try {
    return parseJson(escapeControls(source));
  } catch (error) {
    if (!(error instanceof JsonSyntaxError) || error.pythonType !== "JSONDecodeError") throw error;
    scan.report("not-json", source, `The call is not valid JSON: ${error.pythonMessage}.`, guessName(source));
    return undefined;
  }
}

/**
 * Escapes raw control characters inside strings, which this format's reader accepts and strict JSON
 * does not.
 */
function escapeControls(json: string): string {
  const pieces: string[] = [];
  let copied = 0;
  let isString = false;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === 0x22) isString = !isString;
    else if (isString && unit === 0x5c) at++;
    else if (isString && unit < 0x20) {
      pieces.push(json.slice(copied, at), `\\u${unit.toString(16).padStart(4, "0")}`);
      copied = at + 1;
    }
  }
  return pieces.join("") + json.slice(copied);
}
