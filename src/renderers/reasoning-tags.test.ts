// The reasoning tags of every family's parser are also found in replies of API models.

import { expect, it } from "vitest";
import { splitReasoning } from "../lib/reasoning.ts";
import { reasoningParser, reasoningParserNames } from "../parsers/index.ts";

/** Granite's are sentences: one that closes what was not opened may be part of an answer. */
const isTagged = (name: string): boolean => name !== "granite" && reasoningParser(name).markers.length === 2;

it.each(reasoningParserNames.filter(isTagged))("splitReasoning() knows the tags of %s", (name) => {
  const [open, close] = reasoningParser(name).markers;
  for (const reply of [`${open}secret${close}\n\nHello.`, `secret${close}Hello.`, `Hello.${open}secret`]) {
    expect(splitReasoning(reply)).toEqual({ reasoning: "secret", content: "Hello." });
  }
});
