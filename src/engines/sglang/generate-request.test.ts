import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TokenBuffer } from "../../core/token-buffer.ts";
import { GenerateBodyWriter, toGenerateFields, toSglangSampling } from "./generate-request.ts";
import { request } from "./sglang.test-helper.ts";

function reference(prompt: TokenBuffer, fields: object): string {
  return JSON.stringify({ input_ids: Array.from(prompt.view()), ...fields });
}

describe("GenerateBodyWriter", () => {
  test("writes the bytes of JSON.stringify, however a prompt grows, forks and is shared", () => {
    const id = fc.oneof(
      fc.nat(9),
      fc.nat(200_000),
      fc.nat(2 ** 32 - 1),
      fc.constantFrom(999_999, 1_000_000, 2 ** 32 - 1),
    );
    const step = fc.record({ ids: fc.array(id, { maxLength: 60 }), forkAt: fc.option(fc.nat(200)), note: fc.string() });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 8 }), (steps) => {
        const writer = new GenerateBodyWriter();
        let prompt = TokenBuffer.from([7]);
        for (const { ids, forkAt, note } of steps) {
          if (forkAt !== null) prompt = prompt.fork(Math.min(prompt.length, forkAt + 1));
          prompt.append(ids);
          const fields = toGenerateFields(
            request({ prompt, requestId: note, sampling: { extra: { stop: note } } }),
            false,
          );
          expect(writer.write(prompt, fields).toString()).toBe(reference(prompt, fields));
        }
      }),
      { seed: 11, numRuns: 300 },
    );
  });

  test("a body that was written stays as it is while its prompt grows", () => {
    const writer = new GenerateBodyWriter();
    const prompt = TokenBuffer.from([1]);
    const fields = toGenerateFields(request(), false);
    const first = writer.write(prompt, fields);
    const before = first.toString();
    for (let round = 0; round < 50; round++) {
      prompt.append([151_645, 198]);
      writer.write(prompt, fields);
    }
    expect(first.toString()).toBe(before);
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
