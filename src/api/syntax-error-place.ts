// Where a module of the user's has its syntax error: Node tells a program only what is wrong, not where.

import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isRecord, parseProblem } from "./strip-types.ts";

/** Modules that are looked at, the one that is named included. */
const mostModules = 200;

/** `<file>:<line>:<column>` of what went wrong when the module was loaded, both from 1; `null` when nothing says where. */
export function placeOfFault(file: string, error: unknown): string | null {
  return placeOfParser(error) ?? (isSyntaxError(error) ? placeOfSyntaxError(file) : placeOfFrame(error));
}

function isSyntaxError(error: unknown): boolean {
  return isRecord(error) && error["name"] === "SyntaxError";
}

function placeOfParser(error: unknown): string | null {
  if (!isRecord(error)) return null;
  const { filename, startLine, startColumn } = error;
  if (typeof filename !== "string" || typeof startLine !== "number" || typeof startColumn !== "number") return null;
  return `${filename}:${startLine}:${startColumn + 1}`;
}

/** In the module, or in those of the user's that it imports. */
function placeOfSyntaxError(first: string): string | null {
  const files = [first];
  for (let next = 0; next < Math.min(files.length, mostModules); next++) {
    const file = files[next]!;
    const source = readFileSync(file, "utf8");
    const place = placeOfParser(parseProblem(source, file));
    if (place !== null) return place;
    for (const [, specifier = ""] of source.matchAll(/\b(?:from|import)\s*\(?\s*["'](\.[^"']*\.[cm]?[jt]s)["']/g)) {
      const imported = resolve(dirname(file), specifier);
      if (existsSync(imported) && !files.includes(imported)) files.push(imported);
    }
  }
  return null;
}

const ownFiles = new URL("..", import.meta.url).href;

/** The first frame that is none of ours, of whatever copy of this package. */
function placeOfFrame(error: unknown): string | null {
  const stack = isRecord(error) && typeof error["stack"] === "string" ? error["stack"] : "";
  for (const [, url = "", place = ""] of stack.matchAll(/(file:\/\/[^\s()]+?)((?::\d+){2})\)?$/gm)) {
    if (!url.startsWith(ownFiles) && !url.includes("/trainable-agents/dist/")) return `${fileURLToPath(url)}${place}`;
  }
  return null;
}
