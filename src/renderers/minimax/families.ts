// The MiniMax family. Its template closes tool results with the name of the call, so a sampled call is read before the template
// sees it.

import { type Message, type Tool, toolFromDefinition } from "../../core/index.ts";
import { reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { familyDefaults, type RendererFamily } from "../renderer-family.ts";
import { wireMessage } from "../wire-message.ts";
import { endToken, minimaxM3, thinkEnd } from "./minimax-m3.ts";

const calls = toolCallParser("minimax-m2");

/** Parsers look for nothing when there are no tools; calls of any name are let through. */
const anyTool: readonly Tool[] = [toolFromDefinition(new Map([["function", new Map([["name", "any"]])]]))];

/** Words that hold a call, with the call in its own place. */
function withCalls(message: Message): Message {
  if (message.role !== "assistant" || message.toolCalls.length > 0) return message;
  // A call inside thinking is a thought.
  const tagAt = message.content.lastIndexOf(thinkEnd);
  const thoughtEnd = tagAt === -1 ? 0 : tagAt + thinkEnd.length;
  const thought = message.content.slice(0, thoughtEnd);
  const parse = calls.parse(message.content.slice(thoughtEnd), { tools: anyTool, forwardUnknownTools: true });
  return {
    ...message,
    content: thought + parse.normalText,
    toolCalls: parse.calls.map(({ name, parameters }, index) => ({
      id: `call_${index}`,
      name: name ?? "",
      argumentsText: parameters,
    })),
  };
}

export const minimaxFamilies: readonly RendererFamily[] = [
  {
    ...familyDefaults,
    name: "minimax-m3",
    template: minimaxM3,
    startToken: "]~b]",
    endToken,
    closing: "\n",
    stopTokens: [endToken],
    history: "rewrites",
    reasoningParser: reasoningParser("minimax-m3"),
    toolCallParser: calls,
    wire: (message) => wireMessage(withCalls(message)),
    standIn: (history) => {
      const [question, answer] = familyDefaults.standIn();
      const last = history.at(-1);
      const read = last === undefined ? answer : withCalls(last);
      return [question, read.role === "assistant" && read.toolCalls.length > 0 ? { ...read, content: "!" } : answer];
    },
  },
];
