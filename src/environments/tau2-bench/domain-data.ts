// A domain's data: immutable and shared by all episodes. Read from a folder with one folder a domain (databases, policies, tasks,
// splits, tool definitions) and the guidelines of the simulated user, which `prepare tau2-bench` makes of an upstream checkout.
// Files are read once per process.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { ConfigurationError, messageOf } from "../../core/failure.ts";
import { type Tool, toolFromDefinition } from "../../core/message.ts";
import { type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { type DatabaseSpec, SharedDatabase } from "./database.ts";
import type { Domain, DomainSide } from "./domain.ts";
import { readTasks, type Tau2Task } from "./tasks.ts";
import { parseToml } from "./toml.ts";
import type { WorldParts } from "./world.ts";

export type DomainData = {
  readonly domain: Domain;
  readonly world: WorldParts;
  readonly policy: string;
  /** For an agent that has no user; `null`: the domain cannot be played so. */
  readonly soloPolicy: string | null;
  /** In the order in which a model is shown them. */
  readonly tools: readonly Tool[];
  readonly userTools: readonly Tool[];
  /** What a user simulated by a model is told, without and with tools of its own. */
  readonly userGuidelines: { readonly plain: string; readonly tools: string };
  /** SHA-256 (hex) of everything above but tasks. */
  readonly fingerprint: string;
  /** Names of upstream's splits. */
  readonly splits: readonly string[];
  /** The tasks of a split, in file order. Rejects with a `ConfigurationError` for one that does not exist. */
  readonly tasks: (split: string) => Promise<readonly Tau2Task[]>;
};

const loaded = new Map<string, Promise<DomainData>>();

/** Rejects with a `ConfigurationError` that names the file for anything missing, unreadable or of the wrong shape. */
export function loadDomainData(domain: Domain, folder: string): Promise<DomainData> {
  const place = join(resolve(folder), domain.name);
  let loading = loaded.get(place);
  if (loading === undefined) {
    loading = readDomainData(domain, resolve(folder));
    loaded.set(place, loading);
    // A folder that was broken may have been repaired when it is requested again.
    loading.catch(() => loaded.delete(place));
  }
  return loading;
}

async function readDomainData(domain: Domain, folder: string): Promise<DomainData> {
  const hash = createHash("sha256");
  const below = (name: string): string => join(folder, domain.folder, name);
  const text = async (file: string): Promise<string> => {
    const content = await readText(file);
    hash.update(`${content.length}\n`).update(content);
    return content;
  };
  const database = async (side: DomainSide): Promise<SharedDatabase> =>
    readDatabase(side.database, below(side.file), await text(below(side.file)));
  const tools = async (name: string): Promise<Tool[]> => readTools(below(name), await text(below(name)));
  const policy = async (files: readonly string[]): Promise<string> =>
    domain.policy.assemble(await Promise.all(files.map((file) => text(below(file)))));

  // One after another, so that the hash is that of the same order each time.
  const agent = { toolkit: domain.agent.toolkit, database: await database(domain.agent) };
  const user = domain.user && { toolkit: domain.user.toolkit, database: await database(domain.user) };
  const normalPolicy = await policy(domain.policy.files);
  const soloPolicy = domain.soloRefusal === null ? await policy(domain.policy.soloFiles) : null;
  const agentTools = await tools("tools.json");
  const userTools = domain.user === null ? [] : await tools("user_tools.json");
  const guidelines = (name: string): Promise<string> => text(join(folder, "user_simulator", `${name}.md`));
  const plain = await guidelines("simulation_guidelines");
  const withTools = await guidelines("simulation_guidelines_tools");
  const splitsFile = below("split_tasks.json");
  const splits = parseFile(splitsFile, await text(splitsFile));
  if (!(splits instanceof Map)) throw broken(splitsFile, "it is no object of splits");
  return {
    domain,
    world: { agent, user, sync: domain.sync },
    policy: normalPolicy,
    soloPolicy,
    tools: agentTools,
    userTools,
    userGuidelines: { plain, tools: withTools },
    fingerprint: hash.digest("hex"),
    splits: [...splits.keys()],
    tasks: tasksBySplit(domain, folder, splits),
  };
}

/** Tasks of a split, read at its first use: the largest file has 14 MB. */
function tasksBySplit(domain: Domain, folder: string, splits: JsonObject): DomainData["tasks"] {
  const files = new Map<string, Promise<Tau2Task[]>>();
  return async (split) => {
    const ids = splits.get(split);
    if (!Array.isArray(ids)) {
      throw new ConfigurationError(
        `Cannot find split "${split}" of tau2-bench/${domain.name}: there are ${[...splits.keys()].join(", ")}.`,
      );
    }
    const known = new Set(ids);
    const names = [
      `tasks_${split}.json`,
      ...(split === "full" ? [] : ["tasks_base.json"]),
      "tasks.json",
      "tasks.json.gz",
    ];
    for (const name of names) {
      const file = join(folder, domain.folder, name);
      let reading = files.get(file);
      if (reading === undefined) files.set(file, (reading = readTasksFile(file)));
      const tasks = (await reading).filter(({ id }) => known.has(id));
      if (tasks.length === known.size) return tasks;
    }
    throw new ConfigurationError(
      `Cannot read split "${split}" of tau2-bench/${domain.name}: none of ${names.join(", ")} has all of its ${known.size} tasks; restore the files as upstream has them.`,
    );
  };
}

/** None where there is no such file. */
async function readTasksFile(file: string): Promise<Tau2Task[]> {
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw broken(file, messageOf(error));
  }
  const content = file.endsWith(".gz") ? await promisify(gunzip)(bytes) : bytes;
  return readTasks(parseFile(file, content.toString("utf8")), file);
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
  if (!Array.isArray(list) || !list.every((item) => item instanceof Map)) throw broken(file, "it is no list of tools");
  try {
    return list.map(toolFromDefinition);
  } catch (error) {
    throw broken(file, messageOf(error));
  }
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new ConfigurationError(
      `Cannot read "${file}" for tau2-bench: ${reason === "ENOENT" ? "it does not exist" : reason}; name the folder that ` +
        '"trainable-agents prepare tau2-bench <checkout> <folder>" made.',
      { cause: error },
    );
  }
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
    `Cannot use "${file}" for tau2-bench: ${problem.replace(/\.$/, "")}; restore the file as upstream has it.`,
  );
}
