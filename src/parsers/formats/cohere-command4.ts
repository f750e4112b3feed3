// Cohere's Command 4. The prompt opens the thinking; after it comes an answer between two tags,
// which are dropped, or a section of calls, which stays for its parser. Text that is neither is not
// shown. Calls are a JSON list, read as far as possible.

import { JsonFloat, type JsonValue } from "../../python-semantics/json/index.ts";
import { readPartialJson } from "../partial-json.ts";
import type { ReasoningParser, ReasoningStep } from "../reasoning-parser.ts";
import { beginningOfOne } from "../text-pieces.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { guessName } from "../tool-call-scan.ts";
import { readJson } from "../typed-text.ts";

const thought = "<|START_THINKING|>";
const thoughtEnd = "<|END_THINKING|>";
const answer = "<|START_TEXT|>";
const answerEnd = "<|END_TEXT|>";
const calls = "<|START_ACTION|>";
const callsEnd = "<|END_ACTION|>";

/** The list need not be complete. Names are under "tool_name". */
export const cohereCommand4 = createToolCallParser({
  name: "cohere_command4",
  markers: [calls, callsEnd],
  hints: { nesting: { [calls]: callsEnd } },
  opening: calls,
  detect: (text, scan, start) => {
    const end = text.indexOf(callsEnd, start + calls.length);
    const body = text.slice(start + calls.length, end === -1 ? text.length : end);
    const strict = readJson(body);
    const value = strict === undefined ? readPartialJson(body) : asStrictReader(strict);
    if (value === undefined) scan.report("not-json", body, "The calls are not valid JSON.", guessName(body));
    for (const entry of Array.isArray(value) ? value : [value]) {
      if (end === -1 && entry instanceof Map && entry.size === 0) {
        scan.report("unterminated-call", body, `The call does not end with ${callsEnd}.`);
      } else if (entry instanceof Map) {
        if (!entry.has("name") && entry.has("tool_name")) entry.set("name", entry.get("tool_name")!);
        scan.add(scan.callsIn(entry, body));
      } else if (entry !== undefined) {
        scan.report("not-an-object", body, "A call must be a JSON object.");
      }
    }
    return text.slice(0, start);
  },
});

/**
 * The value as the server's strict reader (orjson) reads it: integers beyond 64 bits are floats. A
 * value that orjson refuses as a whole is read by Python's reader, unchanged.
 */
function asStrictReader(value: JsonValue): JsonValue {
  return isRefused(value) ? value : withFloats(value);
}

/** Unpaired surrogates: with the flag "u", a pair is one character and does not match. */
const halfCharacter = /[\ud800-\udfff]/u;

function isRefused(value: JsonValue): boolean {
  if (value instanceof JsonFloat) return !Number.isFinite(value.value);
  if (typeof value === "bigint") return !Number.isFinite(Number(value));
  if (typeof value === "string") return halfCharacter.test(value);
  if (Array.isArray(value)) return value.some(isRefused);
  return value instanceof Map && Array.from(value).some(([key, item]) => halfCharacter.test(key) || isRefused(item));
}

function withFloats(value: JsonValue): JsonValue {
  if (typeof value === "bigint" && (value >= 2n ** 64n || value < -(2n ** 63n))) return new JsonFloat(Number(value));
  if (Array.isArray(value)) return value.map(withFloats);
  if (value instanceof Map) return new Map(Array.from(value, ([key, item]) => [key, withFloats(item)] as const));
  return value;
}

export const cohereCommand4Reasoning: ReasoningParser = {
  name: "cohere_command4",
  markers: [thought, thoughtEnd],
  hasTags: true,
  split: (text) => {
    // Without thinking the text begins with the answer or the calls.
    const tag = [thoughtEnd, answer, calls].find((candidate) => text.includes(candidate));
    const end = tag === undefined ? text.length : text.indexOf(tag);
    const reasoning = text.slice(0, end);
    return {
      reasoning: reasoning.startsWith(thought) ? reasoning.slice(thought.length) : reasoning,
      normalText: answerIn(text.slice(tag === thoughtEnd ? end + thoughtEnd.length : end)),
    };
  },
  startSplitting: () => reasoningStep(),
};

function answerIn(text: string): string {
  const start = text.indexOf(answer);
  if (start === -1) return text.includes(calls) ? text : "";
  const inside = text.slice(start + answer.length);
  const end = inside.indexOf(answerEnd);
  return end === -1 ? inside : inside.slice(0, end);
}

/** Text before any tag is reasoning; the type of later text is known only at the end. */
function reasoningStep(): ReasoningStep {
  let held = "";
  let state: "beginning" | "reasoning" | "unknown" = "beginning";
  return {
    push: (piece) => {
      if (state === "unknown") return { reasoning: "", rest: "" };
      held += piece;
      if (state === "beginning") {
        if (thought.startsWith(held) && held.length < thought.length) return { reasoning: "", rest: "" };
        if (held.startsWith(thought)) held = held.slice(thought.length);
        state = "reasoning";
      }
      const tag = held.indexOf("<|");
      const sure = tag === -1 ? held.length - beginningOfOne(held, held.length, ["<|"]) : tag;
      if (tag !== -1) state = "unknown";
      const reasoning = held.slice(0, sure);
      held = held.slice(sure);
      return { reasoning, rest: "" };
    },
  };
}
