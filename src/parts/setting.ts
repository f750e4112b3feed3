// One setting: its flag, its key in a configuration file, its name as an option of a program, its
// meaning and its valid values. Flags give strings, files and programs give typed values; one
// schema reads both. A table of settings is written as `section("Limits", { maxTurns:
// whole(30).help("turns of an episode") })`: a kind with its default, then the help; flag, key and
// type follow from it. The help and the default are also written into the declarations of the
// package (`scripts/document-settings.mjs`).
//
// Parts that are chosen by name (engines, environments, users) have a row each in a registry, which
// holds what is needed before the part is chosen, and imports the part when it is. The options of a
// part are declared in its folder; flags, keys of files, help and refusals are made from the rows.

import { z } from "zod";
import { ConfigurationError } from "../core/index.ts";
import { suggestion } from "../lib/nearest.ts";

/** Traits of a setting; the default is the first member of each. */
export type Traits = {
  /**
   * Secret content that a value may hold and that is never printed: "nothing"; "key", if someone
   * gives a key in place of its name; or "address", an address or a command that contains a key.
   */
  readonly holds: "nothing" | "key" | "address";
  /**
   * Change allowed when a run resumes: "same", because its episodes would differ otherwise; "free"
   * (where servers are and how they are called); or "of-terminal", taken from the terminal that
   * resumes it.
   */
  readonly onResume: "same" | "free" | "of-terminal";
  /** True if the short help lists it, because most people need it. */
  readonly isCommon: boolean;
  /** Names that a shell offers; other values may be valid as well. Default: those of the schema. */
  readonly suggested: readonly string[];
};

/** Meaning and valid values of a flag. */
export type Flag<T> = Traits & {
  /** The flag in the help, such as `--tasks <list>`. A flag without a value sets true. */
  readonly flag: string;
  readonly help: string;
  /** Completes "..., expected <expected>". */
  readonly expected: string;
  readonly schema: z.ZodType<T>;
  readonly default: T;
};

/**
 * A flag, or a key of a file, that belongs to a table; `group` is its heading in the help. An interface, because the
 * declarations of the package then keep its name where tables are joined.
 */
export interface Setting<T> extends Flag<T> {
  readonly group: string;
}

/** The values of a table of settings. */
export type SettingValues<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Flag<infer T> ? T : never;
};

/** A flag without its name. */
type Kind<T> = Omit<Flag<T>, "flag"> & { readonly value: string };

/** A kind of setting with its default, but without its help. */
type Undescribed<T> = { readonly help: (help: string, traits?: Partial<Traits>) => Kind<T> };

const usual: Traits = { holds: "nothing", onResume: "same", isCommon: false, suggested: [] };
/** Traits of settings that locate a server or control how it is called. */
export const free: Partial<Traits> = { onResume: "free" };

/** The settings under one heading; a setting's flag is its name in kebab case. */
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

/** The spelling of `groupSize` in flags and files: `group-size`. */
export function keyOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** A number, or its text. Empty strings, hexadecimal numbers and similar forms are refused. */
const numeric = z.preprocess(
  (value) =>
    typeof value === "string" && /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(value.trim()) ? Number(value) : value,
  z.number(),
);

export type Bounds = { readonly min?: number; readonly max?: number; readonly above?: number };

export const numberWithin = ({ min = -Infinity, max = Infinity, above = -Infinity }: Bounds): z.ZodType<number> =>
  numeric.refine((value) => value >= min && value <= max && value > above);

type CustomOptions<T> = { readonly default: NoInfer<T>; readonly expected: string; readonly schema: z.ZodType<T> };

/** A setting of its own kind. `traits` apply to all settings of this kind. */
export function custom<T>(value: string, options: CustomOptions<T>, traits: Partial<Traits> = {}): Undescribed<T> {
  return { help: (help, own = {}) => ({ value, help, ...options, ...usual, ...traits, ...own }) };
}

type OrNull<T, Initial> = Initial extends null ? T | null : T;

/** A setting that is `null` unless given, if `null` is its default. */
function optional<T, Initial extends T | null>(
  value: string,
  initial: Initial,
  { expected, schema, ...traits }: Pick<CustomOptions<T>, "expected" | "schema"> & Partial<Traits>,
): Undescribed<OrNull<T, Initial>> {
  const options = { default: initial, expected, schema: initial === null ? schema.nullable() : schema };
  return custom(value, options as unknown as CustomOptions<OrNull<T, Initial>>, traits);
}

