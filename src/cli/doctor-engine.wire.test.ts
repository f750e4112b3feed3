import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { describe, expect, test } from "vitest";

import { createSglangFront, type Sampler } from "../testing/index.ts";
import { createTestCli } from "./cli.test-helper.ts";

const sampler: Sampler = {
  sample: async ({ params }, { signal, onTokens }) => {
    const ids = Array.from({ length: Math.min(8, params.maxNewTokens) }, () => 7);
    const logprobs = ids.map(() => -0.5);
    onTokens(ids, logprobs);
    if (params.maxNewTokens > 8 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    return { ids, logprobs, finish: signal.aborted ? "abort" : "end", cachedTokens: 0, weightVersion: null };
  },
};

describe("doctor engine", () => {
  test("prints every check, whole and streamed, and ends with 0", async () => {
    const front = createSglangFront({ sampler, contextLength: 2048, vocabularySize: 100, apiKey: "sesame" });
    const listener = await front.listen();
    const { run } = await createTestCli({ KEY: "sesame" });
    const { code, stdout, stderr } = await run("doctor", "engine", "--url", listener.url, "--api-key-env", "KEY");
    await listener.close();
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("2048 tokens of context");
    expect(stdout).toMatch(/^ +whole +ok +abort\(\) ends the request of that id and no other$/m);
    expect(stdout).toMatch(/^ +streamed +not applicable +pause\(\) in mode abort .*--exclusive/m);
    expect(stdout).toMatch(/^26 ok, 0 failed, 46 not applicable$/m);
  });

  test("names what a server does wrong, as JSON too, and ends with 1", async () => {
    // A server that answers every request with nine tokens and no logprob.
    const meta = {
      id: "x",
      finish_reason: { type: "length", length: 9 },
      completion_tokens: 9,
      weight_version: "default",
    };
    const reply = JSON.stringify({ text: "", output_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9], meta_info: meta });
    const server = createServer((request, response) => {
      request.resume().on("end", () => response.end(request.url === "/v1/models" ? '{"data":"none"}' : reply));
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { run } = await createTestCli();
    const { code, stdout } = await run("doctor", "engine", "--url", url, "--json");
    server.close();
    server.closeAllConnections();
    expect(code).toBe(1);
    const { contextTokens, checks } = JSON.parse(stdout) as {
      contextTokens: number | null;
      checks: { mode: string; name: string; result: string; reason: string | null }[];
    };
    expect(contextTokens).toBeNull();
    const failed = checks.filter(({ result }) => result === "failed");
    expect(failed).toContainEqual({
      mode: "whole",
      name: "every sampled token has a logprob",
      result: "failed",
      reason: expect.stringContaining("logprobs are missing") as string,
    });
    expect(failed.map(({ mode, name }) => `${mode}: ${name}`)).toContain(
      "streamed: a reply that fills the bound ends with length",
    );
    expect(checks).toContainEqual(expect.objectContaining({ reason: "the length of the context is not known" }));
  });

  test.each([
    [[], "none is named; pass --url"],
    [["--url", "http://127.0.0.1:1"], "Cannot reach http://127.0.0.1:1"],
    [["--url", "http://127.0.0.1:1", "--engine", "embedded"], "use --engine sglang or vllm"],
    [["--url", "nowhere:"], "nowhere"],
  ])("%j is refused with code 2", async (flags, message) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("doctor", "engine", ...flags);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
