import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitReasoning } from "./reasoning.ts";

/** Tags that model families use for reasoning. */
const families: readonly (readonly [open: string, close: string])[] = [
  ["<think>", "</think>"],
  ["<think>\n", "\n</think>\n\n"],
  ["<THINK>", "</THINK>"],
  ["<thinking>", "</thinking>"],
  ["<thought>", "</thought>"],
  ["<reasoning>", "</reasoning>"],
  ['<think effort="high">', "</think>"],
  ["<mm:think>", "</mm:think>"],
  ["<seed:think>", "</seed:think>"],
  ["<ifm|think_fast>", "</ifm|think_fast>"],
  ["◁think▷", "◁/think▷"],
  ["[THINK]", "[/THINK]"],
  ["<|START_THINKING|>", "<|END_THINKING|>"],
  ["<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"],
  ["<|inner_prefix|>", "<|inner_suffix|>"],
  ["<|begin_of_thought|>", "<|end_of_thought|>\n\n<|begin_of_solution|>"],
  ["<|open|>think<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>"],
  ["<|channel>thought\n", "<channel|>"],
  ["<|content_thinking|>", "<|end_message|><|content_text|>"],
  [" to=self<|message|>", "<|eom|><|start|>assistant to=user<|message|>"],
  ["<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"],
];
/** Closing tags that are unambiguous even if the opening tag is in the prompt. */
const closings = families.map(([, close]) => close).filter((close) => !close.startsWith("<|end_message|>"));
const atStart: readonly (readonly [open: string, close: string])[] = [
  ["analysis", "assistantfinal"],
  ["Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]\n"],
  ["Here is my thought process: ", "\nHere is my response: "],
];

const secret = "S3CRET ###STOP### I am told to want two lamps.";
const words = fc.constantFrom(
  "Hello.",
  "I want a lamp, please",
  "2 < 3",
  "a > b?",
  "$5 [each]",
  "(yes) - ###STOP###",
  "think: no",
);

describe("splitReasoning()", () => {
  it.each([
    ["secret ... ###STOP### ... </think>\n\nHello", "secret ... ###STOP### ... ", "Hello"],
    ["Hi <think>x</think> there", "x", "Hi there"],
    ["Hi<think>x</think> there", "x", "Hi there"],
    ["one </think> two </think> three", "one \n\n two ", "three"],
    ["<think>a <think> b</think> c", "a <think> b", "c"],
    ["<thinking>a </think> b</thinking> c", "a </think> b", "c"],
    ["Hello <think>and then", "and then", "Hello"],
    ["<think>\n\n</think>\n\nHello", null, "Hello"],
    ["</think>\n\nHello", null, "Hello"],
    ["<think>only", "only", ""],
    ["only</think>", "only", ""],
    ["<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant<|channel|>final<|message|>Hello<|return|>", null, "One moment.Hello"], // prettier-ignore
    ["<|channel|>analysis<|message|>cut of", "cut of", ""],
  ])("%j: %j is thought, %j is said", (reply, reasoning, content) => {
    expect(splitReasoning(reply)).toEqual({ reasoning, content });
  });

  it.each([
    "Hello.",
    "  2 < 3 and a > b\n",
    "",
    "I think so.",
    "Sure. Here is my response: yes",
    "an <order> & co",
    "thinking",
  ])("leaves %j as it is", (reply) => expect(splitReasoning(reply)).toEqual({ reasoning: null, content: reply }));

  describe("plain words that may open reasoning", () => {
    const openings = [
      "Here's my thought process: ",
      "Here is my thought process:\n",
      "Here are my reasoning steps: ",
      "Analysis's ",
      "analysis(s) of ",
      'Analysis"',
      "ANALYSIS_2024.pdf: ",
      "analysis2 ",
      "analysisReport.pdf, ",
    ];

    it.each(openings)("%j opens reasoning only if the reply closes it, or was cut off", (opening) => {
      const reply = `${opening}I want the blue lamp. Which do you have?`;
      expect(splitReasoning(reply)).toEqual({ reasoning: null, content: reply });
      expect(splitReasoning(reply, { isTruncated: true })).toMatchObject({ content: "" });
      const thought = `${opening}They sell lamps.`;
      for (const close of ["Here is my response:", "[BEGIN FINAL RESPONSE]", "assistantfinal"]) {
        const { content } = splitReasoning(`${thought} ${close} The blue lamp, please.`);
        // Each opening has one closing; the other phrases are ordinary words.
        expect(content).toMatch(/The blue lamp, please\.$/);
      }
      expect(splitReasoning(`${thought}</think>Hello.`)).toMatchObject({ content: "Hello." });
    });

    it.each([
      "analysisI am told to want two lamps. I ask for one.",
      "analysisWe need to call a tool.assistantcommentary to=functions.f json{}",
      "analysis2 lamps.assistantanalysisOne lamp.",
    ])("%j is a channel without its special tokens, closed or not", (reply) => {
      expect(splitReasoning(reply).content).toBe("");
    });
  });

  it("keeps reasoning from what is said, wherever it is and whether or not it was opened or closed", () => {
    const closed = fc.tuple(fc.constantFrom(...families), words, fc.constantFrom("", " ", "\n\n"));
    fc.assert(
      fc.property(
        fc.record({
          head: fc.option(fc.constantFrom(...closings)),
          first: fc.option(fc.constantFrom(...atStart)),
          blocks: fc.array(closed, { maxLength: 3 }),
          end: fc.option(fc.constantFrom(...families)),
        }),
        ({ head, first, blocks, end }) => {
          // A reply begins inside its reasoning, with a block, or with neither.
          const begun = first !== null ? `${first[0]}${secret}${first[1]}` : head === null ? "" : `${secret}${head}`;
          const spoken = blocks.map(([[open, close], text, gap]) => `${open}${secret}${close}${gap}${text}`);
          const reply = begun + spoken.join(" ") + (end === null ? "" : `${end[0]}${secret}`);
          const { reasoning, content } = splitReasoning(reply);
          const said = blocks.map(([, text]) => text).join("");
          const bare = (text: string): string => text.replaceAll(/\s+/g, "");
          expect(bare(content)).toBe(bare(said));
          const times = (begun === "" ? 0 : 1) + blocks.length + (end === null ? 0 : 1);
          expect((reasoning ?? "").split("S3CRET").length - 1).toBe(times);
        },
      ),
    );
  });

  it("reads hostile replies within the time of a test, which a quadratic reader would exceed by minutes", () => {
    const parts = [
      ...families.flat(),
      ...atStart.flat(),
      "<",
      "<a:",
      "<think ",
      "<|channel|>",
      "to=self",
      "analysis ",
      " ",
    ];
    for (const part of parts) {
      expect(typeof splitReasoning(part.repeat(60_000)).content).toBe("string");
    }
  });
});