export const nonEmpty = z.string().min(1);

/** Without a default: `null`. */
export function text<Initial extends string | null = null>(
  value: string,
  expected: string,
  initial: Initial = null as Initial,
  traits: Partial<Traits> = {},
): Undescribed<OrNull<string, Initial>> {
  return optional<string, Initial>(value, initial, { expected, schema: nonEmpty, ...traits });
}

/** `of`: a phrase such as "a model". */
export const named = <Initial extends string | null = null>(of: string, initial: Initial = null as Initial) =>
  text("<name>", `the name of ${of}`, initial);
export const folder = text("<folder>", "a folder");
export const file = text("<file>", "a file");
/** Name of the environment variable that holds a key. */
export const variable = text("<variable>", "the name of an environment variable", null, { ...free, holds: "key" });
/** Address of a server; `expected` completes "..., expected <expected>". */
export const address = (expected: string) => text("<address>", expected, null, { ...free, holds: "address" });
export const chatAddress = address("an address like http://127.0.0.1:8000/v1");

function within(noun: string, { min, max, above }: Bounds): string {
  if (min !== undefined && max !== undefined && max < Number.MAX_VALUE) return `${noun} from ${min} to ${max}`;
  if (min !== undefined) return `${noun} of at least ${min}`;
  const upper = max === undefined ? "" : ` and at most ${max}`;
  return above === undefined ? noun : `${noun} above ${above}${upper}`;
}

export function number<Initial extends number | null>(
  value: string,
  initial: Initial,
  bounds: Bounds,
): Undescribed<OrNull<number, Initial>> {
  return optional<number, Initial>(value, initial, {
    expected: within("a number", bounds),
    schema: numberWithin(bounds),
  });
}

/** Number of seconds, up to the longest possible timer. Without a default: `null`. */
export function seconds<Initial extends number | null = null>(
  initial: Initial = null as Initial,
): Undescribed<OrNull<number, Initial>> {
  const schema = numberWithin({ above: 0, max: 2_000_000 });
  return optional<number, Initial>("<seconds>", initial, { expected: "a number of seconds above 0", schema });
}

/** The value of a setting in seconds as milliseconds; this is the only place that converts them. `null` stays `null`. */
export function milliseconds<Seconds extends number | null>(value: Seconds): Seconds extends null ? null : number;
export function milliseconds(value: number | null): number | null {
  return value === null ? null : value * 1000;
}

/** Without a default: `null`. Without bounds: at least 1. */
export function whole<Initial extends number | null = null>(
  initial: Initial = null as Initial,
  { min = 1, max, value = "<n>" }: Bounds & { readonly value?: string } = {},
): Undescribed<OrNull<number, Initial>> {
  const schema = numberWithin({ min, max: max ?? Number.MAX_SAFE_INTEGER }).refine(Number.isSafeInteger);
  const expected = within("a whole number", max === undefined ? { min } : { min, max });
  return optional<number, Initial>(value, initial, { expected, schema });
}

/** The first name is the default. */
export function choice<const Name extends string>(
  value: string,
  ...names: readonly [Name, ...Name[]]
): Undescribed<Name> {
  const schema = z.enum(names) as unknown as z.ZodType<Name>;
  return custom<Name>(value, { default: names[0], expected: alternatives(names), schema });
}

/** The names as a phrase such as "a, b or c". */
export function alternatives(names: readonly string[]): string {
  const [last = "", ...before] = names.toReversed();
  return before.length === 0 ? last : `${before.toReversed().join(", ")} or ${last}`;
}

/** A flag that is true when given. */
export const flag = custom<boolean>("", { default: false, expected: "true or false", schema: z.boolean() });

