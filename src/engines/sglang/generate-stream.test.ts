import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { SampleResult } from "../../core/engine.ts";
import { createFunctionSampler, createSglangFront } from "../../testing/index.ts";
import { failureOf, request } from "../../http/engine-calls.test-helper.ts";
import { engineOf, engineOn } from "./sglang.test-helper.ts";

const encoder = new TextEncoder();

/** A server that answers with these frames, split at these positions. */
function serving(frames: readonly unknown[], cuts: readonly number[] = []): () => Response {
  const text = frames.map((data) => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`).join("");
  const bytes = encoder.encode(text);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return () => {
    const chunks = places.slice(1).map((end, index) => bytes.slice(places[index], end));
    return new Response(
      new ReadableStream({
        pull(controller) {
          const chunk = chunks.shift();
          if (chunk === undefined) controller.close();
          else controller.enqueue(chunk);
        },
      }),
    );
  };
}

function frame(
  ids: readonly number[] | undefined,
  count: number | undefined,
  options: { readonly logged?: readonly number[]; readonly finish?: unknown } = {},
): unknown {
  const logged = options.logged ?? ids ?? [];
  return {
    text: "ü",
    output_ids: ids,
    meta_info: {
      finish_reason: options.finish ?? null,
      completion_tokens: count,
      output_token_logprobs: logged.map((id) => [-id / 8, id, null]),
    },
  };
}

const stop = { type: "stop", matched: 9 };
const sample = (server: () => Response): Promise<SampleResult> =>
  engineOf(server, { stream: true }).sample(request({ prompt: [1, 2, 3] }));

const cumulative = [frame([5], 1), frame([5, 6], 2), frame([5, 6, 9], 3, { finish: stop }), "[DONE]"];

describe("createSglangEngine({ stream: true })", () => {
  test.each([
    ["cumulative frames", cumulative],
    [
      "frames of new ids, logprobs cumulative",
      [frame([5], 1), frame([6], 2, { logged: [5, 6] }), frame([9], 3, { logged: [5, 6, 9], finish: stop })],
    ],
    ["frames of new ids and new logprobs", [frame([5], 1), frame([6, 9], 3, { finish: stop }), "[DONE]"]],
    [
      "frames without ids",
      [frame(undefined, 1, { logged: [5] }), frame(undefined, 3, { logged: [5, 6, 9], finish: stop })],
    ],
    ["one frame", [frame([5, 6, 9], 3, { finish: stop })]],
    ["a frame that brings nothing new", [frame([5], 1), frame([5], 1), frame([5, 6, 9], 3, { finish: stop })]],
  ])("reads %s", async (_name, frames) => {
    const result = await sample(serving(frames));
    expect(result.sampledTokens).toEqual(Uint32Array.of(5, 6, 9));
    expect(result.logprobs).toEqual(Float32Array.of(-5 / 8, -6 / 8, -9 / 8));
    expect(result.finish.matched).toBe(9);
  });

  test("any chunking of the bytes gives the same result", async () => {
    const whole = await sample(serving(cumulative));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(900), { maxLength: 30 }), async (cuts) => {
        expect(await sample(serving(cumulative, cuts))).toEqual(whole);
      }),
      { seed: 3, numRuns: 200 },
    );
  });

  test("gives what the same request gives without streaming, however the server streams", async () => {
    const ids = fc.array(fc.integer({ min: 4, max: 12 }), { minLength: 1, maxLength: 12 });
    const outputs = fc.constantFrom("cumulative", "delta");
    const versions = fc.constantFrom("0.5.23", "0.5.9");
    await fc.assert(
      fc.asyncProperty(ids, outputs, versions, async (sampled, streamOutput, version) => {
        const sampler = createFunctionSampler(() => ({ ids: sampled, cachedTokens: 2, weightVersion: "v3" }));
        const front = createSglangFront({ sampler, streamOutput, version, endTokenIds: [9] });
        const asked = { sampling: { maxNewTokens: 8 } };
        const [whole, streamed] = await Promise.all(
          [false, true].map((stream) =>
            engineOn(front, { stream }).sample(request({ ...asked, requestId: `${stream}` })),
          ),
        );
        expect(streamed).toEqual(whole);
      }),
      { seed: 4, numRuns: 100 },
    );
  });

  test("an abort that repeats its last token keeps what came before", async () => {
    const abort = { type: "abort", message: "Aborted", status_code: null };
    const last = frame([6], 2, { logged: [5, 6], finish: abort });
    const result = await sample(serving([frame([5], 1), frame([5, 6], 2), last]));
    expect(result.sampledTokens).toEqual(Uint32Array.of(5, 6));
    expect(result.finish.reason).toBe("abort");
  });

  test.each<[string, readonly unknown[], string]>([
    ["ends without a finish reason", [frame([5], 1), "[DONE]"], "ended after 1 frames"],
    ["ends without a frame", [], "ended after 0 frames"],
    [
      "rewrites its ids",
      [frame([5, 6], 2), frame([5, 7, 9], 3, { finish: stop })],
      "output_ids of frame 1 does not continue",
    ],
    ["loses ids", [frame([5], 1), frame([9], 3, { finish: stop })], "does not continue"],
    ["counts nothing", [frame([5], undefined, { finish: stop })], "does not continue"],
    [
      "sends ids that are not a list",
      [{ output_ids: 5, meta_info: { completion_tokens: 1 } }],
      "output_ids of frame 0 is not a list",
    ],
    ["sends no meta_info", [{ output_ids: [5] }], "frame 0 has no meta_info"],
    ["sends no JSON", ["{"], "is not JSON"],
    ["sends no object", ["[1]"], "is not an object"],
  ])("refuses a stream that %s", async (_name, frames, words) => {
    const error = await failureOf(sample(serving(frames)));
    expect(error.failure).toMatchObject({ code: "bad-reply", retryable: true });
    expect(error.message).toContain(words);
  });
});
