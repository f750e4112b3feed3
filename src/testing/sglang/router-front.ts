// A router in front of SGLang fronts, as far as clients notice one: it forwards generations, lists its workers, and leaves
// everything that must reach each worker (abort, pause, continue) to the client.

import { Hono } from "hono";
import { deriveSeed } from "../../lib/random.ts";
import { listenOn, type FrontListener, type ListenOptions } from "../front/listener.ts";
import { Refusal } from "./refusal.ts";

export type RouterWorker = {
  /** As the router lists it. */
  readonly url: string;
  readonly isHealthy?: boolean;
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

/** Requests with the same routing key go to the same worker; those without a key to the first healthy one. */
export function createRouterFront(options: RouterFrontOptions): RouterFront {
  const { workers, listing = "new" } = options;
  const app = new Hono();
  const healthy = workers.filter((worker) => worker.isHealthy !== false);
  const choose = (request: Request): RouterWorker | null => {
    const key = request.headers.get("x-smg-routing-key");
    return (key === null ? healthy[0] : healthy[deriveSeed(0, key) % healthy.length]) ?? null;
  };
  const forward = async (request: Request): Promise<Response> => choose(request)?.handle(request) ?? noWorkers();
  app.get("/health", (context) => context.text("OK"));
  app.post("/generate", (context) => forward(context.req.raw));
  app.get("/get_model_info", (context) => forward(context.req.raw));
  if (listing === "new") {
    app.get("/workers", (context) =>
      context.json({
        workers: workers.map((worker, id) => ({
          id: String(id),
          url: worker.url,
          is_healthy: worker.isHealthy !== false,
          load: 0,
          worker_type: "regular",
        })),
        total: workers.length,
      }),
    );
  } else {
    app.get("/list_workers", (context) => context.json({ urls: workers.map((worker) => worker.url) }));
  }
  app.notFound(() => Refusal.notFound("flat").toResponse());
  const handle = async (request: Request): Promise<Response> => app.fetch(request);
  return { handle, listen: (listenOptions = {}) => listenOn(handle, listenOptions) };
}

function noWorkers(): Response {
  const error = { type: "Service Unavailable", code: "no_available_workers", message: "No available workers" };
  return Response.json({ error }, { status: 503, headers: { "x-smg-error-code": error.code } });
}
