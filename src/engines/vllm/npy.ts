// Arrays of whole numbers in NumPy's file format (`.npy`, versions 1 to 3), as servers send them in
// base64. The header is text that they wrote, so it is bounded and must have exactly the form that
// NumPy writes: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.

/** Shape and numbers of an array, in C order. */
export type NpyArray = { readonly shape: readonly number[]; readonly numbers: Int32Array };

/** NumPy pads short headers to a multiple of 64 bytes; three dimensions need fewer than 128. */
const mostHeaderBytes = 1024;

const header =
  /^\{'descr': '([|<>][iu]\d)', 'fortran_order': (False|True), 'shape': \((\d{1,10}(?:, \d{1,10}){0,7},?|)\), ?\} *\n$/;

/** Readers of one number, by the type's name. */
const readers: Readonly<Record<string, (view: DataView, at: number) => number>> = {
  "|u1": (view, at) => view.getUint8(at),
  "|i1": (view, at) => view.getInt8(at),
  "<u2": (view, at) => view.getUint16(at, true),
  "<i2": (view, at) => view.getInt16(at, true),
  "<u4": (view, at) => view.getUint32(at, true),
  "<i4": (view, at) => view.getInt32(at, true),
  "<i8": (view, at) => Number(view.getBigInt64(at, true)),
};

/** The array, or the reason why it cannot be read, as a clause. Allocates no more than four bytes for each byte. */
export function readNpy(bytes: Uint8Array): NpyArray | string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = (from: number, to: number): string => Buffer.from(bytes.subarray(from, to)).toString("latin1");
  if (bytes.length < 12 || text(0, 6) !== "\u0093NUMPY") return "it is not in the format .npy";
  const version = bytes[6]!;
  if (version < 1 || version > 3) return `its version is ${version}, expected 1 to 3`;
  const start = version === 1 ? 10 : 12;
  const length = version === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (length > mostHeaderBytes || start + length > bytes.length) return `its header claims ${length} bytes`;
  const [, type = "", order, listed = ""] = header.exec(text(start, start + length)) ?? [];
  const read = readers[type];
  if (order !== "False" || read === undefined) return "its header is not that of whole numbers in C order";
  const shape = listed.split(",").flatMap((size) => (size.trim() === "" ? [] : Number(size)));
  const count = shape.reduce((product, size) => product * size, 1);
  const width = Number(type[2]);
  const data = start + length;
  if (count * width !== bytes.length - data) {
    return `its shape (${shape.join(", ")}) needs ${count * width} bytes, and it has ${bytes.length - data}`;
  }
  const numbers = new Int32Array(count);
  for (let at = 0; at < count; at++) {
    const number = read(view, data + at * width);
    if (number !== (number | 0)) return `number ${at} is ${number}, which is not a whole number of 32 bits`;
    numbers[at] = number;
  }
  return { shape, numbers };
}
