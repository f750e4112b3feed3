// The reasoning tags of every family's parser are also found in replies of API models.

import { expect, it } from "vitest";
import { splitReasoning } from "../lib/reasoning.ts";
import { reasoningParser, reasoningParserNames } from "../parsers/index.ts";

it.each(reasoningParserNames.filter((name) => reasoningParser(name).markers.length === 2))(
  "splitReasoning() knows the tags of %s",
  (name) => {
    const [open, close] = reasoningParser(name).markers;
    for (const reply of [`${open}secret${close}\n\nHello.`, `secret${close}Hello.`, `Hello.${open}secret`]) {
      expect(splitReasoning(reply)).toEqual({ reasoning: "secret", content: "Hello." });
    }
  },
);
