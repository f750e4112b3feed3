// Writes bodies for one endpoint; keeps the serialized prompts of the token buffers it has seen until those are closed or gone.

import type { TokenBuffer } from "../../core/token-buffer.ts";
import { GrowingBodies, type LentBody } from "../../http/index.ts";
import type { BodyFields, Endpoint } from "./endpoints.ts";

export class BodyWriter {
  readonly endpoint: Endpoint;
  readonly #bodies: GrowingBodies;

  constructor(endpoint: Endpoint) {
    this.endpoint = endpoint;
    this.#bodies = new GrowingBodies(endpoint.head);
  }

  /** The endpoint's head, the ids of the prompt, the fields. Throws what `JSON.stringify` throws. */
  lend(prompt: TokenBuffer, fields: BodyFields): LentBody {
    return this.#bodies.lend(prompt, `],${JSON.stringify(fields).slice(1)}`);
  }
}
