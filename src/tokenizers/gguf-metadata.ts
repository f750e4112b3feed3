// The metadata of a GGUF file: its keys and values, without tensors. A file is hostile until it is
// read: every length is compared with the bytes that are left before anything is allocated, so a
// file of a few bytes cannot claim gigabytes, and no more than `largestMetadata` bytes are read.
// Format: docs/gguf.md of the ggml repository, versions 2 and 3.

import { open } from "node:fs/promises";

import { ConfigurationError } from "../core/index.ts";
import { requireRegular } from "../system/regular-file.ts";

/** A list of numbers takes as many bytes here as in the file. */
type NumberList = Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | Float32Array | Float64Array; // prettier-ignore

/** A value of the metadata. Integers beyond 2^53 are rounded. */
export type GgufValue = number | boolean | string | NumberList | readonly string[];

/** Values by their keys, in the order of the file. */
export type GgufMetadata = ReadonlyMap<string, GgufValue>;

/** Eight times the metadata of a model with 262,000 tokens, which are the largest published ones. */
const largestMetadata = 2 ** 26;
/** Bytes of the first read; the metadata of most models with 150,000 tokens fit. */
const firstRead = 2 ** 23;
/** Published files have about forty keys. */
const mostKeys = 4096;

/**
 * Reads the metadata of a file. Rejects with a `ConfigurationError` that says what is wrong with a
 * file that is missing, is not GGUF, or is broken.
 */
export async function readGgufMetadata(path: string): Promise<GgufMetadata> {
  await requireRegular(path).catch((error: unknown) => {
    throw unreadable(path, error);
  });
  const file = await open(path).catch((error: unknown) => {
    throw unreadable(path, error);
  });
  try {
    const { size } = await file.stat();
    for (let length = Math.min(firstRead, size); ; length = Math.min(length * 4, size, largestMetadata)) {
      const bytes = Buffer.alloc(length);
      const { bytesRead } = await file.read(bytes, 0, length, 0);
      const isAll = bytesRead < length || length === Math.min(size, largestMetadata);
      const found = parseMetadata(bytes.subarray(0, bytesRead), { path, size, isAll });
      if (found !== null) return found;
    }
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    throw unreadable(path, error);
  } finally {
    await file.close();
  }
}

/** True if the file begins as every GGUF file does; false if it cannot be read. */
export async function isGguf(path: string): Promise<boolean> {
  try {
    await requireRegular(path);
    const file = await open(path);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
      return bytesRead === 4 && buffer.toString("latin1") === "GGUF";
    } finally {
      await file.close();
    }
  } catch {
    return false;
  }
}

/** More bytes than were read are needed. */
class NeedsMore extends Error {}

type ReadPart = {
  readonly path: string;
  /** Length of the whole file. */
  readonly size: number;
  /** True if the bytes are all that may be read. */
  readonly isAll: boolean;
};

/** `null` if the metadata do not end within these bytes, and there are more. */
function parseMetadata(bytes: Buffer, { path, size, isAll }: ReadPart): GgufMetadata | null {
  const refuse = (problem: string): ConfigurationError => broken(path, problem);
  try {
    return new MetadataReader(bytes, Math.min(size, largestMetadata), refuse).read();
  } catch (error) {
    if (!(error instanceof NeedsMore)) throw error;
    if (!isAll) return null;
    throw refuse(
      size > largestMetadata
        ? `its metadata exceed ${largestMetadata} bytes`
        : `it ends within its metadata, after ${size} bytes`,
    );
  }
}

type ArrayKind = { readonly BYTES_PER_ELEMENT: number; new (buffer: ArrayBuffer): NumberList };

/** The array for numbers of a type, by the type's number in the file; 7 is a flag of one byte. */
const arrays: ReadonlyMap<number, ArrayKind> = new Map<number, ArrayKind>([
  [0, Uint8Array],
  [1, Int8Array],
  [2, Uint16Array],
  [3, Int16Array],
  [4, Uint32Array],
  [5, Int32Array],
  [6, Float32Array],
  [7, Uint8Array],
  [12, Float64Array],
]);
const unsignedType = 10;
const signedType = 11;
const stringType = 8;
const listType = 9;

class MetadataReader {
  readonly #bytes: Buffer;
  /** Number of bytes of the file that may be read in all. */
  readonly #most: number;
  readonly #refuse: (problem: string) => ConfigurationError;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #at = 0;

