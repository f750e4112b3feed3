// auditEngine(): checks a running server against the contract of engines, with whole and streamed
// replies. Reports check by check what a rollout will rely on; runs no episode and needs no model
// folder.

import { AttributedError, ConfigurationError } from "../core/index.ts";
import { asFields, createHttpPool, type HttpResponse, resolveAddress } from "../http/index.ts";
import type { Access, ServerEngine } from "../parts/engine.ts";
import { alternatives, milliseconds, readFlag, readFlags } from "../parts/setting.ts";
import type { CheckOutcome } from "../testing/index.ts";
import { engineNames, engineRow, engineRows } from "./engines.ts";
import type { CallOptions, RolloutSettingOptions } from "./options.ts";
import { type EngineName, rolloutSettings } from "./rollout-settings.ts";
import { readAccess } from "./secrets.ts";

/** Options of {@link auditEngine}: the flags of the command `doctor engine` in camelCase. */
export type AuditEngineOptions = CallOptions &
  Pick<
    RolloutSettingOptions,
    "apiKeyEnv" | "engineAuthorizationEnv" | "adapter" | "endpoint" | "turnTimeout" | "maxContextTokens"
  > & {
    /** Address of the server, like http://127.0.0.1:30000. Required without `gguf`. */
    readonly url?: string;
    /** GGUF file to examine in this process, in place of a server. @default none */
    readonly gguf?: string;
    /** Kind of the server, such as "sglang" or "vllm". @default "sglang" */
    readonly engine?: EngineName;
    /**
     * Folders of one or two different LoRA adapters, as the server sees them, with a comma between
     * them: they are loaded under names of their own, examined, and unloaded. @default none
     */
    readonly adapterFolders?: string;
    /** True if the server has no other users, so that it may be paused. @default false */
    readonly exclusive?: boolean;
    /** Receives the server once it has answered. @default none */
    readonly onServer?: (server: Omit<AuditEngineResult, "checks">) => void;
    /** Receives each check when it is done. @default none */
    readonly onCheck?: (check: EngineCheck) => void;
  };

/** One check; `mode` is how replies arrive. */
export type EngineCheck = { readonly mode: "whole" | "streamed" } & CheckOutcome;

export type AuditEngineResult = {
  readonly engine: EngineName;
  /** Address of the server, safe to show; for a GGUF file "this process". */
  readonly address: string;
  /** `null` if the server does not report it. */
  readonly contextTokens: number | null;
  readonly checks: readonly EngineCheck[];
};

/** The public function of this name: `functions.ts`. */
export async function auditEngine(options: AuditEngineOptions): Promise<AuditEngineResult> {
  const { variables = process.env, url, exclusive = false, signal, drain, onServer, onCheck } = options;
  if (options.gguf !== undefined || options.engine === "llama-cpp") return examineGguf(options);
  const name = readFlag(rolloutSettings.engine, options.engine) ?? "sglang";
  const row = engineRow(name);
  if (row?.type !== "server") {
    const servers = engineNames.filter((one) => engineRows[one].type === "server");
    throw new ConfigurationError(
      `Cannot examine engine "${name}": it has no server; use --engine ${alternatives(servers)}, or --gguf <file>.`,
    );
  }
  if (url === undefined) {
    throw new ConfigurationError(
      "Cannot examine a server: none is named; pass --url, like --url http://127.0.0.1:30000.",
    );
  }
  const { apiKeyEnv = null, engineAuthorizationEnv = null } = options;
  const access = readAccess("engine", { apiKeyEnv, engineAuthorizationEnv }, variables);
  const timeoutMs = milliseconds(readFlag(rolloutSettings.turnTimeout, options.turnTimeout));
  const given = readFlag(rolloutSettings.maxContextTokens, options.maxContextTokens);
  const server = { url, ...access, timeoutMs };
  const own = readFlags(row.own, options);
  const product = await row.load();
  const open = (stream: boolean) => product.create({ ...own, ...server, stream, onWarning: () => undefined });
  const address = await firstContact(open(false), signal);
  const facts = { engine: name, address, contextTokens: given ?? (await readContext(server)) };
  onServer?.(facts);
  const checks: EngineCheck[] = [];
  const stop = drain ?? signal;
  const { examineAdapters, examineEngine } = await import("../testing/index.ts");
  for (const mode of ["whole", "streamed"] as const) {
    await examineEngine({
      open: () => open(mode === "streamed"),
      contextTokens: facts.contextTokens,
      unpausable: exclusive
        ? null
        : "it would pause or end the calls of all clients; pass --exclusive if there are no others",
      pauseModes: row.pauseModes,
      ...(stop === undefined ? {} : { signal: stop }),
      onOutcome: (outcome) => {
        const check = { mode, ...outcome };
        checks.push(check);
        onCheck?.(check);
      },
    });
  }
  const adapter = readFlag(rolloutSettings.adapter, options.adapter);
  const folders = (options.adapterFolders ?? "").split(",").filter((folder) => folder !== "");
  if ((adapter !== null || folders.length > 0) && stop?.aborted !== true) {
    const engine = open(false);
    try {
      await examineAdapters({
        engine,
        adapter,
        folders,
        loadInPlace: name === "vllm" ? (loaded) => loadInPlace(server, loaded) : null,
        ...(stop === undefined ? {} : { signal: stop }),
        onOutcome: (outcome) => {
          const check = { mode: "whole" as const, ...outcome };
          checks.push(check);
          onCheck?.(check);
        },
      });
    } finally {
      await engine.close();
    }
  }
  return { ...facts, checks };
}

