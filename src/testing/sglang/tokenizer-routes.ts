// Text to ids and back, over HTTP.

import type { Tokenizer } from "../../core/renderer.ts";
import type { FrontApp } from "../front/front-app.ts";
import type { FrontState } from "./front-state.ts";
import { parseFields } from "./generate-body.ts";
import { Refusal } from "./refusal.ts";

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
