import { describe, expect, test } from "vitest";

import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { type Dialogue, expertDialogues, withDrills } from "./dialogues.ts";

const tokenizer = createReadableTokenizer();

/** The text of a dialogue with the learnt tokens in brackets. */
function marked({ tokens, targets, promptLength }: Dialogue): string {
  const learnt = new Set(targets);
  let text = "";
  for (let at = promptLength; at < tokens.length; at++) {
    if (learnt.has(at) && !learnt.has(at - 1)) text += "[[";
    text += tokenizer.decode([tokens[at]!]);
    if (learnt.has(at) && !learnt.has(at + 1)) text += "]]";
  }
  return text;
}

describe("dialogues of the expert", () => {
  test("are learnt whole without mistakes", async () => {
    const rows = await expertDialogues(tokenizer, { split: "train", noise: 0, habit: 0, seed: 1 })(0, 4);
    for (const row of rows) {
      const spoken = [...marked(row).matchAll(/<\|im_start\|>assistant\n([\s\S]*?<\|im_end\|>(?:\]\])?)/g)].map(
        ([, said]) => said!,
      );
      expect(spoken.length).toBeGreaterThan(2);
      for (const said of spoken) expect(said.replaceAll("\n", " ")).toMatch(/^\[\[.*\]\]$/);
    }
  });

  test("with mistakes have some that are read alone, and are learnt otherwise", async () => {
    const rows = await expertDialogues(tokenizer, { split: "train", noise: 0.4, habit: 0, seed: 1 })(0, 8);
    const spoken = rows.flatMap((row) => [...marked(row).matchAll(/<\|im_start\|>assistant\n([\s\S]*?<\|im_end\|>)/g)]);
    const read = spoken.filter(([, said]) => !said!.includes("[["));
    expect(read.length).toBeGreaterThan(0);
    expect(read.length).toBeLessThan(spoken.length * 0.6);
    // Giving up is a mistake of the clerk in every conversation.
    for (const [, said] of spoken) if (said!.includes("Goodbye")) expect(said).not.toContain("[[");
  });
});

describe("withDrills()", () => {
  const source = expertDialogues(tokenizer, { split: "train", noise: 0, habit: 0, seed: 1 });
  const mixed = withDrills(source, tokenizer, { every: 4, seed: 1 });

  test("puts a drill in each fourth place and leaves no conversation out, however rows are taken", async () => {
    const [whole, plain] = [await mixed(0, 12), await source(0, 9)];
    const isDrill = (_: Dialogue, place: number): boolean => place % 4 === 3;
    expect(whole.filter((row, place) => !isDrill(row, place))).toEqual(plain);
    expect([...(await mixed(0, 5)), ...(await mixed(5, 7))]).toEqual(whole);
    const drills = whole.filter(isDrill);
    expect(new Set(drills.map(marked)).size).toBe(3);
  });

  test("a drill compares numbers with the limits of the guidelines; copies and verdicts are learnt", async () => {
    const [, , , drill] = await mixed(0, 4);
    const text = marked(drill!);
    const sentences = [...text.matchAll(/\[\[(\d+)\]\] to (\d+):\[\[ (more|less|same)\]\]/g)];
    expect(sentences.length).toBeGreaterThan(13);
    for (const [, number, limit, verdict] of sentences) {
      expect(["10", "30", "50", "60"]).toContain(limit);
      const sign = Math.sign(Number(number) - Number(limit));
      expect(verdict).toBe(["less", "same", "more"][sign + 1]);
    }
    expect(text.split("[[")).toHaveLength(2 * sentences.length + 1);
    const copies = [...text.matchAll(/(?:\$(\d+):|delivered (\d+) days ago\. Of \w+,) \[\[(\d+)\]\]/g)];
    expect(copies).toHaveLength(14);
    for (const [, amount, days, copied] of copies) expect(copied).toBe(amount ?? days);
  });
});
