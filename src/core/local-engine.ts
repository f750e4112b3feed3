// Abilities of engines that sample in this process, besides the contract of engines: places for
// episodes, and the state of unfinished calls.

/** Engines that keep the state of each episode between its turns. */
export interface EpisodeHolder {
  /** Number of episodes that fit; with more in flight, a turn may have to compute its whole prompt. */
  readonly mostEpisodes: number;
  /** No further call has this routing key, so that its place may be given to another episode. */
  endEpisode(routingKey: string): void;
}

/** Work of an engine in this process up to now, unfinished calls included. */
export type EngineActivity = {
  /** Prompt tokens that were computed; those from a cache are not. */
  readonly promptTokens: number;
  readonly sampledTokens: number;
  /**
   * The call that advanced last: it has computed `promptTokens` of `ofPromptTokens` that no cache
   * held, and then sampled `sampledTokens`. `null` while none is in flight.
   */
  readonly newest: {
    readonly promptTokens: number;
    readonly ofPromptTokens: number;
    readonly sampledTokens: number;
  } | null;
};

/** Engines that say what they do between the ends of their calls. */
export interface EngineActivitySource {
  activity(): EngineActivity;
}
