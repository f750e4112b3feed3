import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { familyOfChatTemplate, rendererFamily } from "../index.ts";
import { models, publishedTemplate } from "../published-templates.test-helper.ts";
import { byteTokenizer } from "../marker-tokenizer.test-helper.ts";
import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { toolCallParser } from "../../parsers/index.ts";
import { auditTemplate } from "./audit-template.ts";
import { type AuditTemplateOptions, auditTool } from "./audited-template.ts";
import { spelledOrder, spelledParsers } from "./sampled-answers.ts";
import type { HistoryChange, HistoryFinding, RoundTripFinding, TemplateAudit } from "./template-audit.ts";

const names =
  models === null
    ? []
    : readdirSync(models).filter((name) => existsSync(join(models ?? "", name, "chat_template.jinja")));

/**
 * Audits the template with a byte tokenizer that has everything that looks like a special token in
 * it.
 */
async function audit(name: string, options: Partial<AuditTemplateOptions> = {}): Promise<TemplateAudit> {
  const chatTemplate = publishedTemplate(name);
  const family = rendererFamily(familyOfChatTemplate(chatTemplate));
  const specialTokens = family.specialTokens as ReadonlyMap<string, string>;
  const looksSpecial =
    /<[|｜][^<>|｜]+[|｜]>|\[\/?[A-Z_]+\]|<\/?seed:\w+>|\[e~\[|\[gMASK\]|<sop>|\]~b\]|\]~!b\[|<\/?mm:think>|<\/?minimax:tool_call>/g;
  const markers = [
    ...["<think>", "</think>", "<tool_call>", "</tool_call>", ...specialTokens.values()],
    ...(chatTemplate.match(looksSpecial) ?? []),
    ...[family.startToken, ...family.stopTokens],
  ];
  return auditTemplate({ tokenizer: await byteTokenizer(markers), chatTemplate, specialTokens, ...options }); // prettier-ignore
}

const letters: Readonly<Record<HistoryChange, string>> = {
  "drops-thinking": "T",
  "think-block": "B",
  "white-space": "W",
  "answer-end": "E",
  "rewrites-call": "C",
  "drops-message": "D",
  "moves-message": "M",
  "moves-tools": "A",
  "rewrites-text": "X",
};

/** One letter per finding: "." kept, "!" refused, else the change of the text. */
const historyCode = (history: readonly HistoryFinding[]): string =>
  history.map(({ template, difference }) => (template === "refuses" ? "!" : difference === null ? "." : letters[difference.change])).join(""); // prettier-ignore

/** One letter per finding: "." the same, "!" refused, "?" not read, else the change of the text. */
const roundTripCode = (roundTrips: readonly RoundTripFinding[]): string =>
  roundTrips.map(({ outcome, difference }) => (outcome === "refused" ? "!" : outcome === "unread" ? "?" : difference === null ? "." : letters[difference.change])).join(""); // prettier-ignore

/**
 * Verdicts on every template that is available: the effects of adding messages, the effects of
 * rendering again, and the number of problems.
 */
const verdicts: Readonly<Record<string, readonly [history: string, roundTrips: string, problems: number]>> = {
  "deepseek-r1": ["BBBBTBBBT..M", "BBTBBBT", 0],
  "deepseek-v3-sglang-tools": [".......WM", "...W.", 0],
  "deepseek-v3.1": ["........M", "...W.", 0],
  "deepseek-v3.1-sglang-tools": ["WWWWWWWM", "WWWW", 0],
  "glm-4.5": ["BBBBTBB.BTX", "BB.BB.", 0],
  "glm-4.6": ["BBBBTBB.BTX", "BB.BB.", 0],
  "glm-4.7-flash": ["BBBBTBB.BTX", "BB.BB.", 0],
  "gpt-oss": ["EEE.TCCCETD", "...CCC", 0],
  "hermes-3-tool-use": [".......W.", "...W.", 0],
  "kimi-k2": [".........", "...W.", 0],
  "kimi-k2-thinking": ["BBBBBBBBBBB", "BBT!!!", 0],
  "llama-3.1-instruct": [".W......", ".W.W", 0],
  "llama-3.2-instruct": [".W......", ".W.W", 0],
  "minimax-m3": ["BBBBTBB.BTD", "BBWBBW", 0],
  "mistral-nemo-2407": ["AAAA.W.A!", "..!!!", 0],
  "mistral-small-3.2": ["AAAA.W.A!", "..!!!", 0],
  "qwen2.5-instruct": [".........", "...W.", 0],
  qwen3: ["....T.....T.", "BB.BBB.", 0],
  "qwen3-coder": ["........", "....", 0],
  "qwen3-instruct-2507": [".........", "...W.", 0],
  "qwen3-miles-fixed": ["....TBBB.BTB", "BB.BBB.", 0],
  "qwen3-rev2": ["....T.....T.", "BB.BBB.", 0],
  "qwen3-skyrl-acc-thinking": ["............", "..T.W.T", 0],
  "qwen3.5": ["BBBBT...BT!", ".W....", 0],
  "qwq-32b": ["BBBBTBBBTBTB", "BBTBBBT", 0],
  "seed-oss": [".WX........", ".W....", 0],
  smollm3: [".W.........", ".WTCCT", 0],
};

