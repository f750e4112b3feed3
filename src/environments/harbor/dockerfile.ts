// The part of a task's Dockerfile that needs no image and no build: a working folder, variables and
// copied files. Not a builder: every other instruction is refused by its name.

import { posix } from "node:path";

/** `COPY`: paths below `environment/`, and the absolute path that they are copied to. */
export type Copy = {
  readonly from: readonly string[];
  /** Absolute; ends with "/" if it is written as a folder. */
  readonly to: string;
};

export type Dockerfile = {
  /** Absolute; `null` if the file names none. */
  readonly workdir: string | null;
  readonly variables: Readonly<Record<string, string>>;
  readonly copies: readonly Copy[];
  /** Instructions that the sandbox cannot carry out, as phrases for a message. */
  readonly refused: readonly string[];
};

/** Instructions without an effect on commands that are started in a running container. */
const withoutEffect = new Set(["CMD", "LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK", "SHELL"]);

export function readDockerfile(content: string): Dockerfile {
  let workdir: string | null = null;
  const variables = new Map<string, string>();
  const copies: Copy[] = [];
  const refused: string[] = [];
  for (const line of logicalLines(content)) {
    const [, name = "", rest = ""] = /^(\S+)\s*(.*)$/s.exec(line) ?? [];
    const instruction = name.toUpperCase();
    const refuse = (what: string): void => void refused.push(`"${shown(what)}" of its Dockerfile`);
    if (withoutEffect.has(instruction)) continue;
    if (instruction === "FROM") {
      if (rest !== "scratch") refuse(`FROM ${rest}`);
    } else if (instruction === "USER") {
      if (rest !== "root" && rest !== "0") refuse(`USER ${rest}`);
    } else if (rest.includes("$")) {
      refuse(line);
    } else if (instruction === "WORKDIR") {
      workdir = posix.resolve(workdir ?? "/", unquoted(rest));
    } else if (instruction === "ENV") {
      const read = readVariables(rest);
      if (read === null) refuse(line);
      else for (const [key, value] of read) variables.set(key, value);
    } else if (instruction === "COPY") {
      const copy = readCopy(rest, workdir ?? "/");
      if (copy === null) refuse(line);
      else copies.push(copy);
    } else {
      refuse(line);
    }
  }
  return { workdir, variables: Object.fromEntries(variables), copies, refused };
}

/** Lines without comments, with continued lines joined. */
function* logicalLines(content: string): Generator<string> {
  let parts: string[] = [];
  for (const raw of content.split("\n")) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) continue;
    const isContinued = line.endsWith("\\");
    parts.push(isContinued ? line.slice(0, -1).trim() : line);
    if (isContinued) continue;
    yield parts.join(" ");
    parts = [];
  }
  if (parts.length > 0) yield parts.join(" ");
}

function shown(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}

function unquoted(text: string): string {
  const [, , inner] = /^(["'])(.*)\1$/s.exec(text) ?? [];
  return inner ?? text;
}

/** Words of a line; quotes group, without escapes. `null` if a quote is not closed or a word has a backslash. */
function words(text: string): readonly string[] | null {
  const found: string[] = [];
  let current: string | null = null;
  let quote = "";
  for (const character of text) {
    if (character === "\\") return null;
    if (quote !== "") {
      if (character === quote) quote = "";
      else current += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      current ??= "";
    } else if (/\s/.test(character)) {
      if (current !== null) found.push(current);
      current = null;
    } else {
      current = (current ?? "") + character;
    }
  }
  if (current !== null) found.push(current);
  return quote === "" ? found : null;
}

/** `ENV a=1 b="2 3"`, or the older `ENV a 1 2`. */
function readVariables(rest: string): readonly (readonly [string, string])[] | null {
  const isName = (name: string): boolean => /^[A-Za-z_]\w*$/.test(name);
  const [first = ""] = rest.split(/\s/, 1);
  if (!first.includes("=")) {
    const value = unquoted(rest.slice(first.length).trim());
    return isName(first) && value !== "" ? [[first, value]] : null;
  }
  const pairs = words(rest)?.map((word) => [word.split("=", 1)[0]!, word.slice(word.indexOf("=") + 1)] as const);
  return pairs === undefined || pairs.some(([name]) => !isName(name)) ? null : pairs;
}

/** `COPY a b /to/` or `COPY ["a", "/to"]`, without flags and patterns; `null` for any other. */
function readCopy(rest: string, workdir: string): Copy | null {
  const paths = rest.startsWith("[") ? stringList(rest) : words(rest);
  if (paths === null || paths.length < 2) return null;
  const from = paths.slice(0, -1);
  const last = paths.at(-1)!;
  if (from.some((path) => path.startsWith("--") || /[*?[\]]/.test(path) || leaves(path))) return null;
  const isFolder = last.endsWith("/") || last === "." || from.length > 1;
  const to = posix.resolve(workdir, last);
  return { from: from.map((path) => posix.normalize(`./${path}`)), to: isFolder && to !== "/" ? `${to}/` : to };
}

function stringList(text: string): readonly string[] | null {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) && list.every((one) => typeof one === "string") ? list : null;
  } catch {
    return null;
  }
}

/** True for a path that leaves the folder it is relative to. */
function leaves(path: string): boolean {
  const plain = posix.normalize(`./${path}`);
  return plain === ".." || plain.startsWith("../");
}
