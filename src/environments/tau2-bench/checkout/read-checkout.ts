// Reads an upstream checkout of τ²-bench as data: the files of the prepared layout, in memory.
// Databases, policies, tasks and guidelines are copied byte for byte; tools and the texts for
// models are read from Python sources without running them.

import type { SyntaxNode } from "@lezer/common";

import { ConfigurationError } from "../../../core/index.ts";
import { pythonStrip } from "../../../python-semantics/index.ts";
import { JsonSyntaxError, type JsonValue, parseJson } from "../../../python-semantics/json/index.ts";
import {
  cannotRead,
  hasFile,
  type PreparedFiles,
  type PreparedFolder,
  prepareFolder,
  type PrepareOptions,
  readCheckoutFile,
  readCheckoutFileIfAny,
  type ReadOptions,
} from "../../checkout/prepare-folder.ts";
import {
  childrenOf,
  findBinding,
  problemAt,
  type PythonSource,
  readAssignment,
  readScope,
  textOf,
} from "../../checkout/python-source.ts";
import { readText } from "../../checkout/read-literal.ts";
import type { Tau2Prompts } from "../prompts.ts";
import {
  agentSource,
  checkoutRemedy,
  guidelineFiles,
  judgeSource,
  Modules,
  parseSource,
  upstream,
  type UpstreamDomain,
  upstreamDomains,
} from "./upstream.ts";
import { bankTools, readBank } from "./read-bank.ts";
import { readTools, toolsText } from "./read-tools.ts";

/** The texts for models in the prepared layout; a folder prepared by other means may lack them. */
export const promptsFile = "prompts.json";

/** Creates the prepared layout of τ²-bench in a folder; see {@link prepareFolder}. */
export function prepareTau2Bench(options: PrepareOptions): Promise<PreparedFolder> {
  return prepareFolder(options, { pinned: upstream, read: readTau2Checkout });
}

/** True if a folder looks like a checkout of the upstream repository; false if it does not exist. */
export function isTau2Checkout(folder: string): Promise<boolean> {
  return hasFile(folder, agentSource);
}

export type ReadTau2Options = ReadOptions & {
  /** Domains to read. @default all */
  readonly domains?: readonly string[];
};

/**
 * Reads every file of the prepared layout from a checkout. None of the checkout's code is executed.
 * Throws a `ConfigurationError` that names the file (and in a Python source the line) that is
 * missing or has unknown content.
 */
export async function readTau2Checkout(folder: string, options: ReadTau2Options = {}): Promise<PreparedFiles> {
  if (!(await isTau2Checkout(folder))) {
    throw new ConfigurationError(
      `Cannot read τ²-bench from "${folder}": it has no file "${agentSource}", a checkout of the upstream repository is ` +
        `repository; name another folder, or ${checkoutRemedy}.`,
    );
  }
  const files = new Map<string, string>();
  const modules = new Modules((path) => readCheckoutFile(folder, path, checkoutRemedy));
  for (const domain of upstreamDomains) {
    if (options.domains !== undefined && !options.domains.includes(domain.name)) continue;
    options.signal?.throwIfAborted();
    const read = await readDomain(folder, domain, modules);
    for (const [name, text] of read) files.set(`${domain.name}/${name}`, text);
    options.onProgress?.(`Read ${domain.name}: ${[...read.keys()].join(", ")}.`);
  }
  const isBank = options.domains?.includes("banking_knowledge") ?? (await hasFile(folder, bankTools));
  if (isBank) {
    options.signal?.throwIfAborted();
    const read = await readBank(folder, modules);
    for (const [name, text] of read) files.set(`banking_knowledge/${name}`, text);
    options.onProgress?.(`Read banking_knowledge: ${[...read.keys()].join(", ")}.`);
  }
  for (const name of guidelineFiles) {
    const text = await readCheckoutFile(folder, `data/tau2/user_simulator/${name}`, checkoutRemedy);
    files.set(`user_simulator/${name}`, text);
  }
  const source = async (path: string) => parseSource(path, await readCheckoutFile(folder, path, checkoutRemedy));
  const texts = readInstructions(await source(agentSource), await source(judgeSource));
  files.set(promptsFile, toolsText(new Map(Object.entries(texts))));
  return files;
}

