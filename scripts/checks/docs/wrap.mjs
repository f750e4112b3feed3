// Wraps text to lines that fit a screen, for generated pages.

const width = 120;

/**
 * @param {string} text
 * @param {string} [indent] Indent of every line except the first. Default: none.
 * @returns {string[]}
 */
export function wrap(text, indent = "") {
  const lines = [""];
  for (const part of text.split(" ")) {
    const line = lines.at(-1) ?? "";
    if (line.trim() !== "" && line.length + 1 + part.length > width) lines.push(indent + part);
    else lines[lines.length - 1] = line === "" || line === indent ? line + part : `${line} ${part}`;
  }
  return lines;
}
