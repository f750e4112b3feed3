// The bytes of TensorBoard's event files: TFRecord frames around Event messages in protocol-buffer encoding, scalars only.
// Formats: tensorflow/core/lib/io/record_writer (length, masked CRC, data, masked CRC) and core/util/event.proto,
// core/framework/summary.proto (field numbers below).

import { crc32c } from "./crc32c.ts";

export type ScalarEvent = {
  /** Seconds since 1970. */
  readonly wallTime: number;
  readonly step: number;
  /** Tag and value. */
  readonly scalars: readonly (readonly [tag: string, value: number])[];
};

/** The record that every file begins with. */
export function fileHead(wallTime: number): Buffer {
  return frame(Buffer.concat([wallTimeField(wallTime), bytesField(3, Buffer.from("brain.Event:2"))]));
}

export function scalarRecord({ wallTime, step, scalars }: ScalarEvent): Buffer {
  const values = scalars.map(([tag, value]) => {
    const simpleValue = Buffer.alloc(5);
    simpleValue[0] = (2 << 3) | 5;
    simpleValue.writeFloatLE(value, 1);
    return bytesField(1, Buffer.concat([bytesField(1, Buffer.from(tag)), simpleValue]));
  });
  const stepField = Buffer.concat([Buffer.of(2 << 3), varint(step)]);
  return frame(Buffer.concat([wallTimeField(wallTime), stepField, bytesField(5, Buffer.concat(values))]));
}

function wallTimeField(wallTime: number): Buffer {
  const field = Buffer.alloc(9);
  field[0] = (1 << 3) | 1;
  field.writeDoubleLE(wallTime, 1);
  return field;
}

function bytesField(number: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of((number << 3) | 2), varint(content.length), content]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt(value);
  do {
    const low = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 128);
  } while (rest !== 0n);
  return Buffer.from(bytes);
}

function frame(data: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(data.length), 0);
  head.writeUInt32LE(masked(head.subarray(0, 8)), 8);
  const tail = Buffer.alloc(4);
  tail.writeUInt32LE(masked(data), 0);
  return Buffer.concat([head, data, tail]);
}

/** Checksums that are stored among what they are of are rotated and shifted, as the format demands. */
function masked(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
