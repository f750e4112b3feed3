// Summarizes the standard error of a failed program: the line that names the error, and the end of
// the text. The line is found by the layouts in which runtimes print an uncaught error. It is only
// a hint for readers, so the end of the text is always shown too.

/** Layouts of errors, as expressions whose first group is the line. The match that begins last wins. */
const layouts = [
  // Node.js: the source line, a caret below it, a blank line, the error.
  /^[ \t]*\^+[ \t]*\n(?:[^\n]*\n)?\n(\S[^\n]*)/gm,
  // Python: the indented frames, then the error. Frames without a following line match too, so that
  // none is read twice.
  /^(?: *\+ Exception Group )?Traceback \(most recent call last\):\n(?: {2}[^\n]*\n)+(\S[^\n]*)?/gm,
  // JavaScript, Java, .NET: the error, then frames that begin with "at".
  /^([\w$[][^\n]*)\n(?:[^\n]*\n){0,3}?[ \t]+at \S/gm,
  // npm: a block of lines, in which the first sentence is the error.
  /^(npm (?:error|ERR!)(?! (?:code|errno|syscall|path|dest) )[^\n]*)(?:\nnpm [^\n]*)*/gm,
  // Go, Rust, and any line that begins with an error word.
  /^((?:panic|fatal|error|Error|ERROR)\b[^\n]*)/gm,
  /^(thread '[^\n]* panicked at [^\n]*(?:\n[^\n]+)?)/gm,
  /^((?:[\w$]+[.:]{1,2})*[\w$]*(?:Error|Exception)(?: \[\w+\])?:[^\n]*)/gm,
];

/** Number of characters read from the end, because an error is printed near the end of the output. */
const readCharacters = 65_536;

/** Lines that runtimes print after an error and that do not describe it. */
const trailer =
  /^(?:Node\.js v\d\S*|[ \t]*(?:at |\^|\+-)[^\n]*|npm (?:error|ERR!)[^\n]*|note: run with [^\n]*|exit status \d+|[\s{}\])]*)$/;

/**
 * The line of a program's standard error that names its error, with the innermost cause if Node.js
 * prints one; without a known layout, the last non-empty line. At most `length` characters; "" if
 * the program wrote nothing.
 */
export function programError(standardError: string, length = 500): string {
  const text = standardError
    .slice(-readCharacters)
    // oxlint-disable-next-line no-control-regex
    .replaceAll(/\u001b\[[\d;]*m/g, "")
    .replaceAll("\r\n", "\n")
    // Python prefixes exception groups with a bar.
    .replaceAll(/^ +\| /gm, "");
  const found = layouts.flatMap((layout) =>
    [...text.matchAll(layout)].filter(([, named]) => named !== undefined).slice(-1),
  );
  const line = found.toSorted((left, right) => right.index - left.index)[0]?.[1];
  const cause = [...text.matchAll(/^[ \t]*\[cause\]: (\S[^\n]*)/gm)].at(-1)?.[1];
  const last = text.split("\n").findLast((one) => !trailer.test(one));
  const named = (line ?? last ?? "").replaceAll("\n", " ").trim();
  const whole = cause === undefined ? named : `${named} (${cause.replace(/(?<![ {])[ {]+$/, "")})`;
  return whole.length > length ? `${whole.slice(0, length)} …` : whole;
}

/** The last lines of a text, at most `lines` and `length` characters; a first line "…" marks a cut. */
export function endOfText(text: string, { lines = 20, length = 2000 } = {}): string {
  const whole = text.trimEnd();
  const end = whole.split("\n").slice(-lines).join("\n").slice(-length);
  return end.length < whole.length ? `…\n${end}` : end;
}
