// Text that others chose, as the value of a header.

/** The text itself when a header can carry it, else escaped: the same text always gives the same value. */
export function headerText(text: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text;
  // A lone surrogate cannot be escaped.
  return encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd"));
}
