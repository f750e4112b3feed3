// The JSON value in a reply of a model that was requested to answer in JSON.

import { contradictedKey } from "./duplicate-keys.ts";
import { splitReasoning } from "./reasoning.ts";
import { jsonOf } from "./text.ts";

/**
 * The JSON value of a model's answer, without reasoning and without a code fence around the whole.
 * Throws a plain error for invalid JSON, and for an object that gives a key two different values.
 * `notes` are keys whose values are remarks and may differ.
 */
export function answeredJson(answer: string, notes: readonly string[] = []): unknown {
  // If the whole answer is JSON, tags in its strings are quotations.
  const texts = [answer, splitReasoning(answer).content].map((text) => unfenced(text.trim()));
  for (const text of texts) {
    const value = jsonOf(text);
    if (value === undefined) continue;
    const key = contradictedKey(text, notes);
    if (key === null) return value;
    throw new Error(`the answer says two different things of ${JSON.stringify(key)}`);
  }
  throw new Error(texts[1] === "" ? "the answer is empty" : "the answer is not JSON");
}

function unfenced(text: string): string {
  const [opening = null] = /^```(?:json)?\s*\n/.exec(text) ?? [];
  if (opening === null || !text.endsWith("```")) return text;
  return text.slice(opening.length, -3).replace(/\n$/, "");
}
