// Finds the TypeScript that documentation shows: fenced blocks of Markdown, and fenced blocks below `@example` in docstrings.
//
// What stands after ```ts says what is done with a block:
//   (nothing)        it is type-checked as a module of its own
//   run              it is run as well
//   continue         it goes on where the block before it ended
//   file=<path>      it shows that file of the repository, word for word; with any language

/**
 * @typedef {object} Example
 * @property {string} place File and line, for messages.
 * @property {string} code
 * @property {boolean} runs
 * @property {string | null} file
 */

/**
 * @param {string} file
 * @param {string} text Markdown, or TypeScript when the name ends in `.ts`.
 * @returns {Example[]}
 */
export function extractExamples(file, text) {
  const lines = file.endsWith(".ts") ? docstringExamples(text) : text.split("\n");
  /** @type {Example[]} */
  const examples = [];
  /** @type {{ indent: string, words: string[], line: number, code: string[] } | null} */
  let open = null;

  for (const [index, line] of lines.entries()) {
    const fence = /^(\s*)```(.*)$/.exec(line);
    if (open === null) {
      const [language, ...words] = (fence?.[2] ?? "").trim().split(/\s+/);
      if (fence !== null && language !== "")
        open = { indent: fence[1] ?? "", words: [language ?? "", ...words], line: index + 1, code: [] };
    } else if (fence !== null && fence[2] === "") {
      if (open.words[0] === "ts" || open.words.some((word) => word.startsWith("file="))) close(open);
      open = null;
    } else {
      open.code.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line.trimStart());
    }
  }
  return examples;

  /** @param {NonNullable<typeof open>} block */
  function close({ words, line, code }) {
    const shownCode = `${code.join("\n")}\n`;
    const before = examples.at(-1);
    const shown = words.find((word) => word.startsWith("file="));
    const place = `${file}:${line}`;
    for (const word of words.slice(1)) {
      if (!["run", "continue"].includes(word) && word !== shown) {
        throw new Error(
          `Cannot read the example at ${place}: "${word}" means nothing after \`\`\`ts; use run, continue or file=<path>.`,
        );
      }
    }
    if (!words.includes("continue")) {
      examples.push({
        place,
        code: shownCode,
        runs: words.includes("run"),
        file: shown?.slice("file=".length) ?? null,
      });
    } else if (before === undefined) {
      throw new Error(`Cannot continue an example at ${place}: there is none before it.`);
    } else {
      before.code += shownCode;
      before.runs ||= words.includes("run");
    }
  }
}

/**
 * The lines of a source, all blank but those of its `@example` parts, so that line numbers stay.
 *
 * @param {string} text
 */
function docstringExamples(text) {
  let isExample = false;
  return text.split("\n").map((line) => {
    const inside = /^\s*\* ?(?!\/)(.*)$/.exec(line)?.[1];
    if (inside === undefined) isExample = false;
    else if (/^@\w/.test(inside)) isExample = inside.startsWith("@example");
    return isExample ? (inside ?? "") : "";
  });
}
