// Conversations to clone, from any source: a scripted expert in any world, or recorded episodes.
// They are messages, so a tokenizer can be trained on them first; the template of our models then
// turns them into tokens.

import { ConfigurationError, type Message, type Renderer, type Tokenizer, type Tool } from "../../core/index.ts";
import { rendererFor } from "../../renderers/index.ts";
import { type ChatTokenizerFiles, createReadableTokenizer, trainChatTokenizer } from "../../tokenizers/index.ts";
import { type Dialogue, dialoguesPerPrompt, type DialogueSource, templateFamily } from "./dialogues.ts";

export type Conversation = {
  /** Messages, guidelines first. The agent's messages are cloned. */
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  /**
   * Places in `messages` of actions that are read and not learnt: mistakes whose recovery teaches.
   */
  readonly mistakes: ReadonlySet<number>;
};

/**
 * Conversations `first` to `first + count - 1` of an endless list; every call gives the same ones.
 */
export type ConversationSource = (first: number, count: number) => Promise<readonly Conversation[]>;

/** Throws a plain error for a conversation whose template rewrites earlier messages. */
export function dialogueOf({ messages, tools, mistakes }: Conversation, renderer: Renderer): Dialogue {
  const [endToken] = renderer.stopTokenIds;
  const guidelines = messages.findIndex(({ role }) => role !== "system");
  const promptLength = lengthBefore(messages.slice(0, Math.max(0, guidelines)), tools, renderer);
  const targets: number[] = [];
  let tokens = new Uint32Array();
  for (const [place, { role }] of messages.entries()) {
    if (role !== "assistant") continue;
    const before = renderer.renderPrompt(messages.slice(0, place), tools).tokens;
    const after = renderer.renderPrompt(messages.slice(0, place + 1), tools).tokens;
    const end = after.indexOf(endToken ?? -1, before.length);
    if (end === -1 || !before.every((token, at) => after[at] === token)) {
      throw new Error("Cannot clone a conversation: its template changes earlier messages.");
    }
    tokens = after.slice(0, end + 1);
    if (mistakes.has(place)) continue;
    for (let at = before.length; at <= end; at++) targets.push(at);
  }
  return { tokens, targets: Uint32Array.from(targets), promptLength };
}

/**
 * Rejects with a `ConfigurationError` for a conversation that is longer than the model's context.
 */
export function conversationDialogues(
  source: ConversationSource,
  tokenizer: Tokenizer,
  { contextLength }: { readonly contextLength: number },
): DialogueSource {
  const renderer = rendererFor(templateFamily, tokenizer);
  return async (first, count) =>
    (await source(first, count)).map((conversation, index) => {
      const dialogue = dialogueOf(conversation, renderer);
      if (dialogue.tokens.length <= contextLength) return dialogue;
      throw new ConfigurationError(
        `Cannot clone conversation ${first + index}: it has ${dialogue.tokens.length} tokens, but the model reads ${contextLength}; ` +
          "shorten the guidelines, the tool results or the conversation.",
      );
    });
}

export async function trainConversationTokenizer(
  source: ConversationSource,
  options: { readonly conversations: number; readonly vocabularySize: number; readonly contextLength: number },
): Promise<ChatTokenizerFiles> {
  const renderer = rendererFor(templateFamily, createReadableTokenizer());
  const texts: string[] = [];
  for (const [index, { messages, tools }] of (await source(0, options.conversations)).entries()) {
    const spoken = messages.findIndex(({ role }) => role !== "system");
    // Guidelines and tools are the same everywhere, and would outweigh the text of members.
    if (index % dialoguesPerPrompt === 0) texts.push(renderer.renderPrompt(messages.slice(0, spoken), tools).text);
    texts.push(renderer.renderPrompt(messages.slice(spoken), []).text);
  }
  return trainChatTokenizer(texts, options);
}

/** Number of tokens before the conversation; the generation prompt after them does not count. */
function lengthBefore(messages: readonly Message[], tools: readonly Tool[], renderer: Renderer): number {
  const { tokens } = renderer.renderPrompt(messages, tools);
  const [start] = renderer.renderPrompt([{ role: "user", content: "" }], []).tokens;
  return tokens.lastIndexOf(start ?? -1);
}
