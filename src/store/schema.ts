// Records of run files, each described once: a schema reads a record from JSON and names an invalid
// field, writes it, and is the reference in docs/reference.md. The compiler keeps a schema equal to
// the type of its record. Not zod: values come as lossless JSON (maps), token ids as packed arrays,
// and lines are written into bytes without a tree in between (an episode is stored for every few
// turns).

import { endianness } from "node:os";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { fromPlain, toPlain } from "../python-semantics/json/plain.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../python-semantics/json/value.ts";
import type { ByteWriter } from "./byte-writer.ts";

/** Name of a field, or index in a list. */
type Key = string | number;

export interface Schema<T> {
  /** Type name in the reference. */
  readonly title: string;
  /** True: the field may be absent, which is not `null`. */
  readonly isOptional?: true;
  /**
   * Throws a plain error that names the place and the value found there. The place is `where`, or
   * `key` below it: it is composed only for an error. `undefined`: the field is absent.
   */
  read(value: JsonValue | undefined, where: string, key?: Key): T;
  write(this: void, writer: ByteWriter, value: T): void;
  /** The named records inside this schema. */
  readonly parts: readonly RecordReference[];
}

/** The type of a record that is described only by its schema. */
export type RecordOf<S> = S extends Schema<infer T> ? Readonly<T> : never;

/** A record for the reference; `variant` is `null` in records without variants. */
export type RecordReference = {
  readonly name: string;
  readonly fields: readonly {
    readonly variant: string | null;
    readonly name: string;
    readonly title: string;
    readonly meaning: string;
  }[];
  readonly parts: readonly RecordReference[];
};

/** Every field with its schema, and with its meaning if the name does not explain it. */
export type Fields<T> = { readonly [K in keyof T]-?: Field<T[K]> };

type Field<T> = Schema<T> | readonly [schema: Schema<T>, meaning: string];

function placeOf(where: string, key: Key | undefined): string {
  if (key === undefined) return where;
  return typeof key === "number" ? `${where}[${key}]` : `${where}.${key}`;
}

function misfit(where: string, key: Key | undefined, expected: string, value: JsonValue | undefined): Error {
  const found =
    value === undefined ? "nothing" : value === null ? "null" : Array.isArray(value) ? "a list" : typeof value;
  return new Error(`Cannot read ${placeOf(where, key)}: it is ${found}, expected ${expected}.`);
}

function leaf<T>(title: string, read: Schema<T>["read"], write: (writer: ByteWriter, value: T) => void): Schema<T> {
  return { title, read, write, parts: [] };
}

/** A leaf whose values satisfy `is`. */
export function checked<T extends JsonValue>(
  title: string,
  expected: string,
  is: (value: JsonValue | undefined) => value is T,
  write: (writer: ByteWriter, value: T) => void,
): Schema<T> {
  const read: Schema<T>["read"] = (value, where, key) => {
    if (!is(value)) throw misfit(where, key, expected, value);
    return value;
  };
  return leaf(title, read, write);
}

export const text = checked(
  "text",
  "a text",
  (value) => typeof value === "string",
  (writer, value) => writer.quoted(value),
);

export const number = leaf<number>(
  "number",
  (value, where, key) => {
    if (typeof value === "number") return value;
    if (value instanceof JsonFloat) return value.value;
    if (typeof value === "bigint") return Number(value);
    throw misfit(where, key, "a number", value);
  },
  writeNumber,
);

/** A count or an offset, within the safe integers. */
export const wholeNumber = checked<number>(
  "number",
  "a whole number from 0 on",
  (value): value is number => typeof value === "number" && Number.isSafeInteger(value) && value >= 0,
  writeNumber,
);

export const boolean = checked(
  "boolean",
  "true or false",
  (value) => typeof value === "boolean",
  (writer, value) => writer.ascii(value ? "true" : "false"),
);

/** Any JSON value; an absent one is `null`. */
export const json = leaf<JsonValue>("JSON", (value) => value ?? null, writeJson);

export const jsonObject = checked<JsonObject>("object", "an object", (value) => value instanceof Map, writeJson);

/** An object that is not interpreted here. */
export function plainObject<T extends object>(): Schema<T> {
  return leaf<T>(
    "object",
    (value, where, key) => toPlain(jsonObject.read(value, where, key)) as T,
    (writer, value) => writer.text(JSON.stringify(value)),
  );
}

/** A member of a closed union. */
export function oneOf<T extends string>(names: readonly T[]): Schema<T> {
  const shown = names.map((one) => `"${one}"`).join(", ");
  return leaf<T>(
    shown,
    (value, where, key) => {
      const found = names.find((one) => one === value);
      if (found === undefined) throw misfit(where, key, `one of ${shown}`, value);
      return found;
    },
    (writer, value) => writer.quoted(value),
  );
}

