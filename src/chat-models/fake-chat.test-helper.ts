// Chat completion servers without a socket: a function answers each request.

import type { HttpCallOptions, HttpClient, HttpHeaders, HttpRequest, HttpResponse } from "../http/index.ts";

export type FakeAnswer = {
  readonly status?: number;
  readonly headers?: HttpHeaders;
  /** A string is sent unchanged, anything else as JSON. */
  readonly body: unknown;
};

export type FakeServer = HttpClient & { readonly requests: readonly HttpRequest[] };

/** A server that records each request and answers it with `answer`, which may throw like a pool. */
export function fakeServer(
  answer: (request: HttpRequest, options: HttpCallOptions, index: number) => FakeAnswer | Promise<FakeAnswer>,
): FakeServer {
  const requests: HttpRequest[] = [];
  return {
    requests,
    request: async (request, options = {}): Promise<HttpResponse> => {
      requests.push(request);
      const { status = 200, headers = {}, body } = await answer(request, options, requests.length - 1);
      return { status, headers, body: Buffer.from(typeof body === "string" ? body : JSON.stringify(body)) };
    },
    stream: () => Promise.reject(new Error("This server does not stream.")),
    close: () => Promise.resolve(),
  };
}

/** Answers in order; an extra call is an error. */
export function answering(...answers: readonly FakeAnswer[]): FakeServer {
  return fakeServer((_request, _options, index) => {
    const answer = answers[index];
    if (answer === undefined) throw new Error(`The server has ${answers.length} answers and got one request more.`);
    return answer;
  });
}

/** A chat completion with the content `text`. */
export function says(
  text: string | null,
  usage: object | null = { prompt_tokens: 10, completion_tokens: 5 },
): FakeAnswer {
  return { body: { choices: [{ message: { role: "assistant", content: text }, finish_reason: "stop" }], usage } };
}

/** The messages and settings that a request sent to the model. */
export function bodyOf(
  request: HttpRequest | undefined,
): { messages: { role: string; content: string }[] } & Record<string, unknown> {
  return JSON.parse(String(request?.body)) as ReturnType<typeof bodyOf>;
}
