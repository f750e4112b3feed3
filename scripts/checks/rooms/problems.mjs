// Enforces the table of import directions on a set of sources. Pure: it is given texts and names, so its own tests are
// small made-up houses. Which folders exist and what package.json declares is found out by `check.mjs`.

import { builtinModules } from "node:module";
import { dirname, join, normalize } from "node:path/posix";

import { findCycles } from "./cycles.mjs";
import { readImports } from "./read-imports.mjs";

/** @import { Room } from "./table.mjs" */

/**
 * @typedef {object} House
 * @property {Readonly<Record<string, Room>>} rooms
 * @property {string} packageDoor
 * @property {readonly string[]} openToTests
 * @property {ReadonlyMap<string, string>} sources Path below src/ to text.
 * @property {ReadonlySet<string>} dependencies What an installed package brings along.
 * @property {ReadonlySet<string>} devDependencies
 */

/**
 * Every forbidden import, package past its place, import past a door, cycle and unused permission, one sentence each.
 *
 * @param {House} house
 * @returns {string[]}
 */
export function findRoomProblems(house) {
  /** @type {string[]} */
  const problems = [];
  /** @type {Map<string, Set<string>>} Room to rooms and packages that it imports outside its tests. */
  const used = new Map();
  /** @type {Map<string, string[]>} File to the files that it imports. */
  const edges = new Map();

  for (const [file, source] of house.sources) {
    const room = roomOf(file, house);
    if (room === null && file !== house.packageDoor) {
      problems.push(`src/${file} is in no room of the table: add its room, or move it.`);
      continue;
    }
    /** @type {string[]} */
    const targets = [];
    edges.set(file, targets);
    for (const { specifier, line } of readImports(file, source)) {
      const place = `src/${file}:${line}`;
      if (specifier === null) {
        if (!isTest(file) && ruleOf(room, house)?.loads !== file) {
          problems.push(`${place} imports what is only known at run time: the table does not let this file load code.`);
        }
      } else if (specifier.startsWith(".")) {
        const target = normalize(join(dirname(file), specifier));
        targets.push(target);
        const problem = judgeFile(file, target, house);
        if (problem !== null) problems.push(`${place} imports "${specifier}": ${problem}`);
        else if (!isTest(file) && room !== null) note(used, room, roomOf(target, house));
      } else {
        const problem = judgePackage(file, specifier, house);
        if (problem !== null) problems.push(`${place} imports "${specifier}": ${problem}`);
        else if (!isTest(file) && room !== null) note(used, room, packageName(specifier));
      }
    }
  }
  for (const cycle of findCycles(edges)) {
    problems.push(`Files import each other in a circle: ${cycle.map((file) => `src/${file}`).join(" → ")}.`);
  }
  // One statement that re-exports five names is one problem.
  return [...new Set(problems), ...findUnusedPermissions(house, used), ...findTableCycles(house.rooms)];
}

/** @param {string} file */
export const isTest = (file) => file.endsWith(".test.ts") || file.endsWith(".test-helper.ts");

/**
 * The room of a file: the longest listed folder that holds it, an adapter folder counting as listed. `null`: none.
 *
 * @param {string} file
 * @param {Pick<House, "rooms">} house
 * @returns {string | null}
 */
export function roomOf(file, house) {
  for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) {
    if (Object.hasOwn(house.rooms, folder) || Object.hasOwn(house.rooms, join(dirname(folder), "*"))) return folder;
  }
  return null;
}

/**
 * What the table says of a room; `undefined` for the door of the package, which is in none.
 *
 * @param {string | null} room
 * @param {Pick<House, "rooms">} house
 * @returns {Room | undefined}
 */
export function ruleOf(room, house) {
  return room === null ? undefined : (house.rooms[room] ?? house.rooms[join(dirname(room), "*")]);
}

/**
 * Why one of our files may not import another; `null` when it may.
 *
 * @param {string} file
 * @param {string} target
 * @param {House} house
 */
