import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";

import type { Tokenizer } from "../core/index.ts";
import { createTokenizer } from "./create-tokenizer.ts";
import { type ChatTokenizerFiles, chatTokens, trainChatTokenizer, trainMerges } from "./chat-tokenizer.ts";
import { bookshopDialogues } from "./dialogues.test-helper.ts";
import { createJudge } from "./library-tokenizer.test-helper.ts";

const vocabularySize = 1280;
let texts: readonly string[];
let files: ChatTokenizerFiles;
let tokenizer: Tokenizer;

beforeAll(async () => {
  texts = (await bookshopDialogues(42)).map(({ text }) => text);
  files = trainChatTokenizer(texts, { vocabularySize });
  tokenizer = await createTokenizer("trained", files);
});

const piecesOf = (text: string): string[] => Array.from(tokenizer.encode(text), (id) => tokenizer.decode([id]));

describe("trainChatTokenizer()", () => {
  test("makes a tokenizer of the requested size, which cuts out the tokens of chats and calls", () => {
    expect(tokenizer.vocabularySize).toBe(vocabularySize);
    for (const [index, { text, isSpecial }] of chatTokens.entries()) {
      const id = vocabularySize - chatTokens.length + index;
      expect([...tokenizer.encode(`a${text}b`)]).toContain(id);
      expect(tokenizer.tokenId(text)).toBe(id);
      expect(tokenizer.isSpecial(id)).toBe(isSpecial);
    }
  });

  test("agrees with the library on every dialogue and on any text, and loses nothing", () => {
    const library = createJudge(files.tokenizerJson);
    const expectAgreement = (text: string): void => {
      const ids = tokenizer.encode(text);
      expect(ids).toEqual(library.encode(text));
      expect(tokenizer.decode(ids)).toBe(text);
    };
    texts.forEach(expectAgreement);
    const parts = [
      "<|im_end|>",
      '{"id": "',
      "#W",
      "17",
      "05",
      '"}}',
      " The",
      "Moon",
      ", ",
      ". ",
      "\n",
      "é",
      "ß",
      "猫",
      "😀",
    ];
    const text = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.array(fc.constantFrom(...parts)).map((pieces) => pieces.join("")),
    );
    fc.assert(fc.property(text, expectAgreement), { seed: 1, numRuns: 500 });
  });

  test.each(["#W1705", "The Hungry Whale", "Anna Bell", "72 Linden Hill", "39"])(
    "gives %s the same tokens wherever it stands",
    (copied) => {
      const alone = piecesOf(copied).join("|");
      for (const place of [
        "to {}.",
        "{}",
        '{"id": "{}"}',
        '"{}", "x": 1',
        "a, {}; b",
        "Is it {}?",
        "${}",
        "({})",
        "\n{}",
      ]) {
        const [before = "", after = ""] = place.split("{}");
        expect(`|${piecesOf(before + copied + after).join("|")}|`).toContain(`|${alone}|`);
      }
    },
  );

  test("needs few tokens for a call", () => {
    const call = '<tool_call>\n{"name": "look_up", "arguments": {"id": "#W1705"}}\n</tool_call>';
    expect(piecesOf(call)).toEqual(["<tool_call>", "\n", '{"name": "', "look_up", '", "arguments": {"', "id", '": "', "#W", "17", "05", '"}}', "\n", "</tool_call>"]); // prettier-ignore
  });

  test("gives the same files for the same texts in any order", () => {
    expect(trainChatTokenizer(texts.toReversed(), { vocabularySize })).toEqual(files);
  });

  test("stops early when no pair is frequent enough", async () => {
    const small = trainChatTokenizer(["ab ab ab", "cd"], { vocabularySize: 999 });
    // "ab" and " ab": a pair that occurs only once is not merged.
    expect((await createTokenizer("small", small)).vocabularySize).toBe(256 + 2 + chatTokens.length);
  });
});

describe("trainMerges()", () => {
  test("merges the most frequent pair first, and of equal ones that with the lower ids", () => {
    const counts = new Map([["dcdc", 1], ["ab", 2], ["xyab", 1]]); // prettier-ignore
    const [a, b, c, d] = [97, 98, 99, 100];
    expect(trainMerges(counts, { maxTokens: 300 }).merges).toEqual([[a, b], [d, c]]); // prettier-ignore
  });

  test("merges from the left where a pair overlaps itself", () => {
    const { merges, tokens } = trainMerges(new Map([["aaa", 5]]), { maxTokens: 258 });
    expect(merges).toEqual([[97, 97], [256, 97]]); // prettier-ignore
    expect([...tokens[257]!]).toEqual([97, 97, 97]);
  });
});
