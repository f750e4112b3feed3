// The engine of a rollout: an SGLang or vLLM server, a GGUF file or a small model in this process, or the demonstration expert
// behind the protocol of the first. Connecting is a step of its own, so that everything else is checked before a server is
// contacted. An engine is imported when it is chosen.

import { resolve } from "node:path";

import { AttributedError, ConfigurationError, type Engine, type EngineLoadSource } from "../core/index.ts";
import { type CircuitStatus, createGuardedEngine } from "../engines/guarded/index.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import { parseBaseUrl } from "../http/index.ts";
import { httpAddress } from "../lib/address.ts";
import type { ChosenModel } from "./choose-model.ts";
import { checkServerModel, type ServerEngine, untilServerIsReady } from "./first-contact.ts";
import { findPreset } from "./presets.ts";
import { concurrencyBounds, defaultEngineWait, type RolloutSettings } from "./rollout-settings.ts";
import { readAccess } from "./secrets.ts";
import type { Surroundings } from "./surroundings.ts";
import { findRemote } from "./remote-environments.ts";

type Addressed = Pick<RolloutSettings, "engine" | "url" | "host" | "port">;

/** `urls`: as in a setting, with commas between them. Throws a `ConfigurationError` for what is no address. */
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

/** "own": an engine that a program gives as a value. */
export type EngineName = NonNullable<RolloutSettings["engine"]>;

export type ConnectedEngine = {
  readonly engine: Engine & Partial<EngineLoadSource>;
  /** Safe to show. */
  readonly address: string;
  readonly weightVersion: string | null;
  close(): Promise<void>;
};

const telecomWorlds = ["tau2-bench/telecom", "tau2-bench/telecom-workflow"];
/** In which the expert can act. */
const expertEnvironments: readonly string[] = ["bookshop", ...telecomWorlds];

/** The engine that the settings name. Throws a `ConfigurationError` when they do not go together. `own`: an engine is given as a value. */
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
  // A remote environment may be one of them, and says so when it is opened.
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

/** The addresses in a setting, at least one; `null`: that of the server by default. */
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

export type ServerOptions = ReturnType<typeof serverOptions>[number];