  constructor(bytes: Buffer, most: number, refuse: (problem: string) => ConfigurationError) {
    this.#bytes = bytes;
    this.#most = most;
    this.#refuse = refuse;
  }

  read(): GgufMetadata {
    const magic = this.#bytes.toString("latin1", 0, 4);
    if (magic !== "GGUF") throw this.#refuse(`it begins with ${JSON.stringify(magic)}, "GGUF" expected`);
    this.#at = 4;
    const version = this.#number(4);
    if (version === 0x0300_0000 || version === 0x0200_0000) throw this.#refuse("its numbers are big-endian");
    if (version !== 2 && version !== 3) throw this.#refuse(`its version is ${version}, 2 or 3 expected`);
    this.#count("number of tensors", 0);
    // A key of no letters with a value of one byte takes 13 bytes.
    const count = this.#count("number of keys", 13);
    if (count > mostKeys) throw this.#refuse(`it has ${count} keys, at most ${mostKeys} expected`);
    const values = new Map<string, GgufValue>();
    for (let index = 0; index < count; index++) {
      const key = this.#string("a key");
      if (values.has(key)) throw this.#refuse(`its key ${shown(key)} is there twice`);
      values.set(key, this.#value(key, this.#number(4)));
    }
    return values;
  }

  #value(key: string, type: number): GgufValue {
    if (type === stringType) return this.#string(shown(key));
    if (type !== listType) {
      const [value = 0] = this.#numbers(key, type, 1);
      if (type !== 7) return value;
      if (value > 1) throw this.#refuse(`its key ${shown(key)} is ${value}, 0 or 1 expected`);
      return value === 1;
    }
    const element = this.#number(4);
    if (element === listType) throw this.#refuse(`its key ${shown(key)} is a list of lists`);
    // A text takes at least the eight bytes of its length.
    const length = this.#count(`length of ${shown(key)}`, element === stringType ? 8 : 1);
    if (element !== stringType) return this.#numbers(key, element, length);
    this.#need(length * 8);
    return Array.from({ length }, () => this.#string(shown(key)));
  }

  #numbers(key: string, type: number, length: number): NumberList {
    const isWide = type === unsignedType || type === signedType;
    const kind = arrays.get(type);
    if (kind === undefined && !isWide) throw this.#refuse(`its key ${shown(key)} is of the unknown type ${type}`);
    const size = length * (kind?.BYTES_PER_ELEMENT ?? 8);
    this.#need(size);
    // A copy, because arrays of wider numbers begin at multiples of their width.
    const { buffer } = Uint8Array.from(this.#bytes.subarray(this.#at, this.#at + size));
    this.#at += size;
    if (kind !== undefined) return new kind(buffer);
    return Float64Array.from(type === signedType ? new BigInt64Array(buffer) : new BigUint64Array(buffer), Number);
  }

  #string(what: string): string {
    const length = this.#count(`length of ${what}`, 1);
    this.#need(length);
    const at = this.#at;
    this.#at += length;
    try {
      return this.#decoder.decode(this.#bytes.subarray(at, at + length));
    } catch {
      throw this.#refuse(`${what} is not UTF-8`);
    }
  }

  /** A number of things of which each takes at least `least` bytes. */
  #count(what: string, least: number): number {
    this.#need(8);
    const count = this.#bytes.readBigUInt64LE(this.#at);
    this.#at += 8;
    if (count * BigInt(least) > BigInt(this.#most - this.#at)) {
      throw this.#refuse(`its ${what} is ${count}, which is more than ${this.#most - this.#at} bytes can hold`);
    }
    return Number(count);
  }

  #number(width: number): number {
    this.#need(width);
    this.#at += width;
    return this.#bytes.readUIntLE(this.#at - width, width);
  }

  #need(length: number): void {
    if (this.#at + length > this.#bytes.length) throw new NeedsMore();
  }
}

function shown(key: string): string {
  return JSON.stringify(key.length > 60 ? `${key.slice(0, 60)}...` : key);
}

function broken(path: string, problem: string): ConfigurationError {
  return new ConfigurationError(
    `Cannot read the metadata of "${path}": ${problem}; use a complete GGUF file, or download it again.`,
  );
}

function unreadable(path: string, error: unknown): ConfigurationError {
  const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
  const state = code === "ENOENT" ? "there is no such file" : code === "EISDIR" ? "it is a folder" : code;
  return new ConfigurationError(`Cannot read "${path}": ${state}; pass the path of a GGUF file.`, { cause: error });
}
