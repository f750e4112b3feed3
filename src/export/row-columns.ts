// The columns of a format, once, for every kind of file; and a row as one line of JSON. Lists of numbers are lists in both
// kinds of file; "json" is any value, which Parquet holds as JSON text.

/** How a column's values look; any of them may be null. "messages": a list of `ChatMessage`. */
export type ColumnType =
  | "int"
  | "double"
  | "boolean"
  | "text"
  | "ints"
  | "floats"
  | "doubles"
  | "texts"
  | "int-lists"
  | "float-lists"
  | "json"
  | "messages";

/** Columns stand in the order in which they are written. */
export type Columns<Row> = readonly { readonly name: keyof Row & string; readonly type: ColumnType }[];

/** A row whose columns are only known at run time. */
export type AnyRow = Readonly<Record<string, unknown>>;

/** The row as one line of JSON, without the line end. Numbers are written as Python reads them, infinities included. */
export function rowLine<Row>(row: Row, columns: Columns<Row>): string {
  const written = columns.map(({ name, type }) => `${JSON.stringify(name)}:${valueText(row[name], type)}`);
  return `{${written.join(",")}}`;
}

function valueText(value: unknown, type: ColumnType): string {
  if (value === null) return "null";
  switch (type) {
    case "double":
      return pythonFloat(value as number);
    case "ints":
      return `[${(value as readonly number[]).join(",")}]`;
    case "floats":
      return float32List(value as readonly number[]);
    case "doubles":
      return `[${(value as readonly number[]).map(pythonFloat).join(",")}]`;
    case "int-lists":
      return `[${(value as readonly (readonly number[])[]).map((list) => `[${list.join(",")}]`).join(",")}]`;
    case "float-lists":
      return `[${(value as readonly (readonly number[])[]).map(float32List).join(",")}]`;
    case "int":
    case "boolean":
    case "text":
    case "texts":
    case "json":
    case "messages":
      return JSON.stringify(value);
    default:
      return type satisfies never;
  }
}

function float32List(values: readonly number[]): string {
  return `[${values.map((value) => pythonFloat(shortestFloat32(value))).join(",")}]`;
}

/** The shortest decimal that still is this float32: nine digits always suffice, and files shrink by half. */
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
  // A float list whose every entry looks like an integer would become an integer tensor.
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : String(value);
}
