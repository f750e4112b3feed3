// A template's text to its tree. The grammar is that of the library's parser; what it reads otherwise than Jinja is corrected
// before (tokens) and after (tree). Its own tokenizer is not used: it trims white space with expressions over the whole
// source and lacks raw blocks, `+` signs, exponents and most escapes.

import { parse } from "@huggingface/jinja";

import { ChatTemplateError } from "../../chat-template.ts";
import { correctTag } from "./correct-statement.ts";
import type { LibraryNode } from "./library-nodes.ts";
import { lowerBody } from "./lower-statement.ts";
import type { Statement } from "./nodes.ts";
import { splitSource } from "./split-source.ts";
import { syntaxError } from "./syntax-error.ts";
import type { Token } from "./token.ts";

type LibraryParse = (tokens: readonly Token[]) => { readonly body: readonly LibraryNode[] };

// The library's type declarations lack the extensions that Node's resolution wants.
const untypedParse: unknown = parse;

/** Throws a `ChatTemplateError` for a template that Jinja cannot compile, or that we do not support. */
export function parseTemplate(template: string): Statement[] {
  const tokens = splitSource(template).flatMap((piece): Token[] =>
    piece.type === "text" ? [{ type: "Text", value: piece.text }] : correctTag(piece.type, piece.tokens),
  );
  return lowerBody(parseTokens(tokens));
}

function parseTokens(tokens: readonly Token[]): readonly LibraryNode[] {
  try {
    return (untypedParse as LibraryParse)([...tokens]).body;
  } catch (error) {
    if (error instanceof ChatTemplateError) throw error;
    // The library throws a TypeError where the tokens end too early.
    const reason = error instanceof TypeError || !(error instanceof Error) ? "a block does not end" : error.message;
    throw syntaxError(reason.replace(/\.$/, ""));
  }
}
