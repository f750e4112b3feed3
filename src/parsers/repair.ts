// Repair mode: recovers calls from near misses and reports the repair. It never reads calls itself:
// it rewrites the text where strict reading found a problem and has it read strictly again, so a
// repaired call is one that strict reading accepts. A text that strict reading accepts without a
// problem is never changed.

import type { ParseProblem } from "../core/index.ts";
import { dumpJson, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import { pythonRstrip, unlessRaised } from "../python-semantics/index.ts";
import type { FormatHints, ToolCallParse } from "./tool-call-parser.ts";
import type { DetectedCall } from "./tool-call-scan.ts";
import { readTolerantJson } from "./tolerant-json.ts";

/** Maximum consecutive rewrites of one text; a near miss needs two or three. */
const maxRewrites = 6;

/**
 * Maximum problems that are examined: each may be as long as the text, so their number bounds the
 * time.
 */
const maxProblems = 16;

type Rewrite = { readonly text: string; readonly what: string };
type Attempt = { readonly text: string; readonly parse: ToolCallParse; readonly done: readonly string[] };

/**
 * The strict reading, or a better one with the problems "repaired" first. Time is linear in the
 * text.
 */
export function repairCalls(text: string, hints: FormatHints, read: (text: string) => ToolCallParse): ToolCallParse {
  const strict = read(text);
  const first = strict.problems[0];
  let best: Attempt = { text, parse: strict, done: [] };
  for (let round = 0; round < maxRewrites && best.parse.problems.length > 0; round++) {
    const next = improve(best, hints, read);
    if (next === null) break;
    best = next;
  }
  const isBetter = best.parse.calls.length > strict.calls.length && best.parse.raised === null;
  const parse = isBetter ? best.parse : strict;
  const repaired: ParseProblem[] = [];
  if (isBetter && first !== undefined) {
    const toolName = first.toolName ?? parse.calls.find(({ name }) => name !== null)?.name ?? null;
    repaired.push({ code: "repaired", text: first.text, toolName, detail: detailOf(best.done) });
  }
  const calls = parse.calls.map((call) => {
    const mended = mendArguments(call);
    if (mended === null) return call;
    repaired.push({ code: "repaired", text: call.parameters, toolName: call.name, detail: detailOf([mended.what]) });
    return { ...call, parameters: mended.text };
  });
  return repaired.length === 0 ? strict : { ...parse, calls, problems: [...repaired, ...parse.problems] };
}

const detailOf = (done: readonly string[]): string => `The call was read after ${[...new Set(done)].join(", ")}.`;

/** The first rewrite that improves the strict reading. */
function improve(from: Attempt, hints: FormatHints, read: (text: string) => ToolCallParse): Attempt | null {
  for (const { text, what } of rewrites(from, hints)) {
    const parse = read(text);
    const gained = parse.calls.length - from.parse.calls.length;
    if (gained > 0 || (gained === 0 && badness(parse) < badness(from.parse))) {
      return { text, parse, done: [...from.done, what] };
    }
  }
  return null;
}

/**
 * Distance of the problems from a valid call: a call that ends can be repaired further, one that is
 * JSON is nearly valid.
 */
function badness(parse: ToolCallParse): number {
  const weight = ({ code }: ParseProblem): number => (code === "unterminated-call" ? 3 : code === "not-json" ? 2 : 1);
  return parse.problems.reduce((sum, problem) => sum + weight(problem), 0);
}

function* rewrites({ text, parse }: Attempt, hints: FormatHints): Generator<Rewrite> {
  const json = rewriteJson(text, parse.problems);
  if (json !== null) yield json;
  if (!parse.problems.some(({ code }) => code === "unterminated-call")) return;
  const straight = hints.straighten?.(text) ?? text;
  if (straight !== text) yield { text: straight, what: "putting tags on lines of their own" };
  const body = pythonRstrip(straight);
  const closings = missingClosings(body, hints);
  const what = "adding the closing tags that were missing at the end";
  if (closings !== "") yield { text: body + closings, what };
  const closed = closeJson(body, hints);
  if (closed !== null)
    yield { text: closed.text + closings, what: closings === "" ? closed.what : `${closed.what}, ${what}` };
}

/** Replaces the near-valid JSON that the problems name with valid JSON. */
function rewriteJson(text: string, problems: readonly ParseProblem[]): Rewrite | null {
  const done: string[] = [];
  let rewritten = "";
  let rest = 0;
  for (const problem of problems.slice(0, maxProblems)) {
    if (problem.code !== "not-json" && problem.code !== "not-an-object") continue;
    const at = text.indexOf(problem.text, rest);
    const json = at === -1 || problem.text === "" ? null : readTolerantJson(problem.text);
    if (json === null) continue;
    const value = unpack(json.value);
    if (!(value instanceof Map) && !Array.isArray(value)) continue;
    rewritten += text.slice(rest, at) + dumpJson(value);
    rest = at + problem.text.length;
    done.push(...json.repairs, ...(value === json.value ? [] : ["taking JSON out of a JSON text"]));
  }
  return rest === 0 ? null : { text: rewritten + text.slice(rest), what: [...new Set(done)].join(", ") };
}

/** Unpacks a call, or its arguments, that is a string of JSON. */
function unpack(value: JsonValue): JsonValue {
  if (typeof value === "string") return readTolerantJson(value)?.value ?? value;
  if (!(value instanceof Map)) return value;
  const inner = value.get("arguments");
  const unpacked = typeof inner === "string" ? readTolerantJson(inner)?.value : null;
  return unpacked instanceof Map ? new Map(value).set("arguments", unpacked) : value;
}

/** Closings, innermost first, of openings that have not been closed since. */
function missingClosings(text: string, { nesting }: FormatHints): string {
  let missing = "";
  for (const [opening, closing] of Object.entries(nesting)) {
    const start = text.lastIndexOf(opening);
    if (start !== -1 && text.indexOf(closing.trim(), start + opening.length) === -1) missing = closing + missing;
  }
  return missing;
}

/** Closes the JSON that begins after the last opening and extends to the end of the text. */
function closeJson(text: string, { nesting }: FormatHints): Rewrite | null {
  const openings = Object.keys(nesting).filter((opening) => text.includes(opening));
  const start = Math.max(-1, ...openings.map((opening) => text.lastIndexOf(opening) + opening.length));
  const offset = start === -1 ? -1 : text.slice(start).search(/[{[]/);
  const json = offset === -1 ? null : readTolerantJson(text.slice(start + offset));
  return json && { text: text.slice(0, start + offset) + dumpJson(json.value), what: json.repairs.join(", ") };
}

/**
 * Repairs arguments that are a JSON string containing an object, or nearly JSON; `null` if they are
 * valid or cannot be repaired.
 */
function mendArguments(call: DetectedCall): Rewrite | null {
  const strict = unlessRaised(null, () => parseJson(call.parameters));
  if (strict instanceof Map) return null;
  const inner = typeof strict === "string" ? strict : call.parameters;
  const json = readTolerantJson(inner);
  if (!(json?.value instanceof Map)) return null;
  const unpacked = typeof strict === "string" ? ["taking JSON out of a JSON text"] : [];
  return { text: dumpJson(json.value), what: [...unpacked, ...json.repairs].join(", ") };
}
