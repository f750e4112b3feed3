/** Python's white space, of `\s` and of `strip`, as the inside of a character class. JavaScript's differs at six characters. */
export const whitespaceClass = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
