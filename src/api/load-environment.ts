// Environments by name, by file or as a value. Only this file runs code that the options name; a
// faulty module gets one sentence with the place of its fault, instead of a fault in every episode.

import { existsSync, readFileSync } from "node:fs";
import { relative, resolve, dirname } from "node:path";
import { pathToFileURL, fileURLToPath } from "node:url";

import { unusableSchemas } from "../agents/on-demand.ts";
import {
  ConfigurationError,
  type EnvironmentSource,
  lookIntoEnvironment,
  messageOf,
  type Task,
  type Taskset,
  hasSplit,
  splitsText,
} from "../core/index.ts";
import type { RemoteSource } from "../environments/remote/index.ts";
import { taskOptions } from "../environments/remote/options.ts";
import type { LoadedEnvironment } from "../parts/environment.ts";
import { optionsOf, refuseForeignOptions, readFlags } from "../parts/setting.ts";
import { checkedOpening, defaultTimeouts, readTask } from "../rollout/loop.ts";
import type { AgentTaskSource } from "./agent-tasks.ts";
import {
  environmentNames,
  type EnvironmentOptions,
  environmentOptions,
  environmentRows,
  findEnvironment,
} from "./environments.ts";
import type { withTaskFile } from "./module-tasks.ts";
import type { GivenParts, Surroundings } from "./surroundings.ts";
import { startWatch, watchedSource, type WatchLimits } from "./user-code.ts";
import { checkPrototypes, guardGlobals, unguardGlobals } from "../lib/global-guard.ts";
import { hideSecrets } from "../lib/hidden-parts.ts";
import { meant, suggestion } from "../lib/nearest.ts";
import { requireRegularSync } from "../system/regular-file.ts";

/** Number of tasks checked in each split; the others are checked when they are taken. */
const checkedTasks = 100;

/**
 * The environment with tasks that are checked when they are taken. Throws a `ConfigurationError`
 * that states the fault.
 */
export function checkedSource(value: unknown, module: string): EnvironmentSource {
  const refuse = (problem: string, cause?: unknown): ConfigurationError =>
    new ConfigurationError(
      `Cannot use "${module}" as an environment: ${problem.replace(/\.$/, "")}; export the result of defineEnvironment.`,
      cause === undefined ? {} : { cause },
    );
  try {
    const missing = missingParts(value);
    if (isDefined(value) && value.splits.length === 0) {
      throw new ConfigurationError(
        `Cannot use "${module}" as an environment: it has no tasks of its own; name a file of them with --env-tasks.`,
      );
    }
    if (missing.length > 0) throw refuse(`its default export has no ${missing.join(", ")}`);
    const source = value as EnvironmentSource;
    const taskset = (split: string): Taskset => checkedTaskset(source.taskset(split), module);
    const checked: EnvironmentSource = {
      name: source.name,
      splits: [...source.splits],
      ...(source.seededSplits === undefined ? {} : { seededSplits: [...source.seededSplits] }),
      users: [...source.users],
      argumentErrors: source.argumentErrors,
      ...(source.unknownTools === undefined ? {} : { unknownTools: source.unknownTools }),
      ...(source.calls === undefined ? {} : { calls: source.calls }),
      ...(source.resume === undefined ? {} : { resume: source.resume }),
      ...(source.needsJudge === undefined ? {} : { needsJudge: (task: Task) => source.needsJudge?.(task) === true }),
      ...(source.boundsOpening === undefined ? {} : { boundsOpening: source.boundsOpening }),
      ...(source.graders === undefined ? {} : { graders: source.graders }),
      taskset,
      open: (task, options) => source.open(task, options),
    };
    checkTasks(checked);
    return checked;
  } catch (error) {
    throw error instanceof ConfigurationError ? error : refuse(messageOf(error), error);
  }
}

function isDefined(value: unknown): value is EnvironmentSource {
  return isRecord(value) && "withTasks" in value && Array.isArray(value["splits"]);
}