/** Options of the engines, one for each server, without sending anything; keys are read here. */
export function serverOptions(settings: RolloutSettings, env: Surroundings["env"]) {
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

/** What engines are connected with. */
export type EngineParts = {
  readonly settings: RolloutSettings;
  /** Given as a value, and closed by its owner; `null`: the settings name one. */
  readonly own: Engine | null;
  /** One for each server. */
  readonly servers: readonly ServerOptions[];
  readonly model: ChosenModel;
  readonly cwd: string;
  readonly cancel: AbortSignal;
  /** Called when the first contact has to wait. */
  readonly onNotice: (message: string) => void;
  readonly onCircuit: (change: CircuitStatus) => void;
};

/**
 * Connects and makes sure that the server answers. Rejects with a `ConfigurationError` when it does not: a rollout against
 * a server that is not there would only collect failures.
 */
export async function connectEngine(name: EngineName, parts: EngineParts): Promise<ConnectedEngine> {
  const { own, model, settings } = parts;
  if (own !== null) return { ...here(own), address: "this program", close: () => Promise.resolve() };
  const { vocabularySize } = model.renderer;
  const servers = parts.servers.map((server) => ({ ...server, vocabularySize }));
  if (name === "embedded") return openEmbedded(model);
  if (name === "llama-cpp") return openGguf(parts);
  if (name === "vllm") {
    const { createVllmEngine } = await import("../engines/vllm/index.ts");
    return openAll(servers.map(createVllmEngine), "a vLLM", parts);
  }
  if (name === "sglang") return openAll(servers.map(createSglangEngine), "an SGLang", parts);
  const { tokenizer, renderer } = model;
  const { createSglangFront } = await import("../testing/index.ts");
  const act = telecomWorlds.includes(settings.env)
    ? { act: (await import("../environments/tau2-bench/index.ts")).telecomExpertAction }
    : {};
  const front = createSglangFront({
    sampler: createExpertSampler({ tokenizer, noise: settings.expertNoise, ...act }),
    tokenizer,
    modelPath: "expert",
    endTokenIds: [renderer.stopTokenIds[0] ?? 0],
  });
  const server = await front.listen();
  const connections = servers[0]?.connections ?? 64;
  const connected = await open(createSglangEngine({ url: server.url, connections }), "an SGLang", parts);
  return {
    ...connected,
    close: async () => {
      await connected.close();
      await server.close();
    },
  };
}

function here(engine: Engine): ConnectedEngine {
  return { engine, address: "this process", weightVersion: null, close: () => engine.close() };
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
  const { gguf, concurrency, maxContextTokens } = settings;
  const modelPath = resolve(cwd, gguf ?? "");
  const { createLlamaCppEngine } = await import("../engines/llama-cpp/index.ts");
  const engine = await createLlamaCppEngine({
    modelPath,
    sequences: Math.min(8, concurrencyBounds(concurrency).ceiling),
    ...(maxContextTokens === null ? {} : { contextTokens: maxContextTokens }),
  });
  const { vocabularySize } = engine.limits;
  // The other way round is common: weights are padded.
  if (model.tokenizer.vocabularySize <= vocabularySize) return here(engine);
  await engine.close();
  throw new ConfigurationError(
    `Cannot run "${modelPath}" with this tokenizer: it has ${model.tokenizer.vocabularySize} tokens, the file ${vocabularySize}; ` +
      "name the folder of the same model with --model.",
  );
}

/** Every server must answer: an address that is mistyped would never be missed later. */
async function openAll(
  engines: readonly ServerEngine[],
  product: string,
  parts: EngineParts,
): Promise<ConnectedEngine> {
  const opened = await Promise.allSettled(engines.map((engine) => open(engine, product, parts)));
  const failed = opened.find(({ status }) => status === "rejected");
  if (failed?.status === "rejected") {
    await Promise.all(engines.map((engine) => engine.close()));
    throw failed.reason;
  }
  const engine = createGuardedEngine(engines, { maxWaitMs: maxWaitMs(parts.settings), onChange: parts.onCircuit });
  const weightVersion = opened[0]?.status === "fulfilled" ? opened[0].value.weightVersion : null;
  return { ...here(engine), address: engines.map((one) => one.address).join(", "), weightVersion };
}

/** How long a call waits for servers of which none takes requests. */
function maxWaitMs({ engineWait }: RolloutSettings): number {
  return (engineWait ?? defaultEngineWait) * 1000;
}

async function open(engine: ServerEngine, product: string, parts: EngineParts): Promise<ConnectedEngine> {
  const { settings, model, cancel: signal, onNotice } = parts;
  const { maxContextTokens, engineWait } = settings;
  const waiting = { maxWaitMs: maxWaitMs(settings), waitsForUnreachable: engineWait !== null, signal, onNotice };
  try {
    const weightVersion = await untilServerIsReady(engine, waiting, async () => {
      const sampling = Object.keys(settings.samplingExtra);
      await checkServerModel(engine, { ...model, maxContextTokens, sampling, signal });
      return engine.weightVersion({ signal });
    });
    return { ...here(engine), address: engine.address, weightVersion };
  } catch (error) {
    await engine.close();
    if (!(error instanceof AttributedError) || error.failure.code === "cancelled") throw error;
    throw refusal(engine.address, error, product);
  }
}

function refusal(address: string, error: AttributedError, product: string): ConfigurationError {
  const { code, message } = error.failure;
  if (code === "unreachable" || code === "connection-lost" || code === "timeout") {
    return new ConfigurationError(
      `Cannot reach the ${product.split(" ")[1]} server at ${address} (${reasonOf(message)}); start it, or name another with --url. ` +
        "To see a rollout without a server: --env bookshop --engine expert.",
      { cause: error },
    );
  }
  if (code === "unauthorized") {
    return new ConfigurationError(
      `Cannot use the ${product.split(" ")[1]} server at ${address}: it refuses the key; name the variable that holds the right one with --api-key-env, or --engine-authorization-env.`,
      { cause: error },
    );
  }
  return new ConfigurationError(`${message.replace(/\.$/, "")}; is this ${product} server?`, { cause: error });
}

/** The state in a message of our grammar: what stands between the colon and the remedy. */
function reasonOf(message: string): string {
  const colon = message.indexOf(": ");
  if (colon === -1) return message;
  const [reason = ""] = message.slice(colon + 2).split(";", 1);
  return reason.replace(/\.$/, "");
}
