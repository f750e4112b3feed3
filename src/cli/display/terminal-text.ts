// Text for terminals. What models and tools wrote may hold escape sequences; shown as they are they could clear the screen
// or forge output, so they are made visible: all of it goes through `terminalOutput`, and names and values through `visibleLine` before.

import pc from "picocolors";
import { visible, visibleLine } from "../../lib/visible-text.ts";
import type { Output } from "../cli-context.ts";

export type Colours = ReturnType<typeof pc.createColors>;

/** Colours for a stream: on in a terminal, off with NO_COLOR or TERM=dumb, forced by FORCE_COLOR. */
export function coloursFor(stream: Output, env: Readonly<Record<string, string | undefined>>): Colours {
  if (env["NO_COLOR"] !== undefined && env["NO_COLOR"] !== "") return pc.createColors(false);
  if (env["FORCE_COLOR"] !== undefined && env["FORCE_COLOR"] !== "0") return pc.createColors(true);
  return pc.createColors(stream.isTTY === true && env["TERM"] !== "dumb");
}

/** Colours and weights that `Colours` writes; hidden and blinking text are not among them. */
// oxlint-disable-next-line no-control-regex
const colourCodes = /(\u001b\[(?:[0123479]|2[234579]|[34][0-79]|(?:9|10)[0-7])m)/;

/** What a terminal is given: control characters become visible; where `hasColours`, colours stay. */
export function terminalText(text: string, hasColours: boolean): string {
  if (!hasColours) return visible(text);
  return text.split(colourCodes).map((part, at) => (at % 2 === 1 ? part : visible(part))).join(""); // prettier-ignore
}

/** The one way to a terminal: whatever is written is shown and cannot act, wherever it comes from. */
export function terminalOutput(stream: Output, env: Readonly<Record<string, string | undefined>>): Output {
  const hasColours = coloursFor(stream, env).isColorSupported;
  return {
    ...(stream.isTTY === undefined ? {} : { isTTY: stream.isTTY }),
    get columns() {
      return stream.columns;
    },
    below: stream,
    write: (text) => stream.write(terminalText(text, hasColours)),
  };
}

/** A message of several lines: those after the first are indented, so that none looks like a line of ours. */
export function oneMessage(text: string): string {
  return text.replaceAll(/\n(?=[^\n])/g, "\n  ");
}

/** The first `length` characters, and how many are left out. */
export function shorten(text: string, length: number): string {
  if (text.length <= length + 20) return text;
  return `${text.slice(0, length)} … (${formatCount(text.length - length)} more characters)`;
}

/** 12345 as "12,345". */
export function formatCount(count: number): string {
  return Math.round(count).toLocaleString("en-US");
}

/** A rate or mean with as many digits as it deserves. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return formatCount(value);
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

/** A speed: a decimal below ten, where the next whole number says little. */
export function formatRate(value: number): string {
  return value < 9.95 ? value.toFixed(1) : formatCount(value);
}

export function formatPercent(share: number | null): string {
  return share === null ? "–" : `${(share * 100).toFixed(1)} %`;
}

/** 83.2 s, 12 min 3 s, 2 h 5 min. */
export function formatDuration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Labels, all as wide as the widest, each before its value, which continues below itself where the terminal ends. */
export function labelledRows(
  rows: readonly (readonly [label: string, value: string])[],
  colours: Colours,
  columns = Infinity,
): string[] {
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.flatMap(([label, value]) => {
    const [first = "", ...more] = wrapLines(visibleLine(value), Math.max(20, columns - width - 2));
    return [`${colours.dim(label.padEnd(width))}  ${first}`, ...more.map((line) => `${" ".repeat(width)}  ${line}`)];
  });
}

/** Lines of at most `width` characters, no word broken in two: one that is longer has a line of its own. No colours within. */
export function wrapLines(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line.trimEnd());
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

/** "a 3, b 1"; "none" when there is nothing to count. */
export function countsText(counts: Readonly<Record<string, number>>): string {
  const entries = Object.entries(counts).filter(([, count]) => count > 0);
  return entries.length === 0 ? "none" : entries.map(([name, count]) => `${name} ${formatCount(count)}`).join(", ");
}
