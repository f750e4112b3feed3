// The end of a streamed answer: content that its deltas did not have, once the whole answer is
// known.

import { type AnswerDelta, type AnswerStream, type GatewayAnswer, GatewayError } from "./request.ts";

/**
 * Remaining deltas, then the final event. Throws a `GatewayError` if the parsed answer contradicts
 * the sent deltas.
 */
export function* restOf(
  answer: GatewayAnswer,
  stream: AnswerStream,
  { sent, retold }: { readonly sent: Record<AnswerDelta["type"], string>; readonly retold: () => void },
): Generator<string> {
  const { reasoning, content } = answer.action;
  const parts = { reasoning: reasoning ?? "", content };
  for (const type of ["reasoning", "content"] as const) {
    const text = parts[type];
    // The client repeats its request, and is answered from the record.
    if (!text.startsWith(sent[type])) {
      retold();
      throw new GatewayError(
        "overloaded",
        `Cannot finish the stream: its final ${type} differs from what was streamed; try again.`,
      );
    }
    // Reasoning that was not streamed before the content can no longer precede it.
    if (type === "reasoning" && sent.content !== "") continue;
    if (text.length > sent[type].length) yield stream.delta({ type, text: text.slice(sent[type].length) });
  }
  const { rest, terminal } = stream.end(answer);
  yield rest + terminal;
}
