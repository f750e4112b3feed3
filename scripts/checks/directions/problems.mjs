// Enforces the table of import directions on a set of sources. Pure: its input is texts and names,
// so its own tests are small artificial trees. `check.mjs` finds the existing folders and the
// packages that package.json declares.

import { builtinModules } from "node:module";
import { dirname, join, normalize } from "node:path/posix";

import { findCycles } from "./cycles.mjs";
import { readImports } from "./read-imports.mjs";

/** @import { Module } from "./table.mjs" */

/**
 * @typedef {object} Tree
 * @property {Readonly<Record<string, Module>>} modules
 * @property {string} packageEntry
 * @property {readonly string[]} openToTests
 * @property {ReadonlyMap<string, string>} sources Path below src/ to text.
 * @property {ReadonlySet<string>} dependencies Packages that are installed with the package.
 * @property {ReadonlySet<string>} devDependencies
 * @property {ReadonlySet<string>} [peers] Optional ones. Default: none.
 */

/**
 * Every forbidden import, undeclared package, import past a public entry, cycle and unused
 * permission, one sentence each.
 *
 * @param {Tree} tree
 * @returns {string[]}
 */
export function findDirectionProblems(tree) {
  /** @type {string[]} */
  const problems = [];
  /** @type {Map<string, Set<string>>} Module to modules and packages that it imports outside its tests. */
  const used = new Map();
  /** @type {Map<string, string[]>} File to the files that it imports. */
  const edges = new Map();

  for (const [file, source] of tree.sources) {
    const module = moduleOf(file, tree);
    if (module === null && file !== tree.packageEntry) {
      problems.push(`src/${file} is in no module of the table: add its module, or move it.`);
      continue;
    }
    /** @type {string[]} */
    const targets = [];
    edges.set(file, targets);
    for (const { specifier, line } of readImports(file, source)) {
      const place = `src/${file}:${line}`;
      if (specifier === null) {
        if (!isTest(file) && ruleOf(module, tree)?.loads !== file) {
          problems.push(`${place} imports what is only known at run time: the table does not let this file load code.`);
        }
      } else if (specifier.startsWith(".")) {
        const target = normalize(join(dirname(file), specifier));
        targets.push(target);
        const problem = fileProblem(file, target, tree);
        if (problem !== null) problems.push(`${place} imports "${specifier}": ${problem}`);
        else if (!isTest(file) && module !== null) note(used, module, moduleOf(target, tree));
      } else {
        const problem = packageProblem(file, specifier, tree);
        if (problem !== null) problems.push(`${place} imports "${specifier}": ${problem}`);
        else if (!isTest(file) && module !== null) note(used, module, packageName(specifier));
      }
    }
  }
  for (const cycle of findCycles(edges)) {
    problems.push(`Files import each other in a circle: ${cycle.map((file) => `src/${file}`).join(" → ")}.`);
  }
  // One statement that re-exports five names is one problem.
  return [...new Set(problems), ...findUnusedPermissions(tree, used), ...findTableCycles(tree.modules)];
}

/** @param {string} file */
export const isTest = (file) => file.endsWith(".test.ts") || file.endsWith(".test-helper.ts");

/**
 * The module of a file: the longest listed folder that contains it, where an adapter folder counts
 * as listed. `null` if none.
 *
 * @param {string} file
 * @param {Pick<Tree, "modules">} tree
 * @returns {string | null}
 */
export function moduleOf(file, tree) {
  for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) {
    if (Object.hasOwn(tree.modules, folder) || Object.hasOwn(tree.modules, join(dirname(folder), "*"))) return folder;
  }
  return null;
}

/**
 * Entry of the table for a module; `undefined` for the entry of the package, which belongs to no
 * module.
 *
 * @param {string | null} module
 * @param {Pick<Tree, "modules">} tree
 * @returns {Module | undefined}
 */
export function ruleOf(module, tree) {
  return module === null ? undefined : (tree.modules[module] ?? tree.modules[join(dirname(module), "*")]);
}

/**
 * Reason why one of our files may not import another; `null` if it may.
 *
 * @param {string} file
 * @param {string} target
 * @param {Tree} tree
 */
