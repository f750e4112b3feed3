// Finds tools that a model cannot call: their names do not come back from a call as its chat
// template writes it. Found by writing such a call and reading it, never by a list of characters:
// the parser decides what a format accepts.

import type { AssistantMessage, Message, Renderer, Tokenizer } from "../core/index.ts";
import { calledTool, reasoningParser, responseTemplateName, spelledCall } from "../parsers/on-demand.ts";

/** A name that any format can write. */
const plainName = "find_city";

/**
 * Those of `names` whose calls are not read back. Empty if even a call of a plain name is not: then
 * nothing is known about the format. Never throws on a template.
 */
export function unwritableNames(renderer: Renderer, tokenizer: Tokenizer, names: readonly string[]): readonly string[] {
  for (const write of [templateCalls(renderer), spelledCalls(renderer, tokenizer)]) {
    // If the prompt opens the thinking, an answer closes it first.
    const openings = [new Uint32Array(), tokenizer.encode(thoughtEnd(renderer))];
    const isReadBack = (name: string): boolean => {
      const tools = [calledTool(name)];
      for (const call of write(name)) {
        for (const opening of openings) {
          const { toolCalls } = renderer.parseAction(Uint32Array.from([...opening, ...call]), { tools, turn: 0 });
          if (toolCalls.length === 1 && toolCalls[0]!.name === name) return true;
        }
      }
      return false;
    };
    if (isReadBack(plainName)) return names.filter((name) => !isReadBack(name));
  }
  return [];
}

/** Calls of a tool as a model may sample them, in every way that is known. */
type WriteCalls = (name: string) => Iterable<Uint32Array>;

const question: Message = { role: "user", content: "Where is it?" };

/**
 * Calls as the template writes those of the history. Templates differ in the ids that they accept,
 * and in whether a result must follow.
 */
function templateCalls(renderer: Renderer): WriteCalls {
  // The prompt names another tool, so that it is rendered only once.
  const tools = [calledTool(plainName)];
  const rendered = (messages: readonly Message[]) => {
    try {
      return renderer.renderPrompt(messages, tools);
    } catch {
      return null;
    }
  };
  const prompt = rendered([question])?.tokens ?? null;
  return function* (name) {
    for (const id of [`functions.${name}:0`, "call00000"]) {
      const toolCalls = [{ id, name, argumentsText: '{"city": "Rome"}' }];
      const call: AssistantMessage = { role: "assistant", content: "", reasoning: null, toolCalls };
      const result: Message = { role: "tool", content: "There.", name, callId: id };
      for (const after of [[result], []]) {
        const whole = rendered([question, call, ...after]);
        if (whole === null) continue;
        const { start, end } = whole.spans[1]!;
        const isPrompted = prompt !== null && prompt.every((token, at) => whole.tokens[at] === token);
        yield upToStop(whole.tokens.subarray(isPrompted ? prompt.length : start, end), renderer);
      }
    }
  };
}

/** Calls as models of the format write them, for templates that write none. */
function spelledCalls({ parsers }: Renderer, tokenizer: Tokenizer): WriteCalls {
  return (name) => {
    const text = spelledCall(parsers.toolCalls, name);
    return text === null ? [] : [tokenizer.encode(text)];
  };
}

/** The answer without the text that the template writes after its end, which is not sampled. */
function upToStop(tokens: Uint32Array, { stopTokenIds }: Renderer): Uint32Array {
  const stop = tokens.findIndex((token) => stopTokenIds.includes(token));
  return stop === -1 ? tokens : tokens.subarray(0, stop + 1);
}

function thoughtEnd({ parsers: { reasoning } }: Renderer): string {
  const isListed = reasoning !== null && reasoning !== responseTemplateName;
  const markers = isListed ? reasoningParser(reasoning).markers : [];
  return markers.length === 2 ? `${markers[1]!}\n\n` : "";
}
