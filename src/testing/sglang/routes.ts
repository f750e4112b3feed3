// The endpoints beside /generate: those by which a trainer operates a server (abort, pause and continue, weights and their
// version, the cache), what a server says about itself, and text to ids and back.

import type { Tokenizer } from "../../core/renderer.ts";
import type { FrontApp } from "../front/front-server.ts";
import { boolean, parseFields, type Fields, type ModelLimits } from "./generate-body.ts";
import type { GenerationContext } from "./generate.ts";
import { Refusal } from "./protocol.ts";

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
    else if (fields["rid"] !== "") table.abort(optionalText(fields["rid"], "rid") ?? "");
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
    const next = optionalText(fields["new_version"], "new_version");
    if (next === null) throw Refusal.ofShape("new_version", "Field required");
    if (boolean(fields["abort_all_requests"] ?? true, "abort_all_requests")) table.abortAll();
    version.current = next;
    return context.json({ success: true, message: `Weight version updated to ${next}`, new_version: next });
  });

  app.post("/update_weights_from_disk", async (context) => {
    const fields = await read(context.req.raw);
    const modelPath = optionalText(fields["model_path"], "model_path");
    if (modelPath === null) throw Refusal.ofShape("model_path", "Field required");
    const isPaused = release !== null;
    const open = table.hold({ freezes: false });
    try {
      if (boolean(fields["abort_all_requests"], "abort_all_requests")) table.abortAll();
      // A paused server swaps the weights under its frozen requests; any other lets the running ones end first.
      if (!isPaused) await table.drained();
      if (sampler.updateWeights === undefined) throw new Error("This server has no weights to update.");
      await sampler.updateWeights(modelPath);
      const next = optionalText(fields["weight_version"], "weight_version");
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

function optionalText(value: unknown, name: string): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== "string") throw Refusal.ofShape(name, "Input should be a valid string");
  return value;
}

function pauseMode(value: unknown): PauseMode {
  const mode = value ?? "abort";
  if (mode === "abort" || mode === "retract" || mode === "in_place") return mode;
  throw Refusal.ofShape("mode", "Input should be 'abort', 'retract' or 'in_place'");
}

export type FrontState = GenerationContext & {
  readonly limits: ModelLimits;
  readonly modelPath: string;
};

export function addInfoRoutes(app: FrontApp, state: FrontState): void {
  const { table, limits, modelPath, version, protocol } = state;
  const created = Math.floor(Date.now() / 1000);
  const { contextLength } = limits;

  // The reference samples a token for it, which a paused server does not do; it says so after twenty seconds, we at once.
  for (const path of ["/health", "/health_generate"]) {
    app.get(path, (context) => context.body(null, table.isHolding ? 503 : 200));
  }

  for (const path of ["/model_info", "/get_model_info"]) {
    app.get(path, (context) =>
      context.json({
        model_path: modelPath,
        served_model_name: modelPath,
        tokenizer_path: modelPath,
        is_generation: true,
        preferred_sampling_params: null,
        weight_version: version.current,
        load_format: "auto",
        reasoning_parser: null,
        tool_call_parser: null,
        disaggregation_mode: "null",
        has_image_understanding: false,
        has_audio_understanding: false,
        model_type: null,
        architectures: null,
      }),
    );
  }

  for (const path of ["/server_info", "/get_server_info"]) {
    app.get(path, (context) =>
      context.json({
        model_path: modelPath,
        tokenizer_path: modelPath,
        served_model_name: modelPath,
        context_length: contextLength,
        skip_tokenizer_init: limits.tokenizer === null,
        weight_version: version.current,
        max_total_num_tokens: contextLength,
        max_req_input_len: contextLength - Math.max(1, protocol.reservedTokens),
        internal_states: [{ weight_version: version.current }],
        version: protocol.version,
      }),
    );
  }

  app.get("/v1/models", (context) =>
    context.json({
      object: "list",
      data: [
        {
          id: modelPath,
          object: "model",
          created,
          owned_by: "sglang",
          root: modelPath,
          parent: null,
          max_model_len: contextLength,
        },
      ],
    }),
  );

  app.get("/v1/loads", (context) =>
    context.json({
      timestamp: new Date().toISOString(),
      version: protocol.version,
      ...(protocol.newMetaFields ? { accelerator: null, num_accelerators: 1 } : { dp_rank_count: 1 }),
      loads: [
        {
          dp_rank: 0,
          num_running_reqs: table.running,
          num_waiting_reqs: table.waiting,
          max_total_num_tokens: contextLength,
        },
      ],
    }),
  );

  if (protocol.paths.includes("/ready")) {
    app.get("/ready", (context) => context.body(null, table.isHolding ? 503 : 200));
  }
  if (protocol.paths.includes("/get_load")) {
    app.get("/get_load", (context) =>
      context.json([{ dp_rank: 0, num_reqs: table.running + table.waiting, num_waiting_reqs: table.waiting }]),
    );
  }
}

export function addTokenizerRoutes(app: FrontApp, state: FrontState): void {
  const { tokenizer, contextLength } = state.limits;
  const need = (): Tokenizer => {
    if (tokenizer === null) throw Refusal.ofValue("This server has no tokenizer.");
    return tokenizer;
  };

  app.on(["POST"], ["/tokenize", "/v1/tokenize"], async (context) => {
    const { prompt } = parseFields(await context.req.text());
    const isBatch = Array.isArray(prompt);
    const texts = isBatch ? (prompt as readonly unknown[]) : [prompt];
    if (!texts.every((text) => typeof text === "string")) {
      throw Refusal.ofShape("prompt", "Input should be a valid string");
    }
    const tokens = texts.map((text) => [...need().encode(text)]);
    const counts = tokens.map((ids) => ids.length);
    return context.json({
      tokens: isBatch ? tokens : tokens[0],
      count: isBatch ? counts : counts[0],
      max_model_len: contextLength,
    });
  });

  app.on(["POST"], ["/detokenize", "/v1/detokenize"], async (context) => {
    const { tokens, skip_special_tokens: skip = true } = parseFields(await context.req.text());
    if (!Array.isArray(tokens) || typeof skip !== "boolean") {
      throw Refusal.ofShape("tokens", "Input should be a valid list");
    }
    const list = tokens as readonly unknown[];
    const isBatch = Array.isArray(list[0]);
    const texts = (isBatch ? list : [list]).map((ids) => {
      if (!Array.isArray(ids) || !ids.every((id): id is number => Number.isInteger(id))) {
        throw Refusal.ofShape("tokens", "Input should be a valid integer");
      }
      return ids.length === 0 ? "" : need().decode(ids, { skipSpecialTokens: skip });
    });
    return context.json({ text: isBatch ? texts : texts[0] });
  });
}
