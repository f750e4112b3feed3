import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { addAllFormats } from "../parsers/all-formats.ts";
import type { Message } from "../core/index.ts";
import { models, publishedRenderer, testedFamilies } from "./published-templates.test-helper.ts";
import {
  type Conversation,
  conversations,
  plainActions,
  templateText,
  thinkingActions,
} from "./random-conversation.test-helper.ts";
import { testTokenizers } from "./tokenizers.test-helper.ts";

addAllFormats();

/**
 * Families whose messages all open with `<|im_start|>` and a role, and whose prompt ends with just
 * those.
 */
const chatMl = ["qwen2.5-instruct", "qwen3-instruct-2507", "qwen3", "qwen3-rev2"].filter((name) =>
  testedFamilies.includes(name),
);

describe.each(await testTokenizers())("renderPrompt() with tokenizer $name", (tokenizer) => {
  const asDecoded = (text: string): string => tokenizer.decode(tokenizer.encode(text));

  test.each(chatMl)("%s: tokens are the template's, and spans cut them at the messages", (family) => {
    const renderer = publishedRenderer(family, tokenizer, { controlTokens: "parse" });
    const generated = conversations(fc.oneof(plainActions, thinkingActions));
    fc.assert(
      fc.property(generated, (conversation) => {
        const messages = allMessages(conversation);
        const { tokens, text, spans } = renderer.renderPrompt(messages, conversation.tools);
        expect(text).toBe(templateText(family, messages, conversation.tools));
        expect([...tokens]).toEqual([...tokenizer.encode(text)]);
        expect(spans.map(({ message }) => message)).toEqual(messages.map((_, index) => index));
        spans.forEach(({ start, end }, index) => {
          expect(start).toBe(spans[index - 1]?.end ?? start);
          expect(end).toBeGreaterThanOrEqual(start);
        });
        const shown = spans.map(({ start, end }) => tokenizer.decode(tokens.subarray(start, end)));
        const rest = tokenizer.decode(tokens.subarray(spans.at(-1)?.end ?? 0));
        expect(rest).toBe("<|im_start|>assistant\n");
        expect(asDecoded(text).endsWith(shown.join("") + rest)).toBe(true);
        messages.forEach((message, index) => {
          // Empty guidelines leave no text, so their place is unknown.
          if (message.role === "assistant" || (message.role === "system" && message.content === "")) return;
          expect(shown[index]).toContain(asDecoded(message.content.trim()));
          const role = message.role === "tool" ? "user" : message.role;
          const isFirstOfTurn = message.role !== "tool" || messages[index - 1]?.role !== "tool";
          if (isFirstOfTurn) expect(shown[index]).toMatch(new RegExp(`^<\\|im_start\\|>${role}\n`));
        });
      }),
      { seed: 11, numRuns: tokenizer.name === "readable" ? 40 : 15 },
    );
  });

  test.skipIf(models === null)(
    "a default system turn belongs to no message; what is not rendered has an empty span",
    () => {
      const renderer = publishedRenderer("qwen2.5-instruct", tokenizer);
      const messages: readonly Message[] = [{ role: "user", content: "hi" }];
      const { tokens, spans } = renderer.renderPrompt(messages, []);
      expect(tokenizer.decode(tokens.subarray(0, spans[0]!.start))).toMatch(/^<\|im_start\|>system\nYou are Qwen/);
      expect(tokenizer.decode(tokens.subarray(spans[0]!.start, spans[0]!.end))).toBe(
        "<|im_start|>user\nhi<|im_end|>\n",
      );
      const hidden = { role: "critic", content: "hm" } as unknown as Message;
      const withHidden = renderer.renderPrompt([...messages, hidden], []);
      expect(withHidden.spans[1]).toEqual({ message: 1, start: spans[0]!.end, end: spans[0]!.end });
      expect([...withHidden.tokens]).toEqual([...tokens]);
    },
  );
});

function allMessages(conversation: Conversation): Message[] {
  const turns = conversation.steps.flatMap(({ action, answers }): readonly Message[] => [
    { role: "assistant", content: action, reasoning: null, toolCalls: [] },
    ...answers,
  ]);
  return [...conversation.opening, ...turns];
}
