// What a server says about itself: health, model, settings, load. New and old paths answer alike.

import type { FrontApp } from "../front/front-app.ts";
import type { FrontState } from "./front-state.ts";

/** The version of SGLang whose answers these are. */
const protocolVersion = "0.5.9";

export function addInfoRoutes(app: FrontApp, state: FrontState): void {
  const { table, limits, modelPath, version } = state;
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
        tokenizer_path: modelPath,
        is_generation: true,
        preferred_sampling_params: null,
        weight_version: version.current,
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
        max_req_input_len: contextLength - 1,
        internal_states: [{ weight_version: version.current }],
        version: protocolVersion,
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
      version: protocolVersion,
      dp_rank_count: 1,
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

  app.get("/get_load", (context) =>
    context.json([{ dp_rank: 0, num_reqs: table.running + table.waiting, num_waiting_reqs: table.waiting }]),
  );
}
