// The data of a domain, immutable and shared by all episodes. Read from a folder with one subfolder
// per domain (databases, policies, tasks, splits, tool definitions) and the guidelines of the
// simulated user, which `prepare tau2-bench` makes from an upstream checkout; or from such a
// checkout, which is converted to such a folder in memory. Files are read once per process.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";

import { parse } from "smol-toml";

import { ConfigurationError, messageOf } from "../../core/failure.ts";
import { type Tool, toolFromDefinition } from "../../core/message.ts";
import { JsonFloat, type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { isTau2Checkout, promptsFile, readTau2Checkout } from "./checkout/read-checkout.ts";
import { type DatabaseSpec, SharedDatabase } from "./database.ts";
import type { Domain, DomainSide } from "./toolkit.ts";
import { readTau2Prompts, type Tau2Prompts } from "./prompts.ts";
import { readTasks, type Tau2Task } from "./tasks.ts";
import type { WorldParts } from "./world.ts";
import { remedyFor } from "../../lib/nearest.ts";

export type DomainData = {
  readonly domain: Domain;
  readonly world: WorldParts;
  /** The agent's policy; of a domain whose policies differ by task, upstream's remark on that. */
  readonly policy: string;
  /** The agent's policy in a task. */
  readonly policyFor: (task: Tau2Task) => string;
  /** Policy for an agent without a user; `null` if the domain does not support that. */
  readonly soloPolicy: string | null;
  /** Tools in the order in which a model is shown them. */
  readonly tools: readonly Tool[];
  readonly userTools: readonly Tool[];
  /** Guidelines for a user simulated by a model, without and with tools of its own. */
  readonly userGuidelines: { readonly plain: string; readonly tools: string };
  /** Texts for agents and the judge; `null` if the folder has no `prompts.json`. */
  readonly prompts: Tau2Prompts | null;
  /** SHA-256 (hex) of databases, policies, tools, guidelines and splits. */
  readonly fingerprint: string;
  /** Names of upstream's splits. */
  readonly splits: readonly string[];
  /** The tasks of a split, in file order. Rejects with a `ConfigurationError` for an unknown split. */
  readonly tasks: (split: string) => Promise<readonly Tau2Task[]>;
};

const loaded = new Map<string, Promise<DomainData>>();

/**
 * Rejects with a `ConfigurationError` that names the file if any file is missing, unreadable or of
 * the wrong shape.
 */
export function loadDomainData(
  domain: Domain,
  folder: string,
  added: ReadonlyMap<string, string> = new Map(),
): Promise<DomainData> {
  const place = join(resolve(folder), domain.name);
  let loading = added.size > 0 ? undefined : loaded.get(place);
  if (loading === undefined) {
    loading = openFolder(resolve(folder), domain).then((files) =>
      readDomainData(domain, { ...files, read: async (path) => (await files.read(path)) ?? added.get(path) ?? null }),
    );
    if (added.size > 0) return loading;
    loaded.set(place, loading);
    // A broken folder may have been repaired by the next request.
    loading.catch(() => loaded.delete(place));
  }
  return loading;
}

/** A folder of the prepared layout: on disk, or in memory for a checkout. */
type Folder = {
  readonly place: string;
  /** The text of a file; `null` if it does not exist. `path` is within the folder, with `/`. */
  readonly read: (path: string) => Promise<string | null>;
};

async function openFolder(place: string, domain: Domain): Promise<Folder> {
  if (await isTau2Checkout(place)) {
    const files = await readTau2Checkout(place, { domains: [domain.folder] });
    return { place, read: async (path) => files.get(path) ?? null };
  }
  return { place, read: (path) => readFileIfAny(join(place, path)) };
}

async function readDomainData(domain: Domain, folder: Folder): Promise<DomainData> {
  const hash = createHash("sha256");
  const below = (name: string): string => `${domain.folder}/${name}`;
  const text = async (path: string): Promise<string> => {
    const content = (await folder.read(path)) ?? refuseMissing(join(folder.place, path));
    hash.update(`${content.length}\n`).update(content);
    return content;
  };
  const fileOf = (path: string): string => join(folder.place, path);
  const database = async (side: DomainSide): Promise<SharedDatabase> =>
    readDatabase(side.database, fileOf(below(side.file)), await text(below(side.file)));
  const readSplits = async (): Promise<JsonObject> => {
    // The only split of a domain with documents has all its tasks.
    if (domain.knowledge !== null) return new Map([["base", readLines(fileOf(below(taskLines)), await text(below(taskLines))).map(idOf)]]); // prettier-ignore
    const file = below("split_tasks.json");
    const splits = parseFile(fileOf(file), await text(file));
    if (!(splits instanceof Map)) throw broken(fileOf(file), "it is no object of splits");
    return splits;
  };
  const tools = async (name: string): Promise<Tool[]> => readTools(fileOf(below(name)), await text(below(name)));
  const policy = async (files: readonly string[]): Promise<string> => {
    const texts: string[] = [];
    for (const file of files) texts.push(await text(below(file)));
    return domain.policy.assemble(texts);
  };

  // The files are read one after another, so that the hash always has the same order.
  const agentDatabase = await database(domain.agent);
  const isShared = domain.user?.file === domain.agent.file;
  const userDatabase = domain.user === null || isShared ? agentDatabase : await database(domain.user);
  const normalPolicy = await policy(domain.policy.files);
  if (domain.knowledge !== null) hash.update(domain.knowledge.retrieval);
  const knowledge = await domain.knowledge?.load({
    text: (path) => text(below(path)),
    textIfAny: async (path) => ((await folder.read(below(path))) === null ? null : text(below(path))),
  });
  const agent = { toolkit: knowledge?.agent ?? domain.agent.toolkit, database: agentDatabase };
  const user = domain.user && { toolkit: knowledge?.user ?? domain.user.toolkit, database: userDatabase };
  const soloPolicy = domain.soloRefusal === null ? await policy(domain.policy.soloFiles) : null;
  const agentTools = (await tools("tools.json")).filter(({ name }) => knowledge?.hasTool(name) ?? true);
  const userTools = domain.user === null ? [] : await tools("user_tools.json");
  const guidelines = (name: string): Promise<string> => text(`user_simulator/${name}.md`);
  const plain = await guidelines("simulation_guidelines");
  const withTools = await guidelines("simulation_guidelines_tools");
  const splits = await readSplits();
  const prompts = await folder.read(promptsFile);
  return {
    domain,
    world: { agent, user, sync: domain.sync },
    policy: knowledge?.policy(normalPolicy) ?? normalPolicy,
    policyFor: (task) => knowledge?.policyFor(normalPolicy, task) ?? normalPolicy,
    soloPolicy,
    tools: agentTools,
    userTools,
    userGuidelines: { plain, tools: withTools },
    prompts: prompts === null ? null : readPrompts(fileOf(promptsFile), prompts),
    fingerprint: hash.digest("hex"),
    splits: [...splits.keys()],
    tasks: tasksBySplit(domain, folder, splits),
  };
}

/** The tasks of a split, read at its first use, because the largest file has 14 MB. */
function tasksBySplit(domain: Domain, folder: Folder, splits: JsonObject): DomainData["tasks"] {
  const files = new Map<string, Promise<Tau2Task[]>>();
  return async (split) => {
    const ids = splits.get(split);
    if (!Array.isArray(ids)) {
      throw new ConfigurationError(
        `Cannot find split "${split}" of tau2-bench/${domain.name}: it does not exist; ${remedyFor(split, [...splits.keys()])}`,
      );
    }
    const known = new Set(ids);
    const names =
      domain.knowledge !== null
        ? [taskLines]
        : [`tasks_${split}.json`, ...(split === "full" ? [] : ["tasks_base.json"]), "tasks.json", packedTasks];
    for (const name of names) {
      let reading = files.get(name);
      if (reading === undefined) files.set(name, (reading = readTasksFile(folder, `${domain.folder}/${name}`)));
      const tasks = (await reading).filter(({ id }) => known.has(id));
      if (tasks.length === known.size) return tasks;
    }
    throw new ConfigurationError(
      `Cannot read split "${split}" of tau2-bench/${domain.name}: none of ${names.join(", ")} has all of its ${known.size} tasks; restore the files as upstream has them.`,
    );
  };
}

/** Tasks of a domain with documents, one in each line. */
const taskLines = "tasks.jsonl";

/** The id of a task's record; `null` if it has none, which the reader of tasks refuses. */
const idOf = (record: JsonValue): JsonValue => (record instanceof Map ? (record.get("id") ?? null) : null);

/** Compressed form of the largest file, which a folder may have instead. */
const packedTasks = "tasks.json.gz";

/** The tasks of a file; an empty list if it does not exist. */
async function readTasksFile(folder: Folder, path: string): Promise<Tau2Task[]> {
  const file = join(folder.place, path);
  const content = path.endsWith(".gz") ? await readPacked(file) : await folder.read(path);
  if (content === null) return [];
  return readTasks(path.endsWith(".jsonl") ? readLines(file, content) : parseFile(file, content), file);
}

/** The values of a file of JSON lines. */
function readLines(file: string, content: string): JsonValue[] {
  const lines = content.split("\n").filter((line) => line.trim() !== "");
  return lines.map((line, at) => parseFile(`${file}:${at + 1}`, line));
}

async function readPacked(file: string): Promise<string | null> {
  try {
    return (await promisify(gunzip)(await readFile(file))).toString("utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    throw broken(file, messageOf(error));
  }
}

function readPrompts(file: string, content: string): Tau2Prompts {
  const texts = readTau2Prompts(parseFile(file, content));
  if (typeof texts === "string") throw broken(file, texts);
  return texts;
}

function readDatabase(spec: DatabaseSpec, file: string, content: string): SharedDatabase {
  const value = parseFile(file, content);
  try {
    return SharedDatabase.read(spec, value);
  } catch (error) {
    throw broken(file, messageOf(error));
  }
}

function readTools(file: string, content: string): Tool[] {
  const list = parseFile(file, content);
  if (!Array.isArray(list) || !list.every((item) => item instanceof Map))
    throw broken(file, "it is not a list of tools");
  try {
    return list.map(toolFromDefinition);
  } catch (error) {
    throw broken(file, messageOf(error));
  }
}

async function readFileIfAny(file: string): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    throw broken(file, messageOf(error));
  }
}

