// The endpoints by which a trainer works a vLLM server: pause and resume, abort, and, in new servers, the weights' version.

import type { Hono } from "hono";
import type { FrontEnvironment } from "../front/front-app.ts";
import type { LiveRequest } from "../front/request-table.ts";
import type { RunContext } from "./completion-run.ts";
import { FieldReader } from "./field-reader.ts";
import { VllmRefusal } from "./vllm-refusal.ts";

export type ControlState = RunContext & {
  /** By the id that the server gives a call: its endpoint's name before the client's. */
  readonly calls: ReadonlyMap<string, ReadonlySet<LiveRequest>>;
};

export function addPauseRoutes(app: Hono<FrontEnvironment>, state: ControlState): void {
  const { table, sampler } = state;
  let release: (() => void) | null = null;

  app.post("/pause", async (context) => {
    const mode = context.req.query("mode") ?? "abort";
    if (mode !== "abort" && mode !== "wait" && mode !== "keep") {
      throw new VllmRefusal(400, "mode: Input should be 'abort', 'wait' or 'keep'");
    }
    release?.();
    release = table.hold({ freezes: mode === "keep" });
    if (mode === "abort") table.abortAll();
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

/** What only new servers have. */
export function addNewRoutes(app: Hono<FrontEnvironment>, state: ControlState): void {
  app.post("/abort_requests", async (context) => {
    const ids = idsIn(await context.req.raw.text());
    // Without ids, everything.
    if (ids.length === 0) state.table.abortAll();
    for (const id of ids) for (const live of state.calls.get(id) ?? []) live.abort();
    return context.json({ status: "aborted", aborted: ids.length });
  });

  app.get("/weight_info", (context) => context.json({ weight_version: state.version.current }));

  app.post("/update_weight_version", async (context) => {
    const next = new FieldReader(await readJson(context.req.raw), "body").text("new_version");
    if (next === null) throw new VllmRefusal(400, "new_version: Field required");
    state.version.current = next;
    return context.json({ success: true, new_version: next });
  });
}

async function readJson(request: Request): Promise<unknown> {
  try {
    return JSON.parse(await request.text()) as unknown;
  } catch {
    throw new VllmRefusal(400, "Invalid JSON format");
  }
}

function idsIn(body: string): readonly string[] {
  try {
    const value: unknown = JSON.parse(body);
    const ids = typeof value === "object" && value !== null && "request_ids" in value ? value.request_ids : [];
    if (Array.isArray(ids) && ids.every((id) => typeof id === "string")) return ids;
  } catch {
    // Said below.
  }
  throw new VllmRefusal(400, "Invalid JSON format");
}
