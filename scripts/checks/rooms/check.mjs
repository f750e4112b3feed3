// `npm run check -- rooms`: the import directions of src/, and that examples and benchmarks use the package as its users do.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../../run-command.mjs";
import { readManifest } from "../manifest.mjs";
import { findRoomProblems } from "./problems.mjs";
import { readImports } from "./read-imports.mjs";
import { openToTests, packageDoor, rooms } from "./table.mjs";

/** @returns {{ problems: string[], summary: string }} */
export function checkRooms() {
  const manifest = readManifest();
  const dependencies = new Set(Object.keys(manifest.dependencies));
  const sources = readSources("src", ".ts");
  const problems = findRoomProblems({
    rooms,
    packageDoor,
    openToTests,
    sources,
    dependencies,
    devDependencies: new Set([...Object.keys(manifest.devDependencies), manifest.name]),
  });
  for (const [folder, extension] of /** @type {const} */ ([
    ["examples", ".ts"],
    ["bench", ".mjs"],
  ])) {
    for (const [file, source] of readSources(folder, extension)) {
      for (const { specifier, line } of readImports(file, source)) {
        if (specifier?.startsWith("../")) {
          problems.push(`${folder}/${file}:${line} imports "${specifier}": use the package as its users do.`);
        }
      }
    }
  }
  return { problems, summary: `${sources.size} files` };
}

/**
 * @param {string} folder
 * @param {string} extension
 * @returns {Map<string, string>} Path below the folder to text.
 */
function readSources(folder, extension) {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => file.endsWith(extension))
    .sort();
  return new Map(files.map((file) => [file, readFileSync(join(root, folder, file), "utf8")]));
}
