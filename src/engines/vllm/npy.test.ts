import { describe, expect, test } from "vitest";

import { readNpy } from "./npy.ts";

describe("arrays in NumPy's format", () => {
  /** A file of NumPy's format with this header text and data. */
  const npy = (fields: string, data: readonly number[], length = fields.length): Uint8Array =>
    Uint8Array.from([0x93, ...Buffer.from("NUMPY"), 1, 0, length & 0xff, length >> 8, ...Buffer.from(fields), ...data]);
  const fields = (type: string, shape: string, order = "False"): string =>
    `{'descr': '${type}', 'fortran_order': ${order}, 'shape': (${shape}), }\n`;

  test("arrays of every width are read", () => {
    expect(readNpy(npy(fields("|u1", "1, 2, 1"), [3, 250]))).toEqual({
      shape: [1, 2, 1],
      numbers: Int32Array.of(3, 250),
    });
    expect(readNpy(npy(fields("<u2", "2,"), [1, 2, 0, 1]))).toEqual({ shape: [2], numbers: Int32Array.of(513, 256) });
    expect(readNpy(npy(fields("<i8", "1,"), [5, 0, 0, 0, 0, 0, 0, 0]))).toEqual({
      shape: [1],
      numbers: Int32Array.of(5),
    });
    expect(readNpy(npy(fields("<i4", "0, 3, 2"), []))).toEqual({ shape: [0, 3, 2], numbers: new Int32Array(0) });
  });

  test.each<readonly [string, Uint8Array, string]>([
    ["nothing", new Uint8Array(0), "not in the format"],
    ["another format", Uint8Array.from(Buffer.from("PK\u0003\u0004 and more bytes")), "not in the format"],
    ["a header beyond the file", npy("{}", [], 900), "claims 900 bytes"],
    ["a header of 60,000 bytes", npy(" ".repeat(60_000), []), "claims 60000 bytes"],
    ["objects", npy(fields("|O", "1,"), [1]), "whole numbers"],
    ["floats", npy(fields("<f4", "1,"), [0, 0, 0, 0]), "whole numbers"],
    ["big-endian numbers", npy(fields(">i4", "1,"), [0, 0, 0, 1]), "whole numbers"],
    ["Fortran's order", npy(fields("|u1", "1, 2, 1", "True"), [1, 2]), "in C order"],
    ["code", npy("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,), }\n", [1]), "whole numbers"],
    ["a shape of more numbers than there are", npy(fields("|u1", "9999999999, 9999999999, 9999999999"), [1]), "needs"],
    ["a shape of fewer", npy(fields("|u1", "1,"), [1, 2]), "needs 1 bytes, and it has 2"],
    ["a number of 40 bits", npy(fields("<i8", "1,"), [0, 0, 0, 0, 1, 0, 0, 0]), "not a whole number of 32 bits"],
  ])("an array that is not one: %s", (_, bytes, state) => {
    expect(readNpy(bytes)).toContain(state);
  });
});
