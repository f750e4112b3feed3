// Finds where strict JSON ends in text that comes in pieces, as the reader of `cohere_melody` does:
// at the end of the shortest beginning that is valid. Each character is read once, however many
// pieces there are.

/** Nesting that the server's reader refuses. */
const maxDepth = 128;

const [quote, backslash] = [0x22, 0x5c];
const brackets: ReadonlyMap<number, 1 | -1> = new Map([[0x7b, 1], [0x5b, 1], [0x7d, -1], [0x5d, -1]]); // prettier-ignore
const literal = /^(?:true|false|null|-?[0-9])/;
const longestLiteral = 5;

export class JsonEndFinder {
  #kind: "blank" | "literal" | "nested" | "invalid" = "blank";
  /** The value so far. */
  readonly #parts: string[] = [];
  #head = "";
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  /** Reads on from a position of the next piece. Returns the end in this piece; -1 if there is none yet. */
  push(text: string, from: number): number {
    let start = from;
    if (this.#kind === "blank") {
      while (start < text.length && " \t\n\r".includes(text[start]!)) start++;
      if (start === text.length) return -1;
      this.#kind = '{["'.includes(text[start]!) ? "nested" : "literal";
    }
    if (this.#kind === "invalid") return -1;
    return this.#kind === "literal" ? this.#endOfLiteral(text, start) : this.#endOfNested(text, start);
  }

  #endOfLiteral(text: string, start: number): number {
    const { length } = this.#head;
    this.#head += text.slice(start, start + longestLiteral - length);
    const found = literal.exec(this.#head);
    if (found !== null) return start + found[0].length - length;
    if (this.#head.length === longestLiteral) this.#kind = "invalid";
    return -1;
  }

  /** The end of a list, an object or a string. */
  #endOfNested(text: string, start: number): number {
    for (let at = start; at < text.length; at++) {
      const character = text.charCodeAt(at);
      if (this.#isEscaped) {
        this.#isEscaped = false;
      } else if (this.#isInString && character === backslash) {
        this.#isEscaped = true;
      } else if (character === quote) {
        this.#isInString = !this.#isInString;
        if (!this.#isInString && this.#depth === 0) return this.#endAt(text, start, at + 1);
      } else if (!this.#isInString && brackets.has(character)) {
        this.#depth += brackets.get(character)!;
        if (this.#depth === 0) return this.#endAt(text, start, at + 1);
        if (this.#depth === maxDepth) {
          this.#kind = "invalid";
          return -1;
        }
      }
    }
    this.#parts.push(text.slice(start));
    return -1;
  }

  /** No longer text can be valid where the first complete one is not. */
  #endAt(text: string, start: number, end: number): number {
    this.#parts.push(text.slice(start, end));
    if (isStrictJson(this.#parts.join(""))) return end;
    this.#kind = "invalid";
    return -1;
  }
}

function isStrictJson(text: string): boolean {
  try {
    return isAccepted(JSON.parse(text));
  } catch {
    return false;
  }
}

/** The server's reader refuses numbers that overflow, and halves of characters. */
function isAccepted(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value === "string") return !/[\ud800-\udfff]/u.test(value);
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, item]) => isAccepted(key) && isAccepted(item));
}
