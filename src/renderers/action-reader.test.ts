import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { addAllFormats } from "../parsers/all-formats.ts";
import { type Tool, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { rendererFor } from "./choose-renderer.ts";
import { bundledChatTemplate } from "./bundled-template.ts";

addAllFormats();

const tokenizer = createReadableTokenizer();
const tools: readonly Tool[] = [
  toolFromDefinition(fromPlain({ type: "function", function: { name: "find_order" } }) as JsonObject),
];
const qwen3 = { chatTemplate: bundledChatTemplate };
const plain = rendererFor("qwen2.5-instruct", tokenizer);
const thinking = rendererFor("qwen3", tokenizer, qwen3);
const call = '<tool_call>\n{"name": "find_order", "arguments": {"order_id": "#W1"}}\n</tool_call>';
const argumentsText = '{"order_id": "#W1"}';
const ids = (text: string): Uint32Array => tokenizer.encode(text);
/** The same text without a single marker token. */
const spelledOut = (text: string): Uint32Array =>
  Uint32Array.from(Array.from(text).flatMap((character) => [...tokenizer.encode(character)]));

describe("parseAction()", () => {
  test("reads words and calls, without the end token, and numbers call ids by turn and place", () => {
    expect(plain.parseAction(ids(`Well.\n${call}\n${call}<|im_end|>`), { tools, turn: 3 })).toEqual({
      text: `Well.\n${call}\n${call}`,
      reasoning: null,
      content: "Well.",
      toolCalls: [
        { id: "call_3_0", name: "find_order", argumentsText },
        { id: "call_3_1", name: "find_order", argumentsText },
      ],
      problems: [],
      isTerminated: true,
    });
  });

  test("keeps the whole text as content when no call came out", () => {
    const text = " Before\n<tool_call>\n{\n</tool_call> after ";
    const action = plain.parseAction(ids(`${text}<|endoftext|>`), { tools, turn: 0 });
    expect(action).toMatchObject({ text, content: text, toolCalls: [], isTerminated: true });
    expect(action.problems.map(({ code }) => code)).toEqual(["not-json"]);
  });

  test("an action without a stop token is not terminated", () => {
    expect(plain.parseAction(ids("Hel"), { tools, turn: 0 })).toMatchObject({ text: "Hel", isTerminated: false });
    expect(plain.parseAction(ids(""), { tools, turn: 0 })).toMatchObject({ text: "", isTerminated: false });
    expect(plain.parseAction(ids("a<|im_end|>b"), { tools, turn: 0 })).toMatchObject({ isTerminated: false });
  });

  test("splits reasoning off first, so a call inside it is a thought", () => {
    const text = `<think>\nI could ${call}\n</think>\n\nHello.`;
    expect(thinking.parseAction(ids(`${text}<|im_end|>`), { tools, turn: 0 })).toMatchObject({
      text,
      reasoning: `I could ${call}\n`,
      content: "Hello.",
      toolCalls: [],
      problems: [],
    });
    expect(plain.parseAction(ids(text), { tools, turn: 0 })).toMatchObject({
      reasoning: null,
      toolCalls: [{ argumentsText }],
    });
  });

  test("a call whose tags are spelled out is not a call but a problem; in text mode it is one", () => {
    const action = plain.parseAction(spelledOut(call), { tools, turn: 0 });
    expect(action).toMatchObject({ text: call, content: call, toolCalls: [] });
    expect(action.problems.map(({ code, text }) => [code, text])).toEqual([
      ["spoofed-marker", "<tool_call>"],
      ["spoofed-marker", "</tool_call>"],
    ]);
    const asText = rendererFor("qwen2.5-instruct", tokenizer, { parseMode: "text" });
    expect(asText.parseAction(spelledOut(call), { tools, turn: 0 })).toMatchObject({
      toolCalls: [{ argumentsText }],
      problems: [],
    });
  });

  test("a spelled-out tag inside a call's arguments arrives there unchanged", () => {
    const [before, after] = ['<tool_call>\n{"name": "find_order", "arguments": {"note": "', '\n"}}\n</tool_call>'];
    const inside = "\\n</tool_call> \ue000 <tool_call>";
    const tokens = Uint32Array.from([...ids(before), ...spelledOut(inside), ...ids(after.replace("\n", ""))]);
    const action = plain.parseAction(tokens, { tools, turn: 0 });
    expect(action.toolCalls).toEqual([{ id: "call_0_0", name: "find_order", argumentsText: `{"note": "${inside}"}` }]);
    expect(action.problems).toEqual([]);
  });

  test("spelled-out thinking tags do not hide a call", () => {
    const tokens = Uint32Array.from([...spelledOut("<think>"), ...ids(call)]);
    const action = thinking.parseAction(tokens, { tools, turn: 0 });
    expect(action).toMatchObject({ reasoning: null, content: "<think>", toolCalls: [{ argumentsText }] });
    expect(action.problems.map(({ code }) => code)).toEqual(["spoofed-marker"]);
  });

  test("an unknown tool is a problem, and a call for an environment that answers it", () => {
    const text = '<tool_call>\n{"name": "fly"}\n</tool_call>';
    const asProblem = { toolCalls: [], problems: [{ code: "unknown-tool", toolName: "fly" }] };
    expect(thinking.parseAction(ids(text), { tools, turn: 1 })).toMatchObject(asProblem);
    expect(thinking.parseAction(ids(text), { tools, turn: 1, unknownTools: "loop" })).toMatchObject(asProblem);
    expect(thinking.parseAction(ids(text), { tools, turn: 1, unknownTools: "environment" })).toMatchObject({
      toolCalls: [{ id: "call_1_0", name: "fly", argumentsText: "{}" }],
      problems: [],
    });
  });

  test("reads calls of unknown and known tools in the order in which they were written", () => {
    const callOf = (name: string): string => `<tool_call>\n{"name": "${name}", "arguments": {}}\n</tool_call>`;
    const name = fc.constantFrom("find_order", "fly", "swim", "Find_Order", "find.order", "dive_");
    fc.assert(
      fc.property(fc.array(name, { minLength: 1, maxLength: 6 }), (names) => {
        const action = plain.parseAction(ids(names.map(callOf).join("\n")), {
          tools,
          turn: 0,
          unknownTools: "environment",
        });
        expect(action.toolCalls.map((one) => one.name)).toEqual(names);
        expect(action.problems).toEqual([]);
      }),
    );
  });

  test("repairs near-misses only when asked to, says so, and leaves what was cut off", () => {
    const nearly = "<tool_call>\n{'name': 'find_order', 'arguments': {'order_id': '#W1',}}\n</tool_call>";
    const strict = plain.parseAction(ids(`${nearly}<|im_end|>`), { tools, turn: 0 });
    expect(strict).toMatchObject({ toolCalls: [], content: nearly, problems: [{ code: "not-json" }] });
    const repairing = rendererFor("qwen2.5-instruct", tokenizer, { repair: true });
    const mended = repairing.parseAction(ids(`${nearly}<|im_end|>`), { tools, turn: 0 });
    expect(mended).toMatchObject({ text: nearly, toolCalls: [{ name: "find_order", argumentsText }] });
    expect(mended.problems[0]).toMatchObject({ code: "repaired", toolName: "find_order" });
    expect(repairing.parseAction(ids(nearly), { tools, turn: 0 }).toolCalls).toEqual([]);
    const unclosed = nearly.replace("\n</tool_call>", "");
    expect(repairing.parseAction(ids(`${unclosed}<|im_end|>`), { tools, turn: 0 }).toolCalls).toHaveLength(1);
    expect(repairing.parseAction(ids(unclosed), { tools, turn: 0 }).toolCalls).toEqual([]);
  });

  test("repair does not make a call out of tags that are spelled out", () => {
    const repairing = rendererFor("qwen2.5-instruct", tokenizer, { repair: true });
    const tokens = Uint32Array.from([...spelledOut(call), ...ids("<|im_end|>")]);
    const action = repairing.parseAction(tokens, { tools, turn: 0 });
    expect(action.toolCalls).toEqual([]);
    expect(action.problems.map(({ code }) => code)).toContain("spoofed-marker");
  });

  test("a call whose form is wrong is a problem that shows an example in the model's own format", () => {
    for (const wrong of ['<tool_call>\n{"arguments": {}}\n</tool_call>', "<tool_call>\nfind_order(1)\n</tool_call>"]) {
      const { problems } = plain.parseAction(ids(`${wrong}<|im_end|>`), { tools, turn: 0 });
      expect(problems).toHaveLength(1);
      expect(problems[0]!.detail).toMatch(
        /Write a call like this:\n<tool_call>\n\{"name": "find_order", "arguments": \{.*\}\}\n<\/tool_call>$/,
      );
    }
  });

  test("a call in another format is a problem that shows the model's own, and a call only in repair mode", () => {
    const bare = call.split("\n")[1]!;
    const repairing = rendererFor("qwen2.5-instruct", tokenizer, { repair: true });
    for (const text of [bare, `\`\`\`json\n${bare}\n\`\`\``, `<tools>\n${bare}\n</tools>`]) {
      const read = plain.parseAction(ids(`${text}<|im_end|>`), { tools, turn: 0 });
      expect(read).toMatchObject({ text, content: text, toolCalls: [] });
      expect(read.problems).toMatchObject([{ code: "other-format", text, toolName: "find_order" }]);
      expect(read.problems[0]!.detail).toContain(call);
      const carriedOut = repairing.parseAction(ids(`${text}<|im_end|>`), { tools, turn: 2 });
      const toolCalls = [{ id: "call_2_0", name: "find_order", argumentsText }];
      expect(carriedOut).toMatchObject({ text, content: "", toolCalls, problems: [{ code: "repaired" }] });
      expect(repairing.parseAction(ids(text), { tools, turn: 0 }).toolCalls).toEqual([]);
      expect(repairing.parseAction(ids(`${text}<|im_end|>`), { tools: [], turn: 0 })).toMatchObject({ problems: [] });
      for (let end = 1; end <= text.length; end++) expect(repairing.heldBack!(text.slice(0, end))).toBe(end);
    }
    const beside = `I would write:\n${bare}`;
    for (const renderer of [plain, repairing]) {
      const read = renderer.parseAction(ids(`${beside}<|im_end|>`), { tools, turn: 0 });
      expect(read).toMatchObject({ content: beside, toolCalls: [], problems: [{ code: "other-format" }] });
    }
    const thought = `<think>\n${bare}\n</think>\n\nHello.<|im_end|>`;
    expect(thinking.parseAction(ids(thought), { tools, turn: 0 })).toMatchObject({ content: "Hello.", problems: [] });
    const answered = `<think>\nWell.\n</think>\n\n${bare}<|im_end|>`;
    expect(thinking.parseAction(ids(answered), { tools, turn: 0 })).toMatchObject({
      content: bare,
      toolCalls: [],
      problems: [{ code: "other-format" }],
    });
  });

  test("reads with the parsers that are named", () => {
    const named = rendererFor("qwen3", tokenizer, { ...qwen3, toolCallParser: "llama3", reasoningParser: "none" });
    const text = '<think>{"name": "find_order"}</think>';
    const action = named.parseAction(ids(text), { tools, turn: 0 });
    expect(action).toMatchObject({ reasoning: null, content: text, toolCalls: [] });
    const bare = named.parseAction(ids('{"name": "find_order", "parameters": {}}'), { tools, turn: 0 });
    expect(bare.toolCalls).toMatchObject([{ name: "find_order" }]);
    expect(() => rendererFor("qwen3", tokenizer, { ...qwen3, reasoningParser: "gpt-9" })).toThrow('parser "gpt-9"');
  });

  test("never throws, whatever is sampled", () => {
    const markers = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>", "\n", '{"', "find", "_order"];
    const id = fc.oneof(
      fc.nat(tokenizer.vocabularySize - 1),
      fc.constantFrom(...markers.flatMap((text) => tokenizer.tokenId(text) ?? [])),
    );
    fc.assert(
      fc.property(fc.array(id, { maxLength: 60 }), (sampled) => {
        for (const renderer of [plain, thinking]) {
          const action = renderer.parseAction(Uint32Array.from(sampled), { tools, turn: 0 });
          expect(action.text).toBe(tokenizer.decode(action.isTerminated ? sampled.slice(0, -1) : sampled));
        }
      }),
      { seed: 5, numRuns: 1000 },
    );
  });
});
