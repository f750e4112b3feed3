// `teacher-scores.jsonl` of a run folder: logprobs of the run's tokens under the weights of a
// teacher. The first line names the teacher, and every other line has the scores of one episode;
// each ends with a checksum (see `lines.ts`). It only grows, for one writer at a time, and an
// episode is either scored as a whole or not at all, so that a killed process loses no line and
// repeats none.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";

import { ConfigurationError } from "../core/index.ts";
import type { ScoreResult } from "../core/scoring.ts";
import { jsonOf } from "../lib/text.ts";
import { Disk } from "./disk.ts";
import { AppendFile, checksum, endOfLines, readAt, readRawLines, sizeOf, validChecksum } from "./lines.ts";
import { lockRun } from "./run-lock.ts";
import { runFiles } from "./run-store.ts";

/** The teacher of a file. Scores of different teachers are not mixed. */
export type Teacher = {
  /** Name of the engine. */
  readonly engine: string;
  /** Folder or file of the weights, as it was given; `null` if a server has them. */
  readonly model: string | null;
  /** Version of the weights when scoring began; `null` if the engine names none. */
  readonly weightVersion: string | null;
  /** Number of most probable tokens for each position. */
  readonly topTokens: number;
};

/** Scores of one row of an episode. */
export type SampleScores = {
  /** The row's branch. */
  readonly branch: number;
  /** CRC-32 of the row's token ids as little-endian bytes, to detect other tokens. */
  readonly tokens: string;
  /** Position of the first scored token: the first one that was sampled, or 1. */
  readonly from: number;
  /** `null` if the tokens do not fit the teacher's context. */
  readonly scores: ScoreResult | null;
};

export type EpisodeScores = {
  readonly id: string;
  /** One for each row; empty for an episode that trains nothing. */
  readonly samples: readonly SampleScores[];
};

/** Checksum of token ids, as in {@link SampleScores}. */
export function tokensChecksum(tokens: Uint32Array): string {
  return crc32(littleEndian(tokens)).toString(16).padStart(8, "0");
}

const format = 1;

/** A file that is open for writing. */
export type TeacherScoresFile = {
  /** Ids of the episodes that are scored. */
  readonly scored: ReadonlySet<string>;
  /** Resolves once the line has left the process. Rejects with the first fault of the disk. */
  append(episode: EpisodeScores): Promise<void>;
  /** Waits for all lines, syncs them and unlocks the file. */
  close(): Promise<void>;
};

/**
 * Opens the file of a run folder to write scores of this teacher; the unfinished line of a killed
 * process is cut off. Rejects with a `ConfigurationError` if another process writes it, if it holds
 * the scores of another teacher, and for a corrupted line.
 */
