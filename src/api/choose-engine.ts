// The engine of a rollout, by the registry of engines. Connecting is a separate step, so that
// everything else is checked before a server is contacted. An engine is imported only when it is
// chosen.

import { ConfigurationError } from "../core/index.ts";
import { parseBaseUrl } from "../http/base-url.ts";
import { httpAddress } from "../lib/address.ts";
import type { ConnectedEngine, ServerOptions } from "../parts/engine.ts";
import { optionsOf, refuseForeignOptions, keyOf, milliseconds } from "../parts/setting.ts";
import { defaultServer, engineNames, engineRow, engineRows } from "./engines.ts";
import { isRemote } from "./environments.ts";
import type { EngineParts } from "./open-servers.ts";
import { findPreset } from "./resolve-settings.ts";
import { concurrencyBounds, type EngineName, type RolloutSettings } from "./rollout-settings.ts";
import { readAccess } from "./secrets.ts";
import type { Surroundings } from "./surroundings.ts";

type Addressed = Pick<RolloutSettings, "engine" | "url" | "host" | "port">;

/**
 * True if all `urls` (a comma-separated setting) are servers that the settings name. Throws a
 * `ConfigurationError` for an invalid address.
 */
export function areOwnServers(urls: string, settings: Addressed): boolean {
  const own = new Set(originsOf(settings.url ?? addressOf(settings)));
  return originsOf(urls).every((origin) => own.has(origin));
}

function originsOf(urls: string): readonly string[] {
  return urls.split(",").map((url) => parseBaseUrl(url, { what: "server" }).origin);
}

function addressOf({ engine, host, port }: Addressed): string {
  const row = engineRow(engine);
  return httpAddress(host ?? "127.0.0.1", port ?? (row?.type === "server" ? row : defaultServer).defaultPort);
}

/** Environments in which the expert can act. */
const expertEnvironments: readonly string[] = ["bookshop", "tau2-bench/telecom", "tau2-bench/telecom-workflow"];

/**
 * The engine that the settings name. Throws a `ConfigurationError` for conflicting settings. `own`:
 * an engine is given as a value.
 */
export function chooseEngineName(settings: RolloutSettings, own: boolean): EngineName {
  const { model, env } = settings;
  const name = own ? "own" : (settings.engine ?? defaultEngine(settings));
  if (name === "own" && !own) {
    throw new ConfigurationError(
      'Cannot use engine "own": a program passed it as a value; pass it again, or choose another with --engine.',
    );
  }
  const row = engineRow(name);
  const kind = { noun: "engine", flag: "--engine", rows: engineRows };
  refuseForeignOptions(settings, name, { ...kind, own: row?.options ?? {} });
  const required = row?.type === "local" ? row.required : null;
  if (required !== null && settings[required.option as keyof RolloutSettings] === null) {
    throw new ConfigurationError(
      `Cannot use engine "${name}": no ${required.what} are named; pass --${keyOf(required.option)} <file>.`,
    );
  }
  if (name === "expert") checkExpert(settings);
  if (name !== "sglang" && name !== "expert" && findPreset(settings.preset) !== null) {
    throw new ConfigurationError(
      `Cannot run preset "${settings.preset}" with engine "${name}": the preset speaks to SGLang; use --engine sglang.`,
    );
  }
  const needsModel = name !== "none" && (row?.type !== "local" || row.needsModel(env));
  if (needsModel && model === null) {
    throw new ConfigurationError(
      `Cannot roll out with engine "${name}": no model is named; pass --model <folder> with the tokenizer.json and the chat ` +
        "template of the served model. Without a server: " +
        `--engine embedded ${env === "bookshop" ? "or --engine expert" : "--model bookshop-1m"}.`,
    );
  }
  return name;
}

/** The engine whose required option is given; SGLang if a server, a model or another world is named; else the expert. */
function defaultEngine(settings: RolloutSettings): EngineName {
  const { url, host, port, model, env } = settings;
  for (const name of engineNames) {
    const row = engineRows[name];
    const required = row.type === "local" ? row.required : null;
    if (required !== null && settings[required.option as keyof RolloutSettings] !== null) return name;
  }
  const namesServer = [url, host, port, model].some((value) => value !== null);
  return namesServer || env !== "bookshop" ? "sglang" : "expert";
}

