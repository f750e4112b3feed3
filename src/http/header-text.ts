// Text that others chose, as the value of a header.

import { createHash } from "node:crypto";

/** Routers skip longer keys in silence. */
const longestKey = 128;

/** The text itself when a header can carry it, else escaped or hashed: the same text always gives the same value. */
export function headerText(text: string): string {
  // A lone surrogate cannot be escaped.
  const value = /^[\x21-\x7e]+$/.test(text) ? text : encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd"));
  return value.length <= longestKey ? value : createHash("sha256").update(value).digest("hex");
}