/** Members that the value lacks to be an `EnvironmentSource`. */
function missingParts(value: unknown): string[] {
  const isText = (part: unknown): boolean => typeof part === "string" && part !== "";
  const isTexts = (part: unknown): boolean => Array.isArray(part) && part.length > 0 && part.every(isText);
  const isFunction = (part: unknown): boolean => typeof part === "function";
  const fields: Readonly<Record<string, (part: unknown) => boolean>> = {
    name: isText,
    splits: isTexts,
    users: isTexts,
    argumentErrors: (part) => part === "environment" || part === "loop",
    taskset: isFunction,
    open: isFunction,
    unknownTools: (part) => part === undefined || part === "environment" || part === "loop",
    calls: (part) => part === undefined || part === "one" || part === "several",
    seededSplits: (part) => part === undefined || isTexts(part),
    resume: (part) => part === undefined || part === "replay" || part === "restart",
  };
  if (typeof value !== "object" || value === null) return Object.keys(fields);
  const parts = value as Readonly<Record<string, unknown>>;
  return Object.entries(fields).flatMap(([name, fits]) => (fits(parts[name]) ? [] : [name]));
}

function checkedTaskset(taskset: Taskset, module: string): Taskset {
  const { environment, split, size, hash } = taskset;
  if (!Number.isSafeInteger(size) || size < 0) {
    throw new ConfigurationError(
      `Cannot use "${module}" as an environment: the size of split "${split}" is ${String(size)}, expected a whole number.`,
    );
  }
  return {
    environment,
    split,
    size,
    ...(typeof hash === "string" ? { hash } : {}),
    task: (index) => {
      // The environment itself refuses an index beyond the end.
      if (!(index >= 0 && index < size)) return taskset.task(index);
      try {
        const task = taskset.task(index);
        readTask(task);
        return task;
      } catch (error) {
        const reason = messageOf(error).replace(/\.$/, "");
        throw new ConfigurationError(
          `Cannot take task ${index} of split "${split}" of "${module}": ${reason}; correct the module.`,
          { cause: error },
        );
      }
    },
  };
}

function checkTasks(source: EnvironmentSource): void {
  const places = new Map<string, string>();
  for (const split of source.splits) {
    const taskset = source.taskset(split);
    for (let index = 0; index < Math.min(taskset.size, checkedTasks); index++) {
      const task = taskset.task(index);
      const place = `task ${index} of split "${split}"`;
      const other = places.get(task.id);
      if (other !== undefined) throw new TypeError(`${other} and ${place} have the same id "${task.id}"`);
      places.set(task.id, place);
    }
  }
  if (places.size === 0) throw new TypeError("it has no tasks");
  checkTools(source);
}

/**
 * A world that cannot be opened is a fault of its episodes; its tools are then unknown and not
 * checked.
 */
function checkTools(source: EnvironmentSource): void {
  const split = source.splits.find((name) => source.taskset(name).size > 0)!;
  let tools: Parameters<typeof unusableSchemas>[0];
  try {
    tools = lookIntoEnvironment(checkedOpening(source), source.taskset(split).task(0), (world) => world.tools) ?? [];
  } catch {
    checkPrototypes();
    return;
  }
  checkPrototypes();
  const [warning] = unusableSchemas(tools);
  if (warning !== undefined) throw new TypeError(warning);
}

/** Maximum number of modules that are searched, including the named one. */
const mostModules = 200;

/**
 * `<file>:<line>:<column>` of the fault that occurred while the module was loaded, both counted
 * from 1; `null` if unknown.
 */
