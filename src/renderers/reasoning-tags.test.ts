// The reasoning of every family whose parser we have is found in replies of models behind an API, too.

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
