// The vocabulary of a byte-level BPE tokenizer.json as llama.cpp wants it: tokens by id, their kinds, merges as text.

import { ConfigurationError } from "../../../core/failure.ts";

export type GgufVocabulary = {
  /** By id, in the alphabet of byte-level BPE. */
  readonly tokens: readonly string[];
  /** Aligned with `tokens`; llama.cpp's numbers: 1 an ordinary token, 3 a control token, 4 one cut out of text, 5 none. */
  readonly kinds: readonly number[];
  readonly merges: readonly string[];
  readonly endTokenId: number | null;
  readonly padTokenId: number | null;
  readonly chatTemplate: string | null;
};

type AddedToken = { readonly id: number; readonly content: string; readonly special: boolean };
type TokenizerJson = {
  readonly model?: {
    readonly type?: string;
    readonly vocab?: Readonly<Record<string, number>>;
    readonly merges?: readonly (string | readonly [string, string])[];
  };
  readonly added_tokens?: readonly AddedToken[];
};

/**
 * `size`: rows of the embedding; ids without a token get a name that no text holds. Throws a `ConfigurationError` that names
 * `source` for a tokenizer of another kind.
 */
export function ggufVocabulary(
  files: { readonly tokenizerJson: unknown; readonly tokenizerConfig: unknown },
  options: { readonly size: number; readonly source: string },
): GgufVocabulary {
  const { model = {}, added_tokens: added = [] } = (files.tokenizerJson ?? {}) as TokenizerJson;
  const config = (files.tokenizerConfig ?? {}) as Readonly<Record<string, unknown>>;
  const { size, source } = options;
  if (model.type !== "BPE" || model.vocab === undefined || model.merges === undefined) {
    throw new ConfigurationError(
      `Cannot export the tokenizer "${source}": its model is ${JSON.stringify(model.type) ?? "missing"}, "BPE" wanted.`,
    );
  }
  const tokens = Array.from({ length: size }, (_, id) => `<unused_${id}>`);
  const kinds = Array.from({ length: size }, () => 5);
  const place = (id: number, token: string, kind: number): void => {
    if (id >= size) {
      throw new ConfigurationError(
        `Cannot export the tokenizer "${source}": token ${id} is beyond the ${size} of the model; give the files of one model.`,
      );
    }
    tokens[id] = token;
    kinds[id] = kind;
  };
  for (const [token, id] of Object.entries(model.vocab)) place(id, token, 1);
  for (const { id, content, special } of added) place(id, content, special ? 3 : 4);
  const idOf = (name: string): number | null => {
    const token = config[name];
    const content = typeof token === "object" && token !== null ? (token as { content?: unknown }).content : token;
    const id = typeof content === "string" ? tokens.indexOf(content) : -1;
    return id === -1 ? null : id;
  };
  const template = config["chat_template"];
  return {
    tokens,
    kinds,
    merges: model.merges.map((merge) => (typeof merge === "string" ? merge : merge.join(" "))),
    endTokenId: idOf("eos_token"),
    padTokenId: idOf("pad_token"),
    chatTemplate: typeof template === "string" ? template : null,
  };
}
