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

/**
 * The pairs in order. A key extends to the first closing tag that a value follows, with nothing
 * between them but white space and text that matches the pattern `between`. `null`: nothing else
 * may come between them.
 */
export function* argumentPairs(text: string, between: string | null): Generator<readonly [key: string, value: string]> {
  for (const { key, value } of findPairs(text, between)) yield [key, value];
}

/** The text outside the pairs. */
export function withoutPairs(text: string, between: string): string {
  let rest = 0;
  let outside = "";
  for (const { start, end } of findPairs(text, between)) {
    outside += text.slice(rest, start);
    rest = end;
  }
  return outside + text.slice(rest);
}

function* findPairs(text: string, between: string | null): Generator<Pair> {
  const gap = between === null ? "" : between === "" ? `${space}*` : `(?:${between}|${space})*`;
  const middle = new RegExp(`${keyClosing}${gap}${valueOpening}`, "gu");
  for (let start = text.indexOf(keyOpening); start !== -1;) {
    const keyStart = start + keyOpening.length;
    middle.lastIndex = keyStart;
    const match = middle.exec(text);
    const close = match === null ? -1 : text.indexOf(valueClosing, middle.lastIndex);
    if (match === null || close === -1) return;
    const end = close + valueClosing.length;
    yield { start, key: text.slice(keyStart, match.index), value: text.slice(middle.lastIndex, close), end };
    start = text.indexOf(keyOpening, end);
  }
}
