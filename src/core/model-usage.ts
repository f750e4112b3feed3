// What calls of a model behind an API cost: of simulated users, of agents that are evaluated.

export type ModelUsage = {
  /** Model calls made, retries and checks included; 0 where no model was asked. */
  readonly modelCalls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** In US dollars; `null` when the price is not known. */
  readonly cost: number | null;
};

/** What costs nothing. */
export const freeUsage: ModelUsage = Object.freeze({ modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 });

/** One unknown price makes the sum unknown. */
export function addUsage(left: ModelUsage, right: ModelUsage): ModelUsage {
  return {
    modelCalls: left.modelCalls + right.modelCalls,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    cost: left.cost === null || right.cost === null ? null : left.cost + right.cost,
  };
}
