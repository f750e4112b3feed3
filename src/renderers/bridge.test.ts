import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { addAllFormats } from "../parsers/all-formats.ts";
import type { Message, Renderer } from "../core/index.ts";
import { rendererFor } from "./choose-renderer.ts";
import { models, publishedRenderer } from "./published-templates.test-helper.ts";
import {
  type Conversation,
  conversations,
  plainActions,
  play,
  templateText,
  thinkingActions,
  words,
} from "./random-conversation.test-helper.ts";
import { testTokenizers } from "./tokenizers.test-helper.ts";

addAllFormats();

const appendOnly = ["qwen2.5-instruct", "qwen3-instruct-2507"];
/** Families that need ../shared/models. */
const hybrid = models === null ? [] : ["qwen3", "qwen3-rev2"];

describe.each(await testTokenizers())("bridge() with tokenizer $name", (tokenizer) => {
  // A check encodes whole histories again, which is slow with real vocabularies.
  const settings = { seed: 3, numRuns: tokenizer.name === "readable" ? 60 : 15 };
  /**
   * Tokens have no lone surrogates and some tokenizers normalize, so strings are compared after
   * encoding and decoding.
   */
  const asDecoded = (text: string): string => tokenizer.decode(tokenizer.encode(text));

  test.each(appendOnly)("%s: bridged tokens are the template's, when actions are encoded canonically", (family) => {
    const renderer = publishedRenderer(family, tokenizer, { controlTokens: "parse" });
    fc.assert(
      fc.property(conversations(plainActions), (conversation) => {
        play(renderer, conversation, { tokenizer }, ({ tokens, messages }) => {
          expect(tokens).toEqual([...tokenizer.encode(templateText(family, messages, conversation.tools))]);
        });
      }),
      settings,
    );
  });

  test.each(appendOnly)(
    "%s: sampled ids that no encoder gives stay as they are, and the text is the template's",
    (family) => {
      const renderer = publishedRenderer(family, tokenizer);
      const sample = (text: string): number[] =>
        Array.from(text).flatMap((character) => [...tokenizer.encode(character)]);
      fc.assert(
        fc.property(conversations(fc.oneof(plainActions, words)), (conversation) => {
          const sampled = conversation.steps.map(({ action }) => sample(action));
          let all: readonly number[] = [];
          play(renderer, conversation, { tokenizer, sample }, ({ tokens, messages }) => {
            all = [...tokens];
            // Sampled text may differ from the normal form that encoding gives.
            const expected = asDecoded(templateText(family, messages, conversation.tools));
            expect(tokenizer.decode(tokens).normalize()).toBe(expected.normalize());
          });
          expect(sampled.every((ids) => includesRun(all, ids))).toBe(true);
        }),
        settings,
      );
    },
  );

  test.each(hybrid)(
    '%s with "keep-reasoning": never refuses; the stream is a template that keeps all it is given',
    (family) => {
      const renderer = publishedRenderer(family, tokenizer);
      const actions = fc.oneof(plainActions, thinkingActions);
      fc.assert(
        fc.property(conversations(actions), (conversation) => {
          play(neverRefusing(renderer), conversation, { tokenizer }, ({ tokens, messages }) => {
            // The template of the 2507 models equals this one without its treatment of thinking.
            const kept = templateText("qwen3-instruct-2507", messages, conversation.tools);
            expect(tokenizer.decode(tokens)).toBe(asDecoded(kept));
          });
        }),
        settings,
      );
    },
  );

  test.each(hybrid)('%s with "keep-reasoning" and thinking off: every turn keeps its empty think block', (family) => {
    const renderer = publishedRenderer(family, tokenizer, { thinking: false });
    fc.assert(
      fc.property(conversations(plainActions), (conversation) => {
        play(neverRefusing(renderer), conversation, { tokenizer }, ({ tokens, messages }) => {
          const emptyBlock = "<think>\n\n</think>\n\n";
          const kept = messages.map((message) =>
            message.role === "assistant" ? { ...message, content: emptyBlock + message.content } : message,
          );
          const text = templateText("qwen3-instruct-2507", kept, conversation.tools) + emptyBlock;
          expect(tokenizer.decode(tokens)).toBe(asDecoded(text));
        });
      }),
      settings,
    );
  });

  test.each(hybrid)('%s with "branch": every prompt reads as the template writes it, whatever is sampled', (family) => {
    for (const thinking of [true, false]) {
      const renderer = publishedRenderer(family, tokenizer, { thinking, historyPolicy: "branch" });
      const kwargs = new Map([["enable_thinking", thinking]]);
      fc.assert(
        fc.property(conversations(fc.oneof(plainActions, thinkingActions, words)), (conversation) => {
          play(renderer, conversation, { tokenizer }, ({ tokens, messages }) => {
            expect(tokenizer.decode(tokens)).toBe(
              asDecoded(templateText(family, messages, conversation.tools, kwargs)),
            );
          });
        }),
        settings,
      );
    }
  });

  test.each(hybrid)(
    '%s with "branch": refuses exactly when thinking is stripped, or an empty block comes or goes',
    (family) => {
      const renderer = publishedRenderer(family, tokenizer, { historyPolicy: "branch" });
      const plain = fc.constantFrom("Hello!", "One moment.", '<tool_call>\n{"name": "find_order"}\n</tool_call>');
      fc.assert(
        fc.property(conversations(fc.oneof(plain, thinkingActions)), (generated) => {
          const conversation = withoutDisguise(generated);
          const expected = expectedRefusals(conversation);
          const refused: boolean[] = [];
          play(recordingRefusals(renderer, refused), conversation, { tokenizer }, () => {});
          expect(refused).toEqual(expected);
        }),
        settings,
      );
    },
  );

  test.skipIf(models === null)(
    'qwen3 with thinking off and "branch": refuses every time, because the template drops the block it prompted with',
    () => {
      const renderer = publishedRenderer("qwen3", tokenizer, { thinking: false, historyPolicy: "branch" });
      const refused: boolean[] = [];
      fc.assert(
        fc.property(conversations(fc.constantFrom("Hello!", "Sure.")), (conversation) => {
          play(recordingRefusals(renderer, refused), conversation, { tokenizer }, () => {});
          expect(refused.every(Boolean)).toBe(true);
        }),
        settings,
      );
    },
  );
});

