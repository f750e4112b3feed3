// The command line of a server, as `--env mcp:<command>` has it: split as a shell splits it, run without one. Values of variables
// come from the environment by name, so that a secret never stands in the settings of a run.

import { ConfigurationError } from "../../../core/failure.ts";

/** The place of the episode's own folder in a command. */
export const folderMark = "{folder}";

export type McpCommand = {
  readonly file: string;
  readonly args: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
};

/** What a server that is a program needs, and nothing secret. */
const inherited = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "SYSTEMROOT", "PATHEXT"];

/**
 * Reads `API_KEY=$API_KEY npx -y server --root {folder}`: assignments, the program, its arguments; quotes and backslashes as in a
 * shell, `$NAME` in assignments alone. Throws a `ConfigurationError`.
 */
export function parseMcpCommand(text: string, env: Readonly<Record<string, string | undefined>>): McpCommand {
  const words = splitWords(text);
  const variables: Record<string, string> = {};
  for (const name of inherited) if (env[name] !== undefined) variables[name] = env[name];
  let start = 0;
  for (; start < words.length; start++) {
    const [, name = "", value = ""] = /^([A-Za-z_]\w*)=(.*)$/s.exec(words[start]!) ?? [];
    if (name === "") break;
    variables[name] = value.replaceAll(/\$(\w+)/g, (_, variable: string) => {
      const found = env[variable];
      if (found !== undefined) return found;
      throw new ConfigurationError(
        `Cannot run "mcp:${text}": there is no variable ${variable}; set it, or correct --env.`,
      );
    });
  }
  const [file, ...args] = words.slice(start);
  if (file !== undefined && file !== "") return { file, args, variables };
  throw new ConfigurationError(`Cannot run "mcp:${text}": it names no program; give --env "mcp:<command or url>".`);
}

function splitWords(text: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!;
    if (letter === "\\" && quote !== "'" && at + 1 < text.length) word = (word ?? "") + text[++at]!;
    else if (letter === quote) quote = "";
    else if (quote === "" && (letter === '"' || letter === "'")) {
      quote = letter;
      word ??= "";
    } else if (quote === "" && /\s/.test(letter)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + letter;
  }
  if (quote !== "")
    throw new ConfigurationError(`Cannot run "mcp:${text}": a quote (${quote}) is not closed; correct --env.`);
  return word === null ? words : [...words, word];
}
