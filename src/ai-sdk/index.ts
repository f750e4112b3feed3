// Public entry: the policy as a model of the AI SDK. Its calls go to a gateway in this process,
// without a socket, and are recorded there like those of any program. The dialect is implemented by
// the provider's package, an optional peer, and by the gateway, not here.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { Gateway } from "../gateway/index.ts";

export type PolicyModelOptions = {
  /** Key of the session that the calls belong to, as returned by `gateway.open()`. */
  readonly key: string;
  /** Name of the model; echoed, never used to route. @default "policy" */
  readonly modelName?: string;
};

/** A model in the form that `generateText`, `streamText` and agents of the AI SDK (6) accept. */
export type PolicyModel = ReturnType<ReturnType<typeof createOpenAICompatible>["chatModel"]>;

/**
 * The policy of a gateway, for one session. Sends nothing before the first call. Needs the packages
 * `ai` and `@ai-sdk/openai-compatible`; without the second one, importing this entry fails with
 * Node's error that names it.
 *
 * @example
 * const { id, key } = await gateway.open({ task: "first" });
 * const { text } = await generateText({ model: policyModel(gateway, { key }), prompt: "Hello", tools });
 * await gateway.reward(id, { reward: 1, metrics: {}, log: "", info: new Map() });
 * await gateway.end(id);
 */
export function policyModel(
  gateway: Pick<Gateway, "fetch">,
  { key, modelName = "policy" }: PolicyModelOptions,
): PolicyModel {
  // The host is never resolved.
  const provider = { name: "trainable-agents", baseURL: "http://gateway/v1", apiKey: key, fetch: gateway.fetch };
  return createOpenAICompatible(provider).chatModel(modelName);
}
