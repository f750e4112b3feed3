// A file of another tool, recognised by its content and read one episode at a time. Bounded: a
// line, a JSON file and a member of a zip file have a largest size, and larger ones are refused
// with a message.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { readAtif, readInspectSample, readTau2Simulation, readTauRun } from "./evaluation-logs.ts";
import { plainJson } from "../python-semantics/json/index.ts";
import {
  field,
  type ForeignEpisode,
  type ForeignFormat,
  idOf,
  isFields,
  listOf,
  type ReadEpisode,
  textOf,
} from "./foreign-episode.ts";
import { readSlimeRow, readVerifiersResult, readVerifiersTrace } from "./trainer-rows.ts";
import { openZip } from "./zip.ts";
import { readRegular, requireRegular } from "../system/regular-file.ts";

/** Facts that a format can never record, in terms for users. */
const neverRecorded: Readonly<Record<ForeignFormat, readonly string[]>> = {
  slime: ["tool calls as such", "costs", "durations"],
  verifiers: ["token ids", "loss mask", "logprobs", "weight versions"],
  "verifiers-traces": ["costs"],
  inspect: ["token ids", "loss mask", "weight versions", "cost of the user"],
  atif: ["weight versions", "a reward, unless its writer puts one into extra"],
  "tau-bench": ["token ids", "loss mask", "logprobs", "weight versions", "stop reason", "durations"],
  "tau2-bench": ["token ids", "loss mask", "logprobs", "weight versions"],
};

export type ForeignFile = {
  readonly format: ForeignFormat;
  /** The file's own name for what was evaluated; `null` if it gives none. */
  readonly title: string | null;
  readonly neverRecorded: readonly string[];
  /**
   * Yields episodes one at a time, each recording once: of records with the same id or content, all
   * but the first are reported to `onRepeated`. Throws a `ConfigurationError` that names the record
   * that cannot be read.
   */
  episodes(this: void, options?: { readonly onRepeated?: (id: string) => void }): AsyncIterable<ForeignEpisode>;
};

/**
 * A file as its format reads it: every record, with a digest of it if its writer generated no id.
 */
type ReadFile = Omit<ForeignFile, "episodes"> & { readonly records: () => AsyncIterable<ForeignEpisode> };

export type ForeignLimits = {
  /** Largest size of a line, and of one member of a zip file, unpacked. Default: 128 MiB. */
  readonly recordBytes?: number;
  /**
   * Largest size of a file that is one JSON value. Default: 500 MB, the most that a string can
   * hold.
   */
  readonly fileBytes?: number;
};

type Limits = Required<ForeignLimits>;

/**
 * Opens a file or folder of another tool: slime's JSON lines, verifiers' results.jsonl and
 * traces.jsonl (or the folder that holds them), inspect's .eval and .json, ATIF, results of τ-bench
 * and τ²-bench. `null` for any other file. `name` is for messages.
 */
export async function openForeignFile(
  path: string,
  name: string,
  { recordBytes = 128 << 20, fileBytes = 500_000_000 }: ForeignLimits = {},
): Promise<ForeignFile | null> {
  const file = await openFile(path, name, { recordBytes, fileBytes });
  if (file === null) return null;
  const { records, ...facts } = file;
  return {
    ...facts,
    episodes: async function* ({ onRepeated } = {}) {
      const seen = new Set<string>();
      for await (const episode of records()) {
        // Simulations of τ²-bench have ids that are unique only within their file.
        const own = facts.format === "tau2-bench" ? [JSON.stringify([episode.taskId, episode.id])] : [];
        const names = [episode.recording, ...own];
        if (names.some((one) => seen.has(one))) onRepeated?.(episode.id);
        else yield episode;
        for (const one of names) seen.add(one);
      }
    },
  };
}

async function openFile(path: string, name: string, limits: Limits): Promise<ReadFile | null> {
  await requireRegular(path);
  if ((await stat(path)).isDirectory()) return openFolder(path, name, limits);
  const head = await firstBytes(path);
  if (head.length >= 4 && head.readUInt32LE(0) === 0x04034b50) return openEval(path, name, limits);
  // A byte order mark is one character.
  const first = head
    .toString("utf8")
    .replace(/^\uFEFF/, "")
    .trimStart()[0];
  if (first !== "{" && first !== "[") return null;
  if (first === "{") {
    const lines = await openLines(path, name, limits);
    if (lines?.format === "verifiers") return withMetadata(lines, join(dirname(path), "metadata.json"), limits);
    if (lines !== null) return lines;
  }
  return openValue(await readJson(path, name, limits), name);
}

async function openFolder(path: string, name: string, limits: Limits): Promise<ReadFile | null> {
  const files = await readdir(path);
  for (const file of ["traces.jsonl", "results.jsonl"]) {
    if (files.includes(file)) return openFile(join(path, file), `${name}/${file}`, limits);
  }
  if (!files.includes("results.json") || !files.includes("simulations")) return null;
  const parts = (await readdir(join(path, "simulations"))).filter((part) => part.endsWith(".json")).toSorted();
  const index = await readJson(join(path, "results.json"), `${name}/results.json`, limits);
  return openTau2(index, parts.length, async function* () {
    for (const part of parts)
      yield await readJson(join(path, "simulations", part), `${name}/simulations/${part}`, limits);
  });
}

