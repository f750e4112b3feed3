import { expect, test } from "vitest";

import type { AssistantMessage, Message, Tool } from "../../core/index.ts";
import { toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { rendererFor } from "../../renderers/index.ts";
import { createReadableTokenizer, createTokenizer } from "../../tokenizers/index.ts";
import {
  type Conversation,
  conversationDialogues,
  type ConversationSource,
  dialogueOf,
  trainConversationTokenizer,
} from "./conversations.ts";

const definition = {
  type: "function",
  function: { name: "find", description: "Finds.", parameters: { type: "object" } },
};
const tools: readonly Tool[] = [toolFromDefinition(fromPlain(definition) as JsonObject)];
const said = (content: string, call?: string): AssistantMessage => ({
  role: "assistant",
  content,
  reasoning: null,
  toolCalls: call === undefined ? [] : [{ id: "1", name: "find", argumentsText: call }],
});
const messages: readonly Message[] = [
  { role: "system", content: "Be kind." },
  { role: "user", content: "Where is #L1234?" },
  said("", '{"id": "#L1243"}'),
  { role: "tool", name: "find", callId: "1", content: "Error: none." },
  said("", '{"id": "#L1234"}'),
  { role: "tool", name: "find", callId: "1", content: "On the shelf." },
  said("It is on the shelf."),
];
const conversation: Conversation = { messages, tools, mistakes: new Set([2]) };
const tokenizer = createReadableTokenizer();
const renderer = rendererFor("qwen3-instruct-2507", tokenizer);

test("dialogueOf() trains what the agent said with its end, reads everything else, and mistakes too", () => {
  const { tokens, targets, promptLength } = dialogueOf(conversation, renderer);
  const trained = tokenizer.decode(Array.from(targets, (place) => tokens[place]!));
  expect(trained).toBe(
    '<tool_call>\n{"name": "find", "arguments": {"id": "#L1234"}}\n</tool_call><|im_end|>It is on the shelf.<|im_end|>',
  );
  expect(tokenizer.decode(tokens)).toContain("#L1243");
  expect(tokenizer.decode(tokens.slice(promptLength))).toMatch(/^<\|im_start\|>user\nWhere is/);
  expect(tokenizer.decode(tokens.slice(0, promptLength))).toContain("Be kind.");
  const all = dialogueOf({ ...conversation, mistakes: new Set() }, renderer);
  expect(all.tokens).toEqual(tokens);
  expect(all.targets.length).toBeGreaterThan(targets.length);
});

test("what is cloned reads as the calls that were made", () => {
  const { tokens, targets } = dialogueOf(conversation, renderer);
  const end = targets.findIndex((place, at) => targets[at + 1] !== place + 1);
  const action = renderer.parseAction(tokens.slice(targets[0], targets[end]! + 1), { tools, turn: 0 });
  expect(action.toolCalls).toMatchObject([{ name: "find", argumentsText: '{"id": "#L1234"}' }]);
  expect(action.isTerminated).toBe(true);
});

test("a tokenizer trained on conversations cuts them shorter, and a conversation that is too long is refused by its number", async () => {
  const source: ConversationSource = async (_, count) => Array.from({ length: count }, () => conversation);
  const files = await trainConversationTokenizer(source, {
    conversations: 40,
    vocabularySize: 400,
    contextLength: 512,
  });
  const own = await createTokenizer("own", files);
  const [dialogue] = await conversationDialogues(source, own, { contextLength: 512 })(0, 1);
  expect(dialogue!.tokens.length).toBeLessThan(dialogueOf(conversation, renderer).tokens.length);
  await expect(conversationDialogues(source, own, { contextLength: 20 })(3, 2)).rejects.toThrow(
    "conversation 3: it has",
  );
});
