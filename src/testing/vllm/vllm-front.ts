// A server that speaks vLLM's protocol for token ids in front of any sampler:
// `/inference/v1/generate`, `/v1/completions`, pause and abort. It checks requests, because a
// lenient fake hides the faults it exists to find. It does not support text prompts, chat, several
// prompts in a call, or stop strings without a tokenizer.

import { Hono, type HonoRequest } from "hono";
import { z } from "zod";

import type { Tokenizer } from "../../core/tokenizer.ts";
import { AdapterTable, type FrontAdapters } from "../front/adapters.ts";
import { type Front, type FrontApp, type FrontEnvironment, frontOf } from "../front/front-server.ts";
import { isFields } from "../front/read-fields.ts";
import { RequestTable } from "../front/run-sequence.ts";
import type { Sampler } from "../front/sampler.ts";
import { vllmProtocols, type VllmVersion, VllmRefusal } from "./protocol.ts";
import { readFields, type VllmEndpoint } from "./read-call.ts";
import { serveCall, type ServeContext, serverName } from "./serve-call.ts";

export type VllmFrontOptions = {
  readonly sampler: Sampler;
  /** Version whose replies and refusals the front gives. Default "0.32.0". */
  readonly version?: VllmVersion;
  /**
   * True for a server started with --enable-scale-out, which 0.32 requires for the endpoint of ids.
   * Default true.
   */
  readonly scaleOut?: boolean;
  /**
   * Tokenizer of the server. Without one completions have no text, and there is no `/tokenize`.
   * Default `null`.
   */
  readonly tokenizer?: Tokenizer | null;
  /** Name of the served model; another one is refused. Default "model". */
  readonly model?: string;
  /** Maximum number of tokens of prompt and completion together. Default 32,768. */
  readonly contextLength?: number;
  /** First id that is refused. Default `null`: none is. */
  readonly vocabularySize?: number | null;
  /** The model's own end tokens. Default: none. */
  readonly endTokenIds?: readonly number[];
  /** Version in `/weight_info` until a sampler reports another one. Default "default". */
  readonly weightVersion?: string;
  /** True if usage reports cached tokens (--enable-prompt-tokens-details). Default true. */
  readonly reportsCachedTokens?: boolean;
  /**
   * The experts that a mixture-of-experts model chooses for a token of a sequence, by layer
   * (--enable-return-routed-experts). Default: none are reported.
   */
  readonly routedExperts?: (sequence: ArrayLike<number>, place: number) => readonly (readonly number[])[];
  /**
   * The ids from which sampling drew a token of a sequence (--return-sampling-mask); the sampler's
   * logprobs are then over them. Default: none are reported.
   */
  readonly samplingMask?: (sequence: ArrayLike<number>, place: number) => readonly number[];
  /** Key that every path except health requires as a bearer token. Default `null`: none is required. */
  readonly apiKey?: string | null;
  /**
   * Adapters of a server started with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. Default
   * `null`: without LoRA.
   */
  readonly adapters?: FrontAdapters | null;
};

export type VllmFront = Front;

/**
 * Makes a front.
 *
 * @example
 * const front = createVllmFront({ sampler: createFunctionSampler(() => ({ ids: [1, 2] })) });
 * const listener = await front.listen();
 */
export function createVllmFront(options: VllmFrontOptions): VllmFront {
  const { sampler, model = "model", contextLength = 32_768, apiKey = null, tokenizer = null } = options;
  const protocol = vllmProtocols[options.version ?? "0.32.0"];
  const { vocabularySize = null, endTokenIds = [], reportsCachedTokens: tellsCachedTokens = true } = options;
  const adapters = (options.adapters ?? null) === null ? null : new AdapterTable(options.adapters!);
  const table = new RequestTable();
  const state: ServeContext = {
    sampler,
    table,
    version: { current: options.weightVersion ?? "default" },
    refusalOf: (refusal) => new VllmRefusal(refusal?.status ?? 500, refusal?.message ?? "Internal server error"),
    limits: { model, contextLength, vocabularySize, endTokenIds, hasText: tokenizer !== null, protocol, adapters },
    tokenizer,
    reportsCachedTokens: tellsCachedTokens,
    routedExperts: options.routedExperts ?? null,
    samplingMask: options.samplingMask ?? null,
  };
  const app = new Hono<FrontEnvironment>();
  app.use(async (context, next) => {
    const isOpen = apiKey === null || context.req.path === "/health";
    if (!isOpen && context.req.header("authorization") !== `Bearer ${apiKey}`)
      throw new VllmRefusal(401, "Unauthorized");
    return next();
  });
  const serve = (path: string, endpoint: VllmEndpoint): void => {
    app.post(path, (context) => serveCall(context, state, endpoint));
    app.all(path, () => {
      throw new VllmRefusal(405, "Method Not Allowed");
    });
  };
  serve("/v1/completions", "completions");
  if (protocol.generate === "flag" && options.scaleOut === false) {
    app.post("/inference/v1/generate", () => {
      throw new VllmRefusal(
        403,
        "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
      );
    });
  }
  if (protocol.generate !== "absent") serve("/inference/v1/generate", "generate");
  if (protocol.hasControls) addNewRoutes(app, state);
  if (tokenizer !== null) {
    app.post("/tokenize", async (context) => {
      const prompt = await readText(
        context.req.json().catch(() => null),
        "prompt",
      );
      const tokens = Array.from(tokenizer.encode(prompt));
      return context.json({ count: tokens.length, max_model_len: contextLength, tokens, token_strs: null });
    });
  }
  if (adapters !== null) addAdapterRoutes(app, adapters);
  addPauseRoutes(app, state);
  app.get("/health", (context) => context.body(null, 200));
  app.get("/metrics", (context) => context.text(metricsText(table, model)));
  app.get("/load", (context) => context.json({ server_load: table.running + table.waiting }));
  app.get("/version", (context) => context.json({ version: protocol.version }));
  app.get("/v1/models", (context) => {
    const served = { id: model, object: "model", created: 0, owned_by: "vllm", root: model, parent: null };
    const loaded = (adapters?.loaded ?? []).map(({ name, path }) => {
      return { ...served, id: name, root: path, parent: model, max_model_len: null };
    });
    return context.json({ object: "list", data: [{ ...served, max_model_len: contextLength }, ...loaded] });
  });
  app.notFound(() => {
    throw new VllmRefusal(404, "Not Found");
  });
  return frontOf(app, table, (error) =>
    (error instanceof VllmRefusal ? error : new VllmRefusal(500, "Internal server error")).toAnswer(protocol),
  );
}

