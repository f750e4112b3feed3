// The files of `banking_knowledge` in a checkout: documents and tasks, one file each there, become
// one line each; the descriptions of tools that are found only in the documents are taken from their
// docstrings.

import {
  JsonSyntaxError,
  type JsonObject,
  type JsonValue,
  dumpJson,
  parseJson,
} from "../../../python-semantics/json/index.ts";
import { cannotRead, listCheckoutFiles, readCheckoutFile } from "../../checkout/prepare-folder.ts";
import { readDiscoverableTools, readTools, toolsText } from "./read-tools.ts";
import { checkoutRemedy, type Modules } from "./upstream.ts";

const code = "src/tau2/domains/banking_knowledge";
const data = "data/tau2/domains/banking_knowledge";

/** Source of the bank's tools; a checkout without it has no such domain. */
export const bankTools = `${code}/tools.py`;

const copied = [
  "db.json",
  ...["no_knowledge", "full_kb", "required_docs", "classic_rag_bm25", "classic_rag_bm25_no_grep", "grep_only"].map(
    (name) => `prompts/${name}.md`,
  ),
  ...["policy_header", "additional_instructions"].map((name) => `prompts/components/${name}.md`),
];

/** The files of the domain by name. Throws a `ConfigurationError` that names the file at fault. */
export async function readBank(folder: string, modules: Modules): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  for (const name of copied) files.set(name, await readCheckoutFile(folder, `${data}/${name}`, checkoutRemedy));
  // Documents are sorted by file name; upstream takes them in the order of the file system.
  files.set("documents.jsonl", await readLines(folder, `${data}/documents`, /\.json$/));
  files.set("tasks.jsonl", await readLines(folder, `${data}/tasks`, /^task_.*\.json$/));
  const searches = ["KBSearchMixin", "GrepMixin"].map((name) =>
    readTools(modules, `${code}/retrieval_mixins.py`, name),
  );
  const own = await readTools(modules, bankTools, "KnowledgeTools");
  files.set("tools.json", toolsText([...(await Promise.all(searches)).flat(), ...own]));
  files.set("user_tools.json", toolsText(await readTools(modules, bankTools, "KnowledgeUserTools")));
  const sides = { agent: "KnowledgeTools", user: "KnowledgeUserTools" };
  const docs: JsonObject = new Map();
  for (const [side, name] of Object.entries(sides)) {
    docs.set(side, new Map(await readDiscoverableTools(modules, bankTools, name)));
  }
  files.set("discoverable_tools.json", toolsText(docs));
  return files;
}

/** The files of a folder, one JSON value in each line. */
async function readLines(folder: string, path: string, pattern: RegExp): Promise<string> {
  const lines: string[] = [];
  for (const name of await listCheckoutFiles(folder, path, { pattern, remedy: checkoutRemedy })) {
    const file = `${path}/${name}`;
    lines.push(dumpJson(parse(file, await readCheckoutFile(folder, file, checkoutRemedy))));
  }
  return lines.map((line) => `${line}\n`).join("");
}

function parse(file: string, text: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    throw cannotRead(`"${file}"`, `it is not JSON (${error.pythonMessage})`, checkoutRemedy);
  }
}
