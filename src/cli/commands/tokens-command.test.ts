import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import pc from "picocolors";
import { describe, expect, test } from "vitest";

import { repositoryRoot } from "../../../tests/conformance/shared-folder.ts";
import { createTestCli, type TestCli } from "../cli.test-helper.ts";
import { storyView, type StoryToken, type TokenStory } from "../tokens/episode-story.ts";

const call = { id: "c1", type: "function", function: { name: "find_order", arguments: '{"order_id": "#W7"}' } };
const messages = [
  { role: "system", content: "You work in a bookshop." },
  { role: "user", content: [{ type: "text", text: "Where is order #W7?" }] },
  { role: "assistant", content: null, tool_calls: [call] },
  { role: "tool", tool_call_id: "c1", content: '{"status": "shipped"}' },
  { role: "assistant", content: "It is on its way." },
  { role: "user", content: "Thanks." },
];
const tools = [{ type: "function", function: { name: "find_order", parameters: { type: "object", properties: {} } } }];
const thoughts = [
  { role: "user", content: "hi" },
  { role: "assistant", content: "Hello!", reasoning_content: "I greet." },
  { role: "user", content: "bye" },
  { role: "assistant", content: "Bye." },
];

async function withFile(name: string, text: string): Promise<TestCli> {
  const cli = await createTestCli();
  await writeFile(join(cli.folder, name), text);
  return cli;
}

/** The story of a conversation, rendered without model files. */
async function story(value: unknown, ...flags: readonly string[]): Promise<TokenStory> {
  const { run } = await withFile("c.json", JSON.stringify(value));
  const { code, stdout, stderr } = await run("tokens", "c.json", "--json", ...flags);
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as TokenStory;
}

const textOf = (tokens: readonly StoryToken[]): string => tokens.map(({ text }) => text).join("");

