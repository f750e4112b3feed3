// Reads a model's answer by its checkpoint's response template, whole or in pieces, as
// transformers' `parse_response` and `ResponseParser` (5.24) do.

import { type Tool, toolParameters } from "../../core/index.ts";
import { cloneJson, type JsonObject, type JsonValue, JsonSyntaxError } from "../../python-semantics/json/index.ts";
import { PythonError } from "../../python-semantics/errors.ts";
import { isTruthy } from "../../python-semantics/operations.ts";
import { declaredTypes, readAsType } from "../schema-types.ts";
import { applyTransform, contentParsers, verbatimParsers } from "./content.ts";
import { ResponseParseError } from "./errors.ts";
import type { Anchor, ResponseTemplate, TemplateField } from "./load-template.ts";
import type { PatternMatch, PythonPattern } from "./python-pattern.ts";

export type ResponseOptions = {
  /**
   * The prompt that the answer continues: templates often write the beginning of the answer
   * themselves. "" if the text contains the whole message.
   */
  readonly prefix: string;
  /**
   * Tools whose call arguments are converted to the types in their schemas: "7" becomes 7 for an
   * integer. @default []
   */
  readonly tools?: readonly Tool[];
};

/**
 * Event of one field of the message. `at`: where its opening begins, or its closing ends, as an
 * offset in the answer; 0 for text in the prompt. `isDirty`: the value is not the text itself but
 * is made from it at the close.
 */
export type ResponseEvent =
  | { readonly type: "region_open"; readonly field: string; readonly at: number }
  | { readonly type: "region_chunk"; readonly field: string; readonly text: string; readonly isDirty: boolean }
  | { readonly type: "region_close"; readonly field: string; readonly value: JsonValue; readonly at: number };

/**
 * Parses a whole answer into a message: the template's defaults, then its fields in the order in
 * which they came. Throws a {@link ResponseParseError} where transformers raises: if a region is
 * not what its content parser reads, or a required field is missing.
 */
export function parseResponse(text: string, template: ResponseTemplate, options: ResponseOptions): JsonObject {
  const parser = new ResponseParser(template, options);
  parser.feed(text);
  return parser.finish().message;
}

type Watched = { readonly kind: "open" | "close"; readonly field: TemplateField; readonly anchor: Anchor };
/** The place where a match, or the beginning of one, was found. */
type Place = Pick<PatternMatch, "start">;
type Seen<P extends Place> = Map<PythonPattern, { readonly length: number; readonly place: P | null }>;
type Found = Watched & { readonly match: PatternMatch };

/** Number of UTF-16 units of held text above which not every piece is searched. */
const longHold = 256;

/**
 * Parses an answer in pieces. Text is emitted as soon as it cannot be part of an anchor that opens
 * or closes a region.
 */
export class ResponseParser {
  /** Events of the part of the answer that is already in the prompt. */
  readonly initialEvents: readonly ResponseEvent[];
  readonly #template: ResponseTemplate;
  readonly #properties = new Map<string, JsonObject>();
  readonly #message: JsonObject;
  readonly #prefixLength: number;
  #buffer = "";
  /** The buffer with one more character, made once for each piece. */
  #extended = "";
  #at = 0;
  /** Last search result of each pattern, with the buffer length for which it holds. */
  readonly #matches: Seen<PatternMatch> = new Map();
  readonly #cuts: Seen<Place> = new Map();
  /** Length of the buffer at the last search. */
  #searched = 0;
  #current: TemplateField | null;
  #isOpen = false;
  #captures = new Map<string, string>();
  #body = "";
  #isFinished = false;

