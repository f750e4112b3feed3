// A training row as the text that it is, with its loss mask before every line and in colour. For reading; token by token it is
// `token-view.ts`. Long observations are folded, what was sampled never is.

import type { Sample } from "../../core/index.ts";
import { type Colours, formatCount, printable } from "./terminal-text.ts";

export type MaskedTextOptions = {
  readonly colours: Colours;
  readonly decode: (tokens: Uint32Array) => string;
  /** Of the terminal; `undefined`: 100. */
  readonly columns: number | undefined;
};

/** Of an observation, so many lines stay at each end. */
const kept = 5;

type Mark = "." | "1" | "s";

/** What the marks and colours of `maskedText` mean. */
export function maskLegend(colours: Colours): string {
  return `${colours.dim(". shown to the policy")}  ${colours.green("1 sampled and trained")}  ${colours.yellow("s sampled, masked")}`;
}

export function* maskedText(sample: Sample, { colours, decode, columns }: MaskedTextOptions): Generator<string> {
  const width = Math.max(40, (columns ?? 100) - 4);
  for (let start = 0; start < sample.tokens.length;) {
    const mark = markAt(sample, start);
    let end = start + 1;
    while (end < sample.tokens.length && markAt(sample, end) === mark) end++;
    const paint = { ".": colours.dim, "1": colours.green, s: colours.yellow }[mark];
    const lines = linesOf(decode(sample.tokens.subarray(start, end)), width);
    const isFolded = mark === "." && lines.length > kept * 2 + 1;
    const shown = isFolded ? [...lines.slice(0, kept), null, ...lines.slice(-kept)] : lines;
    for (const line of shown) {
      yield paint(
        line === null ? `    … ${formatCount(lines.length - kept * 2)} more lines` : `${mark} ${line}`.trimEnd(),
      );
    }
    start = end;
  }
}

function markAt({ lossMask, sampledMask }: Sample, at: number): Mark {
  if (lossMask[at] === 1) return "1";
  return sampledMask[at] === 1 ? "s" : ".";
}

/** A line break between two masks is seen anyway, so it makes no empty line. */
function linesOf(text: string, width: number): readonly string[] {
  const lines = printable(text).split("\n");
  if (lines.length > 1 && lines[0] === "") lines.shift();
  if (lines.length > 1 && lines.at(-1) === "") lines.pop();
  return lines.flatMap((line) => wrapped(line, width));
}

function wrapped(line: string, width: number): readonly string[] {
  const units = Array.from(line);
  const parts: string[] = [];
  for (let start = 0; start < units.length || parts.length === 0;) {
    const space = units.lastIndexOf(" ", start + width);
    const isLong = units.length - start > width;
    const end = isLong && space > start + width / 2 ? space + 1 : start + width;
    parts.push(units.slice(start, end).join(""));
    start = end;
  }
  return parts;
}
