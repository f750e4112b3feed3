// Writes bodies for one endpoint; keeps the serialized prompts of the token buffers it has seen for as long as those live.

import type { TokenBuffer } from "../../core/token-buffer.ts";
import { GrowingBody, type LentBody } from "../../http/index.ts";
import type { BodyFields, Endpoint } from "./endpoints.ts";

export class BodyWriter {
  readonly endpoint: Endpoint;
  readonly #bodies = new WeakMap<TokenBuffer, GrowingBody>();

  constructor(endpoint: Endpoint) {
    this.endpoint = endpoint;
  }

  /** The endpoint's head, the ids of the prompt, the fields. Throws what `JSON.stringify` throws. */
  lend(prompt: TokenBuffer, fields: BodyFields): LentBody {
    const tail = `],${JSON.stringify(fields).slice(1)}`;
    let body = this.#bodies.get(prompt);
    if (body === undefined) {
      body = new GrowingBody(this.endpoint.head, prompt.length);
      this.#bodies.set(prompt, body);
    }
    return body.lend(prompt, tail);
  }
}
