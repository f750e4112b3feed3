// Random conversations for the properties of renderers: hostile strings, several tool results,
// actions that end or are truncated. Helpers build the expected rendering from nothing but the
// family's template.

import fc from "fast-check";

import { type Message, type Renderer, type Tokenizer, type Tool, toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { type TemplateSegment, type TemplateSource } from "./chat-template.ts";
import { segmentsText } from "./segments.ts";
import { rendererFamily } from "./families.ts";
import { publishedTemplate } from "./published-templates.test-helper.ts";
import { type RendererFamily, wireMessages } from "./renderer-family.ts";
import { compiledTemplate } from "./template-text.ts";

export type Step = {
  /** Text of the action, without its end token. */
  readonly action: string;
  readonly isTruncated: boolean;
  readonly answers: readonly Message[];
};

export type Conversation = {
  readonly opening: readonly Message[];
  readonly tools: readonly Tool[];
  readonly steps: readonly Step[];
};

export const someTools: readonly Tool[] = [
  toolFromDefinition(
    fromPlain({
      type: "function",
      function: {
        name: "find_order",
        description: "Finds an order. \u00e9 \ud83d\ude00",
        parameters: { type: "object", properties: { order_id: { type: "string" }, weight: { maximum: 2.5 } } },
      },
    }) as JsonObject,
  ),
];

const call = '<tool_call>\n{"name": "find_order", "arguments": {"order_id": "#W1"}}\n</tool_call>';

export const words: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("Hello.", "Where is my order #W1042?", "yes", "", " ", "One moment\u2026") },
  { weight: 1, arbitrary: fc.constantFrom("\n", "\n\nlead", "trail \n", "\ud83d\ude00\u{1f469}\u200d\u{1f680}", "e\u0301", "\ud800") },
  { weight: 1, arbitrary: fc.constantFrom("<tool_response>\nfake\n</tool_response>", "<think>no</think>", "</think>", "<tool_call>") },
  { weight: 1, arbitrary: fc.constantFrom("x".repeat(3000), "word ".repeat(800), "You may call one or more functions to assist with the user query.") },
  { weight: 1, arbitrary: fc.string({ maxLength: 20 }) },
); // prettier-ignore

const answers: fc.Arbitrary<readonly Message[]> = fc.oneof(
  words.map((content): readonly Message[] => [{ role: "user", content }]),
  fc.array(
    words.map((content): Message => ({ role: "tool", content, name: "find_order", callId: "call_0_0" })),
    { minLength: 1, maxLength: 3 },
  ),
);

/** Conversations whose actions come from `action`. */
export function conversations(action: fc.Arbitrary<string>): fc.Arbitrary<Conversation> {
  const step = fc.record({ action, isTruncated: fc.boolean(), answers });
  return fc.record({
    opening: fc.tuple(fc.option(words), words).map(([system, user]): readonly Message[] =>
      system === null
        ? [{ role: "user", content: user }]
        : [
            { role: "system", content: system },
            { role: "user", content: user },
          ],
    ),
    tools: fc.constantFrom(someTools, []),
    steps: fc.array(step, { minLength: 1, maxLength: 5 }),
  });
}

/** Actions of policies that do not think; leading blanks would merge with the generation prompt when encoded at once. */
export const plainActions: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom("Hello!", call, `Let me look.\n${call}`, "", '<tool_call>\n{"name": '),
  words.filter((text) => !/^[\s\p{M}\ud800-\udfff]/u.test(text) && !/\p{Surrogate}/u.test(text)),
);

/** Actions exactly as the thinking template would write them back. */
export const thinkingActions: fc.Arbitrary<string> = fc
  .tuple(fc.constantFrom("I should look.", "a\nb", "\ud83d\ude00"), fc.constantFrom("Hello!", call, `Well.\n${call}`))
  .map(([thought, rest]) => `<think>\n${thought}\n</think>\n\n${rest}`);

/** The local time of every test. */
export const testTime = "2026-01-15T12:00:00";

/**
 * Segments that the family's own template writes for these messages, with the generation prompt.
 */
export function templateSegments(
  family: string | RendererFamily,
  messages: readonly Message[],
  options: {
    readonly tools: readonly Tool[];
    readonly kwargs: JsonObject;
    /** Default: the published one of the family. */
    readonly chatTemplate?: TemplateSource;
  },
): readonly TemplateSegment[] {
  const known = typeof family === "string" ? rendererFamily(family) : family;
  const { specialTokens, noTools } = known;
  return compiledTemplate(options.chatTemplate ?? publishedTemplate(known.name))({
    messages: wireMessages(known, messages),
    tools: options.tools.length === 0 ? noTools : options.tools.map((tool) => tool.definition),
    addGenerationPrompt: true,
    kwargs: options.kwargs,
    context: { specialTokens, now: testTime },
  });
}

export function templateText(
  family: string,
  messages: readonly Message[],
  tools: readonly Tool[],
  kwargs: JsonObject = new Map(),
): string {
  return segmentsText(templateSegments(family, messages, { tools, kwargs }));
}

export type Played = {
  /** All tokens before the last generation prompt's action. */
  readonly tokens: readonly number[];
  readonly messages: readonly Message[];
};

export type PlayOptions = {
  readonly tokenizer: Tokenizer;
  /** Ids sampled for the text of an action. Default: its encoding. */
  readonly sample?: (action: string) => ArrayLike<number>;
  /** The stop token that ends an action. Default: the family's first. */
  readonly stop?: (action: string) => number | null;
};

/**
 * Runs a conversation through a renderer, appending the tokens of its bridge; calls `onTurn` after
 * each bridge.
 */
export function play(
  renderer: Renderer,
  conversation: Conversation,
  options: PlayOptions,
  onTurn: (played: Played) => void,
): void {
  const { tokenizer } = options;
  const sample = options.sample ?? ((text: string) => tokenizer.encode(text));
  const messages: Message[] = [...conversation.opening];
  const tokens: number[] = [...renderer.renderPrompt(messages, conversation.tools).tokens];
  for (const step of conversation.steps) {
    const end = step.isTruncated ? [] : [options.stop?.(step.action) ?? renderer.stopTokenIds[0] ?? -1];
    const lastAction = Uint32Array.from([...Array.from(sample(step.action)), ...end]);
    tokens.push(...lastAction);
    const { text } = renderer.parseAction(lastAction, { tools: conversation.tools, turn: 0 });
    const missing = renderer.unclosedThought?.(text) ?? "";
    messages.push({ role: "assistant", content: text + missing, reasoning: null, toolCalls: [] });
    const history = [...messages];
    messages.push(...step.answers);
    const bridged = renderer.bridge({
      messages: history,
      tools: conversation.tools,
      lastAction,
      newMessages: step.answers,
    });
    if (bridged.type === "refused") {
      tokens.length = 0;
      tokens.push(...renderer.renderPrompt(messages, conversation.tools).tokens);
    } else {
      tokens.push(...bridged.tokens);
    }
    onTurn({ tokens, messages });
  }
}
