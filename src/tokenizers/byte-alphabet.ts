// The printable stand-ins that byte-level vocabularies use for bytes (GPT-2's choice): printable Latin-1 characters stand
// for themselves, the other 68 bytes for U+0100 upwards, so a space is written "Ġ". A format fact, not an encoding of ours.

const printable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

/** The stand-in of each byte. */
export const byteCharacters: readonly string[] = makeByteCharacters();

/** The byte of each stand-in by UTF-16 unit; -1 for units that stand for none. Units from `length` upwards stand for none. */
export const characterBytes: Int16Array = makeCharacterBytes();

/** Writes the bytes that `text` stands for at `offset`; returns their number, or -1 when some character stands for none. */
export function writeBytesOf(text: string, target: Uint8Array, offset: number): number {
  const length = text.length;
  for (let index = 0; index < length; index++) {
    const unit = text.charCodeAt(index);
    const byte = unit < characterBytes.length ? (characterBytes[unit] ?? -1) : -1;
    if (byte < 0) return -1;
    target[offset + index] = byte;
  }
  return length;
}

function makeByteCharacters(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
}

function makeCharacterBytes(): Int16Array {
  const bytes = new Int16Array(0x100 + 68).fill(-1);
  byteCharacters.forEach((character, byte) => {
    bytes[character.charCodeAt(0)] = byte;
  });
  return bytes;
}
