// The answer of a judge: one score with a reason for each named item, as JSON. Its schema for servers that have structured output,
// and its reader, which believes none of them: a score out of scale, an item too many or too few is an error and never a number.

import { answeredJson } from "../lib/text.ts";

/** What is scored: by name, worst and best score. */
export type ScoredItems = ReadonlyMap<string, readonly [worst: number, best: number]>;

export type Scored = { readonly score: number; readonly reason: string };

/** The reason comes first: a model thinks while it writes. */
export function answerSchema(items: ScoredItems): object {
  const properties = [...items].map(([name, [minimum, maximum]]) => {
    const parts = { reason: { type: "string" }, score: { type: "number", minimum, maximum } };
    return [name, { type: "object", properties: parts, required: ["reason", "score"], additionalProperties: false }];
  });
  return {
    type: "object",
    properties: Object.fromEntries(properties) as object,
    required: [...items.keys()],
    additionalProperties: false,
  };
}

/** Throws a plain error that says what is wrong. A code fence around the whole answer, and thinking before it, are left out. */
export function readScores(answer: string, items: ScoredItems): ReadonlyMap<string, Scored> {
  const found = asObject(answeredJson(answer), "the answer");
  const unknown = Object.keys(found).find((name) => !items.has(name));
  if (unknown !== undefined) {
    throw new Error(
      `the answer scores ${shown(unknown)}, which it was not asked for; there are ${[...items.keys()].join(", ")}`,
    );
  }
  return new Map(
    [...items].map(([name, [worst, best]]) => {
      if (!Object.hasOwn(found, name)) throw new Error(`the answer has no score of "${name}"`);
      const { score, reason } = asObject(found[name], `"${name}"`);
      if (typeof score !== "number" || !(score >= worst && score <= best)) {
        throw new Error(`the score of "${name}" is ${shown(score)}, a number from ${worst} to ${best} is needed`);
      }
      return [name, { score, reason: typeof reason === "string" ? reason : "" }];
    }),
  );
}

function asObject(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new Error(`${what} is no JSON object`);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
