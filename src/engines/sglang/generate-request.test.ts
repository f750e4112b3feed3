import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TokenBuffer } from "../../core/token-buffer.ts";
import type { RequestBody } from "../../http/index.ts";
import { createRandom } from "../../lib/random.ts";
import { createGenerateBodies, toGenerateFields, toSglangSampling } from "./generate-request.ts";
import { request } from "../../http/engine-calls.test-helper.ts";

function reference(prompt: TokenBuffer, fields: object): string {
  return JSON.stringify({ input_ids: Array.from(prompt.view()), ...fields });
}

describe("createGenerateBodies()", () => {
  test("writes the bytes of JSON.stringify, however a prompt grows, forks, closes and is shared, and they stay until released", () => {
    const id = fc.oneof(
      fc.nat(9),
      fc.nat(200_000),
      fc.nat(2 ** 32 - 1),
      fc.constantFrom(999_999, 1_000_000, 2 ** 32 - 1),
    );
    const step = fc.record({
      ids: fc.array(id, { maxLength: 60 }),
      forkAt: fc.option(fc.nat(200)),
      closes: fc.boolean(),
      note: fc.string({ maxLength: 400, unit: "binary" }),
      releases: fc.nat(4),
    });
    fc.assert(
      fc.property(
        fc.array(id, { minLength: 1, maxLength: 9 }),
        fc.array(step, { minLength: 1, maxLength: 12 }),
        (ids, steps) => {
          const writer = createGenerateBodies();
          let prompt = TokenBuffer.from(ids);
          let bodies: { readonly body: RequestBody; readonly text: string }[] = [];
          for (const { ids: more, forkAt, closes, note, releases } of steps) {
            const before = prompt;
            if (forkAt !== null) prompt = prompt.fork(Math.min(prompt.length, forkAt + 1));
            if (closes) before.close();
            prompt.append(more);
            const fields = toGenerateFields(
              request({ prompt, requestId: note, sampling: { extra: { stop: note } } }),
              false,
            );
            bodies.push({ body: writer.write(prompt, fields), text: reference(prompt, fields) });
            for (const { body, text } of bodies) expect(body.bytes.toString()).toBe(text);
            for (const { body } of bodies.slice(0, releases)) body.release();
            bodies = bodies.slice(releases);
          }
        },
      ),
      { seed: 11, numRuns: 500 },
    );
  });

  test("a body goes into the bytes of one that was released, and into others until then", () => {
    const writer = createGenerateBodies();
    const prompt = TokenBuffer.from(new Uint32Array(500).fill(151_645));
    const fields = toGenerateFields(request(), false);
    const first = writer.write(prompt, fields);
    const second = writer.write(prompt, fields);
    expect(second.bytes.buffer).not.toBe(first.bytes.buffer);
    first.release();
    second.release();
    second.release();
    prompt.append([198]);
    const third = writer.write(prompt, fields);
    expect(third.bytes.buffer).toBe(second.bytes.buffer);
    second.release();
    expect(writer.write(prompt, fields).bytes.buffer).not.toBe(third.bytes.buffer);
  });

  test("the bytes of a closed prompt go to the next one, unless they were never released", () => {
    const writer = createGenerateBodies();
    const fields = toGenerateFields(request(), false);
    const writeFresh = () => {
      const prompt = TokenBuffer.from(new Uint32Array(500).fill(151_645));
      return { prompt, body: writer.write(prompt, fields) };
    };
    const read = writeFresh();
    read.prompt.close();
    const other = writeFresh();
    expect(other.body.bytes.buffer).not.toBe(read.body.bytes.buffer);
    read.body.release();
    const kept = writeFresh();
    expect(kept.body.bytes.buffer).toBe(read.body.bytes.buffer);
    expect(writer.write(kept.prompt, fields).bytes.buffer).not.toBe(kept.body.bytes.buffer);
    kept.prompt.close();
    expect(writeFresh().body.bytes.buffer).not.toBe(kept.body.bytes.buffer);
  });

  test("conversations that begin alike, or end where others continue, get the bytes of their own prompts", () => {
    const writer = createGenerateBodies();
    const random = createRandom(3);
    const opening = Array.from({ length: 700 }, () => random.integer(200_000));
    const prompts = [[], [1], [2, 3], opening.slice(300)].map((more) => [...opening, ...more]);
    prompts.push(opening.slice(0, 400), opening.slice(0, 255), opening.slice(5), [...opening, 4]);
    for (const ids of [...prompts, ...prompts.toReversed()]) {
      const prompt = TokenBuffer.from(ids);
      const fields = toGenerateFields(request({ prompt }), false);
      expect(writer.write(prompt, fields).bytes.toString()).toBe(reference(prompt, fields));
    }
  });
});

describe("toSglangSampling()", () => {
  test("sends every parameter under the name SGLang knows, and no other", () => {
    expect(toSglangSampling({ sampling: request().sampling, stopTokenIds: [9] })).toEqual({
      max_new_tokens: 1024,
      temperature: 1,
      top_p: 1,
      top_k: -1,
      min_p: 0,
      repetition_penalty: 1,
      stop_token_ids: [9],
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      no_stop_trim: true,
    });
  });

  test("sends stop strings, which the server finds", () => {
    const stopStrings = { strings: ["END", "\n\n"], watch: () => () => null };
    const { sampling } = request();
    expect(toSglangSampling({ sampling, stopTokenIds: [9], stopStrings })).toMatchObject({
      stop: ["END", "\n\n"],
      stop_token_ids: [9],
      no_stop_trim: true,
    });
  });

  test("sends a seed only when there is one, and extra as it is", () => {
    const { sampling } = request({ sampling: { seed: 7, maxNewTokens: null, extra: { top_p: 0.9, stop: ["x"] } } });
    expect(toSglangSampling({ sampling, stopTokenIds: [] })).toMatchObject({
      sampling_seed: 7,
      max_new_tokens: null,
      top_p: 0.9,
      stop: ["x"],
    });
  });
});
