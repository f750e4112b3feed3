// The contract of tasks as data: rows by split and number, in any form of storage. The environment
// that reads the rows decides what their fields mean.

/** One task as data. */
export type TaskRow = {
  /** The value of the row. Hostile: nothing is known about it except that it is JSON. */
  readonly fields: unknown;
  /** The value as one line of JSON; a line of a file of JSON lines is given as it is written. */
  readonly text: string;
  /** Where the row is, for messages: `line 3 of "tasks.jsonl"`. */
  readonly place: string;
};

/** A split, its number of tasks, and the SHA-256 (hex) of all that defines them and their order. */
export type TaskSplit = { readonly name: string; readonly size: number; readonly hash: string };

/**
 * Tasks by split and number.
 *
 * Guarantees: `row` is synchronous, reads only that row (or its page), and gives the row that the
 * hash of its split was made of, or throws a `ConfigurationError`. Not promised: that equal rows are
 * the same object.
 */
export interface TaskTable {
  /** Ordered by their first rows; none is empty. */
  readonly splits: readonly TaskSplit[];
  /** Number of tasks of all splits. */
  readonly size: number;
  /**
   * Traits of the rows, by name. Those of rows that are not known without reading them are missing.
   */
  readonly traits: ReadonlyMap<string, TraitFacts>;
  /** True if each row has the trait. */
  allHave(trait: string): boolean;
  /** Throws a `ConfigurationError` if the row cannot be read or has changed. */
  row(split: string, index: number): TaskRow;
}

/** Number of rows that have a trait, and the place of the first of them. */
export type TraitFacts = { readonly count: number; readonly first: string };

/** Facts about a row that its environment needs before any task is run. */
export type RowFacts = {
  readonly split: string;
  /** Unique among all rows; `null` if tasks have no ids of their own. */
  readonly id: string | null;
  /** Properties that are counted, such as "has an instruction" or the name of its grader. */
  readonly traits: readonly string[];
};

/** The environment's check of a row. */
export type RowReader = {
  /** Name of the kind of tasks and version of its check: indexes of other readers are not used. */
  readonly name: string;
  /** Split of rows that name none. */
  readonly defaultSplit: string;
  /** Throws a `ConfigurationError` that names the place. */
  read(fields: unknown, place: string): RowFacts;
};

/** Sizes and hashes of the splits of a table, by their names. */
export function splitFacts({ splits }: Pick<TaskTable, "splits">): {
  readonly sizes: Readonly<Record<string, number>>;
  readonly hashes: Readonly<Record<string, string>>;
} {
  return {
    sizes: Object.fromEntries(splits.map(({ name, size }) => [name, size])),
    hashes: Object.fromEntries(splits.map(({ name, hash }) => [name, hash])),
  };
}
