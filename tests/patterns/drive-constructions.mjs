// Makes every `new RegExp(...)` of the built modules run: those outside of functions when their
// module is loaded, the others with the representative arguments below. Run by patterns.test.ts in
// a process of its own; reads examples from stdin, prints each expression with its place.

import { readFileSync } from "node:fs";

const dist = new URL("../../dist/", import.meta.url).href;
const { modules, formats } = JSON.parse(readFileSync(0, "utf8"));

const found = [];
globalThis.RegExp = new Proxy(RegExp, {
  construct(target, given) {
    const made = new target(...given);
    const [, module, line, column] =
      /\/dist\/([^\s()]+?):(\d+):(\d+)\)?$/m.exec(new Error().stack.split("\n")[2]) ?? [];
    if (module !== undefined)
      found.push({ site: `${module}:${line}:${column}`, source: made.source, flags: made.flags });
    return made;
  },
});

const load = (module) => import(dist + module);
for (const module of modules) await load(module);

/** For each module whose functions construct expressions: calls that construct all of them. */
const drives = {
  "graders/user-rules.js": async ({ findUserFault }) => {
    const user = (text) => ({ type: "user", text, hangsUp: false });
    const agent = { type: "agent", text: "Use toggle_data now." };
    const values = ["economy", "basic economy", "first-class (window)"];
    const tools = [await tool("book_seat", { properties: { cabin: { enum: values } } })];
    const expectedCalls = [{ name: "book_seat", arguments: new Map([["cabin", "economy"]]) }];
    const facts = { instruction: "Economy.", tools, userTools: [await tool("toggle_data")], expectedCalls };
    const talk = [user("Economy, please."), agent, user("Sure."), agent, user("Economy.")];
    findUserFault(talk, { ...facts, isReachable: null, knownFacts: [] });
  },
  "lib/linear-pattern.js": ({ linearPattern }) => linearPattern("(?:[a-z]|b)+c", "u").test("abc"),
  "parsers/all-formats.js": async ({ addAllFormats }) => {
    addAllFormats();
    const { toolCallParser } = await load("parsers/index.js");
    const tools = [await tool("get_weather", { properties: { city: { type: "string" } } })];
    for (const [name, texts] of formats) for (const text of texts) toolCallParser(name).parse(text, { tools });
  },
  "parsers/formats/vllm-reasoning.js": async () => {
    const { reasoningParser } = await load("parsers/index.js");
    for (const name of ["ernie45", "hunyuan_a13b", "minicpmv", "step5"]) {
      const splitting = reasoningParser(name).startSplitting();
      for (const piece of ["<think>a", "</think>", "<response>b"]) splitting.feed?.(piece);
      splitting.end?.();
    }
  },
  "parsers/harmony.js": async () => {
    const { toolCallParser, reasoningParser } = await load("parsers/index.js");
    for (const text of ["assistant analysis I think. assistantfinal Hello.", "analysis a final b"]) {
      for (const name of ["gpt-oss"]) {
        const parser = reasoningParser(name);
        parser.split?.(text);
        const splitting = parser.startSplitting();
        for (const piece of text) splitting.feed?.(piece);
        splitting.end?.();
        toolCallParser(name).parse(text, { tools: [] });
      }
    }
  },
  // A checkpoint's own pattern is only validated as a whole: no text is searched with it.
  "parsers/response-template/python-pattern.js": ({ PythonPattern }) => new PythonPattern("<(?P<name>call)>"),
  "renderers/choose-renderer.js": async ({ rendererFor }) => {
    const { createReadableTokenizer } = await load("tokenizers/index.js");
    const tokenizer = createReadableTokenizer();
    const text = '<tool_call>\n{"name": "find", "arguments": {}}\n</tool_call>';
    const spelledOut = Uint32Array.from(Array.from(text).flatMap((character) => [...tokenizer.encode(character)]));
    rendererFor("qwen2.5-instruct", tokenizer).parseAction(spelledOut, { tools: [], turn: 0 });
  },
  "tokenizers/pre-tokenizers.js": async ({ readPreTokenizer, gpt2Pattern }) => {
    const { TokenizerJson } = await load("tokenizers/tokenizer-json.js");
    const { chatSplitPattern } = await load("tokenizers/chat-split-pattern.js");
    const json = new TokenizerJson("example");
    const parts = [
      { type: "Whitespace" },
      { type: "CharDelimiterSplit", delimiter: "*" },
      { type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: true },
      ...[gpt2Pattern, chatSplitPattern].map((pattern) => ({
        type: "Split",
        pattern: { Regex: pattern },
        behavior: "Isolated",
        invert: false,
      })),
      { type: "Split", pattern: { String: "a.*+" }, behavior: "Isolated", invert: false },
    ];
    for (const part of parts) readPreTokenizer(part, json);
  },
  "environments/tau2-bench/banking/grep.js": ({ Grep }) => {
    // The text is as long as the bank's documents: in less text, patterns whose work is quadratic may run, too.
    const grep = new Grep(["A card.\nA loan. ".repeat(100_000)]);
    for (const pattern of ["car[d-e]", "a+ ?card.*"]) grep.search(pattern, 10);
  },
  "tokenizers/split-pattern.js": ({ literalPattern, translatePattern }) => {
    literalPattern("a.*+");
    translatePattern("(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
  },
  "tokenizers/added-tokens.js": ({ AddedTokenSplitter }) =>
    new AddedTokenSplitter(["<|im_start|>", "(a+)+$", "[x]"].map((content, id) => ({ id, content }))),
  "tokenizers/chat-tokenizer.js": ({ trainChatTokenizer }) =>
    trainChatTokenizer(["a few words"], { vocabularySize: 300, contextLength: 64 }),
};

async function tool(name, parameters = { properties: {} }) {
  const { toolFromDefinition } = await load("core/index.js");
  const { fromPlain } = await load("python-semantics/json/index.js");
  return toolFromDefinition(fromPlain({ type: "function", function: { name, parameters } }));
}

for (const [module, drive] of Object.entries(drives)) await drive(await load(module));
process.stdout.write(JSON.stringify(found));
