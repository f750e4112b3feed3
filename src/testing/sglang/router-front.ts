// A router in front of SGLang fronts, with the observed behaviour of sglang-router 0.3.2 (requests
// through the real one to a worker that records them): it parses a generation into the fields it
// knows and forwards only those, so all others are silently lost; it lists its workers, tries
// another one when one cannot be reached, and leaves everything that must reach each worker (abort,
// pause, continue) to the client.

import { Hono } from "hono";
import { z } from "zod";
import { deriveSeed } from "../../lib/random.ts";
import { isFields, withoutNulls } from "../front/read-fields.ts";
import { listenOn, type FrontListener, type ListenOptions } from "../front/front-server.ts";

export type RouterWorker = {
  /** The address in the router's list. */
  readonly url: string;
  readonly isHealthy?: boolean;
  /** Rejects when the worker cannot be reached. */
  handle(request: Request): Promise<Response>;
};

export type RouterFrontOptions = {
  readonly workers: readonly RouterWorker[];
  /** "old" lists bare addresses, under the path used before mid-2025. Default "new". */
  readonly listing?: "new" | "old";
};

export type RouterFront = {
  handle(request: Request): Promise<Response>;
  listen(options?: ListenOptions): Promise<FrontListener>;
};

/** Error message for a value of another type than the router expects. */
const expected = (type: string) => ({ error: `expected ${type}` });
const f32 = z.number(expected("f32")).optional();
const integer = (type: string) => z.number(expected(type)).refine(Number.isInteger, expected(type)).optional();
const string = z.string(expected("text")).optional();
const bool = z.boolean(expected("bool")).optional();

/** Sampling parameters that reach a worker, with their types; null counts as absent. */
const sampling = z.object({
  temperature: f32,
  max_new_tokens: integer("i32"),
  min_new_tokens: integer("i32"),
  top_p: f32,
  top_k: integer("i32"),
  min_p: f32,
  frequency_penalty: f32,
  presence_penalty: f32,
  repetition_penalty: f32,
  stop: z.union([z.string(), z.array(z.unknown())], expected("text or list")).optional(),
  stop_token_ids: z.array(z.unknown(), expected("list")).optional(),
  json_schema: string,
  regex: string,
  ebnf: string,
  ignore_eos: bool,
  skip_special_tokens: bool,
  no_stop_trim: bool,
  n: integer("i32"),
  sampling_seed: integer("i64"),
});
/** Fields of a generation that reach a worker unchanged. */
const passed = `text input_embeds return_logprob logprob_start_len top_logprobs_num token_ids_logprob return_text_in_logprobs stream
  log_metrics return_hidden_states lora_path custom_logit_processor data_parallel_rank background priority extra_key no_logs`;
const inputIds = "data did not match any variant of untagged enum InputIds";
const generation = z.object({
  input_ids: z
    .array(z.union([z.number(), z.array(z.unknown())]).refine((id) => Array.isArray(id) || Number.isInteger(id)))
    .optional(),
  rid: z.string(expected("a string")).optional(),
  sampling_params: z
    .record(z.string(), z.unknown(), expected("struct SamplingParams"))
    .transform((fields) => withoutNulls(fields))
    .pipe(sampling)
    .optional(),
  ...Object.fromEntries(passed.split(/\s+/).map((name) => [name, z.unknown().optional()])),
});

const forwardedHeaders =
  /^(authorization|content-type|x-request-id(-.*)?|x-correlation-id|traceparent|tracestate|x-smg-routing-key)$/;

/**
 * Maximum number of attempts for one request, and the number of attempts without an answer after
 * which a worker is skipped.
 */
const maxAttempts = 5;
const circuitFailures = 10;

/**
 * Requests with the same routing key go to the same worker; requests without a key go to the first
 * healthy one.
 */
