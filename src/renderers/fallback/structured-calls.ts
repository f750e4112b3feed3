// Some templates refuse a tool result, or what follows it, unless the message before it holds its call as structure, not as the
// text that the model wrote. For those, what the model wrote is read back into calls before the template sees it. A bridge
// then extends only where the template writes those calls exactly as they were sampled.

import { type AssistantMessage, type Message, toolFromDefinition } from "../../core/index.ts";
import { type ToolCallParser, writtenCallIds } from "../../parsers/index.ts";
import type { RendererFamily } from "../renderer-family.ts";
import { callMessage, probeTool, probeWords, resultMessage, type TemplateProber } from "./template-prober.ts";

const question = { role: "user", content: probeWords.question };
const answer = { role: "assistant", content: probeWords.answer };

/** How the template's history must be restated; `null`: it takes calls as the text they are. */
export function structuredHistory(
  prober: TemplateProber,
  { writtenCall, parser }: { readonly writtenCall: string; readonly parser: ToolCallParser },
): RendererFamily["restate"] | null {
  const isRefused = (messages: readonly object[]): boolean => prober.render(messages, { withTool: true }) === null;
  const asText = { role: "assistant", content: writtenCall };
  const [results, talk] = [[resultMessage, answer], [{ role: "user", content: probeWords.next }]];
  if (!isRefused([question, asText, ...results]) || isRefused([question, callMessage(), ...results])) return null;
  const always = isRefused([question, asText, ...talk]);
  return (messages) => restate(messages, { parser, always });
}

type Rules = {
  readonly parser: ToolCallParser;
  /** False: calls that nothing answers stay text. */
  readonly always: boolean;
};

function restate(messages: readonly Message[], { parser, always }: Rules): readonly Message[] {
  let ids: readonly string[] = [];
  let results = 0;
  return messages.map((message, index): Message => {
    if (message.role === "tool") {
      const id = ids[placeOf(message.callId) ?? results];
      results++;
      return { ...message, callId: id ?? callId(null, results - 1) };
    }
    [ids, results] = [[], 0];
    if (message.role !== "assistant" || (!always && messages[index + 1]?.role !== "tool")) return message;
    const structured = structure(message, parser);
    ids = structured.toolCalls.map(({ id }) => id);
    return structured;
  });
}

/** Parsers look for calls only where there are tools; all names pass. */
const options = { tools: [toolFromDefinition(probeTool)], forwardUnknownTools: true };

function structure(message: AssistantMessage, parser: ToolCallParser): AssistantMessage {
  if (message.toolCalls.length > 0) {
    return { ...message, toolCalls: message.toolCalls.map((call, place) => ({ ...call, id: callId(call.id, place) })) };
  }
  const { calls, normalText } = parser.parse(message.content, options);
  if (calls.length === 0) return message;
  const written = writtenCallIds(message.content);
  const toolCalls = calls.map(({ name, parameters }, place) => ({
    id: callId(written[place] ?? null, place),
    name: name ?? "",
    argumentsText: parameters,
  }));
  return { ...message, content: normalText, toolCalls };
}

/** The id that the model wrote where it is one that Mistral's templates take, as the strictest; else one by the call's place. */
function callId(written: string | null, place: number): string {
  return written !== null && /^[A-Za-z0-9]{9}$/.test(written) ? written : String(place).padStart(9, "0");
}

/** The place of the call that a result answers, out of our own ids (`call_3_0`). */
function placeOf(id: string | null): number | null {
  const place = id === null ? undefined : /^call_\d+_(\d+)$/.exec(id)?.[1];
  return place === undefined ? null : Number(place);
}
