// Python counts characters as code points, JavaScript as UTF-16 units. The two agree unless a text holds surrogate pairs.

const pair = /[\ud800-\udbff][\udc00-\udfff]/;

/** `len(text)`. */
export function codePointLength(text: string): number {
  if (!pair.test(text)) return text.length;
  let length = 0;
  for (const _ of text) length++;
  return length;
}

/** Where the code point of that index begins, in UTF-16 units; the end of the text for an index at or past its length. */
export function unitOffset(text: string, index: number): number {
  if (!pair.test(text)) return Math.min(index, text.length);
  let offset = 0;
  for (let passed = 0; passed < index && offset < text.length; passed++) {
    offset += text.codePointAt(offset)! > 0xffff ? 2 : 1;
  }
  return offset;
}

/** How many code points lie before a UTF-16 offset. */
export function codePointIndex(text: string, offset: number): number {
  return codePointLength(text.slice(0, offset));
}
