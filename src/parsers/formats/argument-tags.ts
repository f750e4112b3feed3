// Arguments as pairs of key and value tags, which GLM, Ling, Hunyuan and others write.

import { space } from "../../python-semantics/index.ts";

export const keyOpening = "<arg_key>";
export const keyClosing = "</arg_key>";
export const valueOpening = "<arg_value>";
export const valueClosing = "</arg_value>";

type Pair = {
  readonly start: number;
  readonly key: string;
  readonly value: string;
  readonly end: number;
};

export type PairOptions = {
  /** Suffix of the names of all tags, as some checkpoints have one. Default "". */
  readonly suffix?: string;
};

/**
 * The pairs in order. A key extends to the first closing tag that a value follows, with nothing
 * between them but white space and text that matches the pattern `between`. `null`: nothing else
 * may come between them.
 */
export function* argumentPairs(
  text: string,
  between: string | null,
  options?: PairOptions,
): Generator<readonly [key: string, value: string]> {
  for (const { key, value } of findPairs(text, between, options)) yield [key, value];
}

/** The text outside the pairs. */
export function withoutPairs(text: string, between: string | null, options?: PairOptions): string {
  let rest = 0;
  let outside = "";
  for (const { start, end } of findPairs(text, between, options)) {
    outside += text.slice(rest, start);
    rest = end;
  }
  return outside + text.slice(rest);
}

function* findPairs(text: string, between: string | null, { suffix = "" }: PairOptions = {}): Generator<Pair> {
  const tag = (name: string): string => `${name.slice(0, -1)}${suffix}>`;
  const [keyStartTag, valueEndTag] = [tag(keyOpening), tag(valueClosing)];
  const gap = between === null ? "" : between === "" ? `${space}*` : `(?:${between}|${space})*`;
  const middle = new RegExp(`${tag(keyClosing)}${gap}${tag(valueOpening)}`, "gu");
  for (let start = text.indexOf(keyStartTag); start !== -1;) {
    const keyStart = start + keyStartTag.length;
    middle.lastIndex = keyStart;
    const match = middle.exec(text);
    const close = match === null ? -1 : text.indexOf(valueEndTag, middle.lastIndex);
    if (match === null || close === -1) return;
    const end = close + valueEndTag.length;
    yield { start, key: text.slice(keyStart, match.index), value: text.slice(middle.lastIndex, close), end };
    start = text.indexOf(keyStartTag, end);
  }
}
