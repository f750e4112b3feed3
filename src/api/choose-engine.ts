// The engine of a rollout: an SGLang or vLLM server, a GGUF file or a small model in this process,
// or the demonstration expert. Connecting is a separate step, so that everything else is checked
// before a server is contacted. An engine is imported only when it is chosen.

import { resolve } from "node:path";

import { ConfigurationError } from "../core/index.ts";
import { parseBaseUrl } from "../http/base-url.ts";
import { httpAddress } from "../lib/address.ts";
import type { ChosenModel } from "./choose-model.ts";
import {
  type ConnectedEngine,
  type EngineName,
  type EngineParts,
  here,
  type ServerOptions,
} from "./connected-engine.ts";
import { findPreset } from "./presets.ts";
import { concurrencyBounds, type RolloutSettings } from "./rollout-settings.ts";
import { readAccess } from "./secrets.ts";
import type { Surroundings } from "./surroundings.ts";
import { findRemote } from "./remote-environments.ts";

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
  return httpAddress(host ?? "127.0.0.1", port ?? (engine === "vllm" ? 8000 : 30_000));
}

const telecomWorlds = ["tau2-bench/telecom", "tau2-bench/telecom-workflow"];
/** Environments in which the expert can act. */
const expertEnvironments: readonly string[] = ["bookshop", ...telecomWorlds];

/**
 * The engine that the settings name. Throws a `ConfigurationError` for conflicting settings. `own`:
 * an engine is given as a value.
 */
export function chooseEngineName(settings: RolloutSettings, own: boolean): EngineName {
  const { url, host, port, model, env, gguf } = settings;
  const namesServer = [url, host, port, model].some((value) => value !== null);
  const byDefault = gguf !== null ? "llama-cpp" : namesServer || env !== "bookshop" ? "sglang" : "expert";
  const name = own ? "own" : (settings.engine ?? byDefault);
  if (name === "own" && !own) {
    throw new ConfigurationError(
      'Cannot use engine "own": it was given by a program as a value; give it again, or name another with --engine.',
    );
  }
  if ((name === "llama-cpp") !== (gguf !== null)) {
    throw new ConfigurationError(
      gguf === null
        ? 'Cannot use engine "llama-cpp": no weights are named; give --gguf <file>.'
        : `Cannot use --gguf with engine "${name}": it reads no such file; leave it out, or use --engine llama-cpp.`,
    );
  }
  if (gguf === null && settings.ggufAdapter !== null) {
    throw new ConfigurationError(
      "Cannot use --gguf-adapter without --gguf: it changes the weights of a GGUF file; name the file, or remove the adapter.",
    );
  }
  // A remote environment may be one of these; it is checked when it is opened.
  if (name === "expert" && !expertEnvironments.includes(env) && findRemote(env) === null) {
    throw new ConfigurationError(
      `Cannot run "${env}" with engine "expert": it knows ${expertEnvironments.join(", ")}; use --engine sglang with --url and --model.`,
    );
  }
  const needsNoServer = name !== "sglang" && name !== "vllm";
  if (needsNoServer && (url ?? host ?? port) !== null) {
    throw new ConfigurationError(
      `Cannot use --url, --host or --port with engine "${name}": it needs no server; leave them out, or use --engine sglang.`,
    );
  }
  if (name !== "sglang" && name !== "expert" && findPreset(settings.preset) !== null) {
    throw new ConfigurationError(
      `Cannot run preset "${settings.preset}" with engine "${name}": the preset speaks to SGLang; use --engine sglang.`,
    );
  }
  const bringsModel = name === "none" || name === "expert" || (name === "embedded" && env === "bookshop");
  if (!bringsModel && model === null) {
    throw new ConfigurationError(
      `Cannot roll out with engine "${name}": no model is named; give --model <folder> with the tokenizer.json and the chat ` +
        "template of the served model. Without a server: " +
        `--engine embedded ${env === "bookshop" ? "or --engine expert" : "--model bookshop-1m"}.`,
    );
  }
  return name;
}

/** The addresses in a setting, at least one; `null` for the default server. */
function readUrls(url: string | null): readonly (string | null)[] {
  if (url === null) return [null];
  const urls = url.split(",").map((part) => part.trim());
  if (urls.includes("") || new Set(urls).size < urls.length) {
    throw new ConfigurationError(
      "Cannot read --url: an address is empty or named twice; write http://a:30000,http://b:30000.",
    );
  }
  return urls;
}

/** Options of the engines, one for each server. Nothing is sent; keys are read here. */
export function serverOptions(settings: RolloutSettings, env: Surroundings["env"]): readonly ServerOptions[] {
  const { host, port, concurrency, turnTimeout, connectTimeout, firstByteTimeout } = settings;
  const { logprobsMode, endpoint } = settings;
  const urls = readUrls(settings.url);
  if (urls.length > 1 && findPreset(settings.preset) !== null) {
    throw new ConfigurationError(
      `Cannot run preset "${settings.preset}" with ${urls.length} servers: the preset speaks to one; put a router before them.`,
    );
  }
  return urls.map((url) => ({
    ...(url === null ? {} : { url }),
    ...(host === null ? {} : { host }),
    ...(port === null ? {} : { port }),
    ...readAccess("engine", settings, env),
    logprobsMode,
    endpoint,
    timeoutMs: turnTimeout * 1000,
    connectTimeoutMs: Math.ceil(connectTimeout * 1000),
    firstByteTimeoutMs: firstByteTimeout === null ? null : firstByteTimeout * 1000,
    connections: concurrencyBounds(concurrency).ceiling,
  }));
}

