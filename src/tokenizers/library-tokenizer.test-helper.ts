// The tokenizer library of JavaScript as an independent reference for byte-level BPE. It is not
// exact for other kinds.

import * as library from "@huggingface/tokenizers";

/**
 * The part of the library's class that is used. Its own declarations do not resolve under Node's
 * module rules.
 */
type LibraryModel = {
  encode(text: string, options: { readonly add_special_tokens: boolean }): { readonly ids: readonly number[] };
  decode(ids: readonly number[], options: { readonly clean_up_tokenization_spaces: boolean }): string;
  get_vocab(withAddedTokens: boolean): ReadonlyMap<string, number>;
};

const { Tokenizer: Model } = library as unknown as {
  readonly Tokenizer: new (tokenizerJson: object, tokenizerConfig: object) => LibraryModel;
};

export type Judge = {
  readonly vocabularySize: number;
  readonly encode: (text: string) => Uint32Array;
  readonly decode: (ids: Uint32Array) => string;
};

export function createJudge(tokenizerJson: object): Judge {
  const model = new Model(tokenizerJson, {});
  return {
    vocabularySize: 1 + [...model.get_vocab(true).values()].reduce((largest, id) => Math.max(largest, id), -1),
    encode: (text) => Uint32Array.from(model.encode(text, { add_special_tokens: false }).ids),
    decode: (ids) => (ids.length === 0 ? "" : model.decode([...ids], { clean_up_tokenization_spaces: false })),
  };
}
