// How busy the servers behind an engine are. Not telemetry: what a run reads to decide how many episodes it keeps under way.

/** The servers behind one engine, at one moment. */
export type EngineLoad = {
  /** How many servers answered. */
  readonly servers: number;
  /** Requests that are being sampled, of all servers. */
  readonly running: number;
  /** Requests that wait for a place, of all servers. */
  readonly waiting: number;
  /** Share of the key-value cache that is taken, 0 to 1, of the fullest server; `null` when no server says. */
  readonly kvUse: number | null;
};

/** What engines offer whose servers report their load. */
export interface EngineLoadSource {
  /** `null`: the server does not report it. Rejects with an `AttributedError` at boundary "engine" when it cannot be asked. */
  load(options?: { readonly signal?: AbortSignal }): Promise<EngineLoad | null>;
}
