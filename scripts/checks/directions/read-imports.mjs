// Reads the imports of one source file with a real parser, types included: a type imported from the
// wrong module is also a dependency in the wrong direction.

import { parseSync } from "oxc-parser";

/**
 * @typedef {object} Import
 * @property {string | null} specifier `null`: an `import()` of something computed.
 * @property {number} line
 * @property {boolean} isReexportOfAll `export * from`
 * @property {boolean} isLoading Importing the file loads the other one: the statement is not an `import()` and names a value.
 */

/**
 * @param {string} path Decides the language.
 * @param {string} source
 * @returns {Import[]}
 */
export function readImports(path, source) {
  const { module, errors } = parseSync(path, source);
  const [error] = errors;
  if (error !== undefined) throw new Error(`Cannot read the imports of "${path}": ${error.message}.`);
  /** @param {number} offset */
  const lineAt = (offset) => source.slice(0, offset).split("\n").length;
  /** @type {Import[]} */
  const imports = [];
  for (const { moduleRequest, start, entries } of module.staticImports) {
    const isLoading = entries.length === 0 || entries.some(({ isType }) => !isType);
    imports.push({ specifier: moduleRequest.value, line: lineAt(start), isReexportOfAll: false, isLoading });
  }
  for (const { entries } of module.staticExports) {
    for (const { moduleRequest, importName, start, isType } of entries) {
      if (moduleRequest === null) continue;
      // "All" is `export * as name`, "AllButDefault" is `export *`.
      imports.push({
        specifier: moduleRequest.value,
        line: lineAt(start),
        isReexportOfAll: /** @type {string} */ (importName.kind).startsWith("All"),
        isLoading: !isType,
      });
    }
  }
  for (const { moduleRequest, start } of module.dynamicImports) {
    const literal = /^(["'`])([^"'`$]*)\1$/.exec(source.slice(moduleRequest.start, moduleRequest.end));
    imports.push({ specifier: literal?.[2] ?? null, line: lineAt(start), isReexportOfAll: false, isLoading: false });
  }
  return imports.sort((first, second) => first.line - second.line);
}
