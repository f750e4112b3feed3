// LoRA adapters as a contract of engines with servers.

/**
 * LoRA adapters on the servers behind one engine. The name of an adapter is its version: new
 * weights are loaded under a new name, because servers that exchange them in place change calls in
 * flight. Every method rejects with an `AttributedError` at boundary "engine".
 */
export interface AdapterControl {
  /**
   * Loads the folder `path`, as the servers see it, under `name` on every server. Resolves as well
   * if it was loaded from there before; rejects if the name has other weights.
   */
  loadAdapter(
    adapter: { readonly name: string; readonly path: string },
    options?: { readonly signal?: AbortSignal },
  ): Promise<void>;
  /** Unloads it from every server; a server that does not have it is done. */
  unloadAdapter(name: string, options?: { readonly signal?: AbortSignal }): Promise<void>;
  /**
   * Resolves if a short greedy answer under the adapter differs from the base's. Rejects with code
   * "bad-request" if it does not: the server ignores the name, or the adapter changes nothing.
   */
  checkAdapter(name: string, options?: { readonly signal?: AbortSignal }): Promise<void>;
}
