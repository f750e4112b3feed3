import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { scanLogprobs } from "./scan-logprobs.ts";

const wrap = (list: string): Buffer => Buffer.from(`{"meta_info":{"output_token_logprobs":${list},"x":1}}`);

/** The list as `JSON.parse` reads it. */
function reference(list: string): { readonly ids: Uint32Array; readonly logprobs: Float32Array } {
  const entries = JSON.parse(list) as [number, number, null][];
  return {
    ids: Uint32Array.from(entries, ([, id]) => id),
    logprobs: Float32Array.from(entries, ([logprob]) => logprob),
  };
}

/** Notation of a double in roughly the style of Python and orjson: exponents below 1e-4. */
function notation(value: number, style: number): string {
  const plain = String(value);
  const scientific = value.toExponential();
  return [plain, scientific, scientific.replace("e-", "E-0"), scientific.replace("e+", "e")][style % 4] ?? plain;
}

describe("scanLogprobs()", () => {
  test("reads the numbers of JSON.parse, to the last of 32 bits", () => {
    const number = fc.oneof(
      fc.float({ noNaN: true, noDefaultInfinity: true, min: -65_536, max: 0 }),
      // Smaller numbers are left to JSON.parse.
      fc.double({ noNaN: true, min: -100, max: 0 }).filter((value) => value === 0 || value < -1e-280),
      // Numbers halfway between two floats, and next to it: these reveal double rounding.
      fc.tuple(fc.float({ min: -50, max: -1, noNaN: true }), fc.constantFrom(-1, 0, 1)).map(([value, step]) => {
        const next = new Float32Array(
          new Uint32Array([new Uint32Array(new Float32Array([value]).buffer)[0]! + 1]).buffer,
        )[0]!;
        return ((value + next) / 2) * (1 + step * Number.EPSILON);
      }),
      fc.constantFrom(0, -0, -1, -1e-7, -1e-280, -1e-46),
    );
    const entry = fc.tuple(number, fc.nat(2 ** 32 - 1), fc.nat(3));
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 20 }), (entries) => {
        const list = `[${entries.map(([value, id, style]) => `[${Object.is(value, -0) ? "-0.0" : notation(value, style)},${id},null]`).join(",")}]`;
        const scanned = scanLogprobs(wrap(list));
        const { ids, logprobs } = reference(list);
        if (logprobs.some((logprob) => !Number.isFinite(logprob))) {
          expect(scanned).toBeNull();
          return;
        }
        expect(scanned?.ids).toEqual(ids);
        expect(scanned?.logprobs).toEqual(logprobs);
      }),
      { seed: 17, numRuns: 3000 },
    );
  });

  test("says where the list stands, so that the rest can be read without it", () => {
    const bytes = wrap("[[-1,5,null],[-2,6,null]]");
    const { start, end } = scanLogprobs(bytes) ?? { start: 0, end: 0 };
    expect(bytes.subarray(start, end).toString()).toBe("[-1,5,null],[-2,6,null]");
    expect(scanLogprobs(wrap("[]"))?.ids).toHaveLength(0);
  });

  test.each([
    "null",
    "[",
    "[[-1,5,null]",
    "[[-1,5,null],]",
    "[,[-1,5,null]]",
    "[[-1,5,null] ]",
    "[ [-1,5,null]]",
    '[[-1,5,"a"]]',
    "[[-1,5]]",
    "[[-1,5,null,0]]",
    "[[null,5,null]]",
    "[[NaN,5,null]]",
    '[["-1",5,null]]',
    "[[-1,-5,null]]",
    "[[-1,5.0,null]]",
    "[[-1,05,null]]",
    "[[-1,4294967296,null]]",
    "[[-1,99999999999,null]]",
    "[[-01,5,null]]",
    "[[-.5,5,null]]",
    "[[-1.,5,null]]",
    "[[-1e,5,null]]",
    "[[-1e999,5,null]]",
    "[[-5e-324,5,null]]",
    "[[-1e39,5,null]]",
    "[[--1,5,null]]",
    "[[+1,5,null]]",
    "[[-0.12345678901234567890,5,null]]",
  ])("leaves %s to JSON.parse", (list) => {
    expect(scanLogprobs(wrap(list))).toBeNull();
  });

  test("is not misled by text that looks like the list, nor by a second list", () => {
    const list = "[[-1,5,null]]";
    const quoted = JSON.stringify({ text: `"output_token_logprobs":${list}` });
    expect(scanLogprobs(Buffer.from(quoted))).toBeNull();
    const tricky = `{"a\\"output_token_logprobs":${list}}`;
    expect(JSON.parse(tricky)).toEqual({ 'a"output_token_logprobs': [[-1, 5, null]] });
    expect(scanLogprobs(Buffer.from(tricky))).toBeNull();
    expect(scanLogprobs(Buffer.concat([wrap(list), wrap(list)]))).toBeNull();
  });
});
