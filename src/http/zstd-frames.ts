// Where the frames of a zstd body end (RFC 8878, section 3). Node's decoder stops after the first frame, and takes a body that was cut
// short for one that ended; what is decoded is therefore one whole frame after another.

const frameMagic = 0xfd2fb528;
const skippableMagic = 0x184d2a5;
const sizes = { dictionary: [0, 1, 2, 4], content: [0, 2, 4, 8] } as const;

/** Each costs a decoder. */
const mostFrames = 100;

/** All frames but those that are to be skipped, in order. Throws a plain error for bytes that are no whole frames. */
export function zstdFrames(bytes: Uint8Array): Uint8Array[] {
  const frames: Uint8Array[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let start = 0; start < bytes.length;) {
    // Reading past the end throws.
    const magic = view.getUint32(start, true);
    const isSkipped = magic >>> 4 === skippableMagic;
    if (!isSkipped && magic !== frameMagic) throw new Error("It is no zstd frame.");
    const end = isSkipped ? start + 8 + view.getUint32(start + 4, true) : endOfFrame(view, start);
    if (end > bytes.length) throw new Error("The zstd frame was cut short.");
    if (!isSkipped && frames.push(bytes.subarray(start, end)) > mostFrames) throw new Error("It has too many frames.");
    start = end;
  }
  return frames;
}

function endOfFrame(view: DataView, start: number): number {
  const descriptor = view.getUint8(start + 4);
  const isSingle = (descriptor & 0x20) !== 0;
  const contentSize = descriptor >> 6 === 0 && isSingle ? 1 : sizes.content[descriptor >> 6]!;
  let at = start + 5 + (isSingle ? 0 : 1) + sizes.dictionary[descriptor & 3]! + contentSize;
  for (let isLast = false; !isLast;) {
    const header = view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
    isLast = (header & 1) !== 0;
    // Of a block that repeats one byte, that byte.
    at += 3 + (((header >> 1) & 3) === 1 ? 1 : header >> 3);
  }
  return at + ((descriptor & 4) === 0 ? 0 : 4);
}
