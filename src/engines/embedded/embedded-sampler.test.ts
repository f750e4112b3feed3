// The model served by the SGLang protocol front: its replies equal the results of the embedded
// engine itself.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

import { type SampleRequest, defaultSampling, type SamplingParams } from "../../core/engine.ts";
import { TokenBuffer } from "../../core/token-buffer.ts";
import { writeCheckpoint } from "../../learner/model/index.ts";
import { createSglangFront } from "../../testing/index.ts";
import { testConfig, testPrompt, testWeights } from "./embedded.test-helper.ts";
import { createEmbeddedEngine, type EmbeddedEngine } from "./embedded-engine.ts";

const checkpoint = { config: testConfig, weights: testWeights(3) };
const { contextLength, vocabularySize } = testConfig;
let embedded: EmbeddedEngine;
let handle: (path: string, body: unknown) => Promise<Response>;

beforeAll(() => {
  embedded = createEmbeddedEngine({ checkpoint, threads: 2, cacheTokens: 4096 });
  const front = createSglangFront({ sampler: embedded.sampler, contextLength, vocabularySize });
  handle = (path, body) =>
    front.handle(new Request(`http://model${path}`, { method: "POST", body: JSON.stringify(body) }));
});
afterAll(() => embedded.close());

type Item = {
  readonly output_ids: number[];
  readonly meta_info: {
    readonly output_token_logprobs: [number, number, null][];
    readonly finish_reason: { readonly type: string; readonly matched?: number };
    readonly weight_version: string;
    readonly cached_tokens: number;
  };
};

const bodyOf = (prompt: Uint32Array, sampling: Record<string, unknown>) => ({
  input_ids: [...prompt],
  sampling_params: sampling,
  return_logprob: true,
});

async function generate(prompt: Uint32Array, sampling: Record<string, unknown>): Promise<Item> {
  return (await (await handle("/generate", bodyOf(prompt, sampling))).json()) as Item;
}

function request(prompt: Uint32Array, sampling: Partial<SamplingParams>): SampleRequest {
  return {
    prompt: TokenBuffer.from(prompt),
    sampling: { ...defaultSampling, ...sampling },
    stopTokenIds: [7],
    requestId: "r",
    routingKey: null,
  };
}

test("the front and the engine give the same tokens and logprobs, greedy and sampled", async () => {
  for (const [temperature, top_k] of [
    [0, -1],
    [0.7, -1],
    [1, 5],
  ] as const) {
    // prettier-ignore
    for (let seed = 0; seed < 4; seed++) {
      const prompt = testPrompt(20 + seed, seed);
      const [item, direct] = await Promise.all([
        generate(prompt, { temperature, top_k, max_new_tokens: 12, stop_token_ids: [7], sampling_seed: seed }),
        embedded.sample(request(prompt, { temperature, topK: top_k, maxNewTokens: 12, seed })),
      ]);
      expect(item.output_ids).toEqual([...direct.sampledTokens]);
      expect(Float32Array.from(item.meta_info.output_token_logprobs, ([logprob]) => logprob)).toEqual(direct.logprobs);
      expect(item.meta_info.finish_reason.type).toBe(direct.finish.reason);
    }
  }
});

test("a stream says what the whole answer says, token by token", async () => {
  const prompt = testPrompt(30, 1);
  const sampling = { temperature: 0, max_new_tokens: 8 };
  const whole = await generate(prompt, sampling);
  const response = await handle("/generate", { ...bodyOf(prompt, sampling), stream: true });
  const frames = (await response.text()).split("\n\n").filter((frame) => frame.startsWith("data: {"));
  const items = frames.map((frame): Item => JSON.parse(frame.slice(6)) as Item);
  const lengths = items.map((item) => item.output_ids.length);
  expect(lengths.length).toBeGreaterThan(4);
  expect(lengths).toEqual(lengths.toSorted((a, b) => a - b));
  expect(items.at(-1)?.output_ids).toEqual(whole.output_ids);
});

