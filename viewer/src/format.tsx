// Formats of numbers and strings, everywhere the same.

import { type Interval, type Row, wellFormed } from "../../src/viewer/wire/index.ts";

const counts = new Intl.NumberFormat("en");

export const count = (value: number): string => counts.format(value);

/** `3 episodes`, `1 episode`. */
export const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export function percent(rate: number | null): string {
  return rate === null ? "–" : `${(rate * 100).toFixed(rate > 0 && rate < 0.095 ? 1 : 0)} %`;
}

/** Bounds of a rate in percent: `[41 to 66]`; empty for none. */
export function interval(bounds: Interval | null): string {
  return bounds === null ? "" : `[${(bounds.low * 100).toFixed(0)} to ${(bounds.high * 100).toFixed(0)}]`;
}

/** US dollars; small amounts keep two digits that count. */
export function money(dollars: number | null): string {
  if (dollars === null) return "–";
  return `$${dollars === 0 || dollars >= 0.1 ? dollars.toFixed(2) : Number(dollars.toPrecision(2))}`;
}

/** Local date and time, to the minute. */
export function moment(ms: number): string {
  const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return Number.isNaN(date.getTime()) ? "–" : date.toISOString().slice(0, 16).replace("T", " ");
}

/** A reward in short form. */
export function reward(value: number | null): string {
  return value === null ? "–" : String(Number(value.toFixed(3))).replace("-", "−");
}

export function duration(ms: number | null): string {
  if (ms === null) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

/**
 * Makes invisible characters visible: control characters as their symbols, half characters and
 * marks that change the direction of text by their numbers.
 */
export function printable(text: string): string {
  const marks = /[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]|\p{Surrogate}/gu;
  return controlsShown(
    text.replaceAll(marks, (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`),
  );
}

/**
 * Well-formed text with control characters, except line feeds and tabs, as their symbols. Keeps the
 * length of the text.
 */
export function controlsShown(text: string): string {
  return wellFormed(text).replaceAll(/(?![\n\t])\p{Cc}/gu, (mark) => {
    const code = mark.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "␡" : "␦";
  });
}

/** An outcome in a word: an episode that a fault ended is "errored", never one that did not pass. */
export function outcomeText(outcome: Row["outcome"]): string {
  return outcome === "failed" ? "errored" : outcome;
}

export function outcomeClass(row: Pick<Row, "reward" | "outcome">): "good" | "bad" | "part" | "none" {
  if (row.outcome === "failed") return "bad";
  if (row.reward === null) return "none";
  if (Math.abs(row.reward - 1) <= 1e-6) return "good";
  return row.reward > 0 ? "part" : "bad";
}

export function Reward({ row }: { readonly row: Pick<Row, "reward" | "outcome"> }) {
  return (
    <span class={`reward ${outcomeClass(row)}`}>
      {row.reward === null ? outcomeText(row.outcome) : reward(row.reward)}
    </span>
  );
}

/** The end of an episode, in one phrase. */
export function ending(row: Pick<Row, "failure" | "outcome" | "stopReason">): string {
  if (row.failure !== null) return `errored: ${row.failure}`;
  if (row.outcome === "completed" && row.stopReason === "not recorded") return "ending not recorded";
  return row.outcome === "completed" ? row.stopReason : `${outcomeText(row.outcome)}: ${row.stopReason}`;
}
