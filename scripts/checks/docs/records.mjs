// The part of docs/reference.md on records: generated from the schemas that read and write run
// folders and from the columns that exports write.

import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { root } from "../../run-command.mjs";
import { wrap } from "./wrap.mjs";

/** @typedef {import("../../../dist/store/schema.js").RecordReference} RecordReference */

/** @returns {Promise<string>} Sections of the reference, a heading of the third level each. */
export async function recordSections() {
  /** @type {unknown} */
  const store = await import(pathToFileURL(join(root, "dist/store/index.js")).href);
  const { recordReferences } = /** @type {typeof import("../../../dist/store/index.js")} */ (store);
  /** @type {unknown} */
  const exporting = await import(pathToFileURL(join(root, "dist/export/index.js")).href);
  const { exportFormats } = /** @type {typeof import("../../../dist/export/index.js")} */ (exporting);
  const rows = Object.entries(exportFormats).map(([name, { columns }]) =>
    sectionOf({
      name: name === "slime" ? "Rows of slime, and `samples.jsonl`" : `Rows of ${name}`,
      fields: columns.map(({ name: field, type, meaning }) => ({ variant: null, name: field, title: type, meaning })),
      parts: [],
    }),
  );
  return [...sectionsOf(recordReferences), ...rows].join("\n\n");
}

/** @param {readonly RecordReference[]} references */
function sectionsOf(references) {
  /** @type {Map<string, string>} */
  const sections = new Map();
  /** @type {RecordReference[]} */
  const waiting = [...references];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (!sections.has(next.name)) sections.set(next.name, sectionOf(next));
    waiting.push(...next.parts);
  }
  return [...sections.values()];
}

/** @param {RecordReference} reference */
function sectionOf({ name, fields }) {
  const lines = fields.map(({ variant, name: field, title, meaning }) => {
    const of = variant === null ? "" : ` of \`${variant}\``;
    return wrap(`- \`${field}\`${of} (${title})${meaning === "" ? "" : `: ${meaning}`}`, "  ");
  });
  return `### ${/^\w+\.jsonl?$|^run\.json$/.test(name) ? `\`${name}\`` : name}\n\n${lines.flat().join("\n")}`;
}