/** The value of a setting that does not belong to a rollout; its default when it is absent. */
export function readFlag<T>(setting: Flag<T>, value: unknown): T {
  if (value === undefined) return setting.default;
  return readValue(setting, value, setting.flag.split(" ")[0] ?? setting.flag);
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
export function readValue<T>({ schema, expected, holds }: Flag<T>, value: unknown, where: string): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const state = holds === "nothing" ? `it is ${JSON.stringify(value)}` : "its value does not fit";
  const near = holds !== "key" && typeof value === "string" ? suggestionFor(value, schema, expected) : null;
  throw new ConfigurationError(
    `Cannot use ${where}: ${state}, expected ${expected}${near === null ? "." : `; ${near}`}`,
  );
}

/** Names that a schema allows. */
function namesIn(schema: z.ZodType): readonly string[] {
  const allowed: string[] = [];
  z.toJSONSchema(schema, {
    io: "input",
    unrepresentable: "any",
    override: ({ jsonSchema: { enum: values = [], const: one } }) => {
      for (const name of [...values, one]) if (typeof name === "string") allowed.push(name);
    },
  });
  return allowed;
}

/** Names that a shell may offer for the value of a setting. */
export function suggestedNames({ schema, suggested }: Flag<unknown>): readonly string[] {
  return suggested.length > 0 ? suggested : namesIn(schema);
}

/**
 * Suggestion for a mistyped name: a name that the schema allows or, for a list, a name in the text
 * of `expected`.
 */
function suggestionFor(value: string, schema: z.ZodType, expected: string): string | null {
  const allowed = namesIn(schema);
  if (allowed.length > 0) return suggestion(value, allowed);
  const [, list] = /^a list (?:of|like) (.*)$/.exec(expected) ?? [];
  const names = (list?.match(/(?<![\w.])[a-z][\w-]{3,}(?=[:,]| and |$)/g) ?? []).filter((name) => !name.includes("."));
  const unknown = value.split(",").map((item) => item.trim().split(":")[0]!).find((item) => !names.includes(item)); // prettier-ignore
  return unknown === undefined ? null : suggestion(unknown, names);
}

// oxlint-disable-next-line typescript/no-explicit-any -- Options of any types; each keeps its own.
export type OptionTable = Readonly<Record<string, Setting<any>>>;

/** The rows of a registry by name, as far as their options are concerned; `form` stands for the name in messages. */
export type Rows = Readonly<Record<string, { readonly options: OptionTable; readonly form?: string }>>;

/** The tables of all rows as one type. */
type OptionsOfAll<Registry extends Rows> = Together<Registry[keyof Registry]["options"]>;

type Together<Union> = (Union extends unknown ? (value: Union) => void : never) extends (value: infer All) => void
  ? All
  : never;

/** The options of all rows as one table. Rows that share an option share its setting. */
export function optionsOfAll<Registry extends Rows>(rows: Registry): OptionsOfAll<Registry> {
  const tables = Object.values(rows).map(({ options }) => options);
  return Object.assign({}, ...tables) as OptionsOfAll<Registry>;
}

/** The values of a part's own options. */
export function optionsOf<Table extends OptionTable>(
  table: Table,
  settings: Readonly<Record<string, unknown>>,
): SettingValues<Table> {
  return Object.fromEntries(Object.keys(table).map((name) => [name, settings[name]])) as SettingValues<Table>;
}

/** Names of the options of a table that are given: an option whose value is its default is not. */
export function givenOptions(table: OptionTable, settings: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.keys(table).filter((name) => settings[name] !== table[name]!.default);
}

/** The kind of a registry's parts in messages, and the flag that chooses one. */
export type PartKind = { readonly noun: string; readonly flag: string };

/** Throws a `ConfigurationError` for an option that is given and that only other parts than the chosen one have. */
export function refuseForeignOptions(
  settings: Readonly<Record<string, unknown>>,
  chosen: string,
  { noun, flag: chooser, rows, own }: PartKind & { readonly rows: Rows; readonly own: OptionTable },
): void {
  for (const { options } of Object.values(rows)) {
    for (const name of givenOptions(options, settings)) {
      if (Object.hasOwn(own, name)) continue;
      const owners = Object.entries(rows).flatMap(([row, { options: theirs, form = row }]) =>
        Object.hasOwn(theirs, name) ? [form] : [],
      );
      throw new ConfigurationError(
        `Cannot use --${keyOf(name)} with ${noun} "${chosen}": it has no effect there; remove it, or use ${chooser} ${alternatives(owners)}.`,
      );
    }
  }
}
