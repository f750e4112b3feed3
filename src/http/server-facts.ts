// What a server says of the model that it serves, through the calls that SGLang and vLLM have in common. Asked before a run, so
// that a wrong folder or bound is a sentence and not a thousand failures.

import { AttributedError } from "../core/failure.ts";
import type { EngineServer } from "./engine-server.ts";
import type { HttpCallOptions } from "./http-client.ts";
import { asFields, isTokenId, readCount } from "./reply-fields.ts";

export type ServerFacts = {
  /** Safe to show. */
  readonly address: string;
  /** Most tokens of prompt and reply together; `null`: not said. */
  readonly contextLength: number | null;
  /** The token ids that the server makes of the text it was given; `null`: it has no tokenizer, or does not say. */
  readonly tokens: readonly number[] | null;
};

/** Rejects with an `AttributedError` when the server cannot be reached. What it refuses, garbles or is slow to say is `null`. */
export async function readServerFacts(
  server: EngineServer,
  text: string,
  options: HttpCallOptions,
): Promise<ServerFacts> {
  const ask = async (path: string, body: string | null): Promise<unknown> => {
    try {
      const answer = await server.send(server.request(path, body), options);
      return answer.status === 200 ? (JSON.parse(answer.body.toString()) as unknown) : null;
    } catch (error) {
      // A gateway may keep calls back that nobody plays with.
      const { code = "" } = error instanceof AttributedError ? error.failure : {};
      if (["unreachable", "cancelled"].includes(code)) throw error;
      return null;
    }
  };
  const models = asFields(await ask("/v1/models", null))?.["data"];
  const model = asFields(Array.isArray(models) ? models[0] : null);
  const tokenized = asFields(await ask("/tokenize", JSON.stringify({ prompt: text, add_special_tokens: false })));
  const tokens = tokenized?.["tokens"];
  return {
    address: server.address,
    contextLength: readCount(tokenized?.["max_model_len"]) ?? readCount(model?.["max_model_len"]),
    tokens: Array.isArray(tokens) && tokens.every(isTokenId) ? tokens : null,
  };
}