function addAdapterRoutes(app: FrontApp, adapters: AdapterTable): void {
  app.post("/v1/load_lora_adapter", async (context) => {
    const body = await readJson(context.req);
    const [name, path] = [
      await readText(Promise.resolve(body), "lora_name"),
      await readText(Promise.resolve(body), "lora_path"),
    ];
    const isInPlace = isFields(body) && body["load_inplace"] === true;
    const known = adapters.find(name);
    if (known !== null && !isInPlace) {
      const message = `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`;
      throw new VllmRefusal(400, message);
    }
    if (!adapters.exists(path)) throw new VllmRefusal(404, `Loading lora ${name} failed: No adapter found for ${path}`);
    if (known === null) adapters.load(name, path);
    else known.path = path;
    return context.text(`Success: LoRA adapter '${name}' added successfully.`);
  });

  app.post("/v1/unload_lora_adapter", async (context) => {
    const name = await readText(readJson(context.req), "lora_name");
    if (adapters.unload(name) === null) throw new VllmRefusal(404, `The lora adapter '${name}' cannot be found.`);
    return context.text(`Success: LoRA adapter '${name}' removed successfully.`);
  });
}

/** A string field that the body must have. */
async function readText(body: Promise<unknown>, name: string): Promise<string> {
  const value = readFields(z.object({ [name]: z.string().optional() }), await body)[name];
  if (value === undefined) throw new VllmRefusal(400, `${name}: Field required`);
  return value;
}

/** The Prometheus metrics of a server that show its load. */
function metricsText({ running, waiting }: RequestTable, model: string): string {
  const labels = `{engine="0",model_name="${model}"}`;
  return [
    "# TYPE vllm:num_requests_running gauge",
    `vllm:num_requests_running${labels} ${running.toFixed(1)}`,
    "# TYPE vllm:num_requests_waiting gauge",
    `vllm:num_requests_waiting${labels} ${waiting.toFixed(1)}`,
    "",
  ].join("\n");
}

function addPauseRoutes(app: FrontApp, state: ServeContext): void {
  const { table, sampler } = state;
  let release: (() => void) | null = null;

  app.post("/pause", async (context) => {
    const mode = context.req.query("mode") ?? "abort";
    if (mode !== "abort" && mode !== "wait" && mode !== "keep") {
      throw new VllmRefusal(400, "mode: Input should be 'abort', 'wait' or 'keep'");
    }
    release?.();
    release = table.hold({ freezes: mode === "keep" });
    if (mode === "abort") table.abort();
    if (mode === "keep") await sampler.pause?.();
    else await table.drained();
    return context.json({ status: "paused" });
  });

  app.post("/resume", async (context) => {
    await sampler.resume?.();
    release?.();
    release = null;
    return context.json({ status: "resumed" });
  });

  app.get("/is_paused", (context) => context.json({ is_paused: release !== null }));
}

/** Routes that only new servers have. */
function addNewRoutes(app: FrontApp, { table, version }: ServeContext): void {
  app.post("/abort_requests", async (context) => {
    const body = await readJson(context.req);
    const ids: unknown = isFields(body) && "request_ids" in body ? body["request_ids"] : [];
    if (!Array.isArray(ids) || !ids.every((id) => typeof id === "string")) throw invalidJson();
    // A request without ids aborts everything.
    table.abort((id) => ids.length === 0 || ids.includes(serverName(id)));
    return context.json({ status: "aborted", aborted: ids.length });
  });

  app.get("/weight_info", (context) => context.json({ weight_version: version.current }));

  app.post("/update_weight_version", async (context) => {
    version.current = await readText(readJson(context.req), "new_version");
    return context.json({ success: true, new_version: version.current });
  });
}

function invalidJson(): VllmRefusal {
  return new VllmRefusal(400, "Invalid JSON format");
}

async function readJson(request: HonoRequest): Promise<unknown> {
  try {
    return JSON.parse(await request.text()) as unknown;
  } catch {
    throw invalidJson();
  }
}