export async function placeOfFault(file: string, error: unknown): Promise<string | null> {
  return placeOfParser(error) ?? (isSyntaxError(error) ? await placeOfSyntaxError(file) : placeOfFrame(error));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function isSyntaxError(error: unknown): boolean {
  return isRecord(error) && error["name"] === "SyntaxError";
}

function placeOfParser(error: unknown): string | null {
  if (!isRecord(error)) return null;
  const { filename, startLine, startColumn } = error;
  if (typeof filename !== "string" || typeof startLine !== "number" || typeof startColumn !== "number") return null;
  return `${filename}:${startLine}:${startColumn + 1}`;
}

/** Place of a syntax error in the module, or in the user's modules that it imports. */
async function placeOfSyntaxError(first: string): Promise<string | null> {
  const { parseProblem } = await import("./module-hooks.ts");
  const files = [first];
  for (let next = 0; next < Math.min(files.length, mostModules); next++) {
    const file = files[next]!;
    const source = readFileSync(file, "utf8");
    const place = placeOfParser(parseProblem(source, file));
    if (place !== null) return place;
    for (const [, specifier = ""] of source.matchAll(/\b(?:from|import)\s*(?:\(\s*)?["'](\.[^"']*\.[cm]?[jt]s)["']/g)) {
      const imported = resolve(dirname(file), specifier);
      if (existsSync(imported) && !files.includes(imported)) files.push(imported);
    }
  }
  return null;
}

const ownFiles = new URL("..", import.meta.url).href;

/** The first frame outside this package, also outside other copies of it. */
function placeOfFrame(error: unknown): string | null {
  const stack = isRecord(error) && typeof error["stack"] === "string" ? error["stack"] : "";
  for (const [, url = "", place = ""] of stack.matchAll(/(?<![^\s(])(file:\/\/[^\s()]+?)((?::\d+){2})\)?$/gm)) {
    if (!url.startsWith(ownFiles) && !url.includes("/trainable-agents/dist/")) return `${fileURLToPath(url)}${place}`;
  }
  return null;
}

/**
 * True if the tasks come from a file, so that programs run them without one of our environments.
 */
export function isTaskFile(source: EnvironmentSource): source is AgentTaskSource {
  return "lineOf" in source;
}

/** The split, if the environment has it. Throws a `ConfigurationError` that names the flag. */
export function checkSplit(source: EnvironmentSource, split: string, flag = "--split"): string {
  if (hasSplit(source, split)) return split;
  throw new ConfigurationError(
    `Cannot run split "${split}" of "${source.name}": it has ${splitsText(source)}; correct ${flag}.${meant(split, source.splits)}`,
  );
}

/**
 * The kind of module for messages, its file, and the folder that places in messages are relative
 * to.
 */
type Loaded = { readonly what: string; readonly file: string; readonly cwd: string };

/**
 * Loads an environment of the registry, a module of the user or a file of tasks. Throws a
 * `ConfigurationError` that states the valid values.
 */
export async function loadEnvironment(
  env: string,
  options: {
    readonly cwd: string;
    /** Options of environments; others are ignored. Default of each: that of the setting. */
    readonly settings?: Partial<EnvironmentOptions>;
    /** The split that will be run. Default: unknown. */
    readonly split?: string | null;
    /** Variables of the process. Default: none. */
    readonly env?: Surroundings["env"];
    /** The environment as a value, in place of a name. Default: the name is used. */
    readonly parts?: GivenParts;
    /** Time that code of a module may block everything else. Default: that of the settings. */
    readonly limits?: WatchLimits;
    /**
     * Time limit for opening a remote environment once, counted from when there is room for it.
     * Default: the protocol's own.
     */
    readonly openMs?: number;
  },
): Promise<LoadedEnvironment> {
  const { cwd, limits = defaultTimeouts, split = null, openMs } = options;
  const values = { ...readFlags(environmentOptions, {}), ...options.settings };
  const importTasks = (file: string, what: string) => importDefault(file, { cwd, what, flag: "--env-tasks" });
  const tasks: FileOfTasks = { file: values.envTasks, cwd, importDefault: importTasks, module: env };
  if (options.parts?.env !== undefined)
    return withDefaults(checkedSource(await withTasks(options.parts.env, tasks), env));
  const found = findEnvironment(env);
  const own = found?.row.options ?? (namesModule(env) ? taskOptions : {});
  refuseForeignOptions(values, hideSecrets(env), { noun: "environment", flag: "--env", rows: environmentRows, own });
  if (found !== null) {
    const { openSource } = await found.row.load();
    return openSource({
      name: env,
      rest: found.rest,
      options: optionsOf(own, values),
      split,
      cwd,
      variables: options.env ?? {},
      limits: {
        callMs: limits.environmentMs,
        gradeMs: limits.graderMs,
        ...(openMs === undefined ? {} : { openMs }),
      },
      importDefault: importTasks,
    });
  }
  if (namesTaskFile(env)) {
    const { agentTaskSource } = await import("./agent-tasks.ts");
    return withDefaults(await agentTaskSource(env, { cwd, importDefault: importTasks }));
  }
  if (namesModule(env)) return withDefaults(await loadModule(env, cwd, limits, tasks));
  const near = suggestion(env, environmentNames);
  const forms = Object.values(environmentRows).flatMap(({ form, names }) => (names.length === 0 ? [form] : []));
  throw new ConfigurationError(
    near === null
      ? `Cannot find environment "${env}": there are ${[...environmentNames, ...forms].join(", ")}; choose one, or name a module like ./my-env.ts.`
      : `Cannot find environment "${env}": ${near} To use your own module, pass its path, like ./my-env.ts.`,
  );
}

const namesTaskFile = (env: string): boolean => /\.(?:jsonl|csv|parquet)$/i.test(env);

const namesModule = (env: string): boolean => !namesTaskFile(env) && /^(\.|\/)|\.[cm]?[jt]s$/.test(env);

function withDefaults(source: EnvironmentSource): LoadedEnvironment {
  return { source, defaultSplit: source.splits[0] ?? "", defaultTasks: "all" };
}

/**
 * Ends resources that the service of a remote source keeps besides its sessions. Never rejects,
 * because the run is already done.
 */
export async function closeRemote(source: Partial<RemoteSource>): Promise<void> {
  if (source.boundsOpening === true) await source.close?.().catch(() => undefined);
}

/**
 * The default export of a user's module. Throws a `ConfigurationError` when the file does not exist
 * or does not load.
 */
export async function importDefault(
  name: string,
  options: { readonly cwd: string; readonly what: string; readonly flag: string },
): Promise<unknown> {
  const file = resolve(options.cwd, name);
  if (!existsSync(file)) {
    throw new ConfigurationError(
      `Cannot load ${options.what} "${name}": there is no file "${file}"; correct ${options.flag}.`,
    );
  }
  requireRegularSync(file);
  await hookModules();
  unguardGlobals();
  return guarded(name, { ...options, file }, async () => {
    const module = (await import(pathToFileURL(file).href)) as { readonly default?: unknown };
    checkPrototypes();
    // Only a sound state is remembered: one with names on every object would be restored for ever.
    keepGlobals();
    return module.default;
  });
}

/** Turns a fault of the user's own code into an error with its place. */
async function guarded<T>(name: string, loaded: Loaded, action: () => Promise<T>): Promise<T> {
  const { what, file, cwd } = loaded;
  try {
    return await action();
  } catch (error) {
    const place = await placeOfFault(file, error);
    const where = place === null ? "" : ` (${relative(cwd, place)})`;
    throw new ConfigurationError(
      `Cannot load ${what} "${name}": ${messageOf(error).trim().replace(/\.$/, "")}${where}; correct the module (DEBUG=1 shows where).`,
      { cause: error },
    );
  }
}

type FileOfTasks = Parameters<typeof withTaskFile>[2] & { readonly file: string | null };

/** The environment with the tasks of `--env-tasks`, if it is set. */
async function withTasks(made: unknown, { file, ...options }: FileOfTasks): Promise<unknown> {
  return file === null ? made : (await import("./module-tasks.ts")).withTaskFile(made, file, options);
}

async function loadModule(
  env: string,
  cwd: string,
  limits: WatchLimits,
  tasks: FileOfTasks,
): Promise<EnvironmentSource> {
  startWatch(env, limits);
  const made = await importDefault(env, { cwd, what: "environment", flag: "--env" });
  const loaded = { what: "environment", file: resolve(cwd, env), cwd };
  const exported =
    typeof made === "function" ? await guarded(env, loaded, async () => (made as () => unknown)()) : made;
  unguardGlobals();
  const source = checkedSource(watchedSource(await withTasks(exported, tasks), limits), env);
  keepGlobals();
  return source;
}

/**
 * Undoes and reports changes that users' modules make to shared objects from now on, between two
 * episodes or within one.
 */
function keepGlobals(): void {
  guardGlobals((message) => process.emitWarning(message));
}

/**
 * Registers the hooks for users' modules, once. If this program runs from its sources, its runner
 * reads TypeScript.
 */
async function hookModules(): Promise<void> {
  if (import.meta.url.endsWith(".js")) await import("./register-module-hooks.ts");
}
