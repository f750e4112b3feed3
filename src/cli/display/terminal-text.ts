// Text for terminals. Text from models and tools may hold escape sequences, which could clear the
// screen or forge output, so they are made visible: all output goes through `terminalOutput`, and
// names and values through `visibleLine` before that.

import pc from "picocolors";
import { tableRows, wrapLines, visible, visibleLine } from "../../lib/text.ts";
import type { Output } from "../cli-context.ts";

export type Colours = ReturnType<typeof pc.createColors>;

/** Colours for a stream: on in a terminal, off with NO_COLOR or TERM=dumb, forced by FORCE_COLOR. */
export function coloursFor(stream: Output, env: Readonly<Record<string, string | undefined>>): Colours {
  if (env["NO_COLOR"] !== undefined && env["NO_COLOR"] !== "") return pc.createColors(false);
  if (env["FORCE_COLOR"] !== undefined && env["FORCE_COLOR"] !== "0") return pc.createColors(true);
  return pc.createColors(stream.isTTY === true && env["TERM"] !== "dumb");
}

/**
 * Codes of the colours and weights that `Colours` writes; hidden and blinking text are not among
 * them.
 */
// oxlint-disable-next-line no-control-regex
const colourCodes = /(\u001b\[(?:[0123479]|2[234579]|[34][0-79]|(?:9|10)[0-7])m)/;

/** Text for a terminal: control characters become visible; if `hasColours`, colours stay. */
export function terminalText(text: string, hasColours: boolean): string {
  if (!hasColours) return visible(text);
  return text.split(colourCodes).map((part, at) => (at % 2 === 1 ? part : visible(part))).join(""); // prettier-ignore
}

/**
 * The only way to a terminal: all text is shown and cannot act, no matter where it comes from. If
 * the width is known (that of the terminal, else the variable COLUMNS), longer lines wrap without
 * breaking a word.
 */
export function terminalOutput(stream: Output, env: Readonly<Record<string, string | undefined>>): Output {
  const hasColours = coloursFor(stream, env).isColorSupported;
  const columns = (): number | undefined => stream.columns ?? (Number.parseInt(env["COLUMNS"] ?? "", 10) || undefined);
  /** The last line, which has no line end yet. */
  let begun = "";
  return {
    ...(stream.isTTY === undefined ? {} : { isTTY: stream.isTTY }),
    get columns() {
      return columns();
    },
    below: stream,
    write: (text) => {
      const shown = terminalText(text, hasColours);
      const width = columns();
      if (width === undefined) return stream.write(shown);
      const lines = shown.split("\n");
      const before = begun;
      begun = lines.length === 1 ? before + shown : lines.at(-1)!;
      return stream.write(
        lines
          .map((line, at) => {
            if (at === 0 && before !== "") return wrappedFrom(before, before + line, width);
            return wrapped(line, width, lines[at - 1]?.endsWith(" \\") === true);
          })
          .join("\n"),
      );
    },
  };
}

/** The rest of a wrapped line of which `before` is already written. */
function wrappedFrom(before: string, line: string, width: number): string {
  const whole = wrapped(line, width, false);
  return whole.startsWith(before) ? whole.slice(before.length) : line.slice(before.length);
}

/** Lines of JSON are data and are not wrapped. */
const jsonLine = /^\s*(?:[{[\]}]|"(?:[^"\\]|\\.)*": )/;

function wrapped(line: string, width: number, goesOnCommand: boolean): string {
  if (visibleLength(line) <= width || jsonLine.test(line)) return line;
  const [indent = ""] = /^ */.exec(line) ?? [];
  // A wrapped command can still be copied from the help.
  const isCommand = goesOnCommand || line.startsWith(`${indent}$ `);
  const ending = isCommand ? " \\" : "";
  const isComment = line.startsWith(`${indent}# `);
  const begin = `${indent}${isComment ? "# " : isCommand && !goesOnCommand ? "    " : "  "}`;
  const lines: string[] = [];
  let current = indent;
  const text = line.slice(indent.length);
  for (const word of isCommand ? commandParts(text, width - begin.length - ending.length) : text.split(" ")) {
    const isFirst = current === indent || current === begin;
    const next = isFirst ? current + word : `${current} ${word}`;
    if (!isFirst && visibleLength(next) > width - ending.length) {
      lines.push(current + ending);
      current = begin + word;
    } else {
      current = next;
    }
  }
  return [...lines, current].join("\n");
}

/** Parts of a command: a flag and its value stay together if they fit; quoted text always does. */
function commandParts(line: string, width: number): string[] {
  const words = line.match(/(?:'[^']*'|"[^"]*"|[^ '"]|['"])+/g) ?? [];
  const parts: string[] = [];
  for (const word of words) {
    const last = parts.at(-1);
    const isValue = last !== undefined && /^--?[a-z][\w-]*$/i.test(last) && !word.startsWith("-");
    if (isValue && last.length + 1 + word.length <= width) parts[parts.length - 1] = `${last} ${word}`;
    else parts.push(word);
  }
  return parts;
}

/** Number of characters that a terminal shows of a text with colours. */
function visibleLength(text: string): number {
  return text.split(colourCodes).reduce((sum, part, at) => (at % 2 === 1 ? sum : sum + part.length), 0);
}

/**
 * A message of several lines: those after the first are indented, so that none can pass for a line
 * of ours.
 */
export function oneMessage(text: string): string {
  return text.replaceAll(/\n(?=[^\n])/g, "\n  ");
}

/** The first `length` characters, and the number of omitted ones. */
export function shorten(text: string, length: number): string {
  if (text.length <= length + 20) return text;
  return `${text.slice(0, length)} … (${formatCount(text.length - length)} more characters)`;
}

/** Formats 12345 as "12,345". */
export function formatCount(count: number): string {
  return Math.round(count).toLocaleString("en-US");
}

/** A rate or mean: two decimals below ten, one below a hundred, none from there on. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return formatCount(value);
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

/** A speed: with one decimal below ten, where a whole number would be too coarse. */
export function formatRate(value: number): string {
  return value < 9.95 ? value.toFixed(1) : formatCount(value);
}

export function formatPercent(share: number | null): string {
  return share === null ? "–" : `${(share * 100).toFixed(1)} %`;
}

/** Formats a duration: 83.2 s, 12 min 3 s, 2 h 5 min. */
export function formatDuration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * Labels, all as wide as the widest, each before its value, which wraps below itself at the width
 * of the terminal.
 */
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

/**
 * A table whose titles are dim, each line after `indent` spaces; it fits `columns`, 80 if the width
 * is unknown.
 */
export function tableLines(
  header: string,
  rows: readonly (readonly string[])[],
  { colours, columns = 80, indent = 0 }: { readonly colours: Colours; readonly columns?: number | undefined; readonly indent?: number }, // prettier-ignore
): string[] {
  const [titles = [], ...lines] = tableRows(header, rows, Math.min(columns, 120) - indent);
  return [...titles.map(colours.dim), ...lines.flat()].map((line) => `${" ".repeat(indent)}${line}`);
}

/** "a 3, b 1"; "none" when there is nothing to count. */
export function countsText(counts: Readonly<Record<string, number>>): string {
  const entries = Object.entries(counts).filter(([, count]) => count > 0);
  return entries.length === 0 ? "none" : entries.map(([name, count]) => `${name} ${formatCount(count)}`).join(", ");
}
