// A server that speaks vLLM's protocol for token ids in front of any sampler: `/inference/v1/generate`, `/v1/completions`,
// pause and abort. It checks requests, because a fake that forgives hides the faults it exists to find. Not here: prompts
// that are text, stop strings, chat, several prompts in a call.

import { Hono } from "hono";
import type { Tokenizer } from "../../core/renderer.ts";
import { createResponseWriter, createSocketWriter } from "../front/answer-writer.ts";
import type { FrontEnvironment } from "../front/front-app.ts";
import { listenOn, type FrontListener, type ListenOptions } from "../front/listener.ts";
import { RequestTable, type LiveRequest } from "../front/request-table.ts";
import type { Sampler } from "../front/sampler.ts";
import { addNewRoutes, addPauseRoutes, type ControlState } from "./control-routes.ts";
import type { VllmCall, VllmEndpoint, VllmLimits } from "./read-call.ts";
import { serveCall, type ServeOptions } from "./serve-call.ts";
import { FieldReader } from "./field-reader.ts";
import { type VllmProtocol, vllmProtocols, type VllmVersion } from "./protocol.ts";
import { VllmRefusal } from "./vllm-refusal.ts";

export type VllmFrontOptions = {
  readonly sampler: Sampler;
  /** Whose replies and refusals these are. Default "0.32.0". */
  readonly version?: VllmVersion;
  /** Whether the server was started with --enable-scale-out, which 0.32 demands for the endpoint of ids. Default true. */
  readonly scaleOut?: boolean;
  /** Without one completions have no text, and there is no `/tokenize`. Default `null`. */
  readonly tokenizer?: Tokenizer | null;
  /** Name of the served model; another one is refused. Default "model". */
  readonly model?: string;
  /** Prompt and completion together are at most this. Default 32,768. */
  readonly contextLength?: number;
  /** Ids from here on are refused. Default `null`: none is. */
  readonly vocabularySize?: number | null;
  /** The model's own end tokens. Default: none. */
  readonly endTokenIds?: readonly number[];
  /** What `/weight_info` says until a sampler says otherwise. Default "default". */
  readonly weightVersion?: string;
  /** Whether usage tells cached tokens (--enable-prompt-tokens-details). Default true. */
  readonly tellsCachedTokens?: boolean;
  /** Demanded as a bearer token by everything but health. Default `null`: nothing is demanded. */
  readonly apiKey?: string | null;
};

/** A front. Its sampler is used for as long as requests come; nothing needs to be closed but listeners. */
export type VllmFront = {
  /** Answers a request without a socket. Never rejects. Aborting the request's signal is a client that goes away. */
  handle(request: Request): Promise<Response>;
  /** Serves it on a socket of this machine. Rejects when the port is taken. */
  listen(options?: ListenOptions): Promise<FrontListener>;
  /** How many calls run and wait. */
  load(): { readonly running: number; readonly waiting: number };
};

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
  const calls = new Map<string, Set<LiveRequest>>();
  const table = new RequestTable();
  const state: ControlState = { sampler, table, calls, version: { current: options.weightVersion ?? "default" } };
  const limits: VllmLimits = {
    model,
    contextLength,
    vocabularySize: options.vocabularySize ?? null,
    endTokenIds: options.endTokenIds ?? [],
    protocol,
  };
  const shared: Omit<ServeOptions, "endpoint" | "openWriter"> = {
    context: state,
    limits,
    tokenizer,
    tellsCachedTokens: options.tellsCachedTokens ?? true,
    open: opener(table, calls),
  };
  const app = new Hono<FrontEnvironment>();
  app.use(async (context, next) => {
    const isOpen = apiKey === null || context.req.path === "/health";
    if (!isOpen && context.req.header("authorization") !== `Bearer ${apiKey}`)
      throw new VllmRefusal(401, "Unauthorized");
    return next();
  });
  const serve = (path: string, endpoint: VllmEndpoint): void => {
    app.post(path, (context) => {
      const { outgoing } = context.env ?? {};
      const openWriter = outgoing === undefined ? createResponseWriter : () => createSocketWriter(outgoing);
      return serveCall(context.req.raw, { ...shared, endpoint, openWriter });
    });
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
  if (tokenizer !== null) addTokenizeRoute(app, tokenizer, contextLength);
  addPauseRoutes(app, state);
  app.get("/health", (context) => context.body(null, 200));
  app.get("/metrics", (context) => context.text(metricsText(table, model)));
  app.get("/load", (context) => context.json({ server_load: table.running + table.waiting }));
  app.get("/version", (context) => context.json({ version: protocol.version }));
  app.get("/v1/models", (context) => {
    const served = { id: model, object: "model", created: 0, owned_by: "vllm", root: model, parent: null };
    return context.json({ object: "list", data: [{ ...served, max_model_len: contextLength }] });
  });
  app.notFound(() => respond(new VllmRefusal(404, "Not Found"), protocol));
  app.onError((error) => {
    return respond(error instanceof VllmRefusal ? error : new VllmRefusal(500, "Internal server error"), protocol);
  });
  return {
    handle: async (request) => app.fetch(request),
    listen: (listenOptions = {}) => listenOn((request, bindings) => app.fetch(request, bindings), listenOptions),
    load: () => ({ running: table.running, waiting: table.waiting }),
  };
}

/** The same id may be live twice: the server tells calls apart by names of its own. */
function opener(table: RequestTable, calls: Map<string, Set<LiveRequest>>): ServeOptions["open"] {
  let count = 0;
  return (call: VllmCall) => {
    const name = call.endpoint === "generate" ? `generate-tokens-${call.requestId}` : `cmpl-${call.requestId}-0`;
    const live = table.open(`${++count}:${name}`);
    const known = calls.get(name) ?? new Set();
    calls.set(name, known.add(live));
    return {
      live,
      end: () => {
        live.abort();
        table.close(live);
        known.delete(live);
        if (known.size === 0 && calls.get(name) === known) calls.delete(name);
      },
    };
  };
}

/** As much of what a server tells Prometheus as says how busy it is. */
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

function addTokenizeRoute(app: Hono<FrontEnvironment>, tokenizer: Tokenizer, contextLength: number): void {
  app.post("/tokenize", async (context) => {
    const prompt = new FieldReader(await context.req.json().catch(() => null), "body").text("prompt");
    if (prompt === null) throw new VllmRefusal(400, "prompt: Field required");
    const tokens = Array.from(tokenizer.encode(prompt));
    return context.json({ count: tokens.length, max_model_len: contextLength, tokens, token_strs: null });
  });
}

function respond(refusal: VllmRefusal, protocol: VllmProtocol): Response {
  const { status, headers, text } = refusal.toAnswer(protocol);
  return new Response(text, { status, headers });
}
