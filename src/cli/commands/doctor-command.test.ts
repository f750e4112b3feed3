import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { trainChatTokenizer } from "../../tokenizers/index.ts";
import { createTestCli, type TestCli } from "../cli.test-helper.ts";

const chatMl =
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/** A command line in a folder whose subfolder "model" holds a model. */
async function withModel(chatTemplate: unknown): Promise<TestCli> {
  const cli = await createTestCli();
  const { tokenizerJson, tokenizerConfig } = trainChatTokenizer(["Where is my order?"], { vocabularySize: 270 });
  await mkdir(join(cli.folder, "model"));
  await writeFile(join(cli.folder, "model", "tokenizer.json"), JSON.stringify(tokenizerJson));
  const config = { ...tokenizerConfig, chat_template: chatTemplate };
  await writeFile(join(cli.folder, "model", "tokenizer_config.json"), JSON.stringify(config));
  return cli;
}

describe("doctor template", () => {
  test("shows renderer, parsers, stop tokens, what is added and what the loop does", async () => {
    const { run } = await withModel(chatMl);
    const { code, stdout, stderr } = await run("doctor", "template", "model");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/^renderer +template-[0-9a-f]{16} \(template\): the template is not a known one/m);
    expect(stdout).toMatch(/^calls +parser qwen25: assumed, because the template writes no calls and shows no tools/m);
    expect(stdout).toMatch(/^stops at +"<\|im_end\|>" \d+/m);
    expect(stdout).toMatch(/^answer, user +keeps all +appends it$/m);
    expect(stdout).toContain("Append-only: each turn costs its new tokens");
  });

  test("shows the strings in which a rewritten history differs", async () => {
    const { run } = await withModel(chatMl.replace("m.content", "(m.content|trim)"));
    const { code, stdout } = await run("doctor", "template", "model");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^answer in blanks, user +different white space +starts a branch\n +was +"\\n Your order ships today\. \\n<\|im_end\|>"\n +is +"Your order/m,
    );
    expect(stdout).toContain("Not append-only: where the template rewrites history, the loop starts a branch");
  });

  test("prints the same as JSON", async () => {
    const { run } = await withModel(chatMl);
    const { code, stdout } = await run("doctor", "template", "model", "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      renderer: { kind: "template", historyPolicy: "branch", toolCallParser: { name: "qwen25" } },
      isAppendOnly: true,
      problems: [],
    });
  });

  test("ends with code 1 when something is to be mended, and names a template in place of the folder's", async () => {
    const { run, folder } = await withModel(chatMl);
    const refusing = `{% for m in messages if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endfor %}`;
    await writeFile(join(folder, "mine.jinja"), refusing + chatMl);
    const { code, stdout } = await run("doctor", "template", "model", "--template", "mine.jinja");
    expect(code).toBe(1);
    expect(stdout).toMatch(/to mend\n +- Episodes would fail at "call, result", .*: no tools here/);
    expect(stdout).toContain("Not fit for training yet.");
    await writeFile(join(folder, "broken.jinja"), "{% if %}");
    const broken = await run("doctor", "template", "model", "--template", "broken.jinja");
    expect([broken.code, broken.stdout]).toEqual([1, expect.stringContaining("No renderer can be made of this template")]); // prettier-ignore
  });

  test("says that there are more templates than the one that is used", async () => {
    const { run } = await withModel([
      { name: "default", template: chatMl },
      { name: "tool_use", template: chatMl },
    ]);
    const { stdout } = await run("doctor", "template", "model");
    expect(stdout).toContain('tokenizer_config.json has more templates ("tool_use")');
  });

  test.each([
    [["template"], 'no folder is named; write "doctor template <folder>"'],
    [
      ["model"],
      'Cannot examine "model": there are "template", "engine" and "environment"; write "doctor template model".',
    ],
    [["template", "nowhere"], "there is no such folder"],
    [["template", "model"], 'the folder has none (chat_template.jinja, or chat_template in tokenizer_config.json)'], // prettier-ignore
    [["template", "model", "--template", "nowhere.jinja"], "correct --template"],
    [["template", "model", "--history", "maybe"], "expected keep-reasoning or branch"],
    [["template", "model", "--thinking", "maybe"], "expected on or off"],
    [["template", "model", "--jsno"], 'did you mean "--json"'],
  ])("%j is refused with the remedy, and code 2", async (words, message) => {
    const { run } = await withModel(undefined);
    const { code, stdout, stderr } = await run("doctor", ...words);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(message);
  });
});
