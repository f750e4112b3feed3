// `engine` from its users' side: a model folder, a port, and any client of SGLang.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultSampling, TokenBuffer } from "../core/index.ts";
import { loadEmbeddedEngine } from "../engines/embedded/index.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { initializeWeights, type ModelConfig, writeCheckpoint } from "../learner/model/index.ts";
import { readEpisodes } from "../store/index.ts";
import { trainChatTokenizer } from "../tokenizers/index.ts";
import { createTestCli, runServer } from "./cli.test-helper.ts";

const config: ModelConfig = {
  // A few tokens more than the tokenizer has: models pad their vocabulary, and may sample
  // meaningless ids.
  vocabularySize: 272,
  hiddenSize: 32,
  layers: 2,
  heads: 2,
  keyValueHeads: 1,
  headSize: 16,
  feedForwardSize: 48,
  ropeTheta: 1_000_000,
  normEpsilon: 1e-6,
  contextLength: 8192,
};
// A tokenizer of bytes and added tokens, without merges.
const { tokenizerJson, tokenizerConfig } = trainChatTokenizer([], { vocabularySize: 265 });
const added = tokenizerJson["added_tokens"] as readonly { readonly id: number; readonly content: string }[];
const endTokenId = added.find(({ content }) => content === "<|im_end|>")?.id ?? 0;
let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "model-"));
  await writeFile(join(folder, "tokenizer.json"), JSON.stringify(tokenizerJson));
  await writeFile(join(folder, "tokenizer_config.json"), JSON.stringify(tokenizerConfig));
  await writeCheckpoint(folder, { config, weights: initializeWeights(config, { seed: 1 }) }, { endTokenId });
});
afterAll(() => rm(folder, { recursive: true }));

/** Runs `use` while the server serves. */
const whileServing = (use: (url: string) => Promise<void>, ...flags: readonly string[]): Promise<unknown> =>
  runServer(use, {
    argv: ["engine", "--model", folder, "--port", "0", "--threads", "1", ...flags],
    env: { ENGINE_KEY: "sesame" },
  });

describe("engine", () => {
  test("samples over HTTP what the engine samples in the process, greedy and from a seed", async () => {
    const embedded = await loadEmbeddedEngine(folder, { threads: 1 });
    await whileServing(async (url) => {
      const remote = createSglangEngine({ url });
      for (const temperature of [0, 1]) {
        const request = {
          prompt: TokenBuffer.from([70, 71, 72, 73]),
          sampling: { ...defaultSampling, temperature, maxNewTokens: 24, seed: 5 },
          stopTokenIds: [endTokenId],
          requestId: `r${temperature}`,
          routingKey: null,
        };
        const [there, here] = [await remote.sample(request), await embedded.sample(request)];
        expect(there.sampledTokens).toEqual(here.sampledTokens);
        expect(there.logprobs).toEqual(here.logprobs);
      }
      await remote.close();
    });
    await embedded.close();
  });

  test("plays episodes with a model that has learned nothing: no turn crashes anything, every token is accounted for", async () => {
    await whileServing(async (url) => {
      const { run, folder: home } = await createTestCli();
      const flags = ["--tasks", "0-1", "--max-turns", "3", "--max-new-tokens", "16", "--quiet", "--out", "r"];
      const { code, stderr } = await run("rollout", "--url", url, "--model", folder, ...flags);
      expect([code, stderr]).toEqual([0, expect.not.stringContaining("Cannot")]);
      const outcomes: string[] = [];
      for await (const episode of readEpisodes(join(home, "r"))) outcomes.push(episode.outcome);
      expect(outcomes).toEqual(["truncated", "truncated"]);
    });
  });

  test("without a key it does nothing for pages of other sites, which a browser lets send requests without a body", async () => {
    await whileServing(async (url) => {
      const pause = (headers: Record<string, string>): Promise<Response> =>
        fetch(`${url}/pause_generation`, { method: "POST", headers });
      expect((await pause({ origin: "https://example.com" })).status).toBe(403);
      expect((await pause({ origin: url })).status).not.toBe(403);
    });
  });

  test("a fresh server takes a version by name, keeps it, and says whether it is ready", async () => {
    await whileServing(async (url) => {
      const post = async (path: string, body: unknown): Promise<unknown> =>
        (await fetch(`${url}${path}`, { method: "POST", body: JSON.stringify(body) })).json();
      expect((await fetch(`${url}/ready`)).status).toBe(200);
      expect(await post("/update_weight_version", { new_version: "step-4" })).toMatchObject({ success: true });
      const generate = { input_ids: [70], sampling_params: { max_new_tokens: 2 } };
      for (let call = 0; call < 2; call++) {
        const { meta_info: meta } = (await post("/generate", generate)) as { meta_info: Record<string, unknown> };
        expect(meta["weight_version"]).toBe("step-4");
        expect(meta["weight_versions"]).toEqual([{ version: "step-4", start: 0, end: meta["completion_tokens"] }]);
      }
      expect(await (await fetch(`${url}/model_info`)).json()).toMatchObject({ weight_version: "step-4" });
      await post("/pause_generation", { mode: "in_place" });
      expect((await fetch(`${url}/ready`)).status).toBe(503);
      await post("/continue_generation", {});
    });
  });

  test("the running reply comes whole when the server is told to end", async () => {
    let running: Promise<Response> | null = null;
    await whileServing(async (url) => {
      const sampling = { max_new_tokens: 400, ignore_eos: true };
      const body = JSON.stringify({ input_ids: [70], sampling_params: sampling });
      running = fetch(`${url}/generate`, { method: "POST", body });
      for (;;) {
        const { loads } = (await (await fetch(`${url}/v1/loads`)).json()) as { loads: { num_running_reqs: number }[] };
        if (loads[0]!.num_running_reqs > 0) break;
      }
    });
    expect(await (await running!).json()).toMatchObject({ meta_info: { completion_tokens: 400 } });
  });

  test("takes new weights from disk under a new version, forgets prefixes, and wants its key", async () => {
    await whileServing(
      async (url) => {
        const post = (path: string, body: unknown, key = "sesame"): Promise<Response> =>
          fetch(`${url}${path}`, {
            method: "POST",
            body: JSON.stringify(body),
            headers: { authorization: `Bearer ${key}` },
          });
        expect((await post("/generate", { input_ids: [70] }, "wrong")).status).toBe(401);
        expect((await post("/update_weights_from_disk", { model_path: folder, weight_version: "7" })).status).toBe(200);
        const answer = await post("/generate", { input_ids: [70], sampling_params: { max_new_tokens: 1 } });
        expect(await answer.json()).toMatchObject({ meta_info: { weight_version: "7" } });
        expect((await post("/flush_cache", {})).status).toBe(200);
        const refused = await post("/update_weights_from_disk", { model_path: join(folder, "nowhere") });
        expect([refused.status, await refused.json()]).toMatchObject([400, { success: false }]);
      },
      "--api-key-env",
      "ENGINE_KEY",
    );
  });

  test.each([
    [["--port", "high"], 'Cannot use --port: it is "high", expected a whole number from 0 to 65535.'],
    [["--host", "0.0.0.0"], "Cannot listen on 0.0.0.0 without a key"],
    [["--api-key-env", "NO_SUCH_KEY"], 'environment variable "NO_SUCH_KEY" is not set'],
    [["--model", "nowhere"], "nowhere"],
  ])("says what is wrong with %j", async (flags, message) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("engine", ...flags);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
