// The command line with vLLM servers, with several servers, and with a paused one.

import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createSglangFront, createVllmFront, type FrontListener, type Sampler } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { createTestCli, readAll } from "./cli.test-helper.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";

const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;
const sampler = createExpertSampler({ tokenizer, noise: 0.1 });

async function samplesOf(engine: "sglang" | "vllm", listener: FrontListener): Promise<readonly unknown[]> {
  const { run, folder } = await createTestCli();
  const given = ["--engine", engine, "--url", listener.url, "--model", "readable", "--tasks", "0-3", "--out", "runs/a"];
  const { code, stdout } = await run("rollout", ...given, "--seed-turns", "--write-samples");
  await listener.close();
  expect(stdout).toMatch(/episodes +4 of 4/);
  expect(code).toBe(0);
  const text = (await readAll(join(folder, "runs/a"))).get("samples.jsonl") ?? "";
  // Rows are sorted, because episodes end in any order.
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const { tokens, loss_mask, rollout_log_probs } = JSON.parse(line) as Readonly<Record<string, unknown>>;
      return JSON.stringify({ tokens, loss_mask, rollout_log_probs });
    })
    .toSorted();
}

describe("rollout --engine vllm", () => {
  it("plays the same samples as --engine sglang when the same sampler answers", async () => {
    const sglang = createSglangFront({ sampler, tokenizer, endTokenIds: [endTokenId] });
    const wanted = await samplesOf("sglang", await sglang.listen());
    expect(wanted.length).toBeGreaterThan(0);
    expect(wanted[0]).toMatch(/"tokens":\[\d+,/);
    for (const version of ["0.32.0", "0.12.0", "0.10.2"] as const) {
      const front = createVllmFront({ sampler, version, endTokenIds: [endTokenId] });
      expect(await samplesOf("vllm", await front.listen())).toEqual(wanted);
    }
  });

  it.each([
    [-99, false],
    [-9999, true],
  ])("takes the logprob %d, and counts what is below -100", async (logprob, isCounted) => {
    const unlikely: Sampler = {
      sample: async (asked) => {
        const output = await sampler.sample(asked);
        return { ...output, logprobs: Array.from(output.ids, () => logprob) };
      },
    };
    const listener = await createVllmFront({ sampler: unlikely, endTokenIds: [endTokenId] }).listen();
    const { run } = await createTestCli();
    const given = ["--engine", "vllm", "--url", listener.url, "--model", "readable", "--tasks", "0", "--out", "runs/a"];
    const { code, stdout, stderr } = await run("rollout", ...given);
    await listener.close();
    expect(code).toBe(0);
    const counted = /unlikely tokens +([\d,]+) sampled/.exec(stdout + stderr)?.[1] ?? null;
    expect(counted).toBe(isCounted ? /sampled tokens +([\d,]+),/.exec(stdout + stderr)?.[1] : null);
  });

  it.each([
    [["--url", "http://127.0.0.1:1", "--model", "readable"], "Cannot reach the vLLM server at http://127.0.0.1:1"],
    [[], 'Cannot roll out with engine "vllm": no model is named'],
    [["--model", "readable", "--preset", "slime-tau"], "the preset speaks to SGLang"],
    [["--url", "http://127.0.0.1:1,", "--model", "readable"], "an address is empty or repeated"],
    [["--url", "http://a:1,http://u:sesame-pw@a:2/v1", "--model", "readable"], "it contains a user name or password"],
    [
      ["--url", "http://127.0.0.1:1", "--model", "readable", "--engine-wait", "0"],
      "expected a number of seconds above 0",
    ],
    [["--url", "http://127.0.0.1:1", "--model", "readable", "--max-pause", "0"], "Cannot use --max-pause"],
    [["--model", "readable", "--logprobs-mode", "cooked"], "expected raw or processed"],
    [["--model", "readable", "--endpoint", "chat"], "expected auto, generate or completions"],
  ])("with %j is refused before anything is played", async (more, words) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("rollout", "--engine", "vllm", "--tasks", "0", ...more);
    expect(code).toBe(2);
    expect(stderr).toContain(words);
    expect(stderr).not.toContain("sesame");
  });
});

describe("rollout --url with several addresses", () => {
  it("shares the episodes, and plays them all when one of the servers goes", async () => {
    const answers = [0, 0];
    const listeners = await Promise.all(
      answers.map((_, server) => {
        const counting: Sampler = {
          sample: (asked) => {
            answers[server]!++;
            // The first server closes in the middle of its work.
            if (server === 0 && answers[0] === 15) void listeners[0]!.close();
            return sampler.sample(asked);
          },
        };
        return createSglangFront({ sampler: counting, tokenizer, endTokenIds: [endTokenId] }).listen();
      }),
    );
    const { run } = await createTestCli();
    const url = listeners.map((listener) => listener.url).join(",");
    const given = ["--url", url, "--model", "readable", "--tasks", "0-19", "--seed-turns", "--out", "runs/a"];
    const { code, stdout, stderr } = await run("rollout", ...given);
    await Promise.all(listeners.map((listener) => listener.close()));
    expect(stdout).toMatch(/episodes +20 of 20/);
    expect(stderr).toContain(
      `The server at ${listeners[0]!.url} failed 5 times in a row and is left alone until it is back`,
    );
    expect(code).toBe(0);
    expect(Math.min(...answers)).toBeGreaterThan(10);
  });
});

describe("rollout --max-pause", () => {
  it("bounds how long a turn that was aborted waits for a server that stays paused", async () => {
    const pausing: Sampler = {
      sample: (_, { signal }) => {
        const body = JSON.stringify({ mode: "abort" });
        const headers = { "content-type": "application/json" };
        void fetch(`${listener.url}/pause_generation`, { method: "POST", headers, body });
        return new Promise((resolve) => {
          const partial = { ids: [70], logprobs: [-1], finish: "abort", cachedTokens: 0, weightVersion: null } as const;
          signal.addEventListener("abort", () => resolve(partial), { once: true });
        });
      },
    };
    const listener = await createSglangFront({ sampler: pausing, tokenizer, endTokenIds: [endTokenId] }).listen();
    const { run, folder } = await createTestCli();
    const given = ["--url", listener.url, "--model", "readable", "--tasks", "0", "--out", "runs/a"];
    await run("rollout", ...given, "--max-pause", "0.3");
    await listener.close();
    const episode = JSON.parse((await readAll(join(folder, "runs/a"))).get("episodes.jsonl") ?? "{}") as unknown;
    expect(episode).toMatchObject({ outcome: "failed", failure: { boundary: "engine", code: "timeout" } });
    expect(JSON.stringify(episode)).toContain("the limit is 300 ms");
  });
});
