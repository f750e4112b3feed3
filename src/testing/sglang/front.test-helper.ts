// Helpers that the tests of the front share: requests without a socket, and samplers that reply
// with given text.

import { byteTokenizer, endId, idsOf } from "./byte-tokenizer.test-helper.ts";
import { createFunctionSampler, type Sampler } from "../front/sampler.ts";
import { createSglangFront, type SglangFront, type SglangFrontOptions } from "./sglang-front.ts";

export type Json = Readonly<Record<string, unknown>>;

export function ask(front: SglangFront, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const init = body === undefined ? { headers } : { method: "POST", body: text, headers };
  return front.handle(new Request(`http://server${path}`, init));
}

export async function json(answer: Promise<Response>): Promise<unknown> {
  return (await answer).json();
}

export async function frames(answer: Promise<Response>): Promise<unknown[]> {
  const text = await (await answer).text();
  return text
    .split("\n\n")
    .filter((part) => part !== "")
    .map((part) => (part === "data: [DONE]" ? "[DONE]" : (JSON.parse(part.slice("data: ".length)) as unknown)));
}

export const saying = (text: string): Sampler => createFunctionSampler(() => ({ ids: idsOf(text) }));
export const frontSaying = (text: string, options: Partial<SglangFrontOptions> = {}): SglangFront =>
  createSglangFront({ sampler: saying(text), tokenizer: byteTokenizer, endTokenIds: [endId], ...options });

export const ids = [1, 2, 3];
