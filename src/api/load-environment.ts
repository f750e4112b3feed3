// Environments by name or by file. The only place that runs code that the command line names.

import { register } from "node:module";
import { existsSync } from "node:fs";
import { relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { ConfigurationError, type EnvironmentSource, messageOf } from "../core/index.ts";
import { bookshopSource } from "../environments/bookshop/index.ts";
import { tauBenchDomains, tauBenchSource } from "../environments/tau-bench/index.ts";
import { defaultTimeouts } from "../rollout/index.ts";
import { nearest } from "./setting.ts";
import { placeOfFault } from "./syntax-error-place.ts";
import { startWatch, watchedSource, type WatchLimits } from "./user-code.ts";
import type { GivenParts } from "./surroundings.ts";
import { checkedSource } from "./user-environment.ts";

/** An environment and what a rollout of it does unless told otherwise. */
export type LoadedEnvironment = {
  readonly source: EnvironmentSource;
  readonly defaultSplit: string;
  readonly defaultTasks: string;
};

/** What is loaded, and from where. */
type Loaded = { readonly what: string; readonly file: string; readonly cwd: string };

type Loader = (options: { readonly data: string | null }) => LoadedEnvironment | Promise<LoadedEnvironment>;

const tauBench = "tau-bench/";

const builtIn: Readonly<Record<string, Loader>> = {
  // Its tasks are made, not collected: thousands, of which a few show what there is to see.
  bookshop: ({ data }) => {
    if (data !== null) {
      throw new ConfigurationError('Cannot use --data with "bookshop": it makes its tasks itself; leave --data out.');
    }
    return { source: bookshopSource(), defaultSplit: "train", defaultTasks: "0-7" };
  },
  ...Object.fromEntries(tauBenchDomains.map((domain) => [`${tauBench}${domain}`, tauBenchLoader(domain)])),
};

function tauBenchLoader(domain: string): Loader {
  return async ({ data }) => {
    if (data === null) {
      throw new ConfigurationError(
        `Cannot open "${tauBench}${domain}": its tasks and tables are not part of this package; give --data <folder>, a ` +
          'checkout of upstream\'s repository, or what "npx trainable-agents prepare tau-bench --to <folder>" made of one.',
      );
    }
    if (!existsSync(data)) {
      throw new ConfigurationError(
        `Cannot open "${tauBench}${domain}": there is no folder "${data}"; correct --data, or make one with: npx trainable-agents ` +
          "prepare tau-bench --to <folder>",
      );
    }
    return { source: await tauBenchSource({ domain, folder: data }), defaultSplit: "test", defaultTasks: "all" };
  };
}

export const environmentNames: readonly string[] = Object.keys(builtIn);

/** Loads a built-in environment or a module of the user. Throws a `ConfigurationError` that says what would be right. */
export async function loadEnvironment(
  env: string,
  options: {
    readonly data: string | null;
    readonly cwd: string;
    /** The environment as a value, in place of a name. Default: it is named. */
    readonly parts?: GivenParts;
    /** How long code of a module may keep everything else from running. Default: as the settings have it. */
    readonly limits?: WatchLimits;
  },
): Promise<LoadedEnvironment> {
  if (options.parts?.env !== undefined) {
    const source = checkedSource(options.parts.env, env);
    return { source, defaultSplit: source.splits[0] ?? "", defaultTasks: "all" };
  }
  const data = options.data === null ? null : resolve(options.cwd, options.data);
  // A domain that is not built is refused by the benchmark, which knows which are.
  const unbuilt = env.startsWith(tauBench) ? tauBenchLoader(env.slice(tauBench.length)) : undefined;
  const load = Object.hasOwn(builtIn, env) ? builtIn[env] : unbuilt;
  if (load !== undefined) return load({ data });
  if (/^(\.|\/)|\.[cm]?[jt]s$/.test(env)) return loadModule(env, options.cwd, options.limits ?? defaultTimeouts);
  const near = nearest(env, environmentNames);
  throw new ConfigurationError(
    near === null
      ? `Cannot find environment "${env}": there are ${environmentNames.join(", ")}; choose one, or name a module like ./my-env.ts.`
      : `Cannot find environment "${env}": did you mean "${near}"? A module of yours is named by its path, like ./my-env.ts.`,
  );
}

/** The default export of a module of the user's own. Throws a `ConfigurationError` when it is not there or does not load. */
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
  if (/\.[cm]?ts$/.test(file)) stripTypesOfModules();
  return guarded(name, { ...options, file }, async () => {
    const module = (await import(pathToFileURL(file).href)) as { readonly default?: unknown };
    return module.default;
  });
}

/** Words a fault of the user's own code. */
async function guarded<T>(name: string, loaded: Loaded, action: () => Promise<T>): Promise<T> {
  const { what, file, cwd } = loaded;
  try {
    return await action();
  } catch (error) {
    const place = placeOfFault(file, error);
    const where = place === null ? "" : ` (${relative(cwd, place)})`;
    throw new ConfigurationError(
      `Cannot load ${what} "${name}": ${messageOf(error).trim().replace(/\.$/, "")}${where}; correct the module (DEBUG=1 shows where).`,
      { cause: error },
    );
  }
}

async function loadModule(env: string, cwd: string, limits: WatchLimits): Promise<LoadedEnvironment> {
  startWatch(env, limits);
  const made = await importDefault(env, { cwd, what: "environment", flag: "--env" });
  const loaded = { what: "environment", file: resolve(cwd, env), cwd };
  const exported =
    typeof made === "function" ? await guarded(env, loaded, async () => (made as () => unknown)()) : made;
  const source = checkedSource(watchedSource(exported, limits), env);
  return { source, defaultSplit: source.splits[0] ?? "", defaultTasks: "all" };
}

let isStripping = false;

/** Newer Nodes read TypeScript themselves; older ones get a hook, once. From its sources this program runs where types are read. */
function stripTypesOfModules(): void {
  const features: Readonly<Record<string, unknown>> = { ...process.features };
  if (isStripping || Boolean(features["typescript"]) || !import.meta.url.endsWith(".js")) return;
  isStripping = true;
  register("./strip-types.js", import.meta.url);
}
