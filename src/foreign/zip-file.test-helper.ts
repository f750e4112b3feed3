// Zip files for tests, including ones that no program would write.

import { crc32, deflateRawSync } from "node:zlib";

export type Member = {
  readonly name: string;
  readonly text: Buffer;
  readonly packed?: Buffer;
  readonly method?: number;
  readonly size?: number;
};

/** A zip file whose directory states the given facts. */
export function zipOf(members: readonly Member[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, text, packed = deflateRawSync(text), method = 8, size = text.length } of members) {
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50);
    local.writeUInt16LE(name.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50);
    entry.writeUInt16LE(method, 10);
    entry.writeUInt32LE(crc32(text), 16);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(size, 24);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    directory.push(entry, Buffer.from(name));
    const whole = [local, Buffer.from(name), packed];
    parts.push(...whole);
    offset += Buffer.concat(whole).length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50);
  end.writeUInt16LE(members.length, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, central, end]);
}