describe("tokens of a conversation file", () => {
  test("trains answers with their end tokens and nothing else", async () => {
    const { samples, renderer } = await story({ messages, tools });
    expect([renderer, samples.length]).toEqual(["qwen2.5-instruct", 1]);
    const [sample] = samples;
    expect(textOf(sample!.tokens.filter(({ isTrained }) => isTrained))).toBe(
      '<tool_call>\n{"name": "find_order", "arguments": {"order_id": "#W7"}}\n</tool_call><|im_end|>It is on its way.<|im_end|>',
    );
    expect(sample!.tokens.every(({ isSampled, isTrained }) => isSampled === isTrained)).toBe(true);
    expect(textOf(sample!.tokens.slice(-3))).toBe("<|im_start|>assistant\n");
  });

  test("says of every token where it comes from", async () => {
    const { samples } = await story({ messages, tools });
    const runs: [string, string][] = [];
    for (const { role, text } of samples[0]!.tokens) {
      const last = runs.at(-1);
      if (last?.[0] === role) last[1] += text;
      else runs.push([role, text]);
    }
    expect(runs.map(([role]) => role)).toEqual(
      ["system", "user", "prompt", "assistant", "template", "tool", "prompt", "assistant", "template", "user", "prompt"], // prettier-ignore
    );
    expect(runs[4]).toEqual(["template", "\n"]);
    expect(runs[5]![1]).toBe('<|im_start|>user\n<tool_response>\n{"status": "shipped"}\n</tool_response><|im_end|>\n');
  });

  test("keeps thinking in one row, or starts a branch, as --history says", async () => {
    const template = [
      "--template",
      join(repositoryRoot(), "examples", "thinking-template.jinja"),
      "--renderer",
      "qwen3",
    ];
    const kept = await story(thoughts, ...template);
    expect(kept.samples.map(({ tokens }) => textOf(tokens.filter(({ isTrained }) => isTrained)))).toEqual([
      "<think>\nI greet.\n</think>\n\nHello!<|im_end|>Bye.<|im_end|>",
    ]);
    const { samples } = await story(thoughts, ...template, "--history", "branch");
    expect(samples.map(({ rewriteReason }) => rewriteReason)).toEqual([
      null,
      'the chat template of "qwen3" rewrites message 1',
    ]);
    expect(textOf(samples[1]!.tokens)).not.toContain("I greet.");
    expect(textOf(samples[1]!.tokens.filter(({ isTrained }) => isTrained))).toBe("Bye.<|im_end|>");
  });

  test("says what the template leaves out", async () => {
    const { notes, samples } = await story(thoughts, "--renderer", "qwen2.5-instruct");
    expect(notes).toEqual(["Message 1: the template leaves the reasoning out, so it is in no token."]);
    expect(textOf(samples[0]!.tokens)).not.toContain("I greet.");
  });

  test("shows a prompt to which there is no answer yet", async () => {
    const { samples } = await story([{ role: "user", content: "hi" }]);
    expect(samples.map(({ tokens }) => tokens.some(({ isSampled }) => isSampled))).toEqual([false]);
    expect(textOf(samples[0]!.tokens)).toMatch(/hi<\|im_end\|>\n<\|im_start\|>assistant\n$/);
  });

  test("reads lists, objects, and lines of messages or of conversations", async () => {
    const wanted = JSON.stringify((await story(messages)).samples);
    const lines = messages.map((message) => JSON.stringify(message)).join("\n");
    const conversations = [thoughts, messages].map((list) => JSON.stringify({ messages: list })).join("\n");
    for (const [text, flags] of [
      [lines, []],
      [conversations, ["--line", "2"]],
    ] as const) {
      // prettier-ignore
      const { run } = await withFile("c.jsonl", text);
      const { stdout } = await run("tokens", "c.jsonl", "--json", ...flags);
      expect(JSON.stringify((JSON.parse(stdout) as TokenStory).samples)).toBe(wanted);
    }
  });

  const misfits: readonly (readonly [string, string, readonly string[]])[] = [
    ["{", "line 1 is not JSON", []],
    ["{}", 'the file is not valid; expected a list of messages or an object with "messages"', []],
    ['[{"role": "robot", "content": ""}]', 'messages[0] is not valid; expected a "role" of system', []],
    ['[{"role": "user", "content": [{"type": "image_url"}]}]', "parts of type text only", []],
    ['{"messages": [], "tools": [{}]}', "tools[0] is not valid; expected an OpenAI entry", []],
    ['[{"role": "system", "content": "x"}]', "it has no user message", []],
    ['[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"}]', "messages 1 and 2 are both answers", []], // prettier-ignore
    ['[{"role": "user", "content": "hi"}]', "it has 1; correct --line", ["--line", "2"]],
    ['[{"role": "user", "content": "hi"}]', "expected a whole number of at least 1", ["--line", "0"]],
    ['[{"role": "user", "content": "hi"}]', "there is no such folder", ["--model", "nowhere"]],
    ['[{"role": "user", "content": "hi"}]', "use one of qwen2.5-instruct", ["--renderer", "gpt-9"]],
    ['[{"role": "user", "content": "hi"}]', 'did you mean "--full"', ["--ful"]],
  ];
  test.each(misfits)("%s is refused: %s", async (text, message, flags) => {
    const { run } = await withFile("c.json", text);
    const { code, stdout, stderr } = await run("tokens", "c.json", ...flags);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(message);
  });
});

