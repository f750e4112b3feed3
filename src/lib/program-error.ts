// What a program that failed wrote to its standard error: the line that names the error, and the end of the text. The line is found by
// how runtimes lay out an uncaught error; it is a help for people, so the end of the text always stands beside it.

/** The layouts, as expressions whose first group is the line. The match that begins last counts. */
const layouts = [
  // Node.js: the source line, a caret below it, a blank line, the error.
  /^[ \t]*\^+[ \t]*\n(?:[^\n]*\n)?\n(\S[^\n]*)/gm,
  // Python: the frames, which are indented, then the error. Frames that nothing follows match too, so that none is read twice.
  /^(?: *\+ Exception Group )?Traceback \(most recent call last\):\n(?: {2}[^\n]*\n)+(\S[^\n]*)?/gm,
  // JavaScript, Java, .NET: the error, then frames that begin with "at".
  /^([\w$[][^\n]*)\n(?:[^\n]*\n){0,3}?[ \t]+at \S/gm,
  // npm: a block of lines, where the first sentence is the error.
  /^(npm (?:error|ERR!)(?! (?:code|errno|syscall|path|dest) )[^\n]*)(?:\nnpm [^\n]*)*/gm,
  // Go, Rust, and whatever names an error at the start of a line.
  /^((?:panic|fatal|error|Error|ERROR)\b[^\n]*)/gm,
  /^(thread '[^\n]* panicked at [^\n]*(?:\n[^\n]+)?)/gm,
  /^((?:[\w$]+[.:]{1,2})*[\w$]*(?:Error|Exception)(?: \[\w+\])?:[^\n]*)/gm,
];

/** An error stands near the end of what a program wrote. */
const readCharacters = 65_536;

/** Lines that runtimes print after an error, which do not say what went wrong. */
const trailer =
  /^(?:Node\.js v\d\S*|[ \t]*(?:at |\^|\+-)[^\n]*|npm (?:error|ERR!)[^\n]*|note: run with [^\n]*|exit status \d+|[\s{}\])]*)$/;

/**
 * The line of a program's standard error that names its error, with the innermost cause where Node.js prints one; without a layout
 * that is known, the last line that says something. At most `length` characters; "" where nothing was written.
 */
export function programError(standardError: string, length = 500): string {
  const text = standardError
    .slice(-readCharacters)
    // oxlint-disable-next-line no-control-regex
    .replaceAll(/\u001b\[[\d;]*m/g, "")
    .replaceAll("\r\n", "\n")
    // Python's exception groups stand after a bar.
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

/** The last lines of a text, at most `lines` and `length` characters; a first line "…" stands for what is cut. */
export function endOfText(text: string, { lines = 20, length = 2000 } = {}): string {
  const whole = text.trimEnd();
  const end = whole.split("\n").slice(-lines).join("\n").slice(-length);
  return end.length < whole.length ? `…\n${end}` : end;
}
