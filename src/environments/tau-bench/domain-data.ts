// A domain's data: immutable and shared by all episodes. Read from a prepared folder (<folder>/<domain>/ with one JSON file per
// table, tools.json, wiki.md and tasks_<split>.json) or from an upstream checkout, which is read as such a folder in memory. Files
// are read once per process, without blocking.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";

import { ConfigurationError } from "../../core/failure.ts";
import type { Task } from "../../core/environment.ts";
import { type Tool, toolFromDefinition } from "../../core/message.ts";
import {
  dumpJson,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
} from "../../python-semantics/json/index.ts";
import { isTauBenchCheckout, readTauBenchCheckout } from "./checkout/read-checkout.ts";
import { shapeProblem } from "./table-shape.ts";
import type { TauAction, TauDomain } from "./tool.ts";
import { SharedBase } from "./world.ts";

/** The parsed files of a domain, not yet checked. */
type DomainFiles = {
  /** Where a file or value came from, for messages: table, `tools`, `wiki`, or split name to a path. */
  readonly sources: ReadonlyMap<string, string>;
  readonly tables: ReadonlyMap<string, JsonValue>;
  readonly guidelines: string;
  readonly tools: JsonValue;
  /** By split. */
  readonly tasks: ReadonlyMap<string, JsonValue>;
  /** Digest (hex) of tables, guidelines and tools as they were read. */
  readonly fingerprint: string;
};

/** A task with what only grading knows. */
export type TauTask = {
  readonly task: Task;
  readonly actions: readonly TauAction[];
  /** What must be said for the reward. */
  readonly outputs: readonly string[];
  /** The task as the reference puts it into `info`; shared, not to be changed. */
  readonly info: JsonObject;
};

export type DomainData = {
  readonly domain: TauDomain;
  readonly base: SharedBase;
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  /** By split, in order. */
  readonly tasks: ReadonlyMap<string, readonly TauTask[]>;
};

/** Throws a `ConfigurationError` that names file and place for data the domain cannot work with. */
function readDomainData(domain: TauDomain, files: DomainFiles): DomainData {
  const refuse = (part: string, problem: string): never => {
    throw new ConfigurationError(
      `Cannot use "${files.sources.get(part) ?? part}" for tau-bench ${domain.name}: ${problem}; restore the file as upstream has it.`,
    );
  };
  const tables = new Map<string, Map<string, JsonObject>>();
  for (const [name, shape] of Object.entries(domain.tables)) {
    const table = files.tables.get(name);
    const problem = shapeProblem(table, { dictOf: shape }, name);
    if (problem !== null) refuse(name, problem);
    tables.set(name, table as Map<string, JsonObject>);
  }
  const base = new SharedBase(tables);
  const broken = domain.findBrokenReference(base);
  if (broken !== null) refuse(broken.split(".")[0]!, broken);
  const toolsProblem = shapeProblem(
    files.tools,
    { listOf: { fields: { function: { fields: { name: "text" } } } } },
    "tools",
  );
  if (toolsProblem !== null) refuse("tools", toolsProblem);
  const tasks = new Map<string, TauTask[]>();
  for (const [split, records] of files.tasks) {
    const problem = shapeProblem(records, { listOf: taskShape }, split);
    if (problem !== null) refuse(split, problem);
    tasks.set(
      split,
      (records as JsonObject[]).map((record, index) => readTask(record, { domain, split, index, files })),
    );
  }
  return {
    domain,
    base,
    guidelines: files.guidelines,
    tools: (files.tools as JsonObject[]).map(toolFromDefinition),
    tasks,
  };
}

const taskShape = {
  fields: {
    user_id: "text",
    instruction: "text",
    actions: { listOf: { fields: { name: "text", kwargs: { dictOf: "any" } } } },
    outputs: { listOf: "text" },
  },
} as const;

/** Keys in the order of the reference's classes: it shows tasks and actions as it declares them. */
function readTask(
  record: JsonObject,
  place: { readonly domain: TauDomain; readonly split: string; readonly index: number; readonly files: DomainFiles },
): TauTask {
  const { domain, split, index, files } = place;
  const actions = (record.get("actions") as JsonObject[]).map((action) => ({
    name: action.get("name") as string,
    kwargs: action.get("kwargs") as JsonObject,
  }));
  const outputs = record.get("outputs") as string[];
  const instruction = record.get("instruction") as string;
  const info: JsonObject = new Map<string, JsonValue>([
    ["user_id", record.get("user_id")!],
    ["actions", actions.map(actionRecord)],
    ["instruction", instruction],
    ["outputs", outputs],
  ]);
  const environment = `tau-bench/${domain.name}`;
  const contentHash = createHash("sha256")
    .update(`${files.fingerprint}\n${dumpJson(info)}`, "utf8")
    .digest("hex");
  const task: Task = {
    id: `${environment}:${split}:${index}`,
    environment,
    split,
    index,
    contentHash,
    instruction,
    agenda: null,
  };
  return { task: Object.freeze(task), actions, outputs, info };
}

/** An action as `info` shows it. */
export function actionRecord({ name, kwargs }: TauAction): JsonObject {
  return new Map<string, JsonValue>([
    ["name", name],
    ["kwargs", kwargs],
  ]);
}

const loaded = new Map<string, Promise<DomainData>>();

/** Rejects with a `ConfigurationError` that names the file for anything missing, unreadable or of the wrong shape. */
export function loadPreparedFolder(domain: TauDomain, folder: string): Promise<DomainData> {
  const place = join(resolve(folder), domain.name);
  let loading = loaded.get(place);
  if (loading === undefined) {
    loading = readContents(domain, folder)
      .then((contents) => parseFiles(domain, place, contents))
      .then((files) => readDomainData(domain, files));
    loaded.set(place, loading);
    // A folder that was broken may have been repaired when it is requested again.
    loading.catch(() => loaded.delete(place));
  }
  return loading;
}

/** The contents of a domain's files, by their names below the domain's folder. */
async function readContents(domain: TauDomain, folder: string): Promise<ReadonlyMap<string, string>> {
  if (await isTauBenchCheckout(folder)) {
    const files = await readTauBenchCheckout(folder, { domains: [domain.name] });
    return new Map([...files].map(([path, text]) => [path.slice(domain.name.length + 1), text]));
  }
  const contents = namesOf(domain).map(
    async (name) => [name, await readText(join(resolve(folder), domain.name, name), domain)] as const,
  );
  return new Map(await Promise.all(contents));
}

function namesOf(domain: TauDomain): string[] {
  const tables = Object.keys(domain.tables).map((name) => `${name}.json`);
  return [...tables, "tools.json", "wiki.md", ...domain.splits.map((split) => `tasks_${split}.json`)];
}

function parseFiles(domain: TauDomain, place: string, contents: ReadonlyMap<string, string>): DomainFiles {
  const tableNames = Object.keys(domain.tables);
  const names = new Map([
    ...tableNames.map((name) => [name, `${name}.json`] as const),
    ["tools", "tools.json"] as const,
    ["guidelines", "wiki.md"] as const,
    ...domain.splits.map((split) => [split, `tasks_${split}.json`] as const),
  ]);
  const sources = new Map([...names].map(([part, name]) => [part, join(place, name)]));
  const textOf = (part: string): string => contents.get(names.get(part)!) ?? "";
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