describe("docs/how-it-works.md", () => {
  const root = repositoryRoot();
  const blocks = [...readFileSync(join(root, "docs", "how-it-works.md"), "utf8").matchAll(/```console\n\$ npx trainable-agents (tokens .*)\n([^`]*)```/g)]; // prettier-ignore

  test("has its blocks", () => expect(blocks.length).toBeGreaterThan(2));

  test.each(blocks.map(([, command = "", output = ""]) => [command, output]))(
    "%s prints what is shown",
    async (command, output) => {
      // prettier-ignore
      const { run } = await createTestCli();
      const words = command.split(" ").map((word) => (word.startsWith("examples/") ? join(root, word) : word));
      const { code, stdout } = await run(...words);
      expect(code).toBe(0);
      // "[...]" stands for omitted lines.
      for (const part of output.split(/^\[\.\.\.\]\n/m)) expect(stdout).toContain(part);
    },
  );
});

describe("tokens of a run", () => {
  test("are those that were recorded, masks and logprobs as inspect shows them", async () => {
    const { run } = await createTestCli();
    await run("rollout", "--tasks", "0-5", "--out", "run", "--quiet");
    const [shown, inspected] = [
      await run("tokens", "run", "1", "--json"),
      await run("inspect", "run", "1", "--tokens"),
    ];
    const { samples } = JSON.parse(shown.stdout) as TokenStory;
    const columns = inspected.stdout.split("\n").flatMap((line) => /^ *\d+ +(\d+) ([.s1]) +(-?[\d.]+)? *"/.exec(line)?.slice(1, 3).join(" ") ?? []); // prettier-ignore
    expect(samples[0]!.tokens.map(({ id, isTrained, isSampled }) => `${id} ${isTrained ? "1" : isSampled ? "s" : "."}`)).toEqual(columns); // prettier-ignore
    for (const { isSampled, logprob, role } of samples[0]!.tokens) {
      expect([logprob !== null, role === "assistant"]).toEqual([isSampled, isSampled]);
    }
    const roles = new Set<string>();
    for (const episode of ["1", "2", "3", "4", "5", "6"]) {
      const { stdout } = await run("tokens", "run", episode, "--json");
      for (const { tokens } of (JSON.parse(stdout) as TokenStory).samples)
        for (const { role } of tokens) roles.add(role);
    }
    expect([...roles].toSorted()).toEqual(["assistant", "history", "tool", "user"]);
  });

  test.each([
    [["run"], "name an episode, by its number in the list or its id"],
    [["run", "9"], 'Cannot find episode "9" in "run": the run has 1 episodes'],
    [["run", "1", "--history", "branch"], "Cannot use --history with a run"],
    [["c.json", "1"], "it is not a run folder"],
  ])("%j is refused with the remedy", async (words, message) => {
    const { run } = await withFile("c.json", JSON.stringify(messages));
    await run("rollout", "--tasks", "0", "--out", "run", "--quiet");
    const { code, stderr } = await run("tokens", ...words);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});

describe("storyView()", async () => {
  const shown = await story({ messages, tools });
  const lines = (options: Partial<Parameters<typeof storyView>[1]>): string[] => [
    ...storyView(shown, { colours: pc.createColors(false), columns: undefined, isFull: false, ...options }),
  ];

  test("folds long observations, never what was sampled", () => {
    const folded = lines({});
    expect(folded).toContainEqual(expect.stringMatching(/^ +… \d+ more tokens of system$/));
    expect(folded.filter((line) => / 1 assistant /.test(line)).length).toBe(shown.samples[0]!.tokens.filter(({ isTrained }) => isTrained).length); // prettier-ignore
    expect(lines({ isFull: true }).filter((line) => /^ *\d+ +\d+ [.1]/.test(line)).length).toBe(shown.samples[0]!.tokens.length); // prettier-ignore
  });

  test("cuts token lines to a narrow terminal, and colours only afterwards", () => {
    const tokens = lines({ columns: 36 }).filter((line) => /^ *\d+ +\d+ [.1s]/.test(line));
    expect(Math.max(...tokens.map((line) => line.length))).toBe(36);
    const coloured = lines({ columns: 36, colours: pc.createColors(true) });
    // oxlint-disable-next-line no-control-regex
    expect(coloured.map((line) => line.replaceAll(/\u001b\[\d+m/g, ""))).toEqual(lines({ columns: 36 }));
    expect(coloured.find((line) => line.includes("find"))).toContain("\u001b[");
  });
});
