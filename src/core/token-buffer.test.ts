import fc from "fast-check";
import { expect, test } from "vitest";

import { TokenBuffer } from "./token-buffer.ts";

test("reads as the list of all that was appended, whatever is forked and read on the way", () => {
  const ids = fc.array(fc.nat(2 ** 32 - 1), { maxLength: 6 });
  const step = fc.record({
    ids,
    isTyped: fc.boolean(),
    start: fc.nat(20),
    end: fc.nat(40),
    fork: fc.option(fc.nat(40)),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      let buffer = new TokenBuffer();
      let list: number[] = [];
      const kept: [Uint32Array, number[]][] = [];
      for (const { ids: more, isTyped, start, end, fork } of steps) {
        if (fork !== null) {
          buffer = buffer.fork(fork);
          list = list.slice(0, fork);
        }
        buffer.append(isTyped ? Uint32Array.from(more) : more);
        list.push(...more);
        kept.push([buffer.view(start, end), list.slice(start, end)], [buffer.view(), [...list]]);
        expect(buffer.length).toBe(list.length);
      }
      for (const [seen, wanted] of kept) expect([...seen]).toEqual(wanted);
    }),
    { seed: 5, numRuns: 300 },
  );
});

test("what was appended in one piece is read without a copy", () => {
  const ids = Uint32Array.from([1, 2, 3]);
  const buffer = TokenBuffer.from([9]);
  buffer.append(ids);
  expect(buffer.view(1)).toBe(ids);
  expect(buffer.view(2).buffer).toBe(ids.buffer);
  expect(buffer.fork(4).view(1)).toBe(ids);
});

test("calls back when it is closed, once, and not after that", () => {
  const buffer = TokenBuffer.from([1, 2]);
  const called: number[] = [];
  buffer.whenClosed(() => called.push(1));
  buffer.whenClosed(() => called.push(2));
  buffer.close();
  buffer.close();
  buffer.whenClosed(() => called.push(3));
  expect(called).toEqual([1, 2]);
  expect([...buffer.view()]).toEqual([1, 2]);
});
