// Parts that are chosen by name: engines, environments, users. A registry has a row for each; it
// holds what is needed before the part is chosen, and imports the part when it is. The options of a
// part are declared in its folder; flags, keys of files, help and refusals are made from the rows.

import { ConfigurationError } from "../core/index.ts";
import { alternatives, keyOf, type Setting, type SettingValues } from "./setting.ts";

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
  { noun, flag, rows, own }: PartKind & { readonly rows: Rows; readonly own: OptionTable },
): void {
  for (const { options } of Object.values(rows)) {
    for (const name of givenOptions(options, settings)) {
      if (Object.hasOwn(own, name)) continue;
      const owners = Object.entries(rows).flatMap(([row, { options: theirs, form = row }]) =>
        Object.hasOwn(theirs, name) ? [form] : [],
      );
      throw new ConfigurationError(
        `Cannot use --${keyOf(name)} with ${noun} "${chosen}": it has no effect there; remove it, or use ${flag} ${alternatives(owners)}.`,
      );
    }
  }
}
