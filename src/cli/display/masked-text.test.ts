import pc from "picocolors";
import { describe, expect, it } from "vitest";

import type { Sample } from "../../core/index.ts";
import { maskedText, maskLegend } from "./masked-text.ts";

/** One token per character; upper case is trained, digits are sampled and masked. */
function sampleOf(text: string): Sample {
  const units = Array.from(text);
  const sampledMask = Uint8Array.from(units, (unit) => (/[A-Z0-9]/.test(unit) ? 1 : 0));
  return {
    id: "e/0",
    episodeId: "e",
    groupId: "g",
    taskId: "t",
    branch: 0,
    tokens: Uint32Array.from(units, (unit) => unit.codePointAt(0) ?? 0),
    sampledMask,
    lossMask: Uint8Array.from(units, (unit) => (/[A-Z]/.test(unit) ? 1 : 0)),
    logprobs: null,
    weightRanges: [],
    reward: 1,
    tokenAccounting: "token-exact",
    historyPolicy: "append-only",
    deviations: [],
  };
}

const decode = (tokens: Uint32Array): string => String.fromCodePoint(...tokens);
const show = (text: string, options: { readonly columns?: number; readonly isPainted?: boolean } = {}): string[] => [
  ...maskedText(sampleOf(text), {
    colours: pc.createColors(options.isPainted ?? false),
    decode,
    columns: options.columns,
  }),
];

describe("maskedText()", () => {
  it("puts every change of the mask on a line of its own, marked even without colour", () => {
    expect(show("shown\nto it\nACTION\nresult 12 end")).toEqual([
      ". shown",
      ". to it",
      "1 ACTION",
      ". result",
      "s 12",
      ".  end",
    ]);
  });

  it("paints what is observed dim, what is trained green and what is masked yellow", () => {
    const { dim, green, yellow } = pc.createColors(true);
    expect(show("a\nB\n1", { isPainted: true })).toEqual([dim(". a"), green("1 B"), dim("."), yellow("s 1")]);
    expect(maskLegend(pc.createColors(true))).toContain(green("1 sampled and trained"));
  });

  it("folds long observations and nothing that was sampled", () => {
    const many = Array.from({ length: 30 }, (_, at) => String.fromCodePoint(97 + (at % 26))).join("\n");
    expect(show(many)).toHaveLength(11);
    expect(show(many)[5]).toBe("    … 20 more lines");
    expect(show("A".repeat(4000), { columns: 44 })).toHaveLength(100);
  });

  it("wraps at words, loses no character, and lets no escape sequence through", () => {
    const text = `${"word ".repeat(40)}${"x".repeat(90)}`;
    const lines = show(text, { columns: 60 });
    expect(lines.every((line) => line.length <= 60)).toBe(true);
    expect(lines.map((line) => line.slice(2)).join("").replaceAll(" ", "")).toBe(text.replaceAll(" ", "")); // prettier-ignore
    expect(show("\u001b[2J")).toEqual([". \\x1b[", "s 2", "1 J"]);
  });
});
