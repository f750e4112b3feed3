// What a server says about itself: health, model, settings, load. As much of it as clients read.

import type { FrontApp } from "../front/front-app.ts";
import type { FrontState } from "./front-state.ts";

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