export async function openTeacherScores(folder: string, teacher: Teacher): Promise<TeacherScoresFile> {
  const path = join(folder, runFiles.teacherScores);
  const lock = await lockRun(folder, `${path}.lock`);
  try {
    const scored = new Set<string>();
    const size = existsSync(path) ? await endOfLines(path, await sizeOf(path)) : 0;
    if (size > 0) {
      const known = await readScores(path, ({ id }) => void scored.add(id));
      refuseOther(path, known, teacher);
    }
    const file = await AppendFile.reopen(path, size, new Disk(folder));
    if (size === 0) await file.append(lineOf({ format, ...teacher }));
    let last: Promise<void> = Promise.resolve();
    return {
      scored,
      append: (episode) => {
        const line = lineOf({ id: episode.id, samples: episode.samples.map(toJson) });
        const before = last;
        const write = async (): Promise<void> => {
          await before;
          await file.append(line);
          scored.add(episode.id);
        };
        last = write();
        // The caller receives the rejection, and so does the next one.
        last.catch(() => undefined);
        return last;
      },
      close: async () => {
        try {
          await last.then(
            () => file.sync(),
            () => undefined,
          );
        } finally {
          await file.close();
          await lock.release();
        }
      },
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Reads scores by episode. */
export type TeacherScoresReader = {
  readonly teacher: Teacher;
  /** `null` if the episode is not scored. Rejects with a `ConfigurationError` for a corrupted line. */
  read(episodeId: string): Promise<EpisodeScores | null>;
};

/**
 * Opens the scores of a run folder; `null` if it has none. Reads the whole file once and keeps only
 * places. Rejects with a `ConfigurationError` for a corrupted line.
 */
export async function readTeacherScores(folder: string): Promise<TeacherScoresReader | null> {
  const path = join(folder, runFiles.teacherScores);
  if (!existsSync(path)) return null;
  const places = new Map<string, { readonly start: number; readonly length: number }>();
  const teacher = await readScores(path, ({ id, start, length }) => {
    // The first line of an episode counts.
    if (!places.has(id)) places.set(id, { start, length });
  });
  if (teacher === null) return null;
  return {
    teacher,
    read: async (id) => {
      const place = places.get(id);
      if (place === undefined) return null;
      return episodeScores(await readAt(path, place.start, place.length), { path, teacher });
    },
  };
}

/** Calls back with each episode's line; returns the teacher, `null` if not even its line is whole. */
async function readScores(
  path: string,
  onEpisode: (line: { readonly id: string; readonly start: number; readonly length: number }) => void,
): Promise<Teacher | null> {
  let teacher: Teacher | null = null;
  for await (const { bytes, start } of readRawLines(path, () => undefined)) {
    if (validChecksum(bytes) === null) throw corrupted(path, start, "its checksum is another one");
    if (teacher === null) {
      teacher = readTeacher(bytes, path);
      continue;
    }
    const [, quoted] = /^\{"id":("(?:[^"\\]|\\.)*")/.exec(bytes.toString("utf8", 0, 4096)) ?? [];
    const id = quoted === undefined ? null : jsonOf(quoted);
    if (typeof id !== "string") throw corrupted(path, start, "it names no episode");
    onEpisode({ id, start, length: bytes.length });
  }
  return teacher;
}

function readTeacher(bytes: Buffer, path: string): Teacher {
  const fields = fieldsOf(bytes);
  const { engine, model = null, weightVersion = null, topTokens } = fields;
  const isName = (value: unknown): value is string | null => value === null || typeof value === "string";
  if (fields["format"] !== format) {
    throw new ConfigurationError(
      `Cannot read "${path}": its format is ${JSON.stringify(fields["format"])}, and this version reads format ${format}; use the version that wrote it, or remove the file and score again.`,
    );
  }
  if (typeof engine === "string" && isName(model) && isName(weightVersion) && isWhole(topTokens, 1024)) {
    return { engine, model, weightVersion, topTokens };
  }
  throw corrupted(path, 0, "it names no teacher");
}

function refuseOther(path: string, known: Teacher | null, teacher: Teacher): void {
  if (known === null) return;
  for (const name of ["engine", "model", "topTokens", "weightVersion"] as const) {
    if (known[name] === teacher[name]) continue;
    throw new ConfigurationError(
      `Cannot add scores to "${path}": they are of a teacher with ${name} ${JSON.stringify(known[name])}, and this one has ${JSON.stringify(teacher[name])}; ` +
        "score with the same teacher, or move the file away to score everything again.",
    );
  }
}

function corrupted(path: string, start: number, state: string): ConfigurationError {
  return new ConfigurationError(
    `Cannot read "${path}" at byte ${start}: the line is not what was written (${state}); remove the line, and score the run again.`,
  );
}

/** The object as a line with its checksum. */
function lineOf(value: object): Buffer {
  const text = Buffer.from(JSON.stringify(value).slice(0, -1));
  return Buffer.concat([text, Buffer.from(`,"crc32":"${checksum(text)}"}\n`)]);
}

function toJson({ branch, tokens, from, scores }: SampleScores): object {
  if (scores === null) return { branch, tokens, from, logprobs: null };
  const { logprobs, top, weightVersion } = scores;
  return {
    branch,
    tokens,
    from,
    weightVersion,
    logprobs: base64(logprobs),
    ...(top === null ? {} : { topIds: base64(top.ids), topLogprobs: base64(top.logprobs) }),
  };
}

function episodeScores(
  bytes: Buffer,
  { path, teacher }: { readonly path: string; readonly teacher: Teacher },
): EpisodeScores {
  const { id, samples } = fieldsOf(bytes);
  const refuse = (state: string): ConfigurationError =>
    new ConfigurationError(
      `Cannot read the scores of episode ${JSON.stringify(id)} in "${path}": ${state}; remove its line, and score the run again.`,
    );
  if (validChecksum(bytes) === null) throw refuse("the file has changed since it was opened");
  if (typeof id !== "string" || !Array.isArray(samples)) throw refuse("the line has no samples");
  const read = (value: unknown): SampleScores => {
    const fields = typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
    const { branch, tokens, from, logprobs, weightVersion = null } = fields;
    if (!isWhole(branch) || typeof tokens !== "string" || !isWhole(from)) throw refuse("a sample has no place");
    if (logprobs === null) return { branch, tokens, from, scores: null };
    const own = floatsIn(logprobs);
    const width = teacher.topTokens;
    const [ids, listed] = width === 0 ? [null, null] : [idsIn(fields["topIds"]), floatsIn(fields["topLogprobs"])];
    const count = (own?.length ?? 0) * width;
    if (own === null || (width > 0 && (ids?.length !== count || listed?.length !== count)))
      throw refuse("a list has another length");
    if (weightVersion !== null && typeof weightVersion !== "string") throw refuse("a weight version is not a name");
    const top = ids === null || listed === null ? null : { width, ids, logprobs: listed };
    return { branch, tokens, from, scores: { logprobs: own, top, weightVersion } };
  };
  return { id, samples: (samples as readonly unknown[]).map(read) };
}

function fieldsOf(bytes: Buffer): Readonly<Record<string, unknown>> {
  const value = jsonOf(bytes.toString());
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function isWhole(value: unknown, most = Number.MAX_SAFE_INTEGER): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= most;
}

/** Numbers of 32 bits as bytes, the least significant first, on any machine. */
function littleEndian(numbers: Uint32Array | Float32Array): Buffer {
  const words = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
  const bytes = Buffer.allocUnsafe(numbers.length * 4);
  for (let at = 0; at < words.length; at++) bytes.writeUInt32LE(words[at]!, at * 4);
  return bytes;
}

function base64(numbers: Uint32Array | Float32Array): string {
  return littleEndian(numbers).toString("base64");
}

/** `null` if the value is not the base64 form of whole numbers of 32 bits. */
function idsIn(value: unknown): Uint32Array | null {
  if (typeof value !== "string") return null;
  const bytes = Buffer.from(value, "base64");
  if (bytes.length % 4 !== 0 || bytes.toString("base64") !== value) return null;
  const ids = new Uint32Array(bytes.length / 4);
  for (let at = 0; at < ids.length; at++) ids[at] = bytes.readUInt32LE(at * 4);
  return ids;
}

function floatsIn(value: unknown): Float32Array | null {
  const words = idsIn(value);
  return words === null ? null : new Float32Array(words.buffer, words.byteOffset, words.length);
}