function refuseMissing(file: string): never {
  throw new ConfigurationError(
    `Cannot read "${file}" for tau2-bench: it does not exist; name a checkout of the benchmark, or the folder that ` +
      '"trainable-agents prepare tau2-bench --from <checkout> --to <folder>" made.',
  );
}

function parseFile(file: string, content: string): JsonValue {
  try {
    return file.endsWith(".toml") ? parseToml(content) : parseJson(content);
  } catch (error) {
    throw broken(file, messageOf(error));
  }
}

function broken(file: string, problem: string): ConfigurationError {
  return new ConfigurationError(
    `Cannot use "${file}" for tau2-bench: ${problem.replace(/\.$/, "")}; restore the upstream file.`,
  );
}

// TOML without loss: integers and floats stay two types, and dates become the text that the
// reference shows.

/** Throws the library's error for a text that is not TOML. */
function parseToml(content: string): JsonValue {
  return asJson(parse(content, { integersAsBigInt: true }));
}

function asJson(value: unknown): JsonValue {
  if (typeof value === "number") return new JsonFloat(value);
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (typeof value === "string" || typeof value === "boolean") return value;
  if (value instanceof Date) return value.toISOString().replace(/\.000$/, "");
  if (Array.isArray(value)) return value.map(asJson);
  return new Map(Object.entries(value as object).map(([key, item]) => [key, asJson(item)]));
}
