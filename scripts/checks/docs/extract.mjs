// Extracts the code in documentation: TypeScript in fenced blocks of Markdown and below `@example` in
// docstrings, and shell commands in fenced blocks and in inline code.
//
// The word after ```ts decides how a block is checked:
//   (none)           type-checked as a module of its own
//   run              also run
//   continue         continues the block before it
//   file=<path>      must equal that file of the repository; with any language

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
 * The lines of a source, all blank except its `@example` parts, so that line numbers stay valid.
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

/**
 * @typedef {object} PrintedCommand
 * @property {string} place File and line, for messages.
 * @property {readonly string[]} words Words of the command, split as by the shell; a placeholder like `<run folder>` is one word.
 * @property {boolean} isWhole To be pasted, not only named in a sentence.
 */

const programs = "npx|npm|node|python|pip|trainable-agents|curl";
const isCommand = new RegExp(`^(?:[A-Z_]+=\\S+ )*(?:${programs}) `);
const subcommands =
  "rollout|eval|inspect|export|merge|export-model|prepare|init|train|engine|serve|doctor|bench|tokens";
const isNamed = new RegExp(`^(?:${subcommands}) --`);

/**
 * Commands in blocks without a language or of a shell (in a `console` those after `$`, in a `diff`
 * those that are added), and in code within a line.
 *
 * @param {string} file
 * @param {string} text
 * @returns {PrintedCommand[]}
 */
export function extractCommands(file, text) {
  /** @type {PrintedCommand[]} */
  const commands = [];
  /** @type {string | null} */
  let language = null;
  /** @type {{ line: number, text: string } | null} */
  let open = null;
  for (const [index, line] of text.split("\n").entries()) {
    const fence = /^\s*```\s*(\w*)/.exec(line);
    if (fence !== null) {
      language = language === null ? (fence[1] ?? "") : null;
      open = null;
    } else if (language === null && !/^ {2,}\$ /.test(line) && open === null) {
      for (const [, code = ""] of line.matchAll(/`([^`]+)`/g)) {
        const named = isNamed.test(code) ? `trainable-agents ${code}` : code;
        if (isCommand.test(named)) add(named, index, false);
      }
    } else if (["", "sh", "bash", "console", "diff", null].includes(language)) {
      const shown = line.replace(/^\s*(?:[$+]\s+)?/, "");
      if (open !== null) open.text += ` ${shown}`;
      else if (isCommand.test(shown) && (language !== "diff" || line.startsWith("+")))
        open = { line: index, text: shown };
      if (open === null) continue;
      if (open.text.endsWith("\\")) open.text = open.text.slice(0, -1).trimEnd();
      else {
        add(open.text, open.line, true);
        open = null;
      }
    }
  }
  return commands;

  /**
   * @param {string} command
   * @param {number} index
   * @param {boolean} isWhole
   */
  function add(command, index, isWhole) {
    const words = splitWords(command);
    if (words.length > 1) commands.push({ place: `${file}:${index + 1}`, words, isWhole });
  }
}

/**
 * The first command of a line, without variables before it or comments, pipes and redirections
 * after it.
 *
 * @param {string} command
 */
function splitWords(command) {
  /** @type {string[]} */
  const words = [];
  for (const [word] of command.matchAll(/(?:<[^<>]*>|'[^']*'|"[^"]*"|[^\s'"<>|&;#]|(?<=\S)#)+|[|&;#>]/g)) {
    if (/^[|&;#>]$/.test(word)) break;
    if (/^(?:\.\.\.|…)$/.test(word) || (words.length === 0 && /^[A-Z_]+=/.test(word))) continue;
    words.push(word.replaceAll(/['"]/g, ""));
  }
  return words;
}
