// docs/records.md, made from the schemas that read and write run folders and from the columns that exports write. Written by
// `node scripts/checks/docs/records.mjs`, compared by `npm run check -- docs`.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { root, runCommand } from "../../run-command.mjs";

/** @typedef {import("../../../dist/store/schema.js").RecordReference} RecordReference */

const page = "docs/records.md";

const head = `# Records

Every field of the files of a run folder ([run-folder.md](run-folder.md)), made from the schemas that read and write them:
\`node scripts/checks/docs/records.mjs\`. "packed" arrays are \`{"dtype": ..., "base64": ...}\`, little-endian.
`;

/** @returns {Promise<string[]>} */
export async function findStaleRecords() {
  const [expected, found] = [await recordsPage(), readFileSync(join(root, page), "utf8")].map(plain);
  return expected === found ? [] : [`${page} is not what the schemas say; run node scripts/checks/docs/records.mjs.`];
}

/** Tables are padded by the formatter. @param {string} text */
function plain(text) {
  return text.replaceAll(/ +/g, " ").replaceAll(/-{3,}/g, "---").trim();
}

async function recordsPage() {
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
  return `${head}\n${[...sectionsOf(recordReferences), ...rows].join("\n\n")}\n`;
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
  const hasVariants = fields.some(({ variant }) => variant !== null);
  const titles = [...(hasVariants ? ["of"] : []), "field", "type", "meaning"];
  const rows = fields.map(({ variant, name: field, title, meaning }) => [
    ...(hasVariants ? [variant === null ? "" : `\`${variant}\``] : []),
    `\`${field}\``,
    title,
    meaning,
  ]);
  const lines = [titles, titles.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  return `## ${/^\w+\.jsonl?$|^run\.json$/.test(name) ? `\`${name}\`` : name}\n\n${lines.join("\n")}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(join(root, page), await recordsPage());
  await runCommand("npx", ["--no-install", "oxfmt", page]);
}
