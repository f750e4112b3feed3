// Products of matrices against the plainest loops, at sizes that leave remainders everywhere, and
// the invariant that the engine relies on: the result of a row does not depend on the rows beside
// it.

import { describe, expect, test } from "vitest";

import { createRandom } from "../../lib/random.ts";
import { Arena, instantiateKernels, loadKernels } from "./kernels.ts";

describe.each(["relaxed-simd", "simd"] as const)("with kernels of %s", (build) => {
  const { kernels, memory } = instantiateKernels(loadKernels(build).module);
  const arena = new Arena(memory);
  const [a, b, panels, c, scratch] = Array.from({ length: 5 }, () => arena.allocate(1 << 16)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const { floats } = arena.seal();

  function fill(pointer: number, count: number, seed: number): Float32Array {
    const random = createRandom(seed);
    const view = floats.subarray(pointer / 4, pointer / 4 + count);
    for (let index = 0; index < count; index++) view[index] = random.next() - 0.5;
    return view;
  }

  // More than one block of depth and of rows, with remainders of rows, columns and panels.
  const shapes = [[67, 24, 776], [7, 40, 32], [1, 64, 388], [130, 8, 12]] as const; // prettier-ignore

  test.each(shapes)("multiply() of %i rows, %i columns, depth %i", (rows, columns, depth) => {
    const left = fill(a, rows * depth, 1).slice();
    const right = fill(b, columns * depth, 2).slice();
    const expected = (at: (column: number, k: number) => number): Float32Array =>
      Float32Array.from({ length: rows * columns }, (_, index) => {
        let sum = 0;
        for (let k = 0; k < depth; k++) sum += left[Math.floor(index / columns) * depth + k]! * at(index % columns, k);
        return sum;
      });
    const expectResult = (values: Float32Array): void => {
      const result = floats.slice(c / 4, c / 4 + rows * columns);
      expect(Math.max(...result.map((value, index) => Math.abs(value - values[index]!)))).toBeLessThan(1e-5);
    };
    kernels.packRows(b, columns, depth, columns, panels);
    kernels.multiply(rows, columns, depth, a, depth, panels, depth, c, columns, 0);
    expectResult(expected((column, k) => right[k * columns + column]!));

    kernels.packColumns(b, depth, depth, columns, panels);
    kernels.multiply(rows, columns, depth, a, depth, panels, depth, c, columns, 0);
    const transposed = expected((column, k) => right[column * depth + k]!);
    expectResult(transposed);
    kernels.multiply(rows, columns, depth, a, depth, panels, depth, c, columns, 1);
    expectResult(transposed.map((value) => value * 2));
  });

  test("multiply() gives a row the same bits, however many rows there are", () => {
    const [rows, columns, depth] = [70, 72, 640] as const;
    fill(a, rows * depth, 3);
    fill(b, columns * depth, 4);
    kernels.packColumns(b, depth, depth, columns, panels);
    kernels.multiply(rows, columns, depth, a, depth, panels, depth, c, columns, 0);
    const together = floats.slice(c / 4, c / 4 + rows * columns);
    for (const count of [1, 2, 3, 5, 66]) {
      for (let first = 0; first + count <= rows; first += count) {
        kernels.multiply(count, columns, depth, a + first * depth * 4, depth, panels, depth, c, columns, 0);
        const alone = floats.subarray(c / 4, c / 4 + count * columns);
        expect(alone).toEqual(together.subarray(first * columns, (first + count) * columns));
      }
    }
  });

  test("multiplyTransposed() adds the product of a transposed matrix, blocks of depth in order", () => {
    const [rows, columns, depth] = [12, 24, 801] as const;
    const left = fill(a, rows * depth, 5).slice();
    const right = fill(b, columns * depth, 6).slice();
    fill(c, rows * columns, 7).fill(1);
    kernels.packRows(b, columns, depth, columns, panels);
    kernels.multiplyTransposed(rows, columns, depth, a, rows, panels, depth, c, columns, scratch);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        let sum = 1;
        for (let k = 0; k < depth; k++) sum += left[k * rows + row]! * right[k * columns + column]!;
        expect(floats[c / 4 + row * columns + column]).toBeCloseTo(sum, 4);
      }
    }
  });
});
