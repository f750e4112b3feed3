// Reads a prepared folder (<folder>/<domain>/ with one JSON file per table, tools.json, wiki.md and tasks_<split>.json) or an
// upstream checkout, which is read as such a folder in memory. Files are read once per process, without blocking; what is made of them is shared by everybody who asks again.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigurationError } from "../../core/failure.ts";
import { JsonSyntaxError, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { isTauBenchCheckout, readTauBenchCheckout } from "./checkout/index.ts";
import type { TauDomain } from "./domain.ts";
import { type DomainData, type DomainFiles, readDomainData } from "./domain-data.ts";

const loaded = new Map<string, Promise<DomainData>>();

/** Rejects with a `ConfigurationError` that names the file for anything missing, unreadable or of the wrong shape. */
export function loadPreparedFolder(domain: TauDomain, folder: string): Promise<DomainData> {
  const place = join(resolve(folder), domain.name);
  let loading = loaded.get(place);
  if (loading === undefined) {
    loading = readTexts(domain, folder)
      .then((texts) => parseFiles(domain, place, texts))
      .then((files) => readDomainData(domain, files));
    loaded.set(place, loading);
    // A folder that was broken may have been mended when it is asked for again.
    loading.catch(() => loaded.delete(place));
  }
  return loading;
}

/** The texts of a domain's files, by their names below the domain's folder. */
async function readTexts(domain: TauDomain, folder: string): Promise<ReadonlyMap<string, string>> {
  if (await isTauBenchCheckout(folder)) {
    const files = await readTauBenchCheckout(folder, { domains: [domain.name] });
    return new Map([...files].map(([path, text]) => [path.slice(domain.name.length + 1), text]));
  }
  const texts = namesOf(domain).map(
    async (name) => [name, await readText(join(resolve(folder), domain.name, name), domain)] as const,
  );
  return new Map(await Promise.all(texts));
}

function namesOf(domain: TauDomain): string[] {
  const tables = Object.keys(domain.tables).map((name) => `${name}.json`);
  return [...tables, "tools.json", "wiki.md", ...domain.splits.map((split) => `tasks_${split}.json`)];
}

function parseFiles(domain: TauDomain, place: string, texts: ReadonlyMap<string, string>): DomainFiles {
  const tableNames = Object.keys(domain.tables);
  const names = new Map([
    ...tableNames.map((name) => [name, `${name}.json`] as const),
    ["tools", "tools.json"] as const,
    ["guidelines", "wiki.md"] as const,
    ...domain.splits.map((split) => [split, `tasks_${split}.json`] as const),
  ]);
  const sources = new Map([...names].map(([part, name]) => [part, join(place, name)]));
  const textOf = (part: string): string => texts.get(names.get(part)!) ?? "";
  const parsed = (part: string): JsonValue => parseFile(sources.get(part)!, textOf(part));
  const hash = createHash("sha256");
  for (const part of [...tableNames, "tools", "guidelines"]) {
    const text = textOf(part);
    hash.update(`${part} ${text.length}\n`).update(text);
  }
  return {
    sources,
    tables: new Map(tableNames.map((name) => [name, parsed(name)])),
    guidelines: textOf("guidelines"),
    tools: parsed("tools"),
    tasks: new Map(domain.splits.map((split) => [split, parsed(split)])),
    fingerprint: hash.digest("hex"),
  };
}

async function readText(file: string, domain: TauDomain): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new ConfigurationError(
      `Cannot read "${file}" for tau-bench ${domain.name}: ${reason === "ENOENT" ? "it does not exist" : reason}; ` +
        `name a checkout of the benchmark, or the folder that holds "${domain.name}/wiki.md", its tables, tools.json and tasks_*.json.`,
      { cause: error },
    );
  }
}

function parseFile(file: string, text: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    throw new ConfigurationError(
      `Cannot read "${file}": it is not JSON (${error.pythonMessage}); restore the file as upstream has it.`,
      { cause: error },
    );
  }
}
