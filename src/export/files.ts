// Rows into a file, which has its name only when it is whole: JSON lines, or Parquet with lists of int32 and float32, texts, and
// messages as a list of structs, so that trainers read them as they are; whatever has no fixed shape is JSON text.

import { type FileHandle, open, rename, rm } from "node:fs/promises";

import type { SchemaElement } from "hyparquet-writer";

import { type AnyRow, type Columns, type ColumnType, rowLine } from "./columns.ts";

/**
 * Takes rows in order. Memory does not grow with their number.
 *
 * Guarantees: `write` resolves once its rows may be forgotten; after `close` the file is whole and has its name, and until
 * then there is no file of that name. After `abandon` nothing is left.
 */
export interface RowFile {
  write(rows: readonly AnyRow[]): Promise<void>;
  /** Bytes written. */
  close(): Promise<number>;
  abandon(): Promise<void>;
}

/** A file that has its name only when it is whole: written beside, renamed at the end. */
class PartialFile {
  readonly #path: string;
  #handle: FileHandle;
  #bytes = 0;

  private constructor(path: string, handle: FileHandle) {
    this.#path = path;
    this.#handle = handle;
  }

  static async open(path: string): Promise<PartialFile> {
    return new PartialFile(path, await open(`${path}.part`, "w"));
  }

  async append(bytes: Uint8Array | string): Promise<void> {
    const data = typeof bytes === "string" ? Buffer.from(bytes, "utf8") : bytes;
    this.#bytes += data.length;
    await this.#handle.appendFile(data);
  }

  /** Bytes written. */
  async close(): Promise<number> {
    await this.#handle.datasync();
    await this.#handle.close();
    await rename(`${this.#path}.part`, this.#path);
    return this.#bytes;
  }

  async abandon(): Promise<void> {
    await this.#handle.close().catch(() => undefined);
    await rm(`${this.#path}.part`, { force: true });
  }
}

/** Characters that are written together. */
const batchLength = 1 << 20;

/** One object a line, numbers as Python reads them. */
export async function createJsonLinesFile(path: string, columns: Columns<AnyRow>): Promise<RowFile> {
  const file = await PartialFile.open(path);
  let waiting: string[] = [];
  let length = 0;
  const flush = async (): Promise<void> => {
    const text = waiting.join("");
    waiting = [];
    length = 0;
    await file.append(text);
  };
  return {
    write: async (rows) => {
      for (const row of rows) {
        const line = `${rowLine(row, columns)}\n`;
        waiting.push(line);
        length += line.length;
        if (length >= batchLength) await flush();
      }
    },
    close: async () => {
      await flush();
      return file.close();
    },
    abandon: () => file.abandon(),
  };
}

/** Values (of lists, too) in a row group: as many rows as have these are held at once, about 100 MB while they are encoded. */
const valuesPerGroup = 1 << 20;
const maxRowsPerGroup = 10_000;

/** Written a row group at a time. */
export async function createParquetFile(path: string, columns: Columns<AnyRow>): Promise<RowFile> {
  // Loaded for this kind of file alone: a rollout imports this module, too.
  const { ByteWriter, ParquetWriter } = await import("hyparquet-writer");
  const file = await PartialFile.open(path);
  const bytes = new ByteWriter();
  const schema = [
    { name: "root", num_children: columns.length },
    ...columns.flatMap(({ name, type }) => elementsOf(name, type)),
  ];
  // Statistics of token ids choose nothing, and cost as much as the ids.
  const parquet = new ParquetWriter({ writer: bytes, schema, statistics: false, createdBy: "trainable-agents" });
  let waiting: AnyRow[] = [];
  let values = 0;

  const drain = async (): Promise<void> => {
    const chunk = bytes.getBytes();
    await file.append(chunk);
    // `offset` counts from the beginning of the file; only the buffer is used again.
    bytes.index = 0;
  };
  const flush = async (): Promise<void> => {
    if (waiting.length === 0) return;
    const rows = waiting;
    waiting = [];
    values = 0;
    const columnData = columns.map(({ name, type }) => ({
      name,
      data: rows.map((row) => parquetValue(row[name], type)),
      ...encodingOf(type),
    }));
    await parquet.write({ columnData, rowGroupSize: rows.length });
    await drain();
  };
  return {
    write: async (rows) => {
      for (const row of rows) {
        waiting.push(row);
        for (const { name } of columns) values += countValues(row[name]);
        if (values >= valuesPerGroup || waiting.length >= maxRowsPerGroup) await flush();
      }
    },
    close: async () => {
      await flush();
      await parquet.finish();
      await drain();
      return file.close();
    },
    abandon: () => file.abandon(),
  };
}

function countValues(value: unknown): number {
  if (!Array.isArray(value)) return 1;
  return Array.isArray(value[0])
    ? value.reduce((sum: number, inner: unknown) => sum + countValues(inner), 0)
    : value.length;
}

/** Choosing an encoding by looking at every value costs as much as writing it; ids and logprobs rarely repeat. */
function encodingOf(type: ColumnType): { readonly encoding?: "PLAIN" } {
  return type === "floats" || type === "float-lists" ? { encoding: "PLAIN" } : {};
}

function parquetValue(value: unknown, type: ColumnType): unknown {
  if (value === null || value === undefined) return null;
  return type === "json" ? JSON.stringify(value) : value;
}

function elementsOf(name: string, type: ColumnType): SchemaElement[] {
  switch (type) {
    case "int":
      return [leaf(name, "INT32")];
    case "double":
      return [leaf(name, "DOUBLE")];
    case "boolean":
      return [leaf(name, "BOOLEAN")];
    case "text":
    case "json":
      return [textLeaf(name)];
    case "ints":
      return listOf(name, [leaf("element", "INT32", "REQUIRED")]);
    case "floats":
      return listOf(name, [leaf("element", "FLOAT", "REQUIRED")]);
    case "doubles":
      return listOf(name, [leaf("element", "DOUBLE", "REQUIRED")]);
    case "texts":
      return listOf(name, [textLeaf("element")]);
    case "int-lists":
      return listOf(name, listOf("element", [leaf("element", "INT32", "REQUIRED")]));
    case "float-lists":
      return listOf(name, listOf("element", [leaf("element", "FLOAT", "REQUIRED")]));
    case "messages":
      return listOf(name, messageElements);
    default:
      return type satisfies never;
  }
}

function leaf(
  name: string,
  type: "INT32" | "DOUBLE" | "FLOAT" | "BOOLEAN",
  repetition: "OPTIONAL" | "REQUIRED" = "OPTIONAL",
): SchemaElement {
  return { name, type, repetition_type: repetition };
}

function textLeaf(name: string): SchemaElement {
  return { name, type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" };
}

function group(name: string, children: readonly (readonly SchemaElement[])[]): SchemaElement[] {
  return [{ name, repetition_type: "OPTIONAL", num_children: children.length }, ...children.flat()];
}

function listOf(name: string, element: readonly SchemaElement[]): SchemaElement[] {
  return [
    { name, repetition_type: "OPTIONAL", converted_type: "LIST", num_children: 1 },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    ...element,
  ];
}

const messageElements = group("element", [
  [textLeaf("role")],
  [textLeaf("content")],
  [textLeaf("reasoning_content")],
  listOf(
    "tool_calls",
    group("element", [
      [textLeaf("id")],
      [textLeaf("type")],
      group("function", [[textLeaf("name")], [textLeaf("arguments")]]),
    ]),
  ),
  [textLeaf("tool_call_id")],
  [textLeaf("name")],
]);
