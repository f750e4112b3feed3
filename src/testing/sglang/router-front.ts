// A router in front of SGLang fronts, as sglang-router 0.3.2 was seen to behave (requests through the real one to a worker that
// writes down what arrives): it reads a generation into fields it knows and writes those, so that all others are lost in
// silence; it lists its workers, tries another when one cannot be reached, and leaves everything that must reach each worker
// (abort, pause, continue) to the client.

import { Hono } from "hono";
import { deriveSeed } from "../../lib/random.ts";
import { listenOn, type FrontListener, type ListenOptions } from "../front/front-server.ts";

export type RouterWorker = {
  /** As the router lists it. */
  readonly url: string;
  readonly isHealthy?: boolean;
  /** Rejects when the worker cannot be reached. */
  handle(request: Request): Promise<Response>;
};

export type RouterFrontOptions = {
  readonly workers: readonly RouterWorker[];
  /** "old": lists bare addresses, under the path of before mid-2025. Default "new". */
  readonly listing?: "new" | "old";
};

export type RouterFront = {
  handle(request: Request): Promise<Response>;
  listen(options?: ListenOptions): Promise<FrontListener>;
};

/** What of a generation reaches a worker: fields, and sampling parameters with their types; null counts as absent. */
const routerKeeps = {
  fields:
    `text input_ids input_embeds rid sampling_params return_logprob logprob_start_len top_logprobs_num token_ids_logprob
    return_text_in_logprobs stream log_metrics return_hidden_states lora_path custom_logit_processor data_parallel_rank
    background priority extra_key no_logs`.split(/\s+/),
  sampling: {
    temperature: "f32",
    max_new_tokens: "i32",
    min_new_tokens: "i32",
    top_p: "f32",
    top_k: "i32",
    min_p: "f32",
    frequency_penalty: "f32",
    presence_penalty: "f32",
    repetition_penalty: "f32",
    stop: "text or list",
    stop_token_ids: "list",
    json_schema: "text",
    regex: "text",
    ebnf: "text",
    ignore_eos: "bool",
    skip_special_tokens: "bool",
    no_stop_trim: "bool",
    n: "i32",
    sampling_seed: "i64",
  },
} as const satisfies { readonly fields: readonly string[]; readonly sampling: Readonly<Record<string, string>> };

const forwardedHeaders =
  /^(authorization|content-type|x-request-id(-.*)?|x-correlation-id|traceparent|tracestate|x-smg-routing-key)$/;

/** Attempts of one request, and unreached attempts after which a worker is left alone. */
const maxAttempts = 5;
const circuitFailures = 10;

/** Requests with the same routing key go to the same worker; those without a key to the first healthy one. */
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
  // Without a word.
  app.notFound(() => new Response(null, { status: 404 }));
  const handle = async (request: Request): Promise<Response> => app.fetch(request);
  return { handle, listen: (listenOptions = {}) => listenOn(handle, listenOptions) };
}

/** The body as the router writes it, or the refusal of one that cannot be read. */
function readGenerate(text: string): Readonly<Record<string, unknown>> | Response {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    return plain(400, `Failed to parse the request body as JSON: ${String(error)}`);
  }
  if (!isObject(body)) return wrongType("[0]", body, "struct GenerateRequest");
  const { input_ids: ids, rid, sampling_params: sampling } = body;
  if (!isAbsent(ids) && !(Array.isArray(ids) && ids.every((id) => Number.isInteger(id) || Array.isArray(id)))) {
    return plain(422, `${unreadable}: input_ids: data did not match any variant of untagged enum InputIds`);
  }
  if (!isAbsent(rid) && typeof rid !== "string") return wrongType("rid", rid, "a string");
  if (!isAbsent(sampling) && !isObject(sampling))
    return wrongType("sampling_params", sampling, "struct SamplingParams");
  for (const [name, type] of Object.entries(routerKeeps.sampling)) {
    const value = isObject(sampling) ? sampling[name] : null;
    if (!isAbsent(value) && !fits(value, type)) return wrongType(`sampling_params.${name}`, value, type);
  }
  const fields = keep(body, routerKeeps.fields);
  return isObject(sampling)
    ? { ...fields, sampling_params: keep(sampling, Object.keys(routerKeeps.sampling)) }
    : fields;
}

const unreadable = "Failed to deserialize the JSON body into the target type";

function isAbsent(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fits(value: unknown, type: string): boolean {
  switch (type) {
    case "f32":
      return typeof value === "number";
    case "i32":
    case "i64":
      return Number.isInteger(value);
    case "bool":
      return typeof value === "boolean";
    case "list":
      return Array.isArray(value);
    case "text":
      return typeof value === "string";
    default:
      return typeof value === "string" || Array.isArray(value);
  }
}

function keep(fields: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([name, value]) => names.includes(name) && !isAbsent(value)));
}

function wrongType(place: string, value: unknown, expected: string): Response {
  return plain(422, `${unreadable}: ${place}: invalid type: ${JSON.stringify(value)}, expected ${expected}`);
}

function plain(status: number, text: string): Response {
  return new Response(text, { status, headers: { "content-type": "text/plain; charset=utf-8" } });
}

function routerError(status: 500 | 503, code: string, message: string): Response {
  const type = status === 500 ? "Internal Server Error" : "Service Unavailable";
  return Response.json({ error: { type, code, message } }, { status, headers: { "x-smg-error-code": code } });
}