  constructor(template: ResponseTemplate, { prefix, tools = [] }: ResponseOptions) {
    this.#template = template;
    this.#message = cloneJson(template.defaults);
    this.#current = this.#implicit;
    for (const tool of tools) {
      const parameters = toolParameters(tool);
      const properties = parameters instanceof Map ? parameters.get("properties") : undefined;
      this.#properties.set(tool.name, properties instanceof Map ? properties : new Map());
    }
    this.#buffer = behindLastAnchor(prefix, template.startAnchor);
    this.#prefixLength = this.#buffer.length;
    const events: ResponseEvent[] = [];
    if (this.#buffer !== "") this.#process(events, false);
    this.initialEvents = events;
  }

  /** Takes the next piece of the answer. */
  feed(text: string): ResponseEvent[] {
    if (this.#isFinished)
      throw new Error("Cannot feed a parser that has finished: create a new one for the next answer.");
    // A pattern may look at text that has been emitted.
    this.#buffer += text;
    // A search of long text that is held back, for each piece, would take quadratic time.
    const held = this.#searched - this.#at;
    if (held > longHold && this.#buffer.length - this.#searched < held / 8) return [];
    this.#searched = this.#buffer.length;
    const events: ResponseEvent[] = [];
    this.#process(events, false);
    return events;
  }

  /** Ends the answer. */
  finish(): { readonly message: JsonObject; readonly events: ResponseEvent[] } {
    if (this.#isFinished) throw new Error("Cannot finish a parser twice: create a new one for the next answer.");
    this.#isFinished = true;
    const events: ResponseEvent[] = [];
    this.#process(events, true);
    const { fields, defaults } = this.#template;
    const missing = [...fields.values()].filter(({ name, isOptional }) => !isOptional && !this.#message.has(name));
    if (missing.length > 0) {
      throw new ResponseParseError(
        `it has no ${missing.map(({ name }) => JSON.stringify(name)).join(", ")}, which the template requires`,
      );
    }
    const kept = Array.from(this.#message).filter(([name, value]) => defaults.has(name) || !isEmpty(value));
    return { message: new Map(kept), events };
  }

  get #implicit(): TemplateField | null {
    const { implicit, fields } = this.#template;
    return implicit === null ? null : (fields.get(implicit) ?? null);
  }

  #process(events: ResponseEvent[], hasEnded: boolean): void {
    for (;;) {
      const { found, holdFrom } = this.#scan(hasEnded);
      if (found === null) {
        const until = hasEnded ? this.#buffer.length : holdFrom;
        if (until > this.#at) this.#accumulate(events, this.#buffer.slice(this.#at, until));
        this.#at = Math.max(this.#at, until);
        if (hasEnded) this.#close(events, this.#buffer.length);
        return;
      }
      const { kind, field, match } = found;
      if (match.start > this.#at) this.#accumulate(events, this.#buffer.slice(this.#at, match.start));
      this.#at = match.end;
      if (kind === "open") {
        this.#close(events, match.start);
        this.#open(events, field, match);
        continue;
      }
      const hadContent = this.#isOpen;
      for (const [name, text] of match.captures) this.#captures.set(name, text);
      this.#close(events, match.end);
      // An empty match that closes nothing would be found again.
      if (!hadContent && match.start === match.end) return;
    }
  }

  /** Anchors that open or close a region at the current position. */
  #watched(): readonly Watched[] {
    const implicit = this.#implicit;
    const close = (field: TemplateField | null): Watched[] =>
      field === null || field.close === null ? [] : [{ kind: "close", field, anchor: field.close }];
    if (this.#current !== implicit) return close(this.#current);
    const opens = [...this.#template.fields.values()].flatMap((field): Watched[] =>
      field.open === null ? [] : [{ kind: "open", field, anchor: field.open }],
    );
    return [...opens, ...close(implicit)];
  }

  /**
   * The earliest match that more text cannot change, and the beginning of text that may still
   * become one. Among matches at one position the longest counts, and an opening before a closing.
   */
  #scan(hasEnded: boolean): { readonly found: Found | null; readonly holdFrom: number } {
    let holdFrom = this.#buffer.length;
    let found: Found | null = null;
    for (const watched of this.#watched()) {
      const { pattern } = watched.anchor;
      const match = this.#next(this.#matches, pattern, () => pattern.find(this.#buffer, this.#at));
      if (!hasEnded && (match === null || this.#canGrow(watched.anchor, match))) {
        // A complete match anywhere takes precedence over one truncated by the end of the text, as
        // in Python's `regex`.
        const held = match ?? this.#next(this.#cuts, pattern, () => pattern.mayBegin(this.#buffer, this.#at));
        holdFrom = Math.min(holdFrom, held?.start ?? Infinity);
        continue;
      }
      if (match !== null && (found === null || isBefore({ ...watched, match }, found))) found = { ...watched, match };
    }
    return { found: found !== null && (hasEnded || found.match.start < holdFrom) ? found : null, holdFrom };
  }

  /**
   * A match found from an earlier position is still the first if it lies ahead: a new search for
   * each region would be quadratic.
   */
  #next<P extends Place>(seen: Seen<P>, pattern: PythonPattern, search: () => P | null): P | null {
    const known = seen.get(pattern);
    if (known?.length === this.#buffer.length && (known.place === null || known.place.start >= this.#at))
      return known.place;
    const place = search();
    seen.set(pattern, { length: this.#buffer.length, place });
    return place;
  }

  /** True if more text could change a complete match. */
  #canGrow({ pattern, literals, canExtend }: Anchor, match: PatternMatch): boolean {
    if (match.end < this.#buffer.length) {
      if (literals !== null) return false;
      // A pattern may look at the end of the text: with another character there the match must be
      // the same.
      if (this.#extended.length !== this.#buffer.length + 1) this.#extended = `${this.#buffer}\0`;
      const extended = pattern.matchAt(this.#extended, match.start);
      return extended === null || extended.end !== match.end || !isSame(extended.captures, match.captures);
    }
    return match.start === match.end || literals === null || canExtend;
  }

  #accumulate(events: ResponseEvent[], text: string): void {
    const field = this.#current;
    if (field === null) return;
    if (!this.#isOpen) events.push({ type: "region_open", field: field.name, at: this.#offset(this.#at) });
    this.#isOpen = true;
    this.#body += text;
    events.push({ type: "region_chunk", field: field.name, text, isDirty: !verbatimParsers.has(field.content) });
  }

  #open(events: ResponseEvent[], field: TemplateField, match: PatternMatch): void {
    this.#current = field;
    this.#captures = new Map(match.captures);
    this.#isOpen = true;
    events.push({ type: "region_open", field: field.name, at: this.#offset(match.start) });
  }

  /** Converts a position in the buffer to an offset in the answer. */
  #offset(place: number): number {
    return Math.max(0, place - this.#prefixLength);
  }

  #close(events: ResponseEvent[], end: number): void {
    const [field, body, captures] = [this.#current, this.#body, this.#captures];
    const wasOpen = this.#isOpen;
    this.#current = this.#implicit;
    this.#captures = new Map();
    this.#body = "";
    this.#isOpen = false;
    if (field === null || !wasOpen) return;
    let value = valueOf(body, field, captures);
    if (this.#properties.size > 0) value = this.#typed(value);
    const before = this.#message.get(field.name);
    if (field.join !== null) {
      if (typeof value !== "string")
        throw new ResponseParseError(`the field "${field.name}" is joined but is not a string`);
      if (before !== undefined && before !== null && typeof before !== "string") {
        throw new ResponseParseError(`the field "${field.name}" is joined to a default that is not a string`);
      }
      this.#message.set(field.name, typeof before === "string" ? before + field.join + value : value);
    } else if (field.repeats) {
      if (before !== undefined && !Array.isArray(before)) {
        throw new ResponseParseError(`the field "${field.name}" repeats, but its default is not a list`);
      }
      if (before === undefined) this.#message.set(field.name, [value]);
      else before.push(value);
    } else {
      this.#message.set(field.name, value);
    }
    events.push({ type: "region_close", field: field.name, value, at: this.#offset(end) });
  }

  /** Converts the arguments of calls to the types in their tools' schemas. */
  #typed(value: JsonValue): JsonValue {
    if (Array.isArray(value)) return value.map((item) => this.#typed(item));
    const called = value instanceof Map ? value.get("function") : undefined;
    if (!(called instanceof Map)) return value;
    const [name, args] = [called.get("name"), called.get("arguments")];
    const properties = typeof name === "string" ? this.#properties.get(name) : undefined;
    if (properties === undefined || !(args instanceof Map)) return value;
    for (const [key, argument] of args) {
      const types = declaredTypes(properties.get(key) ?? null);
      if (types.length === 0) continue;
      if (typeof argument === "string") args.set(key, typedText(argument, types));
      else if (Array.isArray(argument) && !types.includes("array")) {
        // Values of a repeated key.
        args.set(
          key,
          argument.map((item) => (typeof item === "string" ? typedText(item, types) : item)),
        );
      }
    }
    return value;
  }
}

/** Text after the last anchor; the whole prompt if there is none. */
function behindLastAnchor(prefix: string, { pattern }: Anchor): string {
  let last: number | null = null;
  for (const { end } of pattern.all(prefix)) last = end;
  return last === null ? prefix : prefix.slice(last);
}

function isBefore(one: Found, other: Found): boolean {
  if (one.match.start !== other.match.start) return one.match.start < other.match.start;
  if (one.match.end !== other.match.end) return one.match.end > other.match.end;
  if (one.kind !== other.kind) return one.kind === "open";
  return one.field.name < other.field.name;
}

function isSame(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): boolean {
  return one.size === other.size && Array.from(one).every(([name, text]) => other.get(name) === text);
}

function isEmpty(value: JsonValue): boolean {
  return (
    value === null || ((typeof value === "string" || Array.isArray(value) || value instanceof Map) && !isTruthy(value))
  );
}

function valueOf(body: string, field: TemplateField, captures: ReadonlyMap<string, string>): JsonValue {
  const value = contentParsers.get(field.content)?.(body, field.contentArguments) ?? null;
  if (field.transform === null) return value;
  if (!field.transformsEach)
    return applyTransform(field.transform, new Map([...captures, ["content", value] as const]));
  if (!Array.isArray(value)) throw new ResponseParseError(`the field "${field.name}" is not a list`);
  return value.map((item) => {
    if (!(item instanceof Map))
      throw new ResponseParseError(`the field "${field.name}" holds something other than objects`);
    return applyTransform(field.transform, new Map([...captures, ...item]));
  });
}

/** Converts a text to the first of the types that it fits; unchanged if none fits. */
function typedText(text: string, types: readonly string[]): JsonValue {
  for (const type of types) {
    try {
      const value = readAsType(text, type);
      if (value !== undefined) return value;
    } catch (error) {
      if (error instanceof PythonError && error.pythonType === "ValueError") continue;
      if (error instanceof JsonSyntaxError && error.pythonType !== "RecursionError") continue;
      throw error instanceof JsonSyntaxError ? new ResponseParseError(error.pythonMessage) : error;
    }
  }
  return text;
}