async function firstBytes(path: string): Promise<Buffer> {
  const file = await open(path, "r");
  try {
    const bytes = Buffer.alloc(4096);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    return bytes.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

async function readJson(path: string, name: string, { fileBytes }: Limits): Promise<unknown> {
  const { size } = await stat(path);
  if (size > fileBytes) throw cannotRead(name, `it has ${size} bytes, and a JSON file is read up to ${fileBytes}`);
  return parse((await readRegular(path, "utf8")).replace(/^\uFEFF/, ""), name);
}

function parse(text: string, name: string): unknown {
  try {
    return plainJson(text);
  } catch (cause) {
    throw cannotRead(name, `it is not JSON (${messageOf(cause)})`, cause);
  }
}

function cannotRead(name: string, reason: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError(`Cannot read "${name}": ${reason}; name a file as its tool wrote it.`, { cause });
}

type RowReader = (row: unknown, place: number) => ReadEpisode;

/** `record`: returns the text that the digest is computed from. */
function identified(episode: ReadEpisode, record: () => string): ForeignEpisode {
  const recording = episode.recording ?? createHash("sha256").update(record()).digest("hex");
  return { ...episode, recording };
}

function attempt(
  read: RowReader,
  { row, place, name }: { readonly row: unknown; readonly place: number; readonly name: string },
): ReadEpisode {
  try {
    return read(row, place);
  } catch (cause) {
    throw cannotRead(name, messageOf(cause), cause);
  }
}

/** The format detected from the fields of a row; `null` if no format of rows has them. */
export function rowFormat(row: unknown): { readonly format: ForeignFormat; readonly read: RowReader } | null {
  if (Array.isArray(field(row, "traces"))) return { format: "verifiers-traces", read: readVerifiersTrace };
  if (field(row, "completion") !== undefined && field(row, "reward") !== undefined) {
    return { format: "verifiers", read: readVerifiersResult };
  }
  if (Array.isArray(field(row, "tokens")) && field(row, "response_length") !== undefined) {
    return { format: "slime", read: readSlimeRow };
  }
  return textOf(field(row, "schema_version"))?.startsWith("ATIF") === true ? { format: "atif", read: readAtif } : null;
}

/** Resolves with `null` if the first line is not a whole record of a format of lines. */
async function openLines(path: string, name: string, limits: Limits): Promise<ReadFile | null> {
  let found: ReturnType<typeof rowFormat> = null;
  let title: string | null = null;
  for await (const { text } of linesOf(path, name, limits)) {
    try {
      const row = plainJson(text);
      found = rowFormat(row);
      // A trace of verifiers names its environment.
      title = textOf(field(field(row, "env"), "id"));
    } catch {
      return null;
    }
    break;
  }
  if (found === null) return null;
  const { format, read } = found;
  async function* rows(): AsyncGenerator<ForeignEpisode> {
    for await (const { text, number, isLast } of linesOf(path, name, limits)) {
      let row: unknown;
      try {
        row = plainJson(text);
      } catch (cause) {
        // The last line is still being written.
        if (isLast) return;
        throw cannotRead(`${name}, line ${number}`, `it is not JSON (${messageOf(cause)})`, cause);
      }
      if (!isFields(row)) throw cannotRead(`${name}, line ${number}`, "it is not an object");
      yield identified(attempt(read, { row, place: number, name: `${name}, line ${number}` }), () => text);
    }
  }
  return {
    format,
    title,
    neverRecorded: neverRecorded[format],
    records: format === "slime" ? () => joined(rows()) : rows,
  };
}

/** Adds the environment and the model, which verifiers writes to a file beside its results. */
async function withMetadata(file: ReadFile, path: string, limits: Limits): Promise<ReadFile> {
  const metadata = await readJson(path, path, limits).catch(() => null);
  const model = textOf(field(metadata, "model"));
  async function* records(): AsyncGenerator<ForeignEpisode> {
    for await (const episode of file.records()) yield { ...episode, model };
  }
  return { ...file, title: textOf(field(metadata, "env_id")), records };
}

/** Joins consecutive rows that are branches of one episode. */
async function* joined(rows: AsyncIterable<ForeignEpisode>): AsyncGenerator<ForeignEpisode> {
  let held: ForeignEpisode[] = [];
  for await (const row of rows) {
    const [before] = held;
    if (before?.id === row.id && before.taskId === row.taskId && before.groupId === row.groupId) {
      held = [{ ...before, branches: [...(before.branches ?? []), ...(row.branches ?? [])] }];
    } else {
      yield* held;
      held = [row];
    }
  }
  yield* held;
}

type Line = { readonly text: string; readonly number: number; /** No line end. */ readonly isLast: boolean };

/** Yields lines that are not empty. Throws a `ConfigurationError` for one that is too long. */
export async function* linesOf(
  path: string,
  name: string,
  { recordBytes }: Pick<Limits, "recordBytes">,
): AsyncGenerator<Line> {
  let parts: Buffer[] = [];
  let length = 0;
  let number = 0;
  const line = (isLast: boolean): Line | null => {
    const text = Buffer.concat(parts)
      .toString("utf8")
      .replace(/^\uFEFF/, "")
      .trim();
    [parts, length] = [[], 0];
    return text === "" ? null : { text, number, isLast };
  };
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    let start = 0;
    while (start <= chunk.length) {
      const end = chunk.indexOf(0x0a, start);
      const part = chunk.subarray(start, end === -1 ? chunk.length : end);
      length += part.length;
      if (length > recordBytes)
        throw cannotRead(`${name}, line ${number + 1}`, `it is longer than ${recordBytes} bytes`);
      parts.push(part);
      if (end === -1) break;
      number++;
      const whole = line(false);
      if (whole !== null) yield whole;
      start = end + 1;
    }
  }
  number++;
  const last = line(true);
  if (last !== null) yield last;
}

function openValue(value: unknown, name: string): ReadFile | null {
  if (Array.isArray(value)) {
    const rows = value as readonly unknown[];
    const isTau =
      rows.length > 0 && rows.every((row) => Array.isArray(field(row, "traj")) && field(row, "task_id") !== undefined);
    return isTau ? fileOf("tau-bench", null, rows, (row, place) => readTauRun(row, place)) : null;
  }
  const rows = rowFormat(value);
  if (rows !== null) return fileOf(rows.format, null, [value], rows.read);
  if (Array.isArray(field(value, "simulations"))) {
    const simulations = listOf(field(value, "simulations"));
    return openTau2(value, simulations.length, async function* () {
      yield* simulations;
    });
  }
  if (isFields(field(value, "eval")) && field(value, "version") !== undefined) {
    const header = field(value, "eval");
    if (!Array.isArray(field(value, "samples"))) throw cannotRead(name, "the inspect log has no samples");
    const facts = { model: textOf(field(header, "model")) };
    return fileOf("inspect", textOf(field(header, "task")), listOf(field(value, "samples")), (sample, place) =>
      readInspectSample(sample, place, facts),
    );
  }
  return null;
}

function fileOf(format: ForeignFormat, title: string | null, rows: readonly unknown[], read: RowReader): ReadFile {
  async function* records(): AsyncGenerator<ForeignEpisode> {
    for (const [at, row] of rows.entries()) yield identified(read(row, at + 1), () => JSON.stringify(row));
  }
  return { format, title, neverRecorded: neverRecorded[format], records };
}

function openTau2(file: unknown, count: number, simulations: () => AsyncIterable<unknown>): ReadFile | null {
  if (count === 0) return null;
  const info = field(file, "info");
  const domain = textOf(field(field(info, "environment_info"), "domain_name"));
  const tasks = new Map(listOf(field(file, "tasks")).map((task) => [idOf(field(task, "id")) ?? "", task]));
  const facts = { model: textOf(field(field(info, "agent_info"), "llm")), tasks };
  async function* records(): AsyncGenerator<ForeignEpisode> {
    let place = 0;
    for await (const simulation of simulations()) {
      yield identified(readTau2Simulation(simulation, ++place, facts), () => JSON.stringify(simulation));
    }
  }
  return { format: "tau2-bench", title: domain, neverRecorded: neverRecorded["tau2-bench"], records };
}

const mostSamples = 1_000_000;

async function openEval(path: string, name: string, { recordBytes }: Limits): Promise<ReadFile | null> {
  const guarded = async <T>(action: () => Promise<T>): Promise<T> => {
    try {
      return await action();
    } catch (cause) {
      if (cause instanceof ConfigurationError) throw cause;
      throw cannotRead(name, messageOf(cause), cause);
    }
  };
  const openIt = () => guarded(() => openZip(path, { memberBytes: recordBytes, members: mostSamples }));
  const zip = await openIt();
  try {
    const read = async (member: (typeof zip.members)[number], from: typeof zip) =>
      parse((await guarded(() => from.read(member))).toString("utf8"), `${name}, ${member.name}`);
    const header = zip.members.find((member) => member.name === "header.json" || member.name === "_journal/start.json");
    if (header === undefined) return null;
    const facts = field(await read(header, zip), "eval");
    async function* records(): AsyncGenerator<ForeignEpisode> {
      const from = await openIt();
      try {
        const samples = from.members.filter((member) => /^samples\/[^/]*\.json$/.test(member.name));
        if (samples.length === 0 && from.members.some((member) => member.name.startsWith("samples/"))) {
          throw cannotRead(
            name,
            "its samples are stored in chunks, which this version does not read (inspect log convert makes one file of each)",
          );
        }
        let place = 0;
        for (const member of samples) {
          const sample = await read(member, from);
          const episode = readInspectSample(sample, ++place, { model: textOf(field(facts, "model")) });
          yield identified(episode, () => JSON.stringify(sample));
        }
      } finally {
        await from.close();
      }
    }
    return { format: "inspect", title: textOf(field(facts, "task")), neverRecorded: neverRecorded.inspect, records };
  } finally {
    await zip.close();
  }
}
