// An agent behind an API on the command line, with a chat completion server that acts as the
// bookshop's expert.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { expertAction } from "../environments/bookshop/index.ts";
import { createTestCli } from "./cli.test-helper.ts";
import type { RolloutJson } from "./json-results.ts";

type Body = {
  readonly model: string;
  readonly temperature?: number;
  readonly max_tokens?: number;
  readonly tools?: readonly unknown[];
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | null;
    readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[];
  }[];
};

const asked: { readonly body: Body; readonly authorization: string | undefined }[] = [];
const key = "sk-open-sesame-123";

/** The conversation in the form that the expert reads. */
function promptOf({ messages }: Body): string {
  const blocks = messages.map(({ role, content, tool_calls }) => {
    const call = tool_calls?.[0]?.function;
    if (call !== undefined) {
      const json = `{"name": "${call.name}", "arguments": ${call.arguments}}`;
      return `<|im_start|>assistant\n<tool_call>\n${json}\n</tool_call><|im_end|>\n`;
    }
    const text = role === "tool" ? `<tool_response>\n${content}\n</tool_response>` : content;
    return `<|im_start|>${role === "tool" ? "user" : role}\n${text}<|im_end|>\n`;
  });
  return `${blocks.join("")}<|im_start|>assistant\n`;
}

const server = createServer((incoming, outgoing) => {
  let text = "";
  incoming.setEncoding("utf8").on("data", (part: string) => (text += part));
  incoming.on("end", () => {
    // The program checks that the model exists before it runs an episode.
    if (incoming.method === "GET") {
      outgoing.writeHead(404).end();
      return;
    }
    const body = JSON.parse(text) as Body;
    asked.push({ body, authorization: incoming.headers.authorization });
    const action = expertAction(promptOf(body)).text;
    const json = /<tool_call>\n([^]*)\n<\/tool_call>/.exec(action)?.[1];
    const call =
      json === undefined ? null : (JSON.parse(json) as { readonly name: string; readonly arguments: object });
    const message =
      call === null
        ? { role: "assistant", content: action }
        : {
            role: "assistant",
            content: null,
            tool_calls: [{ id: "c", function: { name: call.name, arguments: JSON.stringify(call.arguments) } }],
          };
    const usage = { prompt_tokens: 1000, completion_tokens: 100 };
    outgoing.writeHead(200, { "content-type": "application/json" });
    outgoing.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }], usage }));
  });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
afterAll(() => server.close());