/** One of the given numbers. */
export function oneOfNumbers<T extends number>(numbers: readonly T[]): Schema<T> {
  const shown = numbers.join(" or ");
  return leaf<T>(
    shown,
    (value, where, key) => {
      const found = numbers.find((one) => BigInt(one) === value || one === value);
      if (found === undefined) throw misfit(where, key, shown, value);
      return found;
    },
    (writer, value) => writer.text(String(value)),
  );
}

/** A nullable value; an absent one is also `null`. */
export function nullable<T>(schema: Schema<T>): Schema<T | null> {
  return {
    title: `${schema.title} or null`,
    read: (value, where, key) => (value === undefined || value === null ? null : schema.read(value, where, key)),
    write: (writer, value) => (value === null ? writer.ascii("null") : schema.write(writer, value)),
    parts: schema.parts,
  };
}

/** Written only if present. Must not be the first field of a record. */
export function optional<T>(schema: Schema<T>): Schema<T> & { readonly isOptional: true } {
  return { ...schema, title: `${schema.title}, may be absent`, isOptional: true };
}

export function list<T>(item: Schema<T>): Schema<readonly T[]> {
  return {
    title: `list of ${item.title}`,
    read: (value, where, key) => {
      if (!Array.isArray(value)) throw misfit(where, key, "a list", value);
      const place = placeOf(where, key);
      return value.map((one: JsonValue, index) => item.read(one, place, index));
    },
    write: (writer, values) => writeList(writer, values, item.write),
    parts: item.parts,
  };
}

/** An object with any names. */
export function namedValues<T>(item: Schema<T>): Schema<Readonly<Record<string, T>>> {
  return {
    title: `object of ${item.title}`,
    read: (value, where, key) =>
      Object.fromEntries(
        [...jsonObject.read(value, where, key)].map(([name, one]) => [name, item.read(one, placeOf(where, key), name)]),
      ),
    write: (writer, values) => writeObject(writer, Object.entries(values), item.write),
    parts: item.parts,
  };
}

type Compiled = { readonly name: string; readonly schema: Schema<unknown>; readonly meaning: string };

function compile(fields: object): Compiled[] {
  return Object.entries(fields).map(([name, field]: [string, Field<unknown>]) => {
    const [schema, meaning] = "read" in field ? [field, ""] : field;
    return { name, schema, meaning };
  });
}

/** An object with these fields, written in their order. */
export function record<T extends object>(name: string, fields: Fields<T>): Schema<T> {
  const compiled = compile(fields);
  return { title: name, ...recordCodec<T>(compiled, null), parts: [referenceOf(name, [[null, compiled]])] };
}

/** A closed union of records, distinguished by the field `tag`; the compiler requires every member. */
export function tagged<T extends object, Tag extends keyof T & string>(
  name: string,
  tag: Tag,
  variants: { readonly [Name in T[Tag] & string]: Fields<Omit<Extract<T, { readonly [K in Tag]: Name }>, Tag>> },
): Schema<T> {
  const compiled = Object.entries<object>(variants).map(([variant, fields]) => [variant, compile(fields)] as const);
  const codecs = new Map(
    compiled.map(([variant, fields]) => [variant, recordCodec<T>(fields, { name: tag, value: variant })]),
  );
  const expected = `one of ${[...codecs.keys()].map((one) => `"${one}"`).join(", ")}`;
  return {
    title: name,
    read: (value, where, key) => {
      const kind = jsonObject.read(value, where, key).get(tag);
      const codec = typeof kind === "string" ? codecs.get(kind) : undefined;
      if (codec === undefined) throw misfit(placeOf(where, key), tag, expected, kind);
      return codec.read(value, where, key);
    },
    write: (writer, value) => codecs.get(value[tag] as string)!.write(writer, value),
    parts: [referenceOf(name, compiled)],
  };
}

function recordCodec<T extends object>(
  compiled: readonly Compiled[],
  tag: { readonly name: string; readonly value: string } | null,
): Pick<Schema<T>, "read" | "write"> {
  const head = tag === null ? "{" : `{${JSON.stringify(tag.name)}:${JSON.stringify(tag.value)}`;
  const fields = compiled.map(({ name, schema }, at) => {
    const separator = at > 0 || tag !== null ? "," : "";
    const prefix = Buffer.from(`${at === 0 ? head : ""}${separator}${JSON.stringify(name)}:`);
    return { name: name as keyof T, schema, isOptional: schema.isOptional === true, prefix };
  });
  const end = fields.length === 0 ? `${head}}` : "}";
  return {
    read: (value, where, key) => {
      if (!(value instanceof Map)) throw misfit(where, key, "an object", value);
      const found: Record<string, unknown> = tag === null ? {} : { [tag.name]: tag.value };
      const place = placeOf(where, key);
      for (let at = 0; at < compiled.length; at++) {
        const { name, schema } = compiled[at]!;
        if (schema.isOptional === true && !value.has(name)) continue;
        found[name] = schema.read(value.get(name), place, name);
      }
      return found as T;
    },
    write: (writer, value) => {
      for (let at = 0; at < fields.length; at++) {
        const { name, schema, isOptional, prefix } = fields[at]!;
        if (isOptional && value[name] === undefined) continue;
        writer.short(prefix);
        schema.write(writer, value[name]);
      }
      writer.ascii(end);
    },
  };
}

