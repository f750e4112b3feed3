// Reads a prepared folder: <folder>/<domain>/ with one JSON file per table, tools.json, wiki.md and tasks_<split>.json.
// Files are read once per process, without blocking; what is made of them is shared by everybody who asks again.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ConfigurationError } from "../../core/failure.ts";
import { JsonSyntaxError, type JsonValue, parseJson } from "../../lib/json/index.ts";
import type { TauDomain } from "./domain.ts";
import { type DomainData, type DomainFiles, readDomainData } from "./domain-data.ts";

const loaded = new Map<string, Promise<DomainData>>();

/** Rejects with a `ConfigurationError` that names the file for anything missing, unreadable or of the wrong shape. */
export function loadPreparedFolder(domain: TauDomain, folder: string): Promise<DomainData> {
  const place = join(resolve(folder), domain.name);
  let loading = loaded.get(place);
  if (loading === undefined) {
    loading = readFiles(domain, place).then((files) => readDomainData(domain, files));
    loaded.set(place, loading);
    // A folder that was broken may have been mended when it is asked for again.
    loading.catch(() => loaded.delete(place));
  }
  return loading;
}

async function readFiles(domain: TauDomain, place: string): Promise<DomainFiles> {
  const path = (name: string): string => join(place, name);
  const tableNames = Object.keys(domain.tables);
  const sources = new Map([
    ...tableNames.map((name) => [name, path(`${name}.json`)] as const),
    ["tools", path("tools.json")] as const,
    ["guidelines", path("wiki.md")] as const,
    ...domain.splits.map((split) => [split, path(`tasks_${split}.json`)] as const),
  ]);
  const texts = new Map(
    await Promise.all([...sources].map(async ([part, file]) => [part, await readText(file, domain)] as const)),
  );
  const parsed = (part: string): JsonValue => parseFile(sources.get(part)!, texts.get(part)!);
  const hash = createHash("sha256");
  for (const part of [...tableNames, "tools", "guidelines"]) {
    const text = texts.get(part)!;
    hash.update(`${part} ${text.length}\n`).update(text);
  }
  return {
    sources,
    tables: new Map(tableNames.map((name) => [name, parsed(name)])),
    guidelines: texts.get("guidelines")!,
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
        `name the folder that holds "${domain.name}/wiki.md", its tables, tools.json and tasks_*.json.`,
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