/**
 * Connects and checks that the server answers. Rejects with a `ConfigurationError` when it does
 * not: a rollout against an absent server would only collect failures.
 */
export async function connectEngine(name: EngineName, parts: EngineParts): Promise<ConnectedEngine> {
  const { own, model } = parts;
  if (own !== null) return { ...here(own), address: "this program", close: () => Promise.resolve() };
  const { vocabularySize } = model.renderer;
  const servers = parts.servers.map((server) => ({ ...server, vocabularySize }));
  if (name === "embedded") return openEmbedded(model);
  if (name === "llama-cpp") return openGguf(parts);
  if (name === "vllm") {
    const { createVllmEngine } = await import("../engines/vllm/index.ts");
    return (await import("./open-servers.ts")).openServers(servers.map(createVllmEngine), "a vLLM", parts);
  }
  if (name === "sglang") {
    const { createSglangEngine } = await import("../engines/sglang/index.ts");
    return (await import("./open-servers.ts")).openServers(servers.map(createSglangEngine), "an SGLang", parts);
  }
  return openExpert(parts);
}

/** The expert acts in this process, or as a server of SGLang's protocol if a preset needs one. */
async function openExpert(parts: EngineParts): Promise<ConnectedEngine> {
  const { settings, model, servers } = parts;
  const { tokenizer, renderer } = model;
  if (findPreset(settings.preset) === null && Object.keys(settings.samplingExtra).length > 0) {
    throw new ConfigurationError(
      'Cannot use --sampling-extra with engine "expert": the expert is a script that reads no sampling parameters; remove it, or name another engine.',
    );
  }
  const { createExpertEngine, createExpertSampler } = await import("../environments/bookshop/index.ts");
  const act = telecomWorlds.includes(settings.env)
    ? { act: (await import("../environments/tau2-bench/index.ts")).telecomExpertAction }
    : {};
  const options = { tokenizer, noise: settings.expertNoise, ...act };
  const weightVersion = "default";
  if (findPreset(settings.preset) === null)
    return { ...here(createExpertEngine({ ...options, weightVersion })), weightVersion };
  const { createSglangFront } = await import("../testing/index.ts");
  const front = createSglangFront({
    sampler: createExpertSampler(options),
    tokenizer,
    modelPath: "expert",
    endTokenIds: [renderer.stopTokenIds[0] ?? 0],
  });
  const server = await front.listen();
  const { createSglangEngine } = await import("../engines/sglang/index.ts");
  const connections = servers[0]?.connections ?? 64;
  const { openServer } = await import("./open-servers.ts");
  const connected = await openServer(createSglangEngine({ url: server.url, connections }), "an SGLang", parts);
  return {
    ...connected,
    close: async () => {
      await connected.close();
      await server.close();
    },
  };
}

async function openEmbedded({ folder }: ChosenModel): Promise<ConnectedEngine> {
  if (folder !== null) {
    const { loadEmbeddedEngine } = await import("../engines/embedded/index.ts");
    return here(await loadEmbeddedEngine(folder));
  }
  throw new ConfigurationError(
    'Cannot run the embedded engine: "readable" names a tokenizer without a model; leave --model out, or name a model folder.',
  );
}

async function openGguf({ settings, model, cwd }: EngineParts): Promise<ConnectedEngine> {
  const { gguf, ggufAdapter, concurrency, maxContextTokens } = settings;
  const modelPath = resolve(cwd, gguf ?? "");
  const { createLlamaCppEngine } = await import("../engines/llama-cpp/index.ts");
  const adapterPath = ggufAdapter === null ? null : resolve(cwd, ggufAdapter);
  const weightVersion = adapterPath === null ? null : await adapterVersion(adapterPath);
  const engine = await createLlamaCppEngine({
    modelPath,
    weightVersion,
    ...(adapterPath === null ? {} : { adapterPath }),
    sequences: Math.min(8, concurrencyBounds(concurrency).ceiling),
    ...(maxContextTokens === null ? {} : { contextTokens: maxContextTokens }),
  });
  const { vocabularySize } = engine.limits;
  // A vocabulary larger than the tokenizer's is common: weights are padded.
  if (model.tokenizer.vocabularySize <= vocabularySize) return { ...here(engine), weightVersion };
  await engine.close();
  throw new ConfigurationError(
    `Cannot run "${modelPath}" with this tokenizer: it has ${model.tokenizer.vocabularySize} tokens, the file ${vocabularySize}; ` +
      "name the folder of the same model with --model.",
  );
}

/** Weight version of a model with an adapter: the beginning of the adapter's SHA-256. */
async function adapterVersion(path: string): Promise<string> {
  const { createHash } = await import("node:crypto");
  const { readRegular } = await import("../system/regular-file.ts");
  const bytes = await readRegular(path).catch((cause: unknown) => {
    throw new ConfigurationError(`Cannot load the adapter "${path}": it cannot be read; correct --gguf-adapter.`, {
      cause,
    });
  });
  return `adapter-${createHash("sha256").update(bytes).digest("hex").slice(0, 12)}`;
}