describe("bridge()", async () => {
  const [tokenizer] = await testTokenizers();
  const renderer = rendererFor("qwen2.5-instruct", tokenizer!);
  const messages: readonly Message[] = [
    { role: "user", content: "hi" },
    { role: "assistant", content: "hello", reasoning: null, toolCalls: [] },
  ];
  const bridged = (action: string): string => {
    const lastAction = tokenizer!.encode(action);
    const newMessages: readonly Message[] = [{ role: "user", content: "yes" }];
    const result = renderer.bridge({ messages, tools: [], lastAction, newMessages });
    return result.type === "extended" ? renderer.decode(result.tokens) : result.reason;
  };
  const rest = "\n<|im_start|>user\nyes<|im_end|>\n<|im_start|>assistant\n";

  test("adds the newline that the template puts after an end token", () => {
    expect(bridged("hello<|im_end|>")).toBe(rest);
  });

  test("adds the end token that a cut-off action lacks", () => {
    expect(bridged("hel")).toBe(`<|im_end|>${rest}`);
    expect(bridged("")).toBe(`<|im_end|>${rest}`);
  });

  test("closes a turn that ended with another stop token as the template closes it, and names the deviation", () => {
    expect(bridged("hello<|endoftext|>")).toBe(`<|im_end|>${rest}`);
    const deviationOf = (action: string) => {
      const lastAction = tokenizer!.encode(action);
      const newMessages: readonly Message[] = [{ role: "user", content: "yes" }];
      const result = renderer.bridge({ messages, tools: [], lastAction, newMessages });
      return result.type === "extended" ? result.deviation : "refused";
    };
    expect(deviationOf("hello<|endoftext|>")).toBe("other-end-token");
    expect([deviationOf("hello<|im_end|>"), deviationOf("hel"), deviationOf("")]).toEqual([null, null, null]);
  });

  test('with "branch", a turn that ended with another stop token starts a branch, where histories are append-only too', () => {
    const branching = rendererFor("qwen2.5-instruct", tokenizer!, { historyPolicy: "branch" });
    const outcome = (action: string) => {
      const lastAction = tokenizer!.encode(action);
      return branching.bridge({ messages, tools: [], lastAction, newMessages: [{ role: "user", content: "yes" }] });
    };
    expect(outcome("hello<|endoftext|>")).toEqual({
      type: "refused",
      reason: 'the action ended with "<|endoftext|>" where the chat template of "qwen2.5-instruct" writes "<|im_end|>"',
    });
    expect(outcome("hello<|im_end|>").type).toBe("extended");
  });

  test.skipIf(models === null)('names the message that the template rewrites when it refuses ("branch")', () => {
    const branching = publishedRenderer("qwen3", tokenizer!, { historyPolicy: "branch" });
    const action = "<think>\na\n</think>\n\nhello";
    const history: readonly Message[] = [messages[0]!, { ...messages[1]!, content: action }];
    const lastAction = tokenizer!.encode(`${action}<|im_end|>`);
    const newMessages: readonly Message[] = [{ role: "user", content: "yes" }];
    expect(branching.bridge({ messages: history, tools: [], lastAction, newMessages })).toEqual({
      type: "refused",
      reason: 'the chat template of "qwen3" rewrites message 1',
    });
  });
});

function includesRun(ids: readonly number[], run: readonly number[]): boolean {
  return run.length === 0 || ids.some((_, start) => run.every((id, index) => ids[start + index] === id));
}

function neverRefusing(renderer: Renderer): Renderer {
  return {
    ...renderer,
    bridge: (input) => {
      const result = renderer.bridge(input);
      expect(result.type).toBe("extended");
      return result;
    },
  };
}

function recordingRefusals(renderer: Renderer, refused: boolean[]): Renderer {
  return {
    ...renderer,
    bridge: (input) => {
      const result = renderer.bridge(input);
      refused.push(result.type === "refused");
      return result;
    },
  };
}

/**
 * The template takes a user's text that looks like a tool result for one; the rule below is about
 * real user messages.
 */
function withoutDisguise(conversation: Conversation): Conversation {
  const plain = (message: Message): Message =>
    message.role === "user" ? { ...message, content: message.content.replaceAll("<tool_response>", "") } : message;
  return {
    ...conversation,
    opening: conversation.opening.map(plain),
    steps: conversation.steps.map((step) => ({ ...step, answers: step.answers.map(plain) })),
  };
}

/**
 * A user message removes the thinking of all turns since the previous user message; tool results
 * remove nothing.
 */
function expectedRefusals(conversation: Conversation): boolean[] {
  let hasThought = false;
  return conversation.steps.map(({ action, answers }) => {
    hasThought ||= action.startsWith("<think>");
    if (answers[0]?.role !== "user") return false;
    const isRewritten = hasThought;
    hasThought = false;
    return isRewritten;
  });
}
