// Docstrings in Google's style, parsed as by the parser that upstream uses for its tool
// descriptions: a first line, the text after it, and the description of each argument. Other styles
// are refused rather than guessed.

import { pythonStrip } from "../../../python-semantics/index.ts";

export type Docstring = {
  /**
   * First line and the text below it, separated by an empty line; `null` if the docstring has no
   * text.
   */
  readonly description: string | null;
  /** Descriptions of the parameters by name. */
  readonly parameters: ReadonlyMap<string, string>;
};

const parameterSections = ["Arguments", "Args", "Parameters", "Params"];
const sections = [
  ...parameterSections,
  ...["Raises", "Exceptions", "Except", "Attributes", "Example", "Examples", "Returns", "Yields"],
];
const titlePattern = new RegExp(`^(${sections.join("|")}):[ \\t\\r\\f\\v]*$`, "gm");

/** Text that parsers of other docstring styles would recognize. */
const otherStyle = /^(?::|@)|^-{3,}\s*$/m;

/** Parses a docstring; a string result names the reason why it cannot be read. */
export function readDocstring(written: string): Docstring | string {
  const text = cleanIndent(written);
  if (otherStyle.test(text)) return "a description is not in Google's style";
  const titles = [...text.matchAll(titlePattern)];
  const told = text.slice(0, titles[0]?.index ?? text.length);
  const lineEnd = told.indexOf("\n");
  const first = lineEnd < 0 ? told : told.slice(0, lineEnd);
  const rest = lineEnd < 0 ? "" : pythonStrip(told.slice(lineEnd + 1));
  const parameters = new Map<string, string>();
  for (const [at, title] of titles.entries()) {
    if (!parameterSections.includes(title[1] ?? "")) continue;
    const whole = text.slice(title.index + title[0].length, titles[at + 1]?.index ?? text.length);
    // A line without indentation ends the section.
    const end = whole.search(/\n\S/);
    const problem = readParameters((end < 0 ? whole : whole.slice(0, end)).replace(/^\n+|\n+$/g, ""), parameters);
    if (problem !== null) return problem;
  }
  const description = rest === "" ? first : `${first}\n\n${rest}`;
  return { description: first === "" ? null : description, parameters };
}

function readParameters(section: string, parameters: Map<string, string>): string | null {
  const indent = /^\s*/.exec(section)?.[0] ?? "";
  const starts = [...section.matchAll(/^\s*?(?=\S)/gm)].filter(
    ({ index, 0: margin }) => margin === indent && (index === 0 || section[index - 1] === "\n"),
  );
  if (starts.length === 0) return "a section of arguments is empty";
  for (const [at, { index }] of starts.entries()) {
    const part = section.slice(index + indent.length, starts[at + 1]?.index ?? section.length).replace(/\n+$/, "");
    const colon = part.indexOf(":");
    if (colon < 0) return "an argument is described without a colon";
    const before = part.slice(0, colon);
    const described = part.slice(colon + 1).replace(/^ /, "");
    const lineEnd = described.indexOf("\n");
    const value =
      lineEnd < 0 ? described : `${described.slice(0, lineEnd)}\n${cleanIndent(described.slice(lineEnd + 1))}`;
    // The type in parentheses after a name is not part of the name.
    const name = /^\s*(.+?)\s*\(\s*.*\S+\s*\)/.exec(before)?.[1] ?? before;
    parameters.set(name, value.replace(/^\n+|\n+$/g, ""));
  }
  return null;
}

/**
 * Same as `inspect.cleandoc`: removes the common margin of all lines but the first, and empty lines
 * at both ends.
 */
export function cleanIndent(text: string): string {
  const [first = "", ...rest] = expandTabs(text).split("\n");
  const margins = rest.filter((line) => /\S/.test(line)).map((line) => line.length - line.trimStart().length);
  const margin = margins.length === 0 ? 0 : Math.min(...margins);
  const lines = [first.trimStart(), ...rest.map((line) => line.slice(margin))];
  while (lines.at(-1) === "") lines.pop();
  while (lines[0] === "") lines.shift();
  return lines.join("\n");
}

function expandTabs(text: string): string {
  return text.replace(/^[^\n]*\t[^\n]*$/gm, (line) => {
    let expanded = "";
    for (const character of line) expanded += character === "\t" ? " ".repeat(8 - (expanded.length % 8)) : character;
    return expanded;
  });
}
