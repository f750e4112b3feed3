// Variables that clients set for the chat template (`chat_template_kwargs`, `reasoning_effort`):
// they are counted, passed to the template, or refused, as the gateway is configured. Rows hold the
// prompt that was sampled from, so all three are exact.

import type { Renderer } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { GatewayError, type GatewayRequest } from "./request.ts";

/** Handling of template variables that clients set; see `GatewayOptions`. */
export type ClientTemplate = "ignore" | "obey" | "refuse";

/**
 * Maximum number of renderers with other variables per session: clients use a few settings, but may
 * invent more.
 */
const maxRenderers = 8;

/** The renderers of one session. */
export class ClientTemplates {
  readonly #renderer: Renderer;
  readonly #choice: ClientTemplate;
  readonly #changed = new Map<string, { readonly renderer: Renderer; readonly unread: readonly string[] }>();

  constructor(renderer: Renderer, choice: ClientTemplate) {
    this.#renderer = renderer;
    this.#choice = choice;
  }

  /**
   * Renderer of a call, and the names of fields or variables without effect. `null` for the
   * session's own renderer. Throws a `GatewayError` if such fields are refused.
   */
  of({ template: { names, misshapen, kwargs } }: Pick<GatewayRequest, "template">): {
    readonly renderer: Renderer | null;
    readonly unused: readonly string[];
  } {
    if (names.length === 0) return { renderer: null, unused: [] };
    if (this.#choice === "refuse") {
      throw new GatewayError(
        "unsupported",
        `Cannot serve the request: it sets ${names.join(", ")}, and the run sets the variables of its chat template; remove it.`,
        { param: names[0] ?? null },
      );
    }
    if (this.#choice === "ignore" || this.#renderer.withTemplateKwargs === undefined) {
      return { renderer: null, unused: names };
    }
    if (misshapen.length > 0) {
      const message = `Cannot read the request: ${misshapen[0]} does not hold variables of a chat template.`;
      throw new GatewayError("invalid-request", message, { param: misshapen[0]! });
    }
    const key = JSON.stringify(kwargs);
    let changed = this.#changed.get(key);
    if (changed === undefined) {
      changed = this.#renderer.withTemplateKwargs(fromPlain(kwargs) as JsonObject);
      if (this.#changed.size >= maxRenderers) this.#changed.clear();
      this.#changed.set(key, changed);
    }
    return { renderer: changed.renderer, unused: changed.unread };
  }
}
