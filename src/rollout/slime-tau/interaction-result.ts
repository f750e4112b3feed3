// The records of the seed's loop: what its Python classes hold, in our spelling.

import type { JsonObject, JsonValue } from "../../python-semantics/json/value.ts";

export type SlimeTauStatus = "completed" | "truncated" | "aborted";

/** A message of the seed's history. Replies are kept raw; `name` stands on tool results only, which the templates do not render. */
export type SlimeTauMessage =
  | { readonly role: "system" | "user" | "assistant"; readonly content: string }
  | { readonly role: "tool"; readonly name: string; readonly content: string };

/** What the environment is told to do: a tool call, or speech when the name is "respond". */
export type SlimeTauAction = { readonly name: string; readonly kwargs: JsonObject };

/** What the seed's adapter around SGLang's parser answers. */
export type SlimeTauParse =
  | { readonly success: true; readonly error: null; readonly parsedResult: SlimeTauParsed }
  | { readonly success: false; readonly error: string; readonly parsedResult: null };

export type SlimeTauParsed = {
  readonly normalText: string;
  readonly calls: readonly {
    /** `null` when the call had none and unknown tools are let through. */
    readonly name: string | null;
    /** JSON text. */
    readonly parameters: string;
    readonly toolIndex: number;
  }[];
};

/** The seed's `InteractionResult`, every field. */
export type SlimeTauResult = {
  /** Text of the first request. */
  readonly prompt: string;
  /** Of the last step, never a sum. */
  readonly reward: number;
  readonly messages: readonly SlimeTauMessage[];
  /** Info of reset overwritten by that of every step. */
  readonly info: JsonObject;
  /** The assistant contents, joined with nothing between. */
  readonly response: string;
  /** Response part only, one per token after the prompt. */
  readonly lossMask: readonly number[];
  /** Prompt and response. Text-delta accounting: re-encoded text, not what was sampled. */
  readonly tokens: Uint32Array;
  readonly responseLength: number;
  readonly status: SlimeTauStatus;
  /** Marks every sample made from it; exporters refuse them without a flag. */
  readonly tokenAccounting: "text-delta";
};

/** A message as a chat template reads it. */
export function templateMessage(message: SlimeTauMessage): JsonObject {
  const entries: [string, JsonValue][] = [["role", message.role]];
  if (message.role === "tool") entries.push(["name", message.name]);
  entries.push(["content", message.content]);
  return new Map(entries);
}