/** Exchanges the weights of an adapter of vLLM, which the engine itself never does. */
async function loadInPlace(
  server: Access & { readonly url: string },
  { name, path }: { readonly name: string; readonly path: string },
): Promise<void> {
  const body = JSON.stringify({ lora_name: name, lora_path: path, load_inplace: true });
  const { status } = await callServer(server, { path: "/v1/load_lora_adapter", body });
  if (status !== 200) throw new Error(`Cannot exchange adapter "${name}": the server answered HTTP ${status}.`);
}

async function examineGguf(options: AuditEngineOptions): Promise<AuditEngineResult> {
  const { gguf, url, engine, exclusive, cwd = process.cwd(), onServer, onCheck, signal, drain } = options;
  if (gguf === undefined) {
    throw new ConfigurationError('Cannot examine engine "llama-cpp": no weights are named; pass --gguf <file>.');
  }
  if (url !== undefined || exclusive === true || (engine !== undefined && engine !== "llama-cpp")) {
    throw new ConfigurationError(
      "Cannot use --url, --exclusive or another --engine with --gguf: the file is examined in this process; remove them.",
    );
  }
  const contextTokens = readFlag(rolloutSettings.maxContextTokens, options.maxContextTokens);
  const checks: EngineCheck[] = [];
  let facts = { engine: "llama-cpp" as const, address: "this process", contextTokens };
  const { auditGguf } = await import("./audit-gguf.ts");
  await auditGguf({
    gguf,
    cwd,
    contextTokens,
    signal: drain ?? signal,
    onContext: (found) => {
      facts = { ...facts, contextTokens: found };
      onServer?.(facts);
    },
    onOutcome: (outcome) => {
      const check = { mode: "whole" as const, ...outcome };
      checks.push(check);
      onCheck?.(check);
    },
  });
  return { ...facts, checks };
}

/** A server that does not answer is an error in the options, not thirty failed checks. */
async function firstContact(engine: ServerEngine, signal: AbortSignal | undefined): Promise<string> {
  try {
    if (await engine.health(signal === undefined ? {} : { signal })) return engine.address;
    throw new ConfigurationError(
      `Cannot examine ${engine.address}: it reports that it is not healthy; wait until it has loaded, or restart it.`,
    );
  } catch (error) {
    if (!(error instanceof AttributedError) || error.failure.code === "cancelled") throw error;
    throw new ConfigurationError(error.message, { cause: error });
  } finally {
    await engine.close();
  }
}

/**
 * The context length that SGLang and vLLM report for their model; `null` when none is reported, for
 * example by routers.
 */
async function readContext(server: Access & { readonly url: string }): Promise<number | null> {
  try {
    const answer = await callServer(server, { path: "/v1/models", body: null });
    const models: unknown = asFields(JSON.parse(answer.body.toString("utf8")))?.["data"];
    const length = Array.isArray(models) ? asFields(models[0])?.["max_model_len"] : null;
    const isLength = typeof length === "number" && Number.isSafeInteger(length) && length > 0 && length < 4_000_000;
    return isLength ? length : null;
  } catch {
    return null;
  }
}

/** A call that the engines do not have: a POST if there is a body. */
async function callServer(
  { url, apiKey, authorization }: Access & { readonly url: string },
  { path, body }: { readonly path: string; readonly body: string | null },
): Promise<HttpResponse> {
  const pool = createHttpPool({ boundary: "engine", connections: 1 });
  try {
    const base = resolveAddress(
      { url, authorization },
      { product: "server", defaultPort: 80, endpoints: /\/(generate|v1|inference)(\/.*)?$/s },
    );
    const headers: Record<string, string> = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
    if (body !== null) headers["content-type"] = "application/json";
    const request = { base, method: body === null ? ("GET" as const) : ("POST" as const), path, headers, body };
    return await pool.request(request, { timeoutMs: body === null ? 10_000 : 300_000, maxBytes: 1_000_000 });
  } finally {
    await pool.close();
  }
}
