// Conversation of a user that is simulated by a model and has its own tools, in an environment
// whose users act. The environment defines the user and its history; the model answers each line
// with text or with calls. No strategy of thinking or checking.

import { type ChatMessage, type ModelCaller, splitReasoning, UsageMeter } from "../chat-models/index.ts";
import type { Message, PastLine, UserCall, UserLine, UserSide } from "../core/index.ts";
import { dumpJson, parseJson } from "../python-semantics/json/index.ts";
import { unlessRaised } from "../python-semantics/index.ts";
import { type HeardByUser, lineFrom, userFailure } from "./conversation.ts";

/** The conversation of one episode. Lines are requested one at a time. */
export class ActingConversation {
  readonly #caller: ModelCaller;
  readonly #side: UserSide;
  readonly #messages: ChatMessage[];
  /** Calls of the last line. */
  #calls: readonly UserCall[] = [];
  #callCount = 0;

  /** `lines`: lines of the user in an earlier process. */
  constructor(caller: ModelCaller, { side, lines }: { readonly side: UserSide; readonly lines: readonly PastLine[] }) {
    this.#caller = caller;
    this.#side = side;
    this.#messages = [{ role: "system", content: side.prompt }, ...side.history];
    for (const { utterance: heard, results, line } of lines) {
      this.#hear(results ?? heard);
      this.#remember(line);
    }
  }

  /**
   * Returns the next line. Rejects with a failure at boundary "user", also for a reply that is
   * neither text nor calls.
   */
  async next(heard: HeardByUser, signal: AbortSignal | undefined): Promise<UserLine> {
    this.#hear(heard);
    const meter = new UsageMeter();
    const { tools } = this.#side;
    const read = await this.#caller.ask(
      this.#messages,
      ({ text, toolCalls, isTruncated }): Omit<UserLine, "usage"> => {
        const words = splitReasoning(text, { isTruncated }).content.trim();
        if (toolCalls.length > 0)
          return { type: "calls", text: words, calls: toolCalls.map((call, index) => this.#read(call, index)) };
        if (words !== "") return lineFrom(words, meter.total());
        throw userFailure(
          "empty-reply",
          "Cannot take the user model's reply as a line: it has neither text nor calls; allow more tokens, or choose another model.",
        );
      },
      { signal, meter: meter.add, tools },
    );
    const line: UserLine = { ...read, usage: meter.total() };
    this.#remember(line);
    return line;
  }

  /**
   * Reads a call; `index` is its place in the line. A call without an id gets a count, so that a
   * user that resumes gives it the same one.
   */
  #read(
    { id, name, argumentsText }: { readonly id: string | null; readonly name: string; readonly argumentsText: string },
    index: number,
  ): UserCall {
    const given = unlessRaised(null, () => parseJson(argumentsText === "" ? "{}" : argumentsText));
    if (!(given instanceof Map)) {
      throw userFailure(
        "malformed-reply",
        `Cannot read the user model's call of "${name}": its arguments are not a JSON object; choose a model that calls tools.`,
      );
    }
    return { id: id ?? `user_call_${this.#callCount + index}`, name, arguments: given };
  }

  #hear(heard: HeardByUser): void {
    if (heard === null) return;
    if (typeof heard === "string") {
      this.#messages.push({ role: "user", content: heard });
      return;
    }
    for (const [index, { text }] of heard.entries()) {
      const call = this.#calls[index];
      if (call !== undefined) this.#messages.push(toolMessage(call, text));
    }
  }

  #remember({ text, calls = [] }: UserLine): void {
    this.#calls = calls;
    this.#callCount += calls.length;
    const toolCalls = calls.map(({ id, name, arguments: given }) => ({ id, name, argumentsText: dumpJson(given) }));
    this.#messages.push({ role: "assistant", content: text, reasoning: null, toolCalls });
  }
}

function toolMessage({ id, name }: UserCall, text: string): Extract<Message, { readonly role: "tool" }> {
  return { role: "tool", content: text, name, callId: id };
}
