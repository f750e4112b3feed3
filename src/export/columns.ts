// Columns of a format, described once: they define the type of its rows, every kind of file, and
// the reference in docs/reference.md. Also, a row as one line of JSON. Lists of numbers are lists
// in both kinds of file; "json" is any value, which Parquet holds as JSON text.

/** Types of column values; any value may be null. "messages": a list of `ChatMessage`. */
export type ColumnType =
  | ("int" | "double" | "boolean" | "text" | "json" | "messages")
  | ("ints" | "floats" | "doubles" | "texts" | "int-lists" | "float-lists");

/** A column with values of type `T`, and with its meaning if the name does not explain it. */
export type Column<T> = {
  readonly type: ColumnType;
  readonly meaning: string;
  /** Never set; it only carries the type. */
  readonly value?: T;
};

/** The columns of a format, in the order in which they are written. */
export type Columns<Row> = readonly { readonly name: string; readonly type: ColumnType; readonly meaning: string }[] & {
  /** Never set; it only carries the type. */
  readonly row?: Row;
};

/** The row that columns describe. */
export type RowOf<C> = C extends { readonly row?: infer Row } ? NonNullable<Row> : never;

/** A row whose columns are only known at run time. */
export type AnyRow = Readonly<Record<string, unknown>>;

export function columns<Row extends AnyRow>(table: { readonly [K in keyof Row]: Column<Row[K]> }): Columns<
  Readonly<Row>
> {
  return Object.entries<Column<unknown>>(table).map(([name, { type, meaning }]) => ({ name, type, meaning }));
}

function kind<T>(type: ColumnType): (meaning?: string) => Column<T> {
  return (meaning = "") => ({ type, meaning });
}

export const int = kind<number>("int");
export const double = kind<number>("double");
export const flag = kind<boolean>("boolean");
export const string = kind<string>("text");
export const ints = kind<readonly number[]>("ints");
export const floats = kind<readonly number[]>("floats");
export const doubles = kind<readonly number[]>("doubles");
export const strings = kind<readonly string[]>("texts");
export const intLists = kind<readonly (readonly number[])[]>("int-lists");
export const floatLists = kind<readonly (readonly number[])[]>("float-lists");

/** A list of `ChatMessage`. */
export function messageList<T>(meaning = ""): Column<readonly T[]> {
  return { type: "messages", meaning };
}

export function json<T>(meaning = ""): Column<T> {
  return { type: "json", meaning };
}

export function orNull<T>(column: Column<T>): Column<T | null> {
  return column;
}

/**
 * The row as one line of JSON, without the line end. Numbers are written in Python's form,
 * infinities included.
 */
export function rowLine<Row extends object>(row: Row, of: Columns<Row>): string {
  const written = of.map(({ name, type }) => `${JSON.stringify(name)}:${valueText((row as AnyRow)[name], type)}`);
  return `{${written.join(",")}}`;
}

function valueText(value: unknown, type: ColumnType): string {
  return value === null ? "null" : (valueTexts[type]?.(value) ?? JSON.stringify(value));
}

/** Writers for the types whose values JSON does not write in Python's form. */
const valueTexts: { readonly [Type in ColumnType]?: (value: unknown) => string } = {
  double: (value) => pythonFloat(value as number),
  floats: listText(float32Text),
  doubles: listText(pythonFloat),
  "float-lists": (lists) => `[${(lists as readonly unknown[]).map(listText(float32Text)).join(",")}]`,
};

function listText(entry: (value: number) => string): (values: unknown) => string {
  return (values) => `[${(values as readonly number[]).map(entry).join(",")}]`;
}

function float32Text(value: number): string {
  return pythonFloat(shortestFloat32(value));
}

/**
 * The shortest decimal that rounds to this float32: nine digits always suffice, and files shrink by
 * half.
 */
export function shortestFloat32(float32: number): number {
  if (float32 === 0 || !Number.isFinite(float32)) return float32;
  for (let digits = 6; digits < 9; digits++) {
    const rounded = Number(float32.toPrecision(digits));
    if (Math.fround(rounded) === float32) return rounded;
  }
  return Number(float32.toPrecision(9));
}

function pythonFloat(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (value === Infinity) return "Infinity";
  if (value === -Infinity) return "-Infinity";
  if (Object.is(value, -0)) return "-0.0";
  // A list of floats that all look like integers would become an integer tensor.
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : String(value);
}
