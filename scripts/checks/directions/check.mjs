// `npm run check -- modules`: the import directions of src/, and that examples use the package as
// its users do.

import { readManifest } from "../manifest.mjs";
import { readSources } from "../read-sources.mjs";
import { findDirectionProblems } from "./problems.mjs";
import { readImports } from "./read-imports.mjs";
import { openToTests, packageEntry, modules } from "./table.mjs";

/** @returns {{ problems: string[], summary: string }} */
export function checkDirections() {
  const manifest = readManifest();
  const dependencies = new Set(Object.keys(manifest.dependencies));
  const sources = readSources("src", ".ts");
  const problems = findDirectionProblems({
    modules,
    packageEntry,
    openToTests,
    sources,
    dependencies,
    peers: new Set(Object.keys(manifest.peerDependencies)),
    devDependencies: new Set([...Object.keys(manifest.devDependencies), manifest.name]),
  });
  for (const [file, source] of readSources("examples", ".ts")) {
    for (const { specifier, line } of readImports(file, source)) {
      if (specifier?.startsWith("../")) {
        problems.push(`examples/${file}:${line} imports "${specifier}": an example uses the package as its users do.`);
      }
    }
  }
  return { problems, summary: `${sources.size} files` };
}