function referenceOf(
  name: string,
  variants: readonly (readonly [variant: string | null, fields: readonly Compiled[]])[],
): RecordReference {
  const all = variants.flatMap(([variant, fields]) => fields.map((field) => ({ variant, ...field })));
  return {
    name,
    fields: all.map(({ schema, ...field }) => ({ ...field, title: schema.title })),
    parts: all.flatMap(({ schema }) => schema.parts),
  };
}

/**
 * Token ids and logprobs inside JSON: base64 of the little-endian bytes, with numpy's name of the
 * type. A list of numbers would be three times as long and five times as slow. In Python:
 * `numpy.frombuffer(base64.b64decode(x["base64"]), x["dtype"])`.
 */
export const packedTokens = leaf("packed <u4", (value) => new Uint32Array(unpack(value, "<u4")), writePacked);

/** {@link packedTokens} for `Float32Array`. */
export const packedLogprobs = leaf("packed <f4", (value) => new Float32Array(unpack(value, "<f4")), writePacked);

/** Longer arrays are encoded faster by the platform, shorter ones by a loop that creates no string. */
const mostLooped = 256;

function writePacked(writer: ByteWriter, array: Uint32Array | Float32Array): void {
  const isIds = array instanceof Uint32Array;
  writer.ascii(isIds ? '{"dtype":"<u4","base64":"' : '{"dtype":"<f4","base64":"');
  if (array.length > mostLooped) {
    writer.ascii(littleEndian(Buffer.from(array.buffer, array.byteOffset, array.byteLength)).toString("base64"));
  } else {
    writer.base64(isIds ? array : new Uint32Array(array.buffer, array.byteOffset, array.length));
  }
  writer.ascii('"}');
}

function unpack(value: JsonValue | undefined, dtype: string): ArrayBuffer {
  const base64 = value instanceof Map && value.get("dtype") === dtype ? value.get("base64") : null;
  if (typeof base64 !== "string")
    throw new Error(`Cannot unpack an array: expected {"dtype": "${dtype}", "base64": ...}.`);
  const bytes = littleEndian(Buffer.from(base64, "base64"));
  if (bytes.length % 4 !== 0)
    throw new Error(`Cannot unpack an array: ${bytes.length} bytes are not a whole number of entries.`);
  const buffer = new ArrayBuffer(bytes.length);
  new Uint8Array(buffer).set(bytes);
  return buffer;
}

function littleEndian(bytes: Buffer): Buffer {
  return endianness() === "LE" ? bytes : Buffer.from(bytes).swap32();
}

function writeNumber(writer: ByteWriter, value: number): void {
  if (Number.isSafeInteger(value) && value >= 0) writer.digits(value);
  else writer.ascii(dumpJson(fromPlain(value)));
}

function writeList<T>(writer: ByteWriter, values: readonly T[], write: (writer: ByteWriter, value: T) => void): void {
  writer.ascii("[");
  for (let at = 0; at < values.length; at++) {
    if (at > 0) writer.ascii(",");
    write(writer, values[at] as T);
  }
  writer.ascii("]");
}

function writeObject<T>(
  writer: ByteWriter,
  entries: Iterable<readonly [string, T]>,
  write: (writer: ByteWriter, value: T) => void,
): void {
  let isFirst = true;
  for (const [name, value] of entries) {
    writer.ascii(isFirst ? "{" : ",");
    writer.quoted(name);
    writer.ascii(":");
    write(writer, value);
    isFirst = false;
  }
  writer.ascii(isFirst ? "{}" : "}");
}

/**
 * Writes JSON like `dumpJson` without white space, except that lone surrogates are escaped, which
 * UTF-8 cannot hold.
 */
function writeJson(writer: ByteWriter, value: JsonValue): void {
  if (typeof value === "string") writer.quoted(value);
  else if (typeof value === "number") writeNumber(writer, value);
  else if (Array.isArray(value)) writeList<JsonValue>(writer, value, writeJson);
  else if (value instanceof Map) writeObject(writer, value, writeJson);
  else writer.text(dumpJson(fromPlain(value)));
}