test("a request is aborted over HTTP with what it has", async () => {
  const running = handle("/generate", { ...bodyOf(testPrompt(9, 1), { max_new_tokens: 200 }), rid: "x" });
  await handle("/pause_generation", { mode: "in_place" });
  await handle("/abort_request", { rid: "x" });
  await handle("/continue_generation", {});
  const { meta_info: meta, output_ids: ids } = (await (await running).json()) as Item;
  expect(meta.finish_reason.type).toBe("abort");
  expect(ids.length).toBeLessThan(200);
});

test("weights are updated from disk, with the version that is given, and another shape is refused", async () => {
  const folder = await mkdtemp(join(tmpdir(), "embedded-"));
  const weights = testWeights(8);
  await writeCheckpoint(folder, { config: testConfig, weights });
  const before = await generate(testPrompt(20, 1), { temperature: 0, max_new_tokens: 12 });
  const answer = await handle("/update_weights_from_disk", { model_path: folder, weight_version: "step-1" });
  expect(answer.status).toBe(200);
  const after = await generate(testPrompt(20, 1), { temperature: 0, max_new_tokens: 12 });
  expect(after.meta_info.weight_version).toBe("step-1");
  expect(after.output_ids).not.toEqual(before.output_ids);

  const config = { ...testConfig, layers: 1 };
  await writeCheckpoint(folder, { config, weights: weights.slice(0, weights.length - 5000) }).catch(() => {});
  expect((await handle("/update_weights_from_disk", { model_path: folder })).status).toBe(400);
  await rm(folder, { recursive: true });
});

test("new weights in the middle of a request: the reply names which weights sampled which tokens", async () => {
  const folder = await mkdtemp(join(tmpdir(), "embedded-"));
  await writeCheckpoint(folder, { config: testConfig, weights: testWeights(9) });
  const countOf = 240;
  const attempt = async (version: string): Promise<unknown[]> => {
    const sampling = { max_new_tokens: countOf, temperature: 0 };
    const streamed = { ...bodyOf(testPrompt(9, 1), sampling), stream: true };
    const reader = (await handle("/generate", streamed)).body!.getReader();
    await reader.read();
    await handle("/pause_generation", { mode: "in_place" });
    await handle("/update_weights_from_disk", { model_path: folder, weight_version: version });
    await handle("/continue_generation", {});
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += new TextDecoder().decode(part.value as Uint8Array);
    }
    const last = text.split("\n\n").findLast((frame) => frame.startsWith("data: {")) ?? "";
    const { meta_info: meta } = JSON.parse(last.slice(6)) as { readonly meta_info: { weight_versions: unknown[] } };
    return meta.weight_versions;
  };
  // A request that ended before its server paused has only one version; then the test tries another
  // one.
  let spans: unknown[] = [];
  for (let count = 0; count < 50 && spans.length < 2; count++) spans = await attempt(`w${count}`);
  expect(spans).toHaveLength(2);
  const [first, second] = spans as { readonly version: string; readonly start: number; readonly end: number }[];
  expect([first?.start, second?.start, second?.end]).toEqual([0, first?.end, countOf]);
  expect(second?.version).toMatch(/^w\d+$/);
  expect(first?.end).toBeGreaterThan(0);
  await rm(folder, { recursive: true });
});

test("diverged weights are refused by the server, and so is a reply whose logits are not numbers", async () => {
  const folder = await mkdtemp(join(tmpdir(), "embedded-"));
  const weights = testWeights(8);
  weights[3] = Infinity;
  await writeCheckpoint(folder, { config: testConfig, weights });
  const refused = await handle("/update_weights_from_disk", { model_path: folder, weight_version: "step-3" });
  expect([refused.status, await refused.json()]).toMatchObject([400, { success: false }]);
  await writeCheckpoint(folder, { config: testConfig, weights: testWeights(8).map((weight) => weight * 1e30) });
  expect((await handle("/update_weights_from_disk", { model_path: folder })).status).toBe(200);
  const answer = await handle("/generate", bodyOf(testPrompt(9, 1), { max_new_tokens: 4 }));
  expect([answer.status, await answer.text()]).toEqual([500, expect.stringContaining("all logits are 0")]);
  await rm(folder, { recursive: true });
});