describe.skipIf(models === null)("auditTemplate() on every template at hand (skipped without ../shared/models)", () => {
  test("the table has every template", () => {
    expect(Object.keys(verdicts).toSorted()).toEqual(names.toSorted());
  });

  test.each(names)("%s: its verdict, and the loop never strays from it in silence", async (name) => {
    const { renderer, history, roundTrips, problems } = await audit(name);
    expect([historyCode(history), roundTripCode(roundTrips), problems.length]).toEqual(verdicts[name]);
    expect(renderer?.kind).toBe("family");
    expectOpenness(history, renderer?.historyPolicy === "keep-reasoning" ? ["keeps-stream", "branches"] : ["branches"]);
  });

  const rewriting = names.filter((name) => rendererFamily(name).history === "rewrites"); // prettier-ignore
  const tried = process.env["FULL"] === "1" ? rewriting : rewriting.filter((_, index) => index % 4 === 0);
  test.each(tried)('%s with "branch": each rewrite starts a branch', async (name) => {
    expectOpenness((await audit(name, { history: "branch" })).history, ["branches"]);
  });
});

/**
 * Kept history is extended, a refusal fails with a message, and a rewrite is handled as the policy
 * says.
 */
function expectOpenness(history: readonly HistoryFinding[], whenRewritten: readonly HistoryFinding["loop"][]): void {
  for (const { template, loop, error } of history) {
    if (template === "refuses") expect([loop, error]).toEqual(["fails", expect.stringMatching(/./)]);
    else if (template === "keeps") expect(loop).toBe("extends");
    else expect(whenRewritten).toContain(loop);
  }
}

describe.skipIf(models === null)("auditTemplate() on changed templates (skipped without ../shared/models)", () => {
  test("finds a renderer that was named for the wrong template", async () => {
    const { problems, renderer } = await audit("qwen3", { renderer: "qwen2.5-instruct" });
    expect(renderer?.because).toBe("it was named");
    expect(problems).toContainEqual(
      'The family "qwen2.5-instruct" does not describe this template: thinking is switched by "enable_thinking", not null.',
    );
  });

  test("notes which names of tools its calls cannot hold", async () => {
    const noted = async (name: string) =>
      (await audit(name)).notes.filter((note) => note.startsWith("Tools with names"));
    const [note] = await noted("gpt-oss");
    expect(note).toContain('"my tool"');
    expect(note).toContain('parser "gpt-oss" does not read such a name back');
    expect(await noted("qwen3")).toEqual([]);
  });

  test("shows thinking as the switch has it", async () => {
    const kinds = async (thinking: boolean) => (await audit("deepseek-v3.1", { thinking })).history.map(({ kind }) => kind); // prettier-ignore
    expect(await kinds(true)).toContain("thinking and answer, user");
    expect(await kinds(false)).not.toContain("thinking and answer, user");
    const { notes, isAppendOnly } = await audit("deepseek-v3.1", { thinking: false });
    expect(notes).toContainEqual(expect.stringContaining("--thinking on"));
    expect(isAppendOnly).toBe(true);
  });

  test("shows the strings in which the texts part", async () => {
    const { history } = await audit("qwen3");
    expect(history.find(({ kind }) => kind === "thinking and answer, user")?.difference).toEqual({
      change: "drops-thinking",
      seen: "<think>\nThe order number helps.\n</think>\n\nYour o",
      written: "Your order ships today.<|im_end|>\n<|im_start|>us",
    });
  });
});

describe("auditTemplate()", () => {
  const tokenizer = createReadableTokenizer();
  const chatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" +
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  const own = (chatTemplate: string): TemplateAudit =>
    auditTemplate({ tokenizer, chatTemplate, specialTokens: new Map() });

  test("a template that nobody knows is rendered by itself, and found append-only", () => {
    const found = own(chatMl);
    expect(found).toMatchObject({ isAppendOnly: true, problems: [] });
    expect(found.renderer).toMatchObject({ kind: "template", generationPrompt: "<|im_start|>assistant\n" });
    expect(found.notes).toContainEqual(expect.stringContaining("does not show tools"));
  });

  test("one that trims is not, and the loop starts branches", () => {
    const found = own(chatMl.replace("m.content", "(m.content|trim)"));
    expect(found).toMatchObject({ isAppendOnly: false, problems: [] });
    const padded = found.history.find(({ kind }) => kind === "answer in blanks, user");
    expect(padded).toMatchObject({ template: "rewrites", loop: "branches", difference: { change: "white-space" } });
  });

  test("one that refuses results says where episodes would fail", () => {
    const found = own(`{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{% endfor %}${chatMl}`); // prettier-ignore
    expect(found.problems).toEqual([
      'Episodes would fail at "call, result", "call without blanks, result", "call, result, answer, user": no tools',
    ]);
  });

  test("one that no renderer can be made of is a problem, not an exception", () => {
    expect(own("{% if %}")).toMatchObject({ renderer: null, isAppendOnly: false, history: [] });
    expect(own("{% if %}").problems).toEqual([expect.stringMatching(/^Cannot create a renderer from chat template /)]);
  });
});

test.each(spelledParsers)("a call spelled for parser %s is read by it", (name) => {
  const parse = toolCallParser(name).parse(framed(name, spelledOrder(name)!), {
    tools: [auditTool],
  });
  expect(parse.calls.map(({ name: tool, parameters }) => [tool, JSON.parse(parameters) as unknown])).toEqual([
    ["find_order", { order_id: "#W1" }],
  ]);
});

/** gpt-oss is read together with the opening of the prompt and the token that ends the call. */
function framed(parser: string, call: string): string {
  return parser === "gpt-oss" ? `<|start|>assistant${call}<|call|>` : call;
}
