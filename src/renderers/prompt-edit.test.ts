import { describe, expect, test } from "vitest";

import { addAllFormats } from "../parsers/all-formats.ts";
import { ConfigurationError, type Message, type Tool, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { models, publishedRenderer, testedFamilies } from "./published-templates.test-helper.ts";
import { bundledToolSentence } from "./bundled-template.ts";

addAllFormats();

const sentence =
  models === null ? bundledToolSentence : "You may call one or more functions to assist with the user query.";
const edit = { replace: sentence, with: "One call at most: $& $1." };
const tokenizer = createReadableTokenizer();
const tool = (description: string): Tool =>
  toolFromDefinition(fromPlain({ type: "function", function: { name: "f", description } }) as JsonObject);

describe("prompt edits", () => {
  test.each(
    ["qwen2.5-instruct", "qwen3-instruct-2507", "qwen3", "qwen3-rev2", "qwen3-miles-fixed"].filter((name) =>
      testedFamilies.includes(name),
    ),
  )("%s: change what the template writes, literally, and nothing that anybody said", (family) => {
    const renderer = publishedRenderer(family, tokenizer, { promptEdits: [edit] });
    const messages: readonly Message[] = [
      { role: "system", content: sentence },
      { role: "user", content: sentence },
      { role: "assistant", content: sentence, reasoning: null, toolCalls: [] },
      { role: "tool", content: sentence, name: "f", callId: null },
    ];
    const { text } = renderer.renderPrompt(messages, [tool(sentence)]);
    expect(text.split(sentence)).toHaveLength(messages.length + 2);
    expect(text.split(edit.with)).toHaveLength(2);
    expect(text).toMatch(/# Tools\n\nOne call at most: \$& \$1\.\n\n(?:You are provided|The tools:)/);
  });

  test("apply in order, each to what the one before left", () => {
    const second = { replace: "One call at most", with: "At most one call" };
    const renderer = publishedRenderer("qwen3-instruct-2507", tokenizer, { promptEdits: [edit, second] });
    const { text } = renderer.renderPrompt([{ role: "user", content: "hi" }], [tool("")]);
    expect(text).toContain("At most one call: ");
  });

  test.each(["no such words", ""])("that would change nothing are refused at construction: %j", (replace) => {
    const construct = () =>
      publishedRenderer("qwen3-instruct-2507", tokenizer, { promptEdits: [{ replace, with: "x" }] });
    expect(construct).toThrow(ConfigurationError);
    expect(construct).toThrow("its template does not write");
  });
});