function checkExpert({ env, strategy }: RolloutSettings): void {
  // A remote environment may be one of these; it is checked when it is opened.
  if (!expertEnvironments.includes(env) && !isRemote(env)) {
    throw new ConfigurationError(
      `Cannot run "${env}" with engine "expert": it only knows ${expertEnvironments.join(", ")}; use --engine sglang with --url and --model.`,
    );
  }
  if (strategy === "act" || strategy === "react") {
    throw new ConfigurationError(
      `Cannot run strategy "${strategy}" with engine "expert": it only calls tools in the chat template's own format; use ` +
        "--strategy tool-calling, or a model.",
    );
  }
}

/** The addresses in a setting, at least one; `null` for the default server. */
function readUrls(url: string | null): readonly (string | null)[] {
  if (url === null) return [null];
  const urls = url.split(",").map((part) => part.trim());
  if (urls.includes("") || new Set(urls).size < urls.length) {
    throw new ConfigurationError(
      "Cannot read --url: an address is empty or repeated; write it like http://a:30000,http://b:30000.",
    );
  }
  return urls;
}

/** Options of the engines, one for each server. Nothing is sent; keys are read here. */
export function serverOptions(settings: RolloutSettings, env: Surroundings["env"]): readonly ServerOptions[] {
  const { host, port, adapter, concurrency, turnTimeout, connectTimeout, firstByteTimeout } = settings;
  const urls = readUrls(settings.url);
  if (urls.length > 1 && findPreset(settings.preset) !== null) {
    throw new ConfigurationError(
      `Cannot run preset "${settings.preset}" with ${urls.length} servers: the preset speaks to one; put a router in front of them.`,
    );
  }
  return urls.map((url) => ({
    ...(url === null ? {} : { url }),
    ...(host === null ? {} : { host }),
    ...(port === null ? {} : { port }),
    ...(adapter === null ? {} : { adapter }),
    ...readAccess("engine", settings, env),
    timeoutMs: milliseconds(turnTimeout),
    connectTimeoutMs: Math.ceil(milliseconds(connectTimeout)),
    firstByteTimeoutMs: milliseconds(firstByteTimeout),
    connections: concurrencyBounds(concurrency).ceiling,
  }));
}

/**
 * Connects and checks that the server answers. Rejects with a `ConfigurationError` when it does
 * not: a rollout against an absent server would only collect failures.
 */
export async function connectEngine(name: EngineName, parts: EngineParts): Promise<ConnectedEngine> {
  const { own, model, settings, cwd } = parts;
  if (own !== null) {
    return { engine: own, address: "this program", weightVersion: null, close: () => Promise.resolve() };
  }
  const row = engineRow(name);
  if (row === null) throw new TypeError(`Engine "${name}" samples nothing.`);
  if (row.type === "server") {
    const [product, { openServers }] = await Promise.all([row.load(), import("./open-servers.ts")]);
    const { vocabularySize } = model.renderer;
    const values = optionsOf(row.own, settings);
    const engines = parts.servers.map((server) => product.create({ ...values, ...server, vocabularySize }));
    return openServers(engines, row.product, parts);
  }
  const context = {
    options: optionsOf(row.options, settings),
    model,
    concurrency: concurrencyBounds(settings.concurrency).ceiling,
    maxContextTokens: settings.maxContextTokens,
    environment: settings.env,
    cwd,
    onNotice: parts.onNotice,
  };
  if (name === "expert" && findPreset(settings.preset) !== null) {
    return (await import("./open-expert-server.ts")).openExpertServer({ ...context, options: settings }, parts);
  }
  if (name === "expert" && Object.keys(settings.samplingExtra).length > 0) {
    throw new ConfigurationError(
      'Cannot use --sampling-extra with engine "expert": the expert is a script that ignores sampling parameters; remove it, or name another engine.',
    );
  }
  const opened = await (await row.load()).openEngine(context);
  return { ...opened, address: "this process", close: () => opened.engine.close() };
}
