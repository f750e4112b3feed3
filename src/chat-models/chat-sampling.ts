// How a model behind an API samples. Only what is given is sent: providers refuse parameters that some models do not have.

export type ChatSampling = {
  readonly temperature?: number;
  readonly topP?: number;
  /** Of one reply. */
  readonly maxNewTokens?: number;
};