function fileProblem(file, target, tree) {
  if (target.startsWith("../tests/") && isTest(file)) return null;
  if (target.startsWith("..")) return "it lies outside src/.";
  if (!tree.sources.has(target)) return "there is no such file.";
  const module = moduleOf(file, tree);
  const targetModule = moduleOf(target, tree);
  if (isTest(target) && !isTest(file)) return "only tests import what belongs to tests.";
  if (module === targetModule) return null;
  if (targetModule === null) return "the entry of the package is for its users.";
  if (isTest(file) && tree.openToTests.includes(target)) return null;
  if (!isTest(file) && !mayImport(module, targetModule, tree)) {
    const { imports = [], except = [] } = ruleOf(module, tree) ?? {};
    const allowed = [...imports, ...except.map((name) => `not ${name}`)].join(", ");
    return `module "${module}" may import ${allowed || "no module"}, not "${targetModule}".`;
  }
  const targetRule = ruleOf(targetModule, tree);
  const entries = ["index.ts", ...(targetRule?.entries ?? [])].map((entry) => join(targetModule, entry));
  if (targetRule?.open === true || entries.includes(target)) return null;
  return `it is past the public entry of module "${targetModule}"; import ${entries.map((entry) => `"${entry}"`).join(" or ")}.`;
}

/**
 * @param {string | null} module `null`: the entry of the package, which may import every entry.
 * @param {string} target
 * @param {Tree} tree
 */
function mayImport(module, target, tree) {
  const rule = ruleOf(module, tree);
  if (rule === undefined) return true;
  const isNamed = rule.imports.some((name) => covers(name, target));
  const isAnyModule = rule.imports.includes("*") && !(rule.except ?? []).includes(target);
  return isNamed || isAnyModule;
}

/**
 * Reason why a file may not import a package or a part of Node; `null` if it may.
 *
 * @param {string} file
 * @param {string} specifier
 * @param {Tree} tree
 */
function packageProblem(file, specifier, tree) {
  const module = moduleOf(file, tree);
  const rule = ruleOf(module, tree);
  if (specifier.startsWith("node:")) {
    return rule?.browser === true && !isTest(file) ? `module "${module}" runs in a browser, so nothing of Node.` : null;
  }
  const name = packageName(specifier);
  if (builtinModules.includes(name)) return `write "node:${specifier}".`;
  const isPeer = rule?.peer === name && tree.peers?.has(name) === true;
  const isDeclared = tree.dependencies.has(name) || isPeer || (isTest(file) && tree.devDependencies.has(name));
  if (!isDeclared) return `package "${name}" is not declared in package.json for this.`;
  if (isTest(file)) return null;
  const place = rule?.packages?.[name];
  if (place === undefined) return `module "${module}" may not import package "${name}".`;
  if (place === "*" || file === place || (place.endsWith("/") && file.startsWith(place))) return null;
  return `package "${name}" belongs to "${place}" alone.`;
}

/** @param {string} specifier */
function packageName(specifier) {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/**
 * @param {Map<string, Set<string>>} used
 * @param {string} module
 * @param {string | null} target
 */
function note(used, module, target) {
  if (target === null) return;
  const targets = used.get(module) ?? new Set();
  used.set(module, targets.add(target));
}

/**
 * Permissions that no file uses. A module that is not built yet needs none, and permissions to
 * import it may stay unused until then; an adapter pattern is used if one of its adapters uses it.
 *
 * @param {Tree} tree
 * @param {ReadonlyMap<string, ReadonlySet<string>>} used
 */
function* findUnusedPermissions(tree, used) {
  const built = new Set([...tree.sources.keys()].filter((file) => !isTest(file)).map((file) => moduleOf(file, tree)));
  for (const [name, rule] of Object.entries(tree.modules)) {
    const members = [...built].filter((module) => module !== null && ruleOf(module, tree) === rule);
    if (members.length === 0) continue;
    const targets = members.flatMap((module) => [...(used.get(module ?? "") ?? [])]);
    const modules = rule.imports.filter((module) =>
      [...built].some((other) => other !== null && covers(module, other)),
    );
    for (const permission of [...modules, ...Object.keys(rule.packages ?? {})]) {
      if (permission !== "*" && !targets.some((target) => covers(permission, target))) {
        yield `Module "${name}" may import "${permission}" and no file of it does: take the permission out of the table.`;
      }
    }
  }
}

/**
 * True if a name of the table, perhaps a pattern of adapters, matches this module or package.
 *
 * @param {string} name
 * @param {string} target
 */
const covers = (name, target) => name === target || (target.includes("/") && name === join(dirname(target), "*"));

/**
 * Cycles in the table itself: modules that could come to import each other even if no file does so
 * yet.
 *
 * @param {Readonly<Record<string, Module>>} modules
 */
function* findTableCycles(modules) {
  const edges = new Map(Object.entries(modules).map(([name, rule]) => [name, rule.imports]));
  for (const cycle of findCycles(edges)) yield `The table has a circle: ${cycle.join(" → ")}.`;
}