async function readDomain(folder: string, domain: UpstreamDomain, modules: Modules): Promise<Map<string, string>> {
  const { name, agent, user } = domain;
  const files = new Map<string, string>();
  const place = `data/tau2/domains/${name}`;
  for (const file of domain.files) files.set(file, await readCheckoutFile(folder, `${place}/${file}`, checkoutRemedy));
  for (const file of domain.optionalFiles) {
    const text = await readCheckoutFileIfAny(folder, `${place}/${file}`, checkoutRemedy);
    if (text !== null) files.set(file, text);
  }
  if (name === "telecom") {
    files.set(
      "tasks_base.json",
      tasksOfSplit("base", { place, tasks: files.get("tasks.json")!, splits: files.get("split_tasks.json")! }),
    );
  }
  const tools = async ({ module, className }: UpstreamDomain["agent"]) =>
    toolsText(await readTools(modules, `src/tau2/domains/${name}/${module}.py`, className));
  files.set("tools.json", await tools(agent));
  if (user !== null) files.set("user_tools.json", await tools(user));
  return files;
}

/**
 * A file with the tasks of one split, so that running the most frequent tasks does not require the
 * largest file.
 */
function tasksOfSplit(
  split: string,
  { place, tasks, splits }: { readonly place: string; readonly tasks: string; readonly splits: string },
): string {
  const all = parse(`${place}/tasks.json`, tasks);
  const list = all instanceof Map ? all.get("tasks") : all;
  const named = parse(`${place}/split_tasks.json`, splits);
  const ids = named instanceof Map ? named.get(split) : null;
  if (!Array.isArray(list)) throw cannotRead(`"${place}/tasks.json"`, "it is not a list of tasks", checkoutRemedy);
  if (!Array.isArray(ids))
    throw cannotRead(`"${place}/split_tasks.json"`, `there is no split "${split}"`, checkoutRemedy);
  const known = new Set(ids);
  return toolsText(list.filter((task) => task instanceof Map && known.has(task.get("id") ?? null)));
}

function parse(path: string, text: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    throw cannotRead(`"${path}"`, `it is not JSON (${error.pythonMessage})`, checkoutRemedy);
  }
}

// The texts that upstream's agents and its judge are given, read from the sources that contain
// them. `prompts.ts` combines them with policy and task.

/** Throws a `ConfigurationError` that names file and line if a text is not a plain literal. */
export function readInstructions(agent: PythonSource, judge: PythonSource): Tau2Prompts {
  const instruction = (name: string): string => {
    const { value } = findBinding(agent, readScope(agent, agent.top), name, "assignment");
    return readStripped(agent, value);
  };
  return {
    agent: instruction("AGENT_INSTRUCTION"),
    goldAgent: instruction("AGENT_GT_INSTRUCTION"),
    soloAgent: instruction("AGENT_SOLO_INSTRUCTION"),
    judge: readJudge(judge),
  };
}

/** Reads a string literal, or `<string>.strip()`. */
function readStripped(source: PythonSource, node: SyntaxNode): string {
  if (node.name !== "CallExpression") return readText(source, node);
  const [callee, list] = childrenOf(node);
  const [text, dot, method] = callee?.name === "MemberExpression" ? childrenOf(callee) : [];
  const isStrip = dot?.name === "." && method !== undefined && textOf(source, method) === "strip";
  if (text === undefined || !isStrip || list === undefined || childrenOf(list).length !== 2) {
    throw problemAt(source, node, "this is neither text nor text without the white space around it");
  }
  return pythonStrip(readText(source, text));
}

/** The variable `system_prompt` of the method that sends a conversation to the judge. */
function readJudge(source: PythonSource): string {
  const scope = readScope(source, source.top);
  const { node } = findBinding(source, scope, "NLAssertionsEvaluator", "class");
  const method = findBinding(source, readScope(source, node), "evaluate_nl_assertions", "function").node;
  const found: SyntaxNode[] = [];
  const cursor = method.cursor();
  do {
    if (cursor.name !== "AssignStatement" && cursor.name !== "UpdateStatement") continue;
    const [target] = childrenOf(cursor.node);
    if (target !== undefined && textOf(source, target) === "system_prompt") found.push(cursor.node);
  } while (cursor.next() && cursor.from < method.to);
  const [first, second] = found;
  if (first === undefined) throw problemAt(source, method, 'the method has no variable "system_prompt"');
  if (second !== undefined) throw problemAt(source, second, '"system_prompt" is written a second time');
  const [assigned] = (first.name === "AssignStatement" ? readAssignment(source, first) : null) ?? [];
  if (assigned?.[1].type !== "assignment") throw problemAt(source, first, '"system_prompt" is not simply assigned');
  return readText(source, assigned[1].value);
}