export function createRouterFront(options: RouterFrontOptions): RouterFront {
  const { workers, listing = "new" } = options;
  const app = new Hono();
  const failures = new Map<RouterWorker, number>();
  const healthy = workers.filter((worker) => worker.isHealthy !== false);
  const forward = async (request: Request, body: string | null): Promise<Response> => {
    const headers = new Headers([...request.headers].filter(([name]) => forwardedHeaders.test(name)));
    const key = request.headers.get("x-smg-routing-key");
    const first = key === null ? 0 : deriveSeed(0, key);
    let problem: Response | null = null;
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const open = healthy.filter((worker) => (failures.get(worker) ?? 0) < circuitFailures);
      const worker = open[(first + attempt) % open.length];
      if (worker === undefined) break;
      try {
        const answer = await worker.handle(
          new Request(request.url, { method: request.method, headers, body, signal: request.signal }),
        );
        failures.delete(worker);
        return answer;
      } catch (error) {
        failures.set(worker, (failures.get(worker) ?? 0) + 1);
        const path = new URL(request.url).pathname;
        const message = `error sending request for url (${worker.url}${path}): ${String(error)}`;
        problem = routerError(500, "call_upstream_request_error", message);
      }
    }
    return problem ?? routerError(503, "no_available_workers", "No available workers (all circuits open or unhealthy)");
  };
  for (const path of ["/health", "/liveness"]) app.get(path, (context) => context.text("OK"));
  app.get("/readiness", (context) => {
    const [healthy_workers, total_workers] = [healthy.length, workers.length];
    const status = healthy_workers > 0 ? "ready" : "not ready";
    return context.json({ status, healthy_workers, total_workers }, healthy_workers > 0 ? 200 : 503);
  });
  app.post("/generate", async (context) => {
    const read = readGenerate(await context.req.text());
    return read instanceof Response ? read : forward(context.req.raw, JSON.stringify(read));
  });
  app.get("/get_model_info", (context) => forward(context.req.raw, null));
  app.get("/get_loads", (context) => context.json({ workers: workers.map(({ url }) => ({ worker: url, load: -1 })) }));
  if (listing === "new") {
    app.get("/workers", (context) =>
      context.json({
        workers: workers.map((worker, id) => ({
          id: String(id),
          url: worker.url,
          model_id: "model",
          worker_type: "regular",
          is_healthy: worker.isHealthy !== false,
          load: 0,
          connection_mode: "HTTP",
        })),
        total: workers.length,
        stats: { prefill_count: 0, decode_count: 0, regular_count: workers.length },
      }),
    );
  } else {
    app.get("/list_workers", (context) => context.json({ urls: workers.map((worker) => worker.url) }));
  }
  // The router answers unknown paths with an empty body.
  app.notFound(() => new Response(null, { status: 404 }));
  const handle = async (request: Request): Promise<Response> => app.fetch(request);
  return { handle, listen: (listenOptions = {}) => listenOn(handle, listenOptions) };
}

/** The body as the router writes it, or the refusal of an unreadable body. */
function readGenerate(body: string): object | Response {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (error) {
    return plain(400, `Failed to parse the request body as JSON: ${String(error)}`);
  }
  const read = generation.safeParse(isFields(value) ? withoutNulls(value) : value, {
    reportInput: true,
    error: () => expected("struct GenerateRequest").error,
  });
  if (read.success) return read.data;
  const [{ path, input, message }] = read.error.issues as [z.core.$ZodIssue];
  const problem = path[0] === "input_ids" ? inputIds : `invalid type: ${JSON.stringify(input)}, ${message}`;
  const place = path[0] === "input_ids" ? "input_ids" : path.length === 0 ? "[0]" : path.join(".");
  return plain(422, `Failed to deserialize the JSON body into the target type: ${place}: ${problem}`);
}

function plain(status: number, text: string): Response {
  return new Response(text, { status, headers: { "content-type": "text/plain; charset=utf-8" } });
}

function routerError(status: 500 | 503, code: string, message: string): Response {
  const type = status === 500 ? "Internal Server Error" : "Service Unavailable";
  return Response.json({ error: { type, code, message } }, { status, headers: { "x-smg-error-code": code } });
}
