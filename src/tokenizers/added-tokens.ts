// Added tokens (`<|im_start|>`, `<think>`): texts that are cut out before anything else looks at the text, and never merge.
// The rules are those of Hugging Face tokenizers: the leftmost match wins, of those the longest; `normalized` tokens are
// looked for after normalizing, the others before.

/** One entry of "added_tokens", its id settled. */
export type AddedToken = {
  readonly id: number;
  readonly content: string;
  /** Matches only where no word character touches it. */
  readonly singleWord: boolean;
  /** Takes the white space to its left with it. */
  readonly lstrip: boolean;
  /** Takes the white space to its right with it. */
  readonly rstrip: boolean;
  /** Looked for in the normalized text. */
  readonly normalized: boolean;
  /** Left out by `skipSpecialTokens`. */
  readonly special: boolean;
};

const wordEnd = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]$/u;
const wordStart = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]/u;
const space = /\p{White_Space}/u;

/** Cuts a text at the added tokens that it was made for. */
export class AddedTokenSplitter {
  readonly #tokens = new Map<string, AddedToken>();
  readonly #pattern: RegExp | null;

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) if (!this.#tokens.has(token.content)) this.#tokens.set(token.content, token);
    const longestFirst = [...this.#tokens.keys()].sort((a, b) => b.length - a.length);
    const escaped = longestFirst.map((content) => content.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    this.#pattern = escaped.length === 0 ? null : new RegExp(escaped.join("|"), "g");
  }

  /** Calls `takeText` and `takeToken` in order; texts are never empty. */
  split(text: string, takeText: (text: string) => void, takeToken: (id: number) => void): void {
    if (this.#pattern === null) {
      if (text !== "") takeText(text);
      return;
    }
    const pattern = this.#pattern;
    let done = 0;
    pattern.lastIndex = 0;
    for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
      const token = this.#tokens.get(match[0]);
      let start = match.index;
      let end = start + match[0].length;
      if (token === undefined || (token.singleWord && touchesWord(text, start, end))) continue;
      if (token.lstrip) while (start > done && space.test(text.charAt(start - 1))) start--;
      if (token.rstrip) while (end < text.length && space.test(text.charAt(end))) end++;
      if (done < start) takeText(text.slice(done, start));
      takeToken(token.id);
      done = end;
    }
    if (done < text.length) takeText(text.slice(done));
  }
}

function touchesWord(text: string, start: number, end: number): boolean {
  return wordEnd.test(text.slice(Math.max(0, start - 2), start)) || wordStart.test(text.slice(end, end + 2));
}
