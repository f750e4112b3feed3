// The facts about a model that readers of folders and of GGUF files return.

import type { Tokenizer } from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/index.ts";

/** Facts about a model that its folder or GGUF file states, apart from its weights. */
export type ModelFolder = {
  /** The last part of the path. */
  readonly name: string;
  readonly tokenizer: Tokenizer;
  /**
   * Upper bound of the model's token ids: `vocab_size` of config.json (that of its `text_config`
   * first), including rows that pad the embedding; the tokenizer's size if config.json states none.
   */
  readonly vocabularySize: number;
  /**
   * `chat_template.jinja`, else the template in tokenizer_config.json; if it has several, the one
   * named "tool_use", else "default". `null` if there is none.
   */
  readonly chatTemplate: string | null;
  /**
   * Further templates that tokenizer_config.json lists by name ("tool_use"), including "default" if
   * it is listed.
   */
  readonly namedTemplates: ReadonlyMap<string, string>;
  /**
   * `bos_token`, `eos_token`, ... by their names in chat templates; those that are null are
   * omitted.
   */
  readonly specialTokens: ReadonlyMap<string, string>;
  /** tokenizer_config.json, lossless; `null` if there is none. */
  readonly tokenizerConfig: JsonObject | null;
  /** config.json, lossless; `null` if there is none. */
  readonly config: JsonObject | null;
};
