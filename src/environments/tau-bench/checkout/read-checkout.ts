// Reads an upstream checkout as data: the files of the prepared layout, in memory. Tables and
// guidelines are copied byte for byte; the rest is read from Python sources without running them.
// The environment's loader interprets the files.

import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError } from "../../../core/index.ts";
import { dumpJson, JsonSyntaxError, type JsonValue, parseJson } from "../../../python-semantics/json/index.ts";
import {
  cannotRead as cannotReadPlace,
  codeOf,
  hasFile,
  pinUpstream,
  type PreparedFiles,
  type PreparedFolder,
  prepareFolder,
  type PrepareOptions,
  readCheckoutFile as readFileOf,
  readCheckoutFileIfAny as readFileIfAny,
  type ReadOptions,
} from "../../checkout/prepare-folder.ts";
import type { PythonSource } from "../../checkout/python-source.ts";
import { readRules, readTasks, readToolList, readToolSchema } from "./read-sources.ts";
import { parseUserPrompts, readUserPromptContents, type TauUserPrompts } from "./user-prompts.ts";

export const { upstream, checkoutRemedy, parseSource } = pinUpstream({
  title: "τ-bench",
  url: "https://github.com/sierra-research/tau-bench.git",
  commit: "59a200c6d575d595120f1cb70fea53cef0632f6b",
});

export type UpstreamDomain = {
  readonly name: string;
  readonly tables: readonly string[];
  /** Name of each split, and of the list in its source file. */
  readonly splits: readonly { readonly name: string; readonly variable: string }[];
  readonly displays: string;
};

export const upstreamDomains: readonly UpstreamDomain[] = [
  {
    name: "retail",
    tables: ["users", "orders", "products"],
    splits: [
      { name: "train", variable: "TASKS_TRAIN" },
      { name: "test", variable: "TASKS_TEST" },
      { name: "dev", variable: "TASKS_DEV" },
    ],
    displays: "few_shot_data/MockRetailDomainEnv-few_shot.jsonl",
  },
  {
    name: "airline",
    tables: ["users", "flights", "reservations"],
    splits: [{ name: "test", variable: "TASKS" }],
    displays: "few_shot_data/MockAirlineDomainEnv-few_shot.jsonl",
  },
];

/**
 * Prompts of the simulated users, shared by all domains. A folder with this file counts as a
 * checkout.
 */
const userSource = "tau_bench/envs/user.py";

const domainFolder = (domain: UpstreamDomain): string => `tau_bench/envs/${domain.name}`;

export type ReadCheckoutOptions = ReadOptions & {
  /** Domains to read. @default all */
  readonly domains?: readonly string[];
};

/** True if a folder looks like a checkout of the upstream repository; false if it does not exist. */
export function isTauBenchCheckout(folder: string): Promise<boolean> {
  return hasFile(folder, userSource);
}

/**
 * Reads every file of the prepared layout from a checkout. None of the checkout's code is executed.
 *
 * Throws a `ConfigurationError` that names the file (and in a Python source the line) that is
 * missing or has unknown content. Few-shot displays are optional; all other files are required.
 */
export async function readTauBenchCheckout(folder: string, options: ReadCheckoutOptions = {}): Promise<PreparedFiles> {
  if (!(await isTauBenchCheckout(folder))) {
    throw new ConfigurationError(
      `Cannot read τ-bench from "${folder}": it has no file "${userSource}", a checkout of the upstream repository is ` +
        `repository; name another folder, or ${checkoutRemedy}.`,
    );
  }
  const files = new Map<string, string>();
  for (const domain of upstreamDomains) {
    if (options.domains !== undefined && !options.domains.includes(domain.name)) continue;
    options.signal?.throwIfAborted();
    const read = await readDomain(folder, domain);
    for (const [path, text] of read) files.set(`${domain.name}/${path}`, text);
    options.onProgress?.(`Read ${domain.name}: ${[...read.keys()].join(", ")}.`);
  }
  files.set(userPromptsFile, toFile(readUserPromptContents(await readSource(folder, userSource))));
  return files;
}

/**
 * Prompts of the simulated users in the prepared layout; a folder prepared by other means may lack
 * them.
 */
export const userPromptsFile = "user_prompts.json";

/** Displays of one domain, in its folder of the prepared layout: upstream's lines, byte for byte. */
export const displaysFile = "few_shot.jsonl";

