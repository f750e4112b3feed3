// A training row as text: by line with its loss mask and in colour, or token by token. Long
// observations are folded, sampled tokens never are.

import type { Sample, Episode } from "../../core/index.ts";
import { episodeSamples } from "../../rollout/index.ts";
import { dumpSample, untrainedSamples } from "../../trajectories/index.ts";
import { type Colours, formatCount } from "./terminal-text.ts";
import { visible, visibleLine } from "../../lib/text.ts";

type TokenViewOptions = {
  readonly colours: Colours;
  /** `null` if the tokenizer is unavailable, so that ids are shown without text. */
  readonly decode: ((tokens: Uint32Array) => string) | null;
};

/**
 * The rows as lines, with a heading for each sample. An episode that trains nothing is shown fully
 * masked, with the reason.
 */
export function* tokenView(episode: Episode, options: TokenViewOptions): Generator<string> {
  const { colours } = options;
  const { samples, dropped } = episodeSamples(episode);
  const shown = samples.length > 0 ? samples : untrainedSamples(episode);
  if (episode.historyPolicy === "no-tokens")
    yield colours.dim("The agent was a model behind an API: there are no tokens.");
  yield `${colours.dim("observed")}  ${colours.green("sampled and trained")}  ${colours.yellow("sampled, masked")}   (place, id, mask, logprob, text)`;
  for (const sample of shown) {
    const sum = (mask: Uint8Array): string => formatCount(mask.reduce((total, bit) => total + bit, 0));
    yield "";
    yield colours.bold(
      `sample ${visibleLine(sample.id)}: ${formatCount(sample.tokens.length)} tokens, ${sum(sample.sampledMask)} sampled, ` +
        `${sum(sample.lossMask)} trained, reward ${sample.reward ?? "–"}, ${sample.tokenAccounting}, ${sample.historyPolicy}`,
    );
    yield* sampleLines(sample, options);
  }
  for (const { turn, count, reason } of dropped) {
    yield colours.yellow(`turn ${turn}: ${formatCount(count)} sampled tokens are in no sample (${reason})`);
  }
}

function* sampleLines(sample: Sample, { colours, decode }: TokenViewOptions): Generator<string> {
  const dump = dumpSample(sample, decode ?? (() => ""));
  let at = 0;
  for (const line of dump.split("\n")) {
    const text = visibleLine(decode === null ? line.replace(/ ""$/, "") : line);
    if (sample.lossMask[at] === 1) yield colours.green(text);
    else if (sample.sampledMask[at] === 1) yield colours.yellow(text);
    else yield colours.dim(text);
    at++;
  }
}

export type MaskedTextOptions = {
  readonly colours: Colours;
  readonly decode: (tokens: Uint32Array) => string;
  /** Width of the terminal; `undefined` means 100. */
  readonly columns: number | undefined;
};

/** Number of lines of an observation that are shown at each end. */
const shownEnds = 5;

type Mark = "." | "1" | "s";

/** Legend for the marks and colours of `maskedText`. */
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
    const isFolded = mark === "." && lines.length > shownEnds * 2 + 1;
    const shown = isFolded ? [...lines.slice(0, shownEnds), null, ...lines.slice(-shownEnds)] : lines;
    for (const line of shown) {
      yield paint(
        line === null ? `    … ${formatCount(lines.length - shownEnds * 2)} more lines` : `${mark} ${line}`.trimEnd(),
      );
    }
    start = end;
  }
}

function markAt({ lossMask, sampledMask }: Sample, at: number): Mark {
  if (lossMask[at] === 1) return "1";
  return sampledMask[at] === 1 ? "s" : ".";
}

/** A line break between two masks is visible anyway, so it adds no empty line. */
function linesOf(text: string, width: number): readonly string[] {
  const lines = visible(text).split("\n");
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
