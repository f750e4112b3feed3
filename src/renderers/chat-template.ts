// A chat template: messages in, text out. A pure function over lossless JSON in the OpenAI wire
// shape. Not a renderer: it has neither tokens nor a history policy.

import type { Steps } from "../lib/steps.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/index.ts";
import type { RendererFamily } from "./renderer-family.ts";

export type TemplateInput = {
  /** Messages in the OpenAI wire shape; the template itself refuses odd shapes. */
  readonly messages: readonly JsonValue[];
  /** Tools as OpenAI entries; `null` if none are given. */
  readonly tools: JsonValue;
  readonly addGenerationPrompt: boolean;
  /** Further template variables, such as `enable_thinking`. */
  readonly kwargs: JsonObject;
  readonly context: TemplateContext;
};

/** Values that a template can read in addition to the conversation. */
export type TemplateContext = {
  /** Special tokens by their names in `tokenizer_config.json`: `bos_token`, `eos_token`, ... */
  readonly specialTokens: JsonObject;
  /** Local time for `strftime_now`, ISO without a zone; `null` if the template has no clock. */
  readonly now: string | null;
};

/** A piece of rendered text with its origin. */
export type TemplateSegment = {
  /**
   * Place of the message that the text belongs to; `null` for text of no message, such as the
   * generation prompt.
   */
  readonly message: number | null;
  /**
   * "template": written by the template itself. "message": taken from a message. "tools": a tool's
   * definition. "unknown": computed from messages or tools in a way that cannot be followed.
   */
  readonly source: "template" | "message" | "tools" | "unknown";
  readonly text: string;
};

/** Renders one conversation. Throws a {@link ChatTemplateError} where the Jinja program raises. */
export type ChatTemplate = {
  (input: TemplateInput): readonly TemplateSegment[];
  /** The same in steps, for a conversation that may be very long. */
  readonly inSteps: (input: TemplateInput) => Steps<readonly TemplateSegment[]>;
  /**
   * Variables that the template reads in addition to the conversation, in order: `enable_thinking`,
   * `reasoning_effort`, ... Excludes messages, tools, special tokens, and the variables that every
   * template is given.
   */
  readonly variables: readonly string[];
};

/**
 * A chat template in the form of our own code instead of a Jinja program: for models that have
 * none, because their servers make the prompt with a Python module. It brings its own family.
 */
export type PromptEncoder = ChatTemplate & { readonly family: RendererFamily };

/** Source of a model's prompts: the text of a Jinja program, or an encoder. */
export type TemplateSource = string | PromptEncoder;

/**
 * A template refused its input. `kind` is "raise" (it called `raise_exception`), "undefined" (an undefined value was used)
 * or the class of the Python exception, such as "TypeError".
 */
export class ChatTemplateError extends Error {
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(message);
    this.name = "ChatTemplateError";
    this.kind = kind;
  }
}
