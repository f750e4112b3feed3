// A rollout of upstream's retail domain by its command; in a file of its own, which is also run
// with ../shared.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { createTestCli } from "./cli.test-helper.ts";

const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;

describe.skipIf(sharedFolder("tau-bench", "retail") === null)(
  "tau-bench (skipped without ../shared/tau-bench/retail)",
  () => {
    it("plays retail with a scripted user", async () => {
      const { run, folder } = await createTestCli();
      await writeFile(join(folder, "lines.txt"), "Hi, where is my order?\nThanks. ###STOP###\n");
      const speech = [...tokenizer.encode("Which order is it?"), endTokenId];
      const sampler = createFunctionSampler(() => ({ ids: speech }));
      const listener = await createSglangFront({ sampler, tokenizer, endTokenIds: [endTokenId] }).listen();
      const flags = ["--env", "tau-bench/retail", "--data", sharedFolder("tau-bench")!, "--tasks", "0-1"];
      const server = ["--user-lines", "lines.txt", "--url", listener.url, "--model", "readable"];
      try {
        const { code, stdout } = await run("rollout", ...flags, ...server, "--out", "r");
        expect(code).toBe(0);
        expect(stdout).toContain("tau-bench/retail (test)");
        expect(stdout).toMatch(/stop reasons +user_hung_up 2/);
        const { stdout: shown } = await run("inspect", "r", "1");
        expect(shown).toContain("agent: Which order is it?");
      } finally {
        await listener.close();
      }
    });
  },
);
