// The mistakes of a tired clerk, one at a time: typical errors of a language model while it is
// still learning.

import type { Random } from "../../../lib/random.ts";
import { dumpJson, type JsonObject } from "../../../python-semantics/json/index.ts";
import type { Action, Step } from "./next-step.ts";

export function actionText(action: Action): string {
  if (action.type === "say") return action.content;
  const { name, arguments: args } = action.call;
  const body: JsonObject = new Map<string, string | JsonObject>([
    ["name", name],
    ["arguments", args],
  ]);
  return `${action.note === "" ? "" : `${action.note}\n`}<tool_call>\n${dumpJson(body)}\n</tool_call>`;
}

export const mistakeNames = [
  "wrong-id",
  "broken-json",
  "several-calls",
  "unknown-tool",
  "skipped-step",
  "untold-fact",
  "gave-up",
] as const;
export type MistakeName = (typeof mistakeNames)[number];

/** Texts that replace the right one: one for each mistake that is possible here. */
export function mistakesOf(
  step: Step,
  random: Random,
): readonly { readonly name: MistakeName; readonly text: string }[] {
  const { action, shortcut } = step;
  const right = actionText(action);
  const mistakes = [
    { name: "wrong-id", text: withWrongId(right, random) },
    { name: "skipped-step", text: shortcut === null ? null : actionText(shortcut) },
    { name: "gave-up", text: "I am sorry, I cannot help with that. Goodbye." },
    ...(action.type === "call" ? callMistakes(action, right) : [{ name: "untold-fact", text: untold(right) } as const]),
  ] as const;
  return mistakes.flatMap(({ name, text }) => (text === null || text === right ? [] : [{ name, text }]));
}

function callMistakes(
  action: Action & { readonly type: "call" },
  right: string,
): readonly { name: MistakeName; text: string }[] {
  const { name, arguments: args } = action.call;
  const call = { name: unknownName(name), arguments: args };
  return [
    { name: "broken-json", text: right.replace("}}\n</tool_call>", "}\n</tool_call>") },
    { name: "several-calls", text: `${right}\n${actionText({ ...action, note: "" })}` },
    { name: "unknown-tool", text: actionText({ ...action, call }) },
  ];
}

function unknownName(name: string): string {
  return name === "look_up" ? "get_record" : `${name}_now`;
}

/** Changes a digit in the last id: the id looks right, but belongs to no record or to another one. */
function withWrongId(text: string, random: Random): string | null {
  const ids = [...text.matchAll(/#[MWBC]\d+/g)];
  const id = ids.at(-1);
  if (id === undefined) return null;
  const place = id.index + 2 + random.integer(id[0].length - 2);
  const digit = (Number(text[place]) + 1 + random.integer(9)) % 10;
  return `${text.slice(0, place)}${digit}${text.slice(place + 1)}`;
}

/** Ends a wish without saying the fact that the member needs. */
function untold(text: string): string | null {
  return text.endsWith(" Anything else?") && /\$\d|\d days/.test(text) ? "Done. Anything else?" : null;
}
