// A checkpoint's own description of its answers: `response_template` in tokenizer_config.json, version 1, as transformers 5.24 loads it.

import { UnreadPatternError } from "../../lib/parse-pattern.ts";
import { dumpJson, fromPlain, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { isTruthy } from "../../python-semantics/operations.ts";
import { verbatim } from "../../python-semantics/strings.ts";
import { contentParsers, mixedPlaceholder } from "./content.ts";
import { ResponseTemplateError } from "./errors.ts";
import { PythonPattern } from "./python-pattern.ts";

/** Beginning or end of a region. */
export type Anchor = {
  readonly pattern: PythonPattern;
  /** Fixed texts of the anchor; `null` for a regular expression. */
  readonly literals: readonly string[] | null;
  /** One of the literals is a prefix of another. */
  readonly canExtend: boolean;
};

export type TemplateField = {
  readonly name: string;
  /** `null`: the field of all text that no other field opens. */
  readonly open: Anchor | null;
  readonly close: Anchor | null;
  readonly content: string;
  readonly contentArguments: JsonObject;
  readonly repeats: boolean;
  /** Separator between the values of a repeated field; `null`: they become a list. */
  readonly join: string | null;
  readonly isOptional: boolean;
  /** Transform of the value; `null`: the value is unchanged. */
  readonly transform: JsonValue;
  /** The transform is applied to each element of a list. */
  readonly transformsEach: boolean;
};

/** A validated response template. */
export type ResponseTemplate = {
  readonly defaults: JsonObject;
  readonly fields: ReadonlyMap<string, TemplateField>;
  /** The field without an opening; `null`: text outside of fields is dropped. */
  readonly implicit: string | null;
  /** The last occurrence in a prompt is the beginning of the answer. */
  readonly startAnchor: Anchor;
};

const templateKeys = new Set(["version", "defaults", "fields", "start_anchor", "start_anchor_pattern"]);
const fieldKeys = new Set("open open_pattern close close_pattern content content_args repeats join optional transform transform_each".split(" ")); // prettier-ignore

/**
 * Reads a response template: the value of `response_template` in a checkpoint's
 * tokenizer_config.json, plain or lossless. Throws a {@link ResponseTemplateError} if transformers
 * refuses it, and for patterns that this package cannot read as Python does.
 */
export function loadResponseTemplate(value: unknown): ResponseTemplate {
  const template = asObject(fromPlain(value), "it");
  const version = template.get("version") ?? 1;
  if (version !== 1) throw new ResponseTemplateError(`its version is ${dumpJson(version)}; version 1 is read`);
  refuseKeys(template, templateKeys, "it");
  const fields = new Map<string, TemplateField>();
  for (const [name, field] of asObject(template.get("fields") ?? new Map(), '"fields"')) {
    fields.set(name, readField(name, asObject(field, `the field "${name}"`)));
  }
  if (fields.size === 0) throw new ResponseTemplateError("it has no fields");
  const implicit = [...fields.values()].filter(({ open }) => open === null).map(({ name }) => name);
  if (implicit.length > 1)
    throw new ResponseTemplateError(`more than one field has no opening: ${implicit.join(", ")}`);
  const startAnchor = readAnchor(template, "start_anchor", "it");
  if (startAnchor === null) throw new ResponseTemplateError("it has neither start_anchor nor start_anchor_pattern");
  const defaults = asObject(template.get("defaults") ?? new Map(), '"defaults"');
  return { defaults, fields, implicit: implicit[0] ?? null, startAnchor };
}

function readField(name: string, field: JsonObject): TemplateField {
  const where = `the field "${name}"`;
  refuseKeys(field, fieldKeys, where);
  const content = field.get("content") ?? "text";
  if (typeof content !== "string" || !contentParsers.has(content)) {
    throw new ResponseTemplateError(
      `${where} has an unknown content; use one of ${[...contentParsers.keys()].join(", ")}`,
    );
  }
  const [open, close] = [readAnchor(field, "open", where), readAnchor(field, "close", where)];
  const [join, transform, each] = [
    field.get("join") ?? null,
    field.get("transform") ?? null,
    field.get("transform_each") ?? false,
  ];
  const repeats = isTruthy(field.get("repeats") ?? false);
  if (join !== null && typeof join !== "string") throw new ResponseTemplateError(`"join" of ${where} is not a string`);
  if (join !== null && !repeats) throw new ResponseTemplateError(`"join" of ${where} requires "repeats"`);
  if (typeof each !== "boolean") throw new ResponseTemplateError(`"transform_each" of ${where} is not a boolean`);
  if (each && transform === null) throw new ResponseTemplateError(`${where} has "transform_each" and no transform`);
  const mixed = mixedPlaceholder(transform);
  if (mixed !== null)
    throw new ResponseTemplateError(`${JSON.stringify(mixed)} of ${where} mixes a placeholder with other text`);
  const groups = [open, close].flatMap((anchor) => anchor?.pattern.names ?? []);
  if (transform === null && groups.length > 0) {
    throw new ResponseTemplateError(`${where} has the groups ${groups.join(", ")} and no transform that uses them`);
  }
  return {
    name,
    open,
    close,
    content,
    repeats,
    join,
    transform,
    transformsEach: each,
    contentArguments: asObject(field.get("content_args") ?? new Map(), `"content_args" of ${where}`),
    isOptional: isTruthy(field.get("optional") ?? true),
  };
}

function readAnchor(object: JsonObject, key: string, where: string): Anchor | null {
  const [literal, source] = [object.get(key), object.get(`${key}_pattern`)];
  if (literal !== undefined && source !== undefined)
    throw new ResponseTemplateError(`${where} has both ${key} and ${key}_pattern`);
  if (literal !== undefined) {
    const given = Array.isArray(literal) ? literal : [literal];
    const literals = given.filter((text) => typeof text === "string" && text !== "") as string[];
    if (literals.length < given.length || given.length === 0) {
      throw new ResponseTemplateError(`"${key}" of ${where} is not a string, and no list of texts, or one is empty`);
    }
    const unique = [...new Set(literals)];
    // Longer literals come first: they win if two begin at the same position.
    const either = unique
      .toSorted((one, other) => other.length - one.length)
      .map(verbatim)
      .join("|");
    const canExtend = unique.some((one) => unique.some((other) => one !== other && one.startsWith(other)));
    return { pattern: readPattern(either, `"${key}" of ${where}`), literals: unique, canExtend };
  }
  if (source === undefined) return null;
  if (typeof source !== "string") throw new ResponseTemplateError(`"${key}_pattern" of ${where} is not a string`);
  return { pattern: readPattern(source, `"${key}_pattern" of ${where}`), literals: null, canExtend: false };
}

function readPattern(source: string, where: string): PythonPattern {
  try {
    return new PythonPattern(source);
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof UnreadPatternError)) throw error;
    throw new ResponseTemplateError(`${where} is an unsupported pattern: ${error.message}`);
  }
}

function asObject(value: JsonValue, where: string): JsonObject {
  if (!(value instanceof Map)) throw new ResponseTemplateError(`${where} is not an object`);
  return value;
}

function refuseKeys(object: JsonObject, known: ReadonlySet<string>, where: string): void {
  const unknown = [...object.keys()].filter((key) => !known.has(key));
  if (unknown.length > 0) throw new ResponseTemplateError(`${where} has unknown keys: ${unknown.join(", ")}`);
}
