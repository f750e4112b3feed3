// Writes rows into a file, which gets its name only when it is complete: JSON lines, or Parquet
// with lists of int32 and float32, strings, and messages as a list of structs, so that trainers can
// read them directly; values without a fixed shape are JSON text.

import { randomUUID } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";

import type { SchemaElement } from "hyparquet-writer";

import { type AnyRow, type Columns, type ColumnType, rowLine } from "./columns.ts";
import { inspectDocument, type InspectRow } from "./logs.ts";

/**
 * Takes rows in order. Memory does not grow with their number.
 *
 * Guarantees: `write` resolves once its rows may be forgotten; after `close` the file is complete
 * and has its name, and until then no file of that name exists. After `abandon` nothing is left.
 */
export interface RowFile {
  write(rows: readonly AnyRow[]): Promise<void>;
  /** Resolves with the number of bytes written. */
  close(): Promise<number>;
  abandon(): Promise<void>;
}

/** A file that is written under another name, and renamed when it is complete. */
async function createPartialFile(path: string) {
  const handle = await open(`${path}.part`, "w");
  let written = 0;
  return {
    async append(bytes: Uint8Array | string): Promise<void> {
      const data = typeof bytes === "string" ? Buffer.from(bytes) : bytes;
      written += data.length;
      await handle.appendFile(data);
    },
    async close(): Promise<number> {
      await handle.datasync();
      await handle.close();
      await rename(`${path}.part`, path);
      return written;
    },
    async abandon(): Promise<void> {
      await handle.close().catch(() => undefined);
      await rm(`${path}.part`, { force: true });
    },
  };
}

/**
 * A file with one JSON document: rows, each the text in its field "text", separated by commas,
 * followed by the text of `end`.
 */
export async function createDocumentFile(path: string, begin: string, end: () => string): Promise<RowFile> {
  const file = await createPartialFile(path);
  let isFirst = true;
  return {
    write: async (rows) => {
      for (const { text } of rows) {
        await file.append(`${isFirst ? begin : ",\n"}${String(text)}`);
        isFirst = false;
      }
    },
    close: async () => {
      await file.append(`${isFirst ? begin : ""}${end()}`);
      return file.close();
    },
    abandon: () => file.abandon(),
  };
}

/** Characters per write. */
const batchLength = 1 << 20;

/** A file with one object per line, numbers in Python's form. */
export async function createJsonLinesFile(path: string, columns: Columns<AnyRow>): Promise<RowFile> {
  const file = await createPartialFile(path);
  let waiting = "";
  const flush = async (): Promise<void> => {
    const text = waiting;
    waiting = "";
    await file.append(text);
  };
  return {
    write: async (rows) => {
      for (const row of rows) {
        waiting += `${rowLine(row, columns)}\n`;
        if (waiting.length >= batchLength) await flush();
      }
    },
    close: async () => {
      await flush();
      return file.close();
    },
    abandon: () => file.abandon(),
  };
}

/** An inspect log: one JSON object with the rows as its samples. */
export async function createInspectFile(path: string, columns: Columns<AnyRow>, task: string): Promise<RowFile> {
  const document = inspectDocument({ task, created: new Date(), id: randomUUID() });
  const epochs = new Map<string, number>();
  const rewards: (number | null)[] = [];
  const file = await createDocumentFile(path, document.head, () => document.tail({ rewards, ids: [...epochs.keys()] }));
  const numbered = (row: AnyRow): string => {
    const { id, scores } = row as InspectRow;
    const epoch = (epochs.get(id) ?? 0) + 1;
    epochs.set(id, epoch);
    const { value = null } = (scores["reward"] ?? {}) as { readonly value?: number };
    rewards.push(value);
    return rowLine({ ...row, epoch }, columns);
  };
  return { ...file, write: (rows) => file.write(rows.map((row) => ({ text: numbered(row) }))) };
}

/**
 * Values (also inside lists) of a row group, which limits the rows held at once: about 100 MB
 * during encoding.
 */
const valuesPerGroup = 1 << 20;
const maxRowsPerGroup = 10_000;

/** A Parquet file, written one row group at a time. */
export async function createParquetFile(path: string, columns: Columns<AnyRow>): Promise<RowFile> {
  // Loaded only for Parquet files, because rollouts also import this module.
  const { ByteWriter, ParquetWriter } = await import("hyparquet-writer");
  const file = await createPartialFile(path);
  const bytes = new ByteWriter();
  const schema = [
    { name: "root", num_children: columns.length },
    ...columns.flatMap(({ name, type }) => elementsOf[type](name)),
  ];
  // Statistics of token ids help no query, and cost as much as the ids.
  const parquet = new ParquetWriter({ writer: bytes, schema, statistics: false, createdBy: "trainable-agents" });
  let waiting: AnyRow[] = [];
  let values = 0;

  const drain = async (): Promise<void> => {
    await file.append(bytes.getBytes());
    // `offset` counts from the beginning of the file; only the buffer is reused.
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
      // Choosing an encoding by reading every value costs as much as writing it; logprobs rarely
      // repeat.
      ...(type === "floats" || type === "float-lists" ? { encoding: "PLAIN" as const } : {}),
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

function parquetValue(value: unknown, type: ColumnType): unknown {
  if (value === null || value === undefined) return null;
  return type === "json" ? JSON.stringify(value) : value;
}

const text = (name: string): SchemaElement[] => [
  { name, type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type: "OPTIONAL" },
];

function leaf(type: "INT32" | "DOUBLE" | "FLOAT" | "BOOLEAN", repetition: "OPTIONAL" | "REQUIRED" = "OPTIONAL") {
  return (name: string): SchemaElement[] => [{ name, type, repetition_type: repetition }];
}

function group(...children: readonly (readonly SchemaElement[])[]) {
  return (name: string): SchemaElement[] => [
    { name, repetition_type: "OPTIONAL", num_children: children.length },
    ...children.flat(),
  ];
}

function listOf(element: (name: string) => readonly SchemaElement[]) {
  return (name: string): SchemaElement[] => [
    { name, repetition_type: "OPTIONAL", converted_type: "LIST", num_children: 1 },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    ...element("element"),
  ];
}

const toolCall = group(text("id"), text("type"), group(text("name"), text("arguments"))("function"));

/** Schema elements of a column in Parquet, by type. */
const elementsOf: Readonly<Record<ColumnType, (name: string) => SchemaElement[]>> = {
  int: leaf("INT32"),
  double: leaf("DOUBLE"),
  boolean: leaf("BOOLEAN"),
  text,
  json: text,
  ints: listOf(leaf("INT32", "REQUIRED")),
  floats: listOf(leaf("FLOAT", "REQUIRED")),
  doubles: listOf(leaf("DOUBLE", "REQUIRED")),
  texts: listOf(text),
  "int-lists": listOf(listOf(leaf("INT32", "REQUIRED"))),
  "float-lists": listOf(listOf(leaf("FLOAT", "REQUIRED"))),
  messages: listOf(
    group(
      ...[text("role"), text("content"), text("reasoning_content"), listOf(toolCall)("tool_calls")],
      ...[text("tool_call_id"), text("name")],
    ),
  ),
};
