// Members of a zip file, read one at a time by their place: an inspect log holds a member for each
// sample. Files come from anywhere, so every size that a file states is checked before memory is
// allocated for it, and the total unpacked size is bounded.

import { type FileHandle, open } from "node:fs/promises";
import { Readable } from "node:stream";
import { crc32, inflateRawSync } from "node:zlib";
import { messageOf } from "../core/index.ts";
import { hasZstd, unpackZstd } from "../system/zstd.ts";
import { ZstdWorker } from "./zstd-worker.ts";

export type ZipMember = {
  readonly name: string;
  readonly method: number;
  readonly packedSize: number;
  readonly size: number;
  /** CRC-32 of the unpacked bytes. */
  readonly checksum: number;
  /** Offset of the member's local header. */
  readonly offset: number;
};

export type ZipFile = {
  readonly members: readonly ZipMember[];
  read(this: void, member: ZipMember): Promise<Buffer>;
  close(this: void): Promise<void>;
};

export type ZipLimits = {
  /** Largest size of one member, unpacked. */
  readonly memberBytes: number;
  readonly members: number;
};

const endSignature = 0x06054b50;
const end64Signature = 0x06064b50;
const locator64Signature = 0x07064b50;
const memberSignature = 0x02014b50;
const localSignature = 0x04034b50;
/** Size of the end record and of the longest comment after it. */
const longestEnd = 22 + 65_535;
const inFull = 0xffffffff;
/**
 * Highest ratio of sizes, above what deflate can reach; a file that is packed tighter is a bomb.
 */
const mostRatio = 1100;
/** Unpacked bytes that are always allowed: no writer of logs packs fewer as tightly as a bomb. */
const freeBytes = 64 << 20;

/**
 * Throws a plain error that completes "Cannot read ...: " if the file is not a zip file, or is
 * beyond the limits.
 */
export async function openZip(path: string, limits: ZipLimits): Promise<ZipFile> {
  const file = await open(path, "r");
  try {
    const { size: fileSize } = await file.stat();
    const members = await readDirectory(file, fileSize, limits);
    const zstd = new ZstdWorker();
    let budget = fileSize * mostRatio + freeBytes;
    return {
      members,
      close: async () => {
        await zstd.close();
        await file.close();
      },
      read: async (member) => {
        if (member.size > limits.memberBytes) {
          throw new Error(`"${member.name}" has ${member.size} bytes unpacked, expected at most ${limits.memberBytes}`);
        }
        budget -= member.size;
        if (budget < 0) throw new Error("its members unpack to far more than a log of its size can hold");
        return readMember(file, member, fileSize, zstd);
      },
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function bytesAt(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  const { bytesRead } = await file.read(bytes, 0, length, offset);
  if (bytesRead !== length) throw new Error("it ends earlier than its directory says");
  return bytes;
}

async function readDirectory(file: FileHandle, fileSize: number, limits: ZipLimits): Promise<ZipMember[]> {
  const tailStart = Math.max(0, fileSize - longestEnd);
  const tail = await bytesAt(file, tailStart, fileSize - tailStart);
  let at = tail.length - 22;
  while (at >= 0 && tail.readUInt32LE(at) !== endSignature) at--;
  if (at < 0) throw new Error("it has no directory of a zip file at its end");
  let count = tail.readUInt16LE(at + 10);
  let size = tail.readUInt32LE(at + 12);
  let offset = tail.readUInt32LE(at + 16);
  if (count === 0xffff || size === inFull || offset === inFull) {
    const locator = at - 20;
    if (locator < 0 || tail.readUInt32LE(locator) !== locator64Signature)
      throw new Error("its zip64 directory is missing");
    const end = await bytesAt(file, wholeNumber(tail.readBigUInt64LE(locator + 8)), 56);
    if (end.readUInt32LE(0) !== end64Signature) throw new Error("its zip64 directory is missing");
    count = wholeNumber(end.readBigUInt64LE(32));
    size = wholeNumber(end.readBigUInt64LE(40));
    offset = wholeNumber(end.readBigUInt64LE(48));
  }
  if (count > limits.members) throw new Error(`it has ${count} members, expected at most ${limits.members}`);
  if (offset + size > fileSize) throw new Error("its directory lies outside of it");
  const directory = await bytesAt(file, offset, size);
  const members: ZipMember[] = [];
  let place = 0;
  while (members.length < count) {
    if (place + 46 > size || directory.readUInt32LE(place) !== memberSignature)
      throw new Error("its directory is damaged");
    const [name, extra, comment] = [28, 30, 32].map((field) => directory.readUInt16LE(place + field)) as [
      number,
      number,
      number,
    ];
    const next = place + 46 + name + extra + comment;
    if (next > size) throw new Error("its directory is damaged");
    const sizes = {
      size: directory.readUInt32LE(place + 24),
      packedSize: directory.readUInt32LE(place + 20),
      offset: directory.readUInt32LE(place + 42),
    };
    readExtra(directory.subarray(place + 46 + name, place + 46 + name + extra), sizes);
    members.push({
      name: directory.toString("utf8", place + 46, place + 46 + name),
      method: directory.readUInt16LE(place + 10),
      checksum: directory.readUInt32LE(place + 16),
      ...sizes,
    });
    place = next;
  }
  return members;
}

/** Reads sizes that did not fit into the header, in this order and only these. */
function readExtra(extra: Buffer, sizes: { size: number; packedSize: number; offset: number }): void {
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) !== 1) continue;
    let place = at + 4;
    for (const key of ["size", "packedSize", "offset"] as const) {
      if (sizes[key] !== inFull || place + 8 > extra.length) continue;
      sizes[key] = wholeNumber(extra.readBigUInt64LE(place));
      place += 8;
    }
  }
}

function wholeNumber(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error("its directory is damaged");
  return Number(value);
}

async function readMember(file: FileHandle, member: ZipMember, fileSize: number, zstd: ZstdWorker): Promise<Buffer> {
  const { name, packedSize, size, offset, checksum } = member;
  const header = await bytesAt(file, offset, 30);
  const start = offset + 30 + header.readUInt16LE(26) + header.readUInt16LE(28);
  if (header.readUInt32LE(0) !== localSignature || start + packedSize > fileSize)
    throw new Error(`"${name}" is damaged`);
  const packed = await bytesAt(file, start, packedSize);
  const unpacked = await unpack(packed, member, zstd).catch((error: unknown) => {
    throw new Error(`"${name}" cannot be unpacked: ${messageOf(error)}`, { cause: error });
  });
  const bytes = Buffer.from(unpacked.buffer, unpacked.byteOffset, unpacked.byteLength);
  if (bytes.length !== size || crc32(bytes) !== checksum) {
    throw new Error(`"${name}" does not unpack to what the directory says of it`);
  }
  return bytes;
}

/** Unpacks at most one byte more than the size that the directory states. */
async function unpack(packed: Buffer, { method, size }: ZipMember, zstd: ZstdWorker): Promise<Uint8Array> {
  if (method === 0) return packed;
  if (method === 8) return inflateRawSync(packed, { maxOutputLength: size + 1 });
  if (method !== 93)
    throw new Error(`it is packed by method ${method}; only stored, deflated and zstd members are supported`);
  return hasZstd ? unpackAtOnce(packed, size) : zstd.unpack(packed, size);
}

async function unpackAtOnce(packed: Buffer, size: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let unpacked = 0;
  for await (const part of unpackZstd(Readable.from([packed]))) {
    parts.push(part);
    unpacked += part.length;
    if (unpacked > size) break;
  }
  return Buffer.concat(parts);
}
