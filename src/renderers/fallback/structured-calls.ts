// Some templates refuse a tool result unless the message before it holds its call as structure, not as the text that the
// model wrote. For those, what the model wrote is read back into calls before the template sees it. A bridge then extends only
// where the template writes those calls exactly as they were sampled.

import { type Message, toolFromDefinition } from "../../core/index.ts";
import type { JsonObject } from "../../lib/json/index.ts";
import type { ToolCallParser } from "../../parsers/index.ts";
import { wireMessage } from "../wire-message.ts";
import { callMessage, probeTool, probeWords, resultMessage, type TemplateProber } from "./template-prober.ts";

/** Whether the template takes a result after a structured call, but not after the same call as text. */
export function needsStructuredCalls(prober: TemplateProber, writtenCall: string): boolean {
  const question = { role: "user", content: probeWords.question };
  const asText = [question, { role: "assistant", content: writtenCall }, resultMessage];
  const asStructure = [question, callMessage(), resultMessage];
  return prober.render(asText, { withTool: true }) === null && prober.render(asStructure, { withTool: true }) !== null;
}

/** The OpenAI shape of a message, with the calls that stand in an assistant's words. */
export function structuredWire(parser: ToolCallParser): (message: Message) => JsonObject {
  // Parsers look for calls only where there are tools; all names pass.
  const options = { tools: [toolFromDefinition(probeTool)], forwardUnknownTools: true };
  return (message) => {
    if (message.role !== "assistant" || message.toolCalls.length > 0) return wireMessage(message);
    const { calls, normalText } = parser.parse(message.content, options);
    const toolCalls = calls.map(({ name, parameters }, index) => ({
      id: `call_${index}`,
      name: name ?? "",
      argumentsText: parameters,
    }));
    return wireMessage(toolCalls.length === 0 ? message : { ...message, content: normalText, toolCalls });
  };
}
