// The fields of a JSON object as bytes, without reading their values: where a line is long and few of
// its fields are needed, or where a list of numbers is read faster than by JSON.parse.

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openList = 0x5b;
const closeList = 0x5d;
const backslash = 0x5c;
const openObject = 0x7b;
const closeObject = 0x7d;

export function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === 0x0a;
}

/** First byte of a value, and the byte after it. */
export type FieldPlace = readonly [start: number, end: number];

/**
 * Places of the values of an object, by name; the last field of a name counts, as in JSON.parse.
 * `places` is cleared first. Throws a plain error if the bytes are not one object; the values
 * themselves are not checked.
 */
export function splitFields(bytes: Buffer, places: Map<string, FieldPlace>): void {
  places.clear();
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== openObject) throw notAnObject();
  at = skipSpace(bytes, at + 1);
  while (bytes[at] !== closeObject) {
    if (bytes[at] !== quote) throw notAnObject();
    const nameEnd = endOfString(bytes, at);
    const name = JSON.parse(bytes.toString("utf8", at, nameEnd)) as string;
    at = skipSpace(bytes, nameEnd);
    if (bytes[at] !== colon) throw notAnObject();
    const start = skipSpace(bytes, at + 1);
    const end = endOfValue(bytes, start);
    if (end === start || end > bytes.length) throw notAnObject();
    places.set(name, [start, end]);
    at = skipSpace(bytes, end);
    const isLast = bytes[at] !== comma;
    if (!isLast) at = skipSpace(bytes, at + 1);
    // No comma follows the last field.
    if ((bytes[at] === closeObject) !== isLast) throw notAnObject();
  }
  if (skipSpace(bytes, at + 1) !== bytes.length) throw notAnObject();
}

function notAnObject(): Error {
  return new Error("it is not a JSON object");
}

function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (isSpace(bytes[at])) at++;
  return at;
}

/** The byte after the string that begins at `start`; beyond the end if it is not closed. */
function endOfString(bytes: Buffer, start: number): number {
  for (let end = bytes.indexOf(quote, start + 1); end !== -1; end = bytes.indexOf(quote, end + 1)) {
    let escapes = end;
    while (bytes[escapes - 1] === backslash) escapes--;
    if ((end - escapes) % 2 === 0) return end + 1;
  }
  return bytes.length + 1;
}

/** The byte after the value that begins at `start`; beyond the end if it is not closed. */
function endOfValue(bytes: Buffer, start: number): number {
  const first = bytes[start];
  if (first === quote) return endOfString(bytes, start);
  if (first !== openList && first !== openObject) {
    let end = start;
    while (end < bytes.length && bytes[end] !== comma && bytes[end] !== closeObject && !isSpace(bytes[end])) end++;
    return end;
  }
  const second = bytes[start + 1];
  // A list that begins with a number ends at its first bracket, or is not a list of numbers.
  if (first === openList && second !== undefined && (second === 0x2d || (second >= 0x30 && second <= 0x39))) {
    const end = bytes.indexOf(closeList, start);
    return end === -1 ? bytes.length + 1 : end + 1;
  }
  let depth = 0;
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) at = endOfString(bytes, at) - 1;
    else if (byte === openList || byte === openObject) depth++;
    else if ((byte === closeList || byte === closeObject) && --depth === 0) return at + 1;
  }
  return bytes.length + 1;
}
