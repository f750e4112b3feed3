import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TokenBuffer } from "../../core/token-buffer.ts";
import type { LentBody } from "../../http/index.ts";
import { createRandom } from "../../lib/random.ts";
import { GenerateBodyWriter, toGenerateFields, toSglangSampling } from "./generate-request.ts";
import { request } from "../../http/engine-calls.test-helper.ts";

function reference(prompt: TokenBuffer, fields: object): string {
  return JSON.stringify({ input_ids: Array.from(prompt.view()), ...fields });
}

describe("GenerateBodyWriter", () => {
  test("lends the bytes of JSON.stringify, however a prompt grows, forks, closes and is shared, and they stay until given back", () => {
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
      giveBack: fc.nat(4),
    });
    fc.assert(
      fc.property(
        fc.array(id, { minLength: 1, maxLength: 9 }),
        fc.array(step, { minLength: 1, maxLength: 12 }),
        (ids, steps) => {
          const writer = new GenerateBodyWriter();
          let prompt = TokenBuffer.from(ids);
          let lent: { readonly body: LentBody; readonly text: string }[] = [];
          for (const { ids: more, forkAt, closes, note, giveBack } of steps) {
            const before = prompt;
            if (forkAt !== null) prompt = prompt.fork(Math.min(prompt.length, forkAt + 1));
            if (closes) before.close();
            prompt.append(more);
            const fields = toGenerateFields(
              request({ prompt, requestId: note, sampling: { extra: { stop: note } } }),
              false,
            );
            lent.push({ body: writer.lend(prompt, fields), text: reference(prompt, fields) });
            for (const { body, text } of lent) expect(body.bytes.toString()).toBe(text);
            for (const { body } of lent.slice(0, giveBack)) body.giveBack();
            lent = lent.slice(giveBack);
          }
        },
      ),
      { seed: 11, numRuns: 500 },
    );
  });

  test("a body goes into the bytes of one that was given back, and into others while it is lent", () => {
    const writer = new GenerateBodyWriter();
    const prompt = TokenBuffer.from(new Uint32Array(500).fill(151_645));
    const fields = toGenerateFields(request(), false);
    const first = writer.lend(prompt, fields);
    const second = writer.lend(prompt, fields);
    expect(second.bytes.buffer).not.toBe(first.bytes.buffer);
    first.giveBack();
    second.giveBack();
    second.giveBack();
    prompt.append([198]);
    const third = writer.lend(prompt, fields);
    expect(third.bytes.buffer).toBe(second.bytes.buffer);
    second.giveBack();
    expect(writer.lend(prompt, fields).bytes.buffer).not.toBe(third.bytes.buffer);
  });

  test("the bytes of a closed prompt go to the next one, unless they are lent or were never given back", () => {
    const writer = new GenerateBodyWriter();
    const fields = toGenerateFields(request(), false);
    const lendFresh = () => {
      const prompt = TokenBuffer.from(new Uint32Array(500).fill(151_645));
      return { prompt, body: writer.lend(prompt, fields) };
    };
    const read = lendFresh();
    read.prompt.close();
    const other = lendFresh();
    expect(other.body.bytes.buffer).not.toBe(read.body.bytes.buffer);
    read.body.giveBack();
    const kept = lendFresh();
    expect(kept.body.bytes.buffer).toBe(read.body.bytes.buffer);
    expect(writer.lend(kept.prompt, fields).bytes.buffer).not.toBe(kept.body.bytes.buffer);
    kept.prompt.close();
    expect(lendFresh().body.bytes.buffer).not.toBe(kept.body.bytes.buffer);
  });

  test("conversations that begin alike, or end where others go on, get the bytes of their own prompts", () => {
    const writer = new GenerateBodyWriter();
    const random = createRandom(3);
    const opening = Array.from({ length: 700 }, () => random.integer(200_000));
    const prompts = [[], [1], [2, 3], opening.slice(300)].map((more) => [...opening, ...more]);
    prompts.push(opening.slice(0, 400), opening.slice(0, 255), opening.slice(5), [...opening, 4]);
    for (const ids of [...prompts, ...prompts.toReversed()]) {
      const prompt = TokenBuffer.from(ids);
      const fields = toGenerateFields(request({ prompt }), false);
      expect(writer.lend(prompt, fields).bytes.toString()).toBe(reference(prompt, fields));
    }
  });
});

describe("toSglangSampling()", () => {
  test("sends every parameter under the name SGLang knows, and no other", () => {
    expect(toSglangSampling(request().sampling, [9])).toEqual({
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

  test("sends a seed only when there is one, and extra as it is", () => {
    const { sampling } = request({ sampling: { seed: 7, maxNewTokens: null, extra: { top_p: 0.9, stop: ["x"] } } });
    expect(toSglangSampling(sampling, [])).toMatchObject({
      sampling_seed: 7,
      max_new_tokens: null,
      top_p: 0.9,
      stop: ["x"],
    });
  });
});
