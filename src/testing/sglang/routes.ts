// The endpoints besides /generate: those with which a trainer operates a server (abort, pause and
// continue, weights and their version, the cache), the server's information about itself, and
// conversion between text and ids.

import type { Tokenizer } from "../../core/tokenizer.ts";
import type { AdapterTable } from "../front/adapters.ts";
import type { FrontApp } from "../front/front-server.ts";
import type { Fields } from "../front/read-fields.ts";
import type { GenerationContext } from "./generate.ts";
import { Refusal } from "./protocol.ts";
import { boolean, parseFields, readStrings } from "./read-request.ts";

export type FrontState = GenerationContext & { readonly modelPath: string };

export function addControlRoutes(app: FrontApp, { table, sampler, version, limits }: FrontState): void {
  let release: (() => void) | null = null;

  const post = (path: string, answer: (fields: Fields) => Promise<object | null>): void => {
    app.post(path, async (context) => {
      const reply = await answer(bodyFields(await context.req.text()));
      return reply === null ? context.body(null, 200) : context.json(reply);
    });
  };

  post("/abort_request", async (fields) => {
    const isAll = boolean(fields["abort_all"], "abort_all");
    const rid = isAll ? null : optionalText(fields, "rid");
    if (isAll) table.abort();
    // Aborts by prefix, but only when the id itself is live, like the reference.
    else if (rid && table.isLive(rid)) table.abort((id) => id.startsWith(rid));
    return null;
  });

  post("/pause_generation", async ({ mode = "abort" }) => {
    if (!["abort", "retract", "in_place", null].includes(mode as string | null)) {
      throw Refusal.ofShape("mode", "Input should be 'abort', 'retract' or 'in_place'");
    }
    const isAbort = (mode ?? "abort") === "abort";
    release?.();
    release = table.hold({ freezes: !isAbort });
    if (isAbort) {
      table.abort();
      await table.drained();
    } else {
      await sampler.pause?.();
    }
    return { message: "Generation paused successfully.", status: "ok" };
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

  post("/update_weight_version", async (fields) => {
    const next = requiredText(fields, "new_version");
    if (boolean(fields["abort_all_requests"] ?? true, "abort_all_requests")) table.abort();
    version.current = next;
    return { success: true, message: `Weight version updated to ${next}`, new_version: next };
  });

  app.post("/update_weights_from_disk", async (context) => {
    const fields = bodyFields(await context.req.text());
    const modelPath = requiredText(fields, "model_path");
    const isPaused = release !== null;
    const open = table.hold({ freezes: false });
    try {
      if (boolean(fields["abort_all_requests"], "abort_all_requests")) table.abort();
      // A paused server swaps the weights under its frozen requests; otherwise the running requests
      // end first.
      if (!isPaused) await table.drained();
      if (sampler.updateWeights === undefined) throw new Error("This server has no weights to update.");
      await sampler.updateWeights(modelPath);
      const next = optionalText(fields, "weight_version");
      version.current = next ?? version.current;
      const named = next !== null && limits.protocol.updateNamesVersion ? ` Weight version updated to ${next}.` : "";
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

export function addAdapterRoutes(app: FrontApp, adapters: AdapterTable): void {
  const post = (path: string, change: (name: string, fields: Fields) => Promise<string | null>): void => {
    app.post(path, async (context) => {
      const fields = bodyFields(await context.req.text());
      const problem = await change(requiredText(fields, "lora_name"), fields);
      const loaded = Object.fromEntries(adapters.loaded.map(({ name, path: from }) => [name, from]));
      const reply = { rid: null, http_worker_ipc: null, success: problem === null, error_message: problem ?? "" };
      return context.json({ ...reply, loaded_adapters: loaded }, problem === null ? 200 : 400);
    });
  };

  post("/load_lora_adapter", async (name, fields) => {
    const path = requiredText(fields, "lora_path");
    if (adapters.find(name) !== null) return `Failed to load LoRA adapter ${name} because it is already loaded`;
    if (!adapters.exists(path)) return `Can't find 'adapter_config.json' at '${path}'`;
    adapters.load(name, path);
    return null;
  });

  post("/unload_lora_adapter", async (name) => {
    const names = adapters.loaded.map((one) => `'${one.name}'`).join(", ");
    if (adapters.find(name) === null) {
      return `LoRA with name ${name} does not exist. Loaded LoRAs: odict_keys([${names}])`;
    }
    await adapters.unload(name)?.unused();
    return null;
  });
}

function bodyFields(body: string): Fields {
  return body.trim() === "" ? {} : parseFields(body);
}

function optionalText(fields: Fields, name: string): string | null {
  const value = fields[name] ?? null;
  if (value === null || typeof value === "string") return value;
  throw Refusal.ofShape(name, "Input should be a valid string");
}

function requiredText(fields: Fields, name: string): string {
  const value = optionalText(fields, name);
  if (value === null) throw Refusal.ofShape(name, "Field required");
  return value;
}

export function addInfoRoutes(app: FrontApp, state: FrontState): void {
  const { table, limits, modelPath, version } = state;
  const { contextLength, protocol } = limits;
  const created = Math.floor(Date.now() / 1000);
  const get = (path: string, answer: () => object): void => void app.get(path, (context) => context.json(answer()));

  // The reference samples a token for this check, which a paused server cannot do; it reports that
  // after twenty seconds, this front at once. "/healthz" is our own path.
  for (const path of [
    "/health",
    "/healthz",
    "/health_generate",
    ...protocol.paths.filter((known) => known === "/ready"),
  ]) {
    app.get(path, (context) => context.body(null, table.isHolding ? 503 : 200));
  }
  for (const path of ["/model_info", "/get_model_info"]) {
    get(path, () => ({
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
    }));
  }
  for (const path of ["/server_info", "/get_server_info"]) {
    get(path, () => ({
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
    }));
  }
  const served = { id: modelPath, object: "model", created, owned_by: "sglang", root: modelPath, parent: null };
  get("/v1/models", () => ({ object: "list", data: [{ ...served, max_model_len: contextLength }] }));
  get("/v1/loads", () => ({
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
  }));
  if (protocol.paths.includes("/get_load")) {
    get("/get_load", () => [{ dp_rank: 0, num_reqs: table.running + table.waiting, num_waiting_reqs: table.waiting }]);
  }
}

export function addTokenizerRoutes(app: FrontApp, state: FrontState): void {
  const { tokenizer, contextLength } = state.limits;
  const need = (): Tokenizer => {
    if (tokenizer === null) throw Refusal.ofValue("This server has no tokenizer.");
    return tokenizer;
  };

  app.on(["POST"], ["/tokenize", "/v1/tokenize"], async (context) => {
    const { strings, isBatch } = readStrings(parseFields(await context.req.text())["prompt"], "prompt");
    const tokens = strings.map((text) => [...need().encode(text)]);
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
    const decoded = (isBatch ? list : [list]).map((ids) => {
      if (!Array.isArray(ids) || !ids.every((id): id is number => Number.isInteger(id))) {
        throw Refusal.ofShape("tokens", "Input should be a valid integer");
      }
      return ids.length === 0 ? "" : need().decode(ids, { skipSpecialTokens: skip });
    });
    return context.json({ text: isBatch ? decoded : decoded[0] });
  });
}
