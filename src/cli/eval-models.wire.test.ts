// Models behind an API in an evaluation: the simulated user with the prompts of its data folder, and the judge.

import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { createTestCli } from "./cli.test-helper.ts";

const tauBench = sharedFolder("tau-bench");
const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;

type Message = { readonly role: string; readonly content: string };
const asked: { readonly model: string; readonly messages: readonly Message[] }[] = [];
const server = createServer((incoming, outgoing) => {
  let text = "";
  incoming.setEncoding("utf8").on("data", (part: string) => (text += part));
  incoming.on("end", () => {
    // The program checks that the model exists before it runs an episode.
    if (incoming.method === "GET") {
      outgoing.writeHead(404).end();
      return;
    }
    const body = JSON.parse(text) as (typeof asked)[number];
    asked.push(body);
    const words = body.messages.length > 2 ? "Bye. ###STOP###" : "Hello.";
    const content = body.model === "judge" ? "fault: environment\nbecause: Nobody told it." : words;
    outgoing.writeHead(body.model === "broken" ? 401 : 200, { "content-type": "application/json" });
    outgoing.end(JSON.stringify({ choices: [{ message: { role: "assistant", content }, finish_reason: "stop" }] }));
  });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
afterAll(() => server.close());

const sampler = createFunctionSampler(() => ({ ids: [...tokenizer.encode("What can I do?"), endTokenId] }));

describe.skipIf(tauBench === null)("eval with models behind an API (skipped without ../shared/tau-bench)", () => {
  /** A data folder whose user prompts are marked, and an evaluation of its first task. */
  async function prepare() {
    const { run, folder } = await createTestCli();
    await mkdir(join(folder, "data"));
    await symlink(join(tauBench!, "airline"), join(folder, "data", "airline"));
    const prompts = Object.fromEntries(
      ["system", "react_system"].flatMap((key) => [
        [key, `MARKED ${key}: {instruction}`],
        [`${key}_without_instruction`, `MARKED ${key}`],
      ]),
    );
    const reviews = { check: "MARKED {transcript} {response}", reflect: "MARKED {transcript} {response}" };
    await writeFile(
      join(folder, "data", "user_prompts.json"),
      JSON.stringify({ greeting: "MARKED greeting", ...prompts, ...reviews }),
    );
    const front = await createSglangFront({ sampler, tokenizer, endTokenIds: [endTokenId] }).listen();
    const flags = [
      "--env",
      "tau-bench/airline",
      "--data",
      "data",
      "--tasks",
      "0",
      "--url",
      front.url,
      "--model",
      "readable",
    ];
    const user = ["--user-model", "m", "--user-url", url, "--out", "r", "--quiet"];
    return {
      folder,
      evaluate: async (...more: readonly string[]) => {
        asked.length = 0;
        const result = await run("eval", ...flags, ...user, ...more);
        await front.close();
        return result;
      },
    };
  }

  it("plays the user with the prompts of the data folder, unless our own are asked for", async () => {
    const marked = await prepare();
    expect(await marked.evaluate()).toMatchObject({ code: 0, stderr: "" });
    expect(asked[0]?.messages.map(({ content }) => content)).toEqual([
      expect.stringMatching(/^MARKED system: Your user id is mia_li_3668\./),
      "MARKED greeting",
    ]);
    const own = await prepare();
    await own.evaluate("--user-prompts", "own");
    expect(JSON.stringify(asked)).not.toContain("MARKED");
    const upstream = await prepare();
    await upstream.evaluate("--user-compat", "upstream");
    // Upstream starts a conversation without an instruction first, and discards it.
    expect(asked[0]?.messages[0]?.content).toBe("MARKED system");
    expect(asked[1]?.messages[0]?.content).toMatch(/^MARKED system: Your/);
  });

  it("asks the judge about failures that no rule explains, and goes on without it when it is not there", async () => {
    const judged = await prepare();
    const { stdout } = await judged.evaluate("--judge-model", "judge", "--judge-url", url);
    expect(stdout).toContain("environment: model-judge");
    const results = JSON.parse(await readFile(join(judged.folder, "r", "results.json"), "utf8")) as {
      scores: { fault: unknown; reward: number }[];
    };
    expect(results.scores).toMatchObject([
      { reward: 0, fault: { fault: "environment", evidence: "Nobody told it.", by: "judge" } },
    ]);
    const broken = await prepare();
    const alone = await broken.evaluate("--judge-model", "broken", "--judge-url", url);
    expect(alone.stderr).toContain("Note: the judge did not answer, rules alone decide");
    expect(alone.stdout).toContain("agent: nothing-else-explains-it");
    expect(alone.code).toBe(0);
  });
});