async function readDomain(folder: string, domain: UpstreamDomain): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const base = domainFolder(domain);
  for (const table of domain.tables) {
    const path = `${base}/data/${table}.json`;
    files.set(`${table}.json`, checkTable(path, await readCheckoutFile(folder, path)));
  }
  files.set("wiki.md", await readCheckoutFile(folder, `${base}/wiki.md`));
  files.set("rules.json", toFile(readRules(await readSource(folder, `${base}/rules.py`))));
  const schemas: JsonValue[] = [];
  for (const { module, className } of readToolList(await readSource(folder, `${base}/tools/__init__.py`))) {
    schemas.push(readToolSchema(await readSource(folder, `${base}/tools/${module}.py`), className));
  }
  files.set("tools.json", toFile(schemas));
  for (const { name, variable } of domain.splits) {
    const tasks = readTasks(await readSource(folder, `${base}/tasks_${name}.py`), variable);
    files.set(`tasks_${name}.json`, toFile(tasks));
  }
  const displays = await readCheckoutFileIfAny(folder, domain.displays);
  if (displays !== null) {
    parseDisplays(displays, domain.displays);
    files.set(displaysFile, displays);
  }
  return files;
}

async function readSource(folder: string, path: string): Promise<PythonSource> {
  return parseSource(path, await readCheckoutFile(folder, path));
}

const toFile = (value: JsonValue): string => `${dumpJson(value, { indent: 1 })}\n`;

/**
 * Checks a table, which is copied unchanged, so that an invalid one is reported here and not during
 * a run.
 */
function checkTable(path: string, text: string): string {
  if (parse(text, path, 1) instanceof Map) return text;
  throw cannotRead(`"${path}", line 1`, "a table is an object of records by their ids");
}

/**
 * The displays of a file with one JSON object per line. Throws a `ConfigurationError` that names
 * file and line.
 */
export function parseDisplays(text: string, path: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line, index) => {
    const value = parse(line, path, index + 1);
    const display = value instanceof Map ? value.get("messages_display") : undefined;
    if (typeof display === "string") return display;
    throw cannotRead(`"${path}", line ${index + 1}`, 'there is no text "messages_display"');
  });
}

function parse(text: string, path: string, firstLine: number): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    const line = firstLine + text.slice(0, error.offset).split("\n").length - 1;
    throw cannotRead(`"${path}", line ${line}`, `this is not JSON (${error.pythonMessage})`);
  }
}

const cannotRead = (place: string, problem: string): ConfigurationError =>
  cannotReadPlace(place, problem, checkoutRemedy);

const readCheckoutFile = (folder: string, path: string): Promise<string> => readFileOf(folder, path, checkoutRemedy);

const readCheckoutFileIfAny = (folder: string, path: string): Promise<string | null> =>
  readFileIfAny(folder, path, checkoutRemedy);

/**
 * Upstream's prompts for simulated users; `null` if the folder has none. Throws a
 * `ConfigurationError` if they are damaged.
 */
export async function loadUserPrompts(folder: string): Promise<TauUserPrompts | null> {
  const text = (await isTauBenchCheckout(folder))
    ? ((await readTauBenchCheckout(folder, { domains: [] })).get(userPromptsFile) ?? null)
    : await readPrepared(folder, userPromptsFile);
  return text === null ? null : parseUserPrompts(text, join(folder, userPromptsFile));
}

/**
 * Upstream's examples of conversations in one domain ("retail", "airline"); `null` if the folder
 * has none. Throws a `ConfigurationError` if they are damaged.
 */
export async function loadFewShotDisplays(folder: string, domain: string): Promise<readonly string[] | null> {
  const isCheckout = await isTauBenchCheckout(folder);
  const displays = upstreamDomains.find(({ name }) => name === domain)?.displays;
  const path = isCheckout && displays !== undefined ? displays : `${domain}/${displaysFile}`;
  const text = isCheckout ? await readCheckoutFileIfAny(folder, path) : await readPrepared(folder, path);
  return text === null ? null : parseDisplays(text, path);
}

async function readPrepared(folder: string, path: string): Promise<string | null> {
  try {
    return await readFile(join(folder, path), "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw new ConfigurationError(`Cannot read "${join(folder, path)}": ${String(error)}; correct or remove it.`, {
      cause: error,
    });
  }
}

// Creates the prepared layout of τ-bench in a folder. Not required, because the environment also
// reads a checkout; a prepared folder is faster, and can be copied.

/** Same as {@link prepareFolder}, for τ-bench. */
export function prepareTauBench(options: PrepareOptions): Promise<PreparedFolder> {
  return prepareFolder(options, { pinned: upstream, read: readTauBenchCheckout });
}
