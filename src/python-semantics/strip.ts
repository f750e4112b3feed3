// Python's `str.strip` and its halves. `trim` differs: Python strips 0x1c..0x1f and 0x85, and leaves the byte order mark.

const whitespace = new Set(
  "\t\n\v\f\r\u001c\u001d\u001e\u001f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000",
);

/** `text.strip(characters)`; whitespace (`str.isspace`) when none are given. */
export function pythonStrip(text: string, characters?: string): string {
  return pythonLstrip(pythonRstrip(text, characters), characters);
}

/** `text.lstrip(characters)`. */
export function pythonLstrip(text: string, characters?: string): string {
  const stripped = characters === undefined ? whitespace : new Set(characters);
  let start = 0;
  while (start < text.length) {
    const character = String.fromCodePoint(text.codePointAt(start)!);
    if (!stripped.has(character)) break;
    start += character.length;
  }
  return text.slice(start);
}

/** `text.rstrip(characters)`. */
export function pythonRstrip(text: string, characters?: string): string {
  const stripped = characters === undefined ? whitespace : new Set(characters);
  let end = text.length;
  while (end > 0) {
    const character = lastCharacter(text, end);
    if (!stripped.has(character)) break;
    end -= character.length;
  }
  return text.slice(0, end);
}

function lastCharacter(text: string, end: number): string {
  const isLow = (text.charCodeAt(end - 1) & 0xfc00) === 0xdc00;
  const isPair = isLow && end > 1 && (text.charCodeAt(end - 2) & 0xfc00) === 0xd800;
  return text.slice(isPair ? end - 2 : end - 1, end);
}