function judgeFile(file, target, house) {
  if (target.startsWith("../tests/") && isTest(file)) return null;
  if (target.startsWith("..")) return "it lies outside src/.";
  if (!house.sources.has(target)) return "there is no such file.";
  const room = roomOf(file, house);
  const targetRoom = roomOf(target, house);
  if (isTest(target) && !isTest(file)) return "only tests import what belongs to tests.";
  if (room === targetRoom) return null;
  if (targetRoom === null) return "the door of the package is for its users.";
  if (isTest(file) && house.openToTests.includes(target)) return null;
  if (!isTest(file) && !mayImport(room, targetRoom, house)) {
    const { imports = [], except = [] } = ruleOf(room, house) ?? {};
    const allowed = [...imports, ...except.map((name) => `not ${name}`)].join(", ");
    return `room "${room}" may import ${allowed || "no room"}, not "${targetRoom}".`;
  }
  const targetRule = ruleOf(targetRoom, house);
  const doors = ["index.ts", ...(targetRule?.doors ?? [])].map((door) => join(targetRoom, door));
  if (targetRule?.open === true || doors.includes(target)) return null;
  return `it is past the door of room "${targetRoom}"; import ${doors.map((door) => `"${door}"`).join(" or ")}.`;
}

/**
 * @param {string | null} room `null`: the door of the package, which may import every door.
 * @param {string} target
 * @param {House} house
 */
function mayImport(room, target, house) {
  const rule = ruleOf(room, house);
  if (rule === undefined) return true;
  const isNamed = rule.imports.some((name) => covers(name, target));
  const isAnyRoom = rule.imports.includes("*") && !(rule.except ?? []).includes(target);
  return isNamed || isAnyRoom;
}

/**
 * Why a file may not import a package or a part of Node; `null` when it may.
 *
 * @param {string} file
 * @param {string} specifier
 * @param {House} house
 */
function judgePackage(file, specifier, house) {
  const room = roomOf(file, house);
  const rule = ruleOf(room, house);
  if (specifier.startsWith("node:")) {
    return rule?.browser === true && !isTest(file) ? `room "${room}" runs in a browser, so nothing of Node.` : null;
  }
  const name = packageName(specifier);
  if (builtinModules.includes(name)) return `write "node:${specifier}".`;
  const isDeclared = house.dependencies.has(name) || (isTest(file) && house.devDependencies.has(name));
  if (!isDeclared) return `package "${name}" is not declared in package.json for this.`;
  if (isTest(file)) return null;
  const place = rule?.packages?.[name];
  if (place === undefined) return `room "${room}" may not import package "${name}".`;
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
 * @param {string} room
 * @param {string | null} target
 */
function note(used, room, target) {
  if (target === null) return;
  const targets = used.get(room) ?? new Set();
  used.set(room, targets.add(target));
}

/**
 * Permissions that no file uses. A room that is not built yet needs none, and permission to import one waits for it; an
 * adapter pattern is used when one of its adapters uses it.
 *
 * @param {House} house
 * @param {ReadonlyMap<string, ReadonlySet<string>>} used
 */
function* findUnusedPermissions(house, used) {
  const built = new Set([...house.sources.keys()].filter((file) => !isTest(file)).map((file) => roomOf(file, house)));
  for (const [name, rule] of Object.entries(house.rooms)) {
    const members = [...built].filter((room) => room !== null && ruleOf(room, house) === rule);
    if (members.length === 0) continue;
    const targets = members.flatMap((room) => [...(used.get(room ?? "") ?? [])]);
    const rooms = rule.imports.filter((room) => [...built].some((other) => other !== null && covers(room, other)));
    for (const permission of [...rooms, ...Object.keys(rule.packages ?? {})]) {
      if (permission !== "*" && !targets.some((target) => covers(permission, target))) {
        yield `Room "${name}" may import "${permission}" and no file of it does: take the permission out of the table.`;
      }
    }
  }
}

/**
 * Whether a name of the table, perhaps a pattern of adapters, means this room or package.
 *
 * @param {string} name
 * @param {string} target
 */
const covers = (name, target) => name === target || (target.includes("/") && name === join(dirname(target), "*"));

/**
 * Circles in the table itself: rooms that could come to import each other without any file doing so.
 *
 * @param {Readonly<Record<string, Room>>} rooms
 */
function* findTableCycles(rooms) {
  const edges = new Map(Object.entries(rooms).map(([name, rule]) => [name, rule.imports]));
  for (const cycle of findCycles(edges)) yield `The table has a circle: ${cycle.join(" → ")}.`;
}
