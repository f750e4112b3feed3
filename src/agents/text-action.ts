// Reads an action that a policy wrote as text: what stands behind the last `Action:`, as JSON, or as words when it is no
// JSON. Only reading; whether the call can be carried out is judged as for every other strategy.

import type { ParsedAction, ParseProblem, Tool } from "../core/index.ts";
import { toolFromDefinition } from "../core/index.ts";
import {
  dumpJson,
  fromPlain,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
} from "../python-semantics/json/index.ts";
import { pythonStrip } from "../python-semantics/index.ts";

/** The action by which a policy speaks to the user. */
export const respondName = "respond";

/** Judged and listed like a tool, but not one: its content is speech. */
export const respondTool: Tool = toolFromDefinition(
  fromPlain({
    type: "function",
    function: {
      name: respondName,
      parameters: { type: "object", properties: { content: { type: "string" } }, required: ["content"] },
    },
  }) as JsonObject,
);

const marker = "Action:";

/**
 * The action as read from its text: at most one call, and as `content` the part that was read. Never throws.
 *
 * Where it is no JSON, the part is words, unless the policy made a call in its model family's own syntax: that syntax is
 * not shown to it here, and a user is no reader for it.
 */
export function readTextAction(action: ParsedAction, turn: number): ParsedAction {
  const text = spokenText(action);
  const at = text.lastIndexOf(marker);
  const content = pythonStrip(at < 0 ? text : text.slice(at + marker.length));
  const read = (changes: Partial<ParsedAction>): ParsedAction => ({
    ...action,
    content,
    toolCalls: [],
    problems: [],
    ...changes,
  });
  const problem = (code: ParseProblem["code"], detail: string): ParsedAction =>
    read({ problems: [{ code, text: content, toolName: null, detail }] });

  const value = readJson(content);
  if (value === undefined) {
    if (action.toolCalls.length === 0) return read({});
    return problem("not-json", `A call stands behind "${marker}", as one JSON object and in no other form.`);
  }
  if (!(value instanceof Map)) {
    return problem("not-an-object", 'An action is one JSON object with "name" and "arguments".');
  }
  const name = value.get("name");
  if (typeof name !== "string") return problem("no-name", 'The action has no "name".');
  const argumentsText = dumpJson(value.get("arguments") ?? null);
  return read({ toolCalls: [{ id: `call_${turn}_0`, name, argumentsText }] });
}

/** What was written beside thinking. Calls that a parser took out of the words are text like any other here. */
function spokenText({ text, reasoning, content, toolCalls }: ParsedAction): string {
  if (toolCalls.length === 0) return content;
  const at = reasoning === null ? -1 : text.indexOf(reasoning);
  return at < 0 ? text : text.slice(at + (reasoning ?? "").length);
}

function readJson(text: string): JsonValue | undefined {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return undefined;
    throw error;
  }
}
