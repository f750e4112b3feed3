// The `fetch` of the client library's HTTP transport: our pool limits and decompresses answers, and
// `odd-messages.ts` reads their messages before the library checks them.

import { AttributedError } from "../../../core/failure.ts";
import { type HttpFetch, readNamedEvents } from "../../../http/index.ts";
import { jsonOf } from "../../../lib/text.ts";
import type { OddMessages } from "./odd-messages.ts";

export type MessageFetchOptions = {
  readonly odd: OddMessages;
  /** Maximum length of one event of a stream, in characters. */
  readonly maxCharacters: number;
  /**
   * Called when a body cannot be read to its end, unless the connection was lost, which the library
   * recovers from.
   */
  readonly onFault: (error: unknown) => void;
};

export function messageFetch(fetch: HttpFetch, options: MessageFetchOptions): HttpFetch {
  return async (input, init) => {
    const answer = await fetch(input, init);
    const { body } = answer;
    const type = (answer.headers.get("content-type") ?? "").split(";", 1)[0]!.trim().toLowerCase();
    if (!answer.ok || body === null || answer.status === 202) return answer;
    if (type === "text/event-stream") return replaced(answer, readEvents(body, options), type);
    const text = await answer.text();
    const messages = readMessages(text, options.odd);
    return messages === null ? replaced(answer, text, null) : replaced(answer, messages, "application/json");
  };
}

/** The messages of a body as JSON, regardless of its content type; `null` if it has none. */
function readMessages(text: string, odd: OddMessages): string | null {
  const value = jsonOf(text);
  const read = (Array.isArray(value) ? (value as readonly unknown[]) : [value]).map((one) => odd.read(one));
  const messages = read.filter((message) => message !== null);
  if (messages.length === 0) return null;
  return JSON.stringify(messages.length === 1 ? messages[0] : messages);
}

/** `type`: the new content type; `null` keeps the original one. */
function replaced(answer: Response, body: string | ReadableStream<Uint8Array>, type: string | null): Response {
  const { status, statusText, url } = answer;
  const headers = new Headers(answer.headers);
  if (type !== null) headers.set("content-type", type);
  const response = new Response(body, { status, statusText, headers });
  Object.defineProperty(response, "url", { value: url });
  return response;
}

/**
 * Rewrites the data of each event to the messages in it; an event whose data are not a message
 * keeps its id and has empty data.
 */
function readEvents(
  body: ReadableStream<Uint8Array>,
  { odd, maxCharacters, onFault }: MessageFetchOptions,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const waiting: string[] = [];
  const events = readNamedEvents(body, {
    maxEventLength: maxCharacters,
    onRetry: (ms) => waiting.push(`retry: ${ms}\n\n`),
  })[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await events.next();
        for (const line of waiting.splice(0)) controller.enqueue(encoder.encode(line));
        if (next.done === true) return controller.close();
        const { name, id, data } = next.value;
        const shown = jsonOf(data) === undefined ? data : (readMessages(data, odd) ?? "");
        const lines = [
          `event: ${name}`,
          ...(id === null ? [] : [`id: ${id}`]),
          ...shown.split("\n").map((line) => `data: ${line}`),
        ];
        controller.enqueue(encoder.encode(`${lines.join("\n")}\n\n`));
      } catch (error) {
        if (!(error instanceof AttributedError) || error.failure.code === "bad-reply") onFault(error);
        throw error;
      }
    },
    async cancel() {
      await events.return?.(undefined);
    },
  });
}
