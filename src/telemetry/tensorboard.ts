// Event files for TensorBoard, next to the run's own files: `tensorboard --logdir <run folder>`. A
// failure to write the file ends the curves, not the run.

import { createWriteStream, type WriteStream } from "node:fs";
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { finished } from "node:stream/promises";
import { makeFolder } from "../system/make-folder.ts";
import type { CurveSink, CurveSinkOptions } from "./curves.ts";
import { bytesField, doubleField, floatField, varintField } from "./protobuf.ts";

/** A file that is written asynchronously. Rejects if it cannot be created, or exists. */
export async function openCurveFile(
  path: string,
  onFault: CurveSinkOptions["onFault"],
): Promise<{ readonly write: (bytes: Uint8Array) => void; readonly close: () => Promise<void> }> {
  await makeFolder(dirname(path));
  const file: WriteStream = createWriteStream(path, { flags: "wx" });
  await new Promise<void>((resolve, reject) => {
    file.once("open", () => resolve());
    file.once("error", reject);
  });
  let isBroken = false;
  file.on("error", (error) => {
    if (!isBroken) onFault?.(`Cannot write ${path}: ${error.message}; no further points are written.`);
    isBroken = true;
  });
  return {
    write: (bytes) => void (isBroken || file.write(bytes)),
    close: async () => {
      file.end();
      await finished(file).catch(() => undefined);
    },
  };
}

/** A sink that writes `<folder>/events.out.tfevents.…`. Rejects if the file cannot be created. */
export async function createTensorboard(folder: string, options: CurveSinkOptions = {}): Promise<CurveSink> {
  const { now = Date.now, onFault } = options;
  const begun = now();
  // The random part is needed if the same process resumes a training within a second.
  const name = `events.out.tfevents.${Math.floor(begun / 1000)}.${hostname()}.${process.pid}.${randomUUID().slice(0, 8)}`;
  const file = await openCurveFile(join(folder, name), onFault);
  file.write(frame(Buffer.concat([doubleField(1, begun / 1000), bytesField(3, Buffer.from("brain.Event:2"))])));
  return {
    write: ({ time, step, scalars }) => file.write(scalarRecord(time / 1000, step, scalars)),
    close: () => file.close(),
  };
}

/**
 * An Event message in protocol-buffer encoding, only with scalars, in a TFRecord frame. Formats:
 * tensorflow/core/lib/io/record_writer (length, masked CRC, data, masked CRC) and
 * core/util/event.proto, core/framework/summary.proto (field numbers below). `wallTime` is in
 * seconds since 1970.
 */
function scalarRecord(wallTime: number, step: number, scalars: readonly (readonly [string, number])[]): Buffer {
  const values = scalars.map(([tag, value]) => {
    return bytesField(1, Buffer.concat([bytesField(1, Buffer.from(tag)), floatField(2, value)]));
  });
  return frame(Buffer.concat([doubleField(1, wallTime), varintField(2, step), bytesField(5, Buffer.concat(values))]));
}

function frame(data: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(data.length), 0);
  head.writeUInt32LE(masked(head.subarray(0, 8)), 8);
  const tail = Buffer.alloc(4);
  tail.writeUInt32LE(masked(data), 0);
  return Buffer.concat([head, data, tail]);
}

/** Checksums stored next to their data are rotated and shifted, as the format requires. */
function masked(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

/** The polynomial 0x1EDC6F41, bits reversed. */
const polynomial = 0x82f63b78;

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ polynomial : value >>> 1;
  return value;
});

/**
 * CRC-32C (Castagnoli), the checksum of records in event files; the platform's own checksum uses
 * another polynomial.
 */
export function crc32c(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) value = (table[(value ^ byte) & 0xff] as number) ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
