// One setting: its flag, its key in a configuration file, its name as an option of a program, what it means and what it must be.
// Flags bring strings, files and programs typed values; one schema reads both. A table of settings is written as
// `section("Limits", { maxTurns: whole("<n>", "turns of an episode", 30) })`: flag, key and type follow from name and kind.

import { z } from "zod";
import { ConfigurationError } from "../core/index.ts";

/** What a flag means and what it must be. */
export type Flag<T> = {
  /** As in the help: `--tasks <list>`. A flag without a value sets true. */
  readonly flag: string;
  readonly help: string;
  /** Completes "..., <expected> is needed". */
  readonly expected: string;
  readonly schema: z.ZodType<T>;
  readonly default: T;
};

/** A flag, or a key of a file, that is one of many; `group` is its heading in the help. */
export type Setting<T> = Flag<T> & { readonly group: string };

/** The values of a table of settings. */
export type SettingValues<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Flag<infer T> ? T : never;
};

/** A flag without its name. */
type Kind<T> = Omit<Flag<T>, "flag"> & { readonly value: string };

/** The settings of one heading; a setting's flag is its name in kebab case. */
// oxlint-disable-next-line typescript/no-explicit-any -- A kind of any type; each keeps its own.
export function section<Kinds extends Readonly<Record<string, Kind<any>>>>(
  group: string,
  kinds: Kinds,
): { readonly [Name in keyof Kinds]: Kinds[Name] extends Kind<infer T> ? Setting<T> : never } {
  const settings = Object.entries(kinds).map(([name, { value, ...rest }]) => [
    name,
    { ...rest, group, flag: `--${keyOf(name)} ${value}`.trimEnd() },
  ]);
  return Object.fromEntries(settings) as ReturnType<typeof section<Kinds>>;
}

/** `groupSize` as flags and files spell it: `group-size`. */
export function keyOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** A number, or its text. Empty texts, hexadecimal and the like are not numbers. */
const numeric = z.preprocess(
  (value) =>
    typeof value === "string" && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value.trim()) ? Number(value) : value,
  z.number(),
);

export function custom<T>(value: string, help: string, initial: T, expected: string, schema: z.ZodType<T>): Kind<T> {
  return { value, help, expected, schema, default: initial };
}

type OrNull<T, Initial> = Initial extends null ? T | null : T;

function nullable<T, Initial extends T | null>(schema: z.ZodType<T>, initial: Initial): z.ZodType<OrNull<T, Initial>> {
  return (initial === null ? schema.nullable() : schema) as z.ZodType<OrNull<T, Initial>>;
}

export const nonEmpty = z.string().min(1);

/** `null`: absent unless given. */
export function text<Initial extends string | null>(
  ...[value, help, initial, expected]: readonly [value: string, help: string, initial: Initial, expected: string]
): Kind<OrNull<string, Initial>> {
  return custom(value, help, initial as OrNull<string, Initial>, expected, nullable(nonEmpty, initial));
}

export type Bounds = { readonly min?: number; readonly max?: number; readonly above?: number };

export const numberWithin = ({ min = -Infinity, max = Infinity, above = -Infinity }: Bounds): z.ZodType<number> =>
  numeric.refine((value) => value >= min && value <= max && value > above);

function within(noun: string, { min, max, above }: Bounds): string {
  if (min !== undefined && max !== undefined && max < Number.MAX_VALUE) return `${noun} from ${min} to ${max}`;
  if (min !== undefined) return `${noun} of at least ${min}`;
  const upper = max === undefined ? "" : ` and at most ${max}`;
  return above === undefined ? noun : `${noun} above ${above}${upper}`;
}

export function number<Initial extends number | null>(
  ...[value, help, initial, bounds]: readonly [value: string, help: string, initial: Initial, bounds: Bounds]
): Kind<OrNull<number, Initial>> {
  const expected = within("a number", bounds);
  return custom(
    ...([value, help, initial as OrNull<number, Initial>, expected, nullable(numberWithin(bounds), initial)] as const),
  );
}

/** As long as a timer can be. */
export function seconds<Initial extends number | null>(help: string, initial: Initial): Kind<OrNull<number, Initial>> {
  const kind = number("<seconds>", help, initial, { above: 0, max: 2_000_000 });
  return { ...kind, expected: "a number of seconds above 0" };
}

/** Without bounds: at least 1. */
export function whole<Initial extends number | null>(
  ...[value, help, initial, { min = 1, max } = {}]: readonly [string, string, Initial, Bounds?]
): Kind<OrNull<number, Initial>> {
  const schema = numberWithin({ min, max: max ?? Number.MAX_SAFE_INTEGER }).refine(Number.isSafeInteger);
  const expected = within("a whole number", max === undefined ? { min } : { min, max });
  return custom(value, help, initial as OrNull<number, Initial>, expected, nullable(schema, initial));
}

export function choice<const Name extends string, const Initial extends Name | null>(
  ...[value, help, names, initial]: readonly [string, string, readonly [Name, ...Name[]], Initial]
): Kind<OrNull<Name, Initial>> {
  const expected = `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
  const schema = z.enum(names) as unknown as z.ZodType<Name>;
  return custom(value, help, initial as OrNull<Name, Initial>, expected, nullable(schema, initial));
}

/** True when it is given. */
export function flag(help: string): Kind<boolean> {
  return custom("", help, false, "true or false", z.boolean());
}

/** The value of a setting that is no setting of a rollout; its default when it is absent. */
export function readFlag<T>(setting: Flag<T>, value: unknown): T {
  if (value === undefined) return setting.default;
  return readValue(setting, value, { where: setting.flag.split(" ")[0] ?? setting.flag, isShown: true });
}

/** The values of a table; defaults where absent. */
export function readFlags<Table extends Readonly<Record<string, Flag<unknown>>>>(
  table: Table,
  values: Readonly<Record<string, unknown>>,
): SettingValues<Table> {
  const read = Object.entries(table).map(([name, setting]) => [name, readFlag(setting, values[name])]);
  return Object.fromEntries(read) as SettingValues<Table>;
}

/** Throws a `ConfigurationError` that names `where`, and the value unless it may be a secret. */
export function readValue<T>(
  { schema, expected }: Pick<Flag<T>, "schema" | "expected">,
  value: unknown,
  { where, isShown }: { readonly where: string; readonly isShown: boolean },
): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const state = isShown ? `it is ${JSON.stringify(value)}` : "its value does not fit";
  throw new ConfigurationError(`Cannot use ${where}: ${state}, ${expected} is needed.`);
}

/** The candidate that a mistyped word most likely meant (edit distance, at most a third of the word); `null`: none is near. */
export function nearest(word: string, candidates: readonly string[]): string | null {
  let best: { readonly candidate: string; readonly distance: number } | null = null;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate);
    if (best === null || distance < best.distance) best = { candidate, distance };
  }
  return best !== null && best.distance <= Math.max(1, Math.floor(word.length / 3)) ? best.candidate : null;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, place) => place);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
