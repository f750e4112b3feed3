// Checks the fields of a request against the table of its dialect: refused fields throw, counted
// fields are named, and sampling parameters are read. Null means absent in all of them. The formats
// are checked by the schemas of the dialects.

import { z } from "zod";
import { anyNames } from "../../lib/any-names.ts";
import { type DialectName, GatewayError, type GatewayRequest } from "../request.ts";
import { type FieldRule, type FieldTable, fieldTables } from "./field-table.ts";

/**
 * Validates a body. Throws a `GatewayError` that names the first invalid field. `path`: the path of
 * the value in the body.
 */
export function readBody<T>(schema: z.ZodType<T>, body: unknown, path: readonly string[] = []): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const place = [...path, ...(issue?.path ?? []).map(String)];
  const param = place.length === 0 ? null : place.join(".");
  throw new GatewayError(
    "invalid-request",
    `Cannot read the request: ${param === null ? "its body" : param}: ${issue?.message ?? "is not what it should be"}.`,
    { param },
  );
}

export function unsupported(what: string, param: string | null): GatewayError {
  return new GatewayError("unsupported", `Cannot serve the request: ${what}.`, { param });
}

export type CheckedFields = Pick<GatewayRequest, "sampling" | "samplingNames" | "template" | "ignoredFields">;

/**
 * Checks the fields. Throws a `GatewayError` for a refused field, and for a sampling parameter out
 * of range.
 */
export function checkFields(dialect: DialectName, body: unknown): CheckedFields {
  const table = fieldTables[dialect];
  const ignoredFields: string[] = [];
  const sampling: Record<string, unknown> = {};
  const extra: Record<string, unknown> = {};
  const samplingNames: string[] = [];
  const names: string[] = [];
  const misshapen: string[] = [];
  let kwargs: Readonly<Record<string, unknown>> = {};
  for (const [field, value] of givenFields(body, dialect)) {
    const rule = Object.hasOwn(table, field) ? table[field]! : null;
    if (rule?.status === "done" || isNeutral(value, rule)) continue;
    if (rule?.status === "refused") throw unsupported(`${field} is refused: ${rule.reason}; ${rule.remedy}`, field);
    if (rule?.template !== undefined && rule.template !== null) {
      names.push(field);
      const variables = variablesIn(value, rule.template);
      if (variables === null) misshapen.push(field);
      kwargs = { ...kwargs, ...variables };
      continue;
    }
    const target = rule?.sampling ?? null;
    if (target === null) {
      ignoredFields.push(field);
      continue;
    }
    samplingNames.push(field);
    readBody<unknown>(samplingShape[shapeName(target.name)], value, field.split("."));
    if (target.type === "parameter") sampling[target.name] = value;
    else extra[target.name] = value;
  }
  const withExtra = Object.keys(extra).length === 0 ? sampling : { ...sampling, extra };
  return { sampling: withExtra, samplingNames, template: { names, misshapen, kwargs }, ignoredFields };
}

/** Variables of the chat template; `null` if the value has another form. */
function variablesIn(value: unknown, template: "variables" | "effort"): Readonly<Record<string, unknown>> | null {
  if (template === "effort") return typeof value === "string" ? { reasoning_effort: value } : null;
  return anyNames(z.unknown()).safeParse(value).data ?? null;
}

/**
 * Every field that is set, by its name in the table: an object is split into its fields if only
 * these have rows.
 */
function* givenFields(body: unknown, dialect: DialectName): Generator<readonly [string, unknown]> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return;
  for (const [name, value] of Object.entries(body) as readonly (readonly [string, unknown])[]) {
    if (!splitFields[dialect].has(name) || typeof value !== "object" || value === null) yield [name, value];
    else for (const [inner, one] of Object.entries(value)) yield [`${name}.${inner}`, one as unknown];
  }
}

/** Fields that have no row of their own, but whose nested fields do. */
function splitFieldsOf(table: FieldTable): ReadonlySet<string> {
  const parents = Object.keys(table).flatMap((row) => (row.includes(".") ? [row.slice(0, row.indexOf("."))] : []));
  return new Set(parents.filter((name) => !Object.hasOwn(table, name)));
}

const splitFields: Readonly<Record<DialectName, ReadonlySet<string>>> = {
  chat: splitFieldsOf(fieldTables.chat),
  completions: splitFieldsOf(fieldTables.completions),
  responses: splitFieldsOf(fieldTables.responses),
  messages: splitFieldsOf(fieldTables.messages),
  google: splitFieldsOf(fieldTables.google),
  sglang: splitFieldsOf(fieldTables.sglang),
  vllm: splitFieldsOf(fieldTables.vllm),
};

/** True if a value requests nothing. */
function isNeutral(value: unknown, rule: Exclude<FieldRule, { readonly status: "done" }> | null): boolean {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return true;
  return (rule?.neutral ?? []).some((neutral) => matches(value, neutral));
}

function matches(value: unknown, pattern: unknown): boolean {
  if (typeof pattern !== "object" || pattern === null || Array.isArray(pattern)) {
    return JSON.stringify(value) === JSON.stringify(pattern);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const fields = Object.entries(pattern);
  if (fields.length === 0) return Object.keys(value).length === 0;
  return fields.every(([name, one]) => matches((value as Readonly<Record<string, unknown>>)[name], one));
}

/** Ranges of sampling parameters, by their names in the dialects. */
export const samplingShape = {
  temperature: z.number().min(0).max(100).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  repetition_penalty: z.number().gt(0).nullish(),
  seed: z.int().nullish(),
  presence_penalty: z.number().nullish(),
  frequency_penalty: z.number().nullish(),
  logit_bias: anyNames(z.number()).nullish(),
};

/** Name of a parameter in {@link samplingShape}. */
function shapeName(name: string): keyof typeof samplingShape {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) as keyof typeof samplingShape;
}