describe("--agent-model", () => {
  it("evaluates a model behind an API, without a tokenizer, and says that there is nothing to train", async () => {
    const { run, folder } = await createTestCli({ MY_KEY: key });
    const agent = ["--agent-model", "gpt-4o-mini", "--agent-url", url, "--agent-api-key-env", "MY_KEY"];
    const flags = ["--tasks", "0-3", "--trials", "2", "--temperature", "0", "--quiet", "--out", "r"];
    const { code, stdout, stderr } = await run("eval", ...agent, ...flags);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("8, 8 graded, 8 successes");
    expect(stdout).toMatch(/agent cost +\$0\.0/);
    const results = await readFile(join(folder, "r", "results.json"), "utf8");
    const calls = asked.length;
    expect((JSON.parse(results) as { readonly agentCost: number }).agentCost).toBeCloseTo(
      calls * (1000 * 0.15e-6 + 100 * 0.6e-6),
    );
    const [first] = asked;
    expect(first?.authorization).toBe(`Bearer ${key}`);
    expect([first?.body.model, first?.body.temperature, first?.body.max_tokens]).toEqual(["gpt-4o-mini", 0, undefined]);
    expect(first?.body.tools?.length).toBeGreaterThan(3);

    const kept = await readFile(join(folder, "r", "episodes.jsonl"), "utf8");
    expect(
      kept
        .trim()
        .split("\n")
        .every((line) => line.includes('"historyPolicy":"no-tokens"')),
    ).toBe(true);
    expect(await readFile(join(folder, "r", "samples.jsonl"), "utf8").catch(() => "")).toBe("");
    const manifest = await readFile(join(folder, "r", "run.json"), "utf8");
    expect(JSON.parse(manifest)).toMatchObject({ model: null, engine: null, agent: { name: "gpt-4o-mini" } });
    for (const text of [results, kept, manifest, stdout]) expect(text).not.toContain(key);

    const shown = await run("inspect", "r", "1");
    expect(shown.stdout).toContain("agent calls");
    expect((await run("inspect", "r", "1", "--tokens")).stdout).toContain("there are no tokens");
  });

  it("rolls out, too, and counts calls and cost in the closing table", async () => {
    const { run } = await createTestCli();
    const { code, stdout } = await run(
      "rollout",
      "--agent-model",
      "m",
      "--agent-url",
      url,
      "--tasks",
      "0-1",
      "--quiet",
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(/agent model +\d+ calls, price unknown/);
  });

  it("plays few-shot with the displays of a file, which the model is shown", async () => {
    const { run, folder } = await createTestCli();
    const lines = ["one", "two", "three", "four", "five"].map((text) => JSON.stringify({ messages_display: text }));
    await writeFile(join(folder, "few.jsonl"), `${lines.join("\n")}\n`);
    const from = asked.length;
    const agent = ["--agent-model", "m", "--agent-url", url, "--strategy", "few-shot", "--displays", "few.jsonl"];
    expect(await run("rollout", ...agent, "--tasks", "0", "--quiet")).toMatchObject({ code: 0, stderr: "" });
    const system = asked[from]?.body.messages[0]?.content ?? "";
    expect(system.match(/Example \d:\n(one|two|three|four|five)/g)?.length).toBe(5);
  });

  it("takes the instruction of act from a file", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "act.txt"), "Just act.\n");
    const from = asked.length;
    const agent = ["--agent-model", "m", "--agent-url", url, "--strategy", "act", "--instruction", "act.txt"];
    await run("rollout", ...agent, "--tasks", "0", "--max-turns", "2", "--quiet");
    expect(asked[from]?.body.messages[0]?.content).toMatch(/\}\]\nJust act\.\n$/);
    expect(asked[from]?.body.tools).toBeUndefined();
  });

  it.each([
    [["--instruction", "x"], 'Cannot use --instruction with strategy "tool-calling"'],
    [["--strategy", "react", "--displays", "x", "--agent-model", "m", "--agent-url", url], "Cannot use --displays"],
    [["--strategy", "few-shot"], "there are no example conversations"],
    [["--strategy", "few-shot", "--displays", "none.jsonl"], 'Cannot read "none.jsonl"'],
    [["--agent-url", url], "no model is named"],
    [["--agent-model", "m", "--agent-url", url, "--model", "readable"], "Cannot use --model with --agent-model"],
    [["--agent-model", "m", "--agent-url", url, "--top-k", "5"], "pass it in --sampling-extra"],
    [["--agent-model", "m"], 'Cannot create the agent with model "m": it names no provider'],
    [["--agent-model", "m", "--agent-url", url, "--agent-api-key-env", "NONE"], '"NONE" is not set'],
    [["--strategy", "react"], 'Cannot run strategy "react" with engine "expert"'],
    [["--strategy", "magic"], "use one of tool-calling, act, react, few-shot"],
  ])("refuses %j before anything is asked", async (flags, state) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("rollout", ...flags);
    expect(code).toBe(2);
    expect(stderr).toContain(state);
  });

  it("stops at --max-cost, says so, and resumes with more", async () => {
    const { run, folder } = await createTestCli();
    const flags = [
      "--agent-model",
      "own/agent",
      "--agent-url",
      url,
      "--group-size",
      "4",
      "--tasks",
      "0-3",
      "--concurrency",
      "1",
    ];
    const unpriced = await run("rollout", ...flags, "--max-cost", "1", "--out", "a");
    expect(unpriced.code).toBe(2);
    expect(unpriced.stderr).toContain('the price of "own/agent" is not known; add it to a file passed with --prices');
    // A call has 1,100 tokens and costs a dollar.
    await writeFile(join(folder, "prices.json"), JSON.stringify({ agent: { input: 900, output: 1000 } }));
    const priced = [...flags, "--prices", "prices.json"];
    const { code, stdout, stderr } = await run("rollout", ...priced, "--max-cost", "12.5", "--out", "a", "--json");
    const stopped = JSON.parse(stdout) as RolloutJson;
    expect(code).toBe(130);
    expect(stderr).toMatch(
      /The budget of \$12\.5 is spent \(\$\d+\.0000\): no other episode begins, .* Resume the run with a larger --max-cost\./,
    );
    expect(stopped).toMatchObject({ status: "interrupted", isResumable: true });
    expect(stopped.totals.agentCost).toBeGreaterThanOrEqual(12.5);
    expect(stopped.totals.episodesFinished).toBeLessThan(16);
    const resumed = await run("rollout", "--resume", "a", "--max-cost", "1000", "--json");
    const { totals, status } = JSON.parse(resumed.stdout) as RolloutJson;
    expect([resumed.code, status, totals.episodesFinished]).toEqual([0, "done", 16]);
    expect(totals.agentCost).toBe(totals.agentModelCalls);
    await writeFile(join(folder, "prices.json"), '{"agent": {"input": -1, "output": 1}}');
    expect((await run("rollout", ...priced, "--out", "b")).stderr).toContain('"agent.input" is not a price');
  });
});
