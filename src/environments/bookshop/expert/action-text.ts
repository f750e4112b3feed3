// An action as the model family writes it: words, or one call between markers.

import { dumpJson, type JsonObject } from "../../../python-semantics/json/index.ts";
import type { Action } from "./next-step.ts";

export function actionText(action: Action): string {
  if (action.type === "say") return action.words;
  const { name, arguments: args } = action.call;
  const body: JsonObject = new Map<string, string | JsonObject>([
    ["name", name],
    ["arguments", args],
  ]);
  return `<tool_call>\n${dumpJson(body)}\n</tool_call>`;
}
