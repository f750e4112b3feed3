// The endpoints by which a trainer works a server: abort, pause and continue, weights and their version, the cache.

import type { FrontApp } from "../front/front-app.ts";
import type { FrontState } from "./front-state.ts";
import { boolean, parseFields, type Fields } from "./generate-body.ts";
import { Refusal } from "./refusal.ts";

type PauseMode = "abort" | "retract" | "in_place";

export function addControlRoutes(app: FrontApp, state: FrontState): void {
  const { table, sampler, version, protocol } = state;
  let release: (() => void) | null = null;

  const read = async (request: Request): Promise<Fields> => {
    const body = await request.text();
    return body.trim() === "" ? {} : parseFields(body);
  };

  app.post("/abort_request", async (context) => {
    const fields = await read(context.req.raw);
    if (boolean(fields["abort_all"], "abort_all")) table.abortAll();
    else if (fields["rid"] !== "") table.abort(text(fields["rid"], "rid") ?? "");
    return context.body(null, 200);
  });

  app.post("/pause_generation", async (context) => {
    const mode = pauseMode((await read(context.req.raw))["mode"]);
    release?.();
    release = table.hold({ freezes: mode !== "abort" });
    if (mode === "abort") {
      table.abortAll();
      await table.drained();
    } else {
      await sampler.pause?.();
    }
    return context.json({ message: "Generation paused successfully.", status: "ok" });
  });

  app.post("/continue_generation", async (context) => {
    await sampler.resume?.();
    release?.();
    release = null;
    return context.json({ message: "Generation continued successfully.", status: "ok" });
  });

  app.on(["GET", "POST"], "/flush_cache", async (context) => {
    if (table.running + table.waiting > 0) {
      return context.text("Flush cache failed: requests are running or waiting.\n", 400);
    }
    await sampler.flushCache?.();
    return context.text(
      "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n",
    );
  });

  app.post("/update_weight_version", async (context) => {
    const fields = await read(context.req.raw);
    const next = text(fields["new_version"], "new_version");
    if (next === null) throw Refusal.ofShape("new_version", "Field required");
    if (boolean(fields["abort_all_requests"] ?? true, "abort_all_requests")) table.abortAll();
    version.current = next;
    return context.json({ success: true, message: `Weight version updated to ${next}`, new_version: next });
  });

  app.post("/update_weights_from_disk", async (context) => {
    const fields = await read(context.req.raw);
    const modelPath = text(fields["model_path"], "model_path");
    if (modelPath === null) throw Refusal.ofShape("model_path", "Field required");
    const isPaused = release !== null;
    const open = table.hold({ freezes: false });
    try {
      if (boolean(fields["abort_all_requests"], "abort_all_requests")) table.abortAll();
      // A paused server swaps the weights under its frozen requests; any other lets the running ones end first.
      if (!isPaused) await table.drained();
      if (sampler.updateWeights === undefined) throw new Error("This server has no weights to update.");
      await sampler.updateWeights(modelPath);
      const next = text(fields["weight_version"], "weight_version");
      version.current = next ?? version.current;
      const named = next !== null && protocol.updateNamesVersion ? ` Weight version updated to ${next}.` : "";
      const message = `Succeeded to update model weights.${named}`;
      return context.json({ success: true, message, num_paused_requests: 0 });
    } catch (error) {
      if (error instanceof Refusal) throw error;
      const message = error instanceof Error ? error.message : String(error);
      return context.json({ success: false, message, num_paused_requests: 0 }, 400);
    } finally {
      open();
    }
  });
}

function text(value: unknown, name: string): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== "string") throw Refusal.ofShape(name, "Input should be a valid string");
  return value;
}

function pauseMode(value: unknown): PauseMode {
  const mode = value ?? "abort";
  if (mode === "abort" || mode === "retract" || mode === "in_place") return mode;
  throw Refusal.ofShape("mode", "Input should be 'abort', 'retract' or 'in_place'");
}
