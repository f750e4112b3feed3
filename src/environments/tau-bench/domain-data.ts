// The data of a domain, immutable and shared by all episodes. Read from a prepared folder
// (<folder>/<domain>/ with one JSON file per table, tools.json, wiki.md and tasks_<split>.json) or
// from an upstream checkout, which is converted to such a folder in memory. Files are read once per
// process, without blocking.

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
import { type Shape, shapeProblem, type TauAction, type TauDomain } from "./domain.ts";
import { SharedBase } from "./world.ts";

/** A task with the data that only grading uses. */
export type TauTask = {
  readonly task: Task;
  readonly actions: readonly TauAction[];
  /** Texts that the agent must say to earn the reward. */
  readonly outputs: readonly string[];
  /** The task as in the reference's `info`; shared, so it must not be changed. */
  readonly info: JsonObject;
};

export type DomainData = {
  readonly domain: TauDomain;
  readonly base: SharedBase;
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  /** Tasks by split, in order. */
  readonly tasks: ReadonlyMap<string, readonly TauTask[]>;
};

/** Throws a `ConfigurationError` that names file and place for data that the domain cannot use. */
function readDomainData(domain: TauDomain, place: string, contents: ReadonlyMap<string, string>): DomainData {
  const textOf = (name: string): string => contents.get(name) ?? "";
  const refuse = (name: string, problem: string): never => {
    throw new ConfigurationError(
      `Cannot use "${join(place, name)}" for tau-bench ${domain.name}: ${problem}; restore the upstream file.`,
    );
  };
  const read = (part: string, shape: Shape, name = `${part}.json`): JsonValue => {
    const value = parseFile(join(place, name), textOf(name));
    const problem = shapeProblem(value, shape, part);
    return problem === null ? value : refuse(name, problem);
  };
  const tables = new Map<string, Map<string, JsonObject>>();
  for (const [name, shape] of Object.entries(domain.tables)) {
    tables.set(name, read(name, { dictOf: shape }) as Map<string, JsonObject>);
  }
  const base = new SharedBase(tables);
  const broken = domain.findBrokenReference(base);
  if (broken !== null) refuse(`${broken.split(".")[0]!}.json`, broken);
  const tools = read("tools", { listOf: { fields: { function: { fields: { name: "text" } } } } }) as JsonObject[];
  const guidelines = textOf("wiki.md");
  const hash = createHash("sha256");
  for (const part of [...tables.keys(), "tools", "guidelines"]) {
    const text = part === "guidelines" ? guidelines : textOf(`${part}.json`);
    hash.update(`${part} ${text.length}\n`).update(text);
  }
  const fingerprint = hash.digest("hex");
  const tasks = new Map<string, TauTask[]>();
  for (const split of domain.splits) {
    const records = read(split, { listOf: taskShape }, `tasks_${split}.json`) as JsonObject[];
    tasks.set(
      split,
      records.map((record, index) =>
        readTask(record, { environment: `tau-bench/${domain.name}`, split, index }, fingerprint),
      ),
    );
  }
  return { domain, base, guidelines, tools: tools.map(toolFromDefinition), tasks };
}

const taskShape = {
  fields: {
    user_id: "text",
    instruction: "text",
    actions: { listOf: { fields: { name: "text", kwargs: { dictOf: "any" } } } },
    outputs: { listOf: "text" },
  },
} as const;

/**
 * Reads a task. Keys follow the reference's classes, which show tasks and actions in the order of
 * their declarations.
 */
function readTask(
  record: JsonObject,
  place: Pick<Task, "environment" | "split" | "index">,
  fingerprint: string,
): TauTask {
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
  const contentHash = createHash("sha256")
    .update(`${fingerprint}\n${dumpJson(info)}`, "utf8")
    .digest("hex");
  const id = `${place.environment}:${place.split}:${place.index}`;
  return { task: Object.freeze({ id, ...place, contentHash, instruction, agenda: null }), actions, outputs, info };
}

/** An action in the form of `info`. */
export function actionRecord({ name, kwargs }: TauAction): JsonObject {
  return new Map<string, JsonValue>([
    ["name", name],
    ["kwargs", kwargs],
  ]);
}

const loaded = new Map<string, Promise<DomainData>>();

/**
 * Rejects with a `ConfigurationError` that names the file if any file is missing, unreadable or of
 * the wrong shape.
 */
export function loadPreparedFolder(domain: TauDomain, folder: string): Promise<DomainData> {
  const place = join(resolve(folder), domain.name);
  let loading = loaded.get(place);
  if (loading === undefined) {
    loading = readContents(domain, folder).then((contents) => readDomainData(domain, place, contents));
    loaded.set(place, loading);
    // A broken folder may have been repaired by the next request.
    loading.catch(() => loaded.delete(place));
  }
  return loading;
}

/** The contents of a domain's files, by their names within the domain's folder. */
async function readContents(domain: TauDomain, folder: string): Promise<ReadonlyMap<string, string>> {
  if (await isTauBenchCheckout(folder)) {
    const files = await readTauBenchCheckout(folder, { domains: [domain.name] });
    return new Map([...files].map(([path, text]) => [path.slice(domain.name.length + 1), text]));
  }
  const parts = [...Object.keys(domain.tables), "tools", ...domain.splits.map((split) => `tasks_${split}`)];
  const names = [...parts.map((part) => `${part}.json`), "wiki.md"];
  const read = async (name: string) =>
    [name, await readText(join(resolve(folder), domain.name, name), domain)] as const;
  return new Map(await Promise.all(names.map(read)));
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
      `Cannot read "${file}": it is not JSON (${error.pythonMessage}); restore the upstream file.`,
      { cause: error },
    );
  }
}
