// Clients of the three dialects that behave like real ones: which parts of an answer they keep,
// drop and rewrite, and what they send next.

import { expect } from "vitest";
import { eventsOf } from "./gateway-world.test-helper.ts";

export const weather = {
  name: "get_weather",
  description: "Weather of a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

/** A client of one dialect. */
export type Client = {
  readonly path: string;
  /** Body of the next request. */
  body(stream: boolean): unknown;
  /** Adds the answer and the results of its calls. Returns false if it has no calls. */
  take(answer: { readonly json: unknown; readonly text: string }, stream: boolean): boolean;
};

type ChatCall = { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } };
type ChatMessage = { content: string | null; tool_calls?: ChatCall[]; reasoning_content?: string };
type ChatAnswer = { readonly choices: readonly { readonly message: ChatMessage }[] };
type ChatChunk = {
  readonly choices: readonly {
    readonly delta: {
      readonly content?: string;
      readonly tool_calls?: readonly ({ readonly index: number } & ChatCall)[];
    };
  }[];
};

/** The assistant's message in a Chat answer, assembled if it was streamed. */
export function chatMessage(
  { json, text }: { readonly json: unknown; readonly text: string },
  stream: boolean,
): ChatMessage {
  if (!stream) return (json as ChatAnswer).choices[0]!.message;
  const message: { content: string; tool_calls: ChatCall[] } = { content: "", tool_calls: [] };
  for (const { choices } of eventsOf(text) as readonly ChatChunk[]) {
    const delta = choices[0]?.delta ?? {};
    message.content += delta.content ?? "";
    for (const { index: _index, ...call } of delta.tool_calls ?? []) message.tool_calls.push(call);
  }
  return message.tool_calls.length > 0 ? message : { content: message.content };
}

export function chatClient(): Client {
  const messages: unknown[] = [
    { role: "system", content: "be brief" },
    { role: "user", content: [{ type: "text", text: "weather?" }] },
  ];
  return {
    path: "/v1/chat/completions",
    body: (stream) => ({
      model: "m",
      messages,
      stream,
      temperature: 0.1,
      tools: [{ type: "function", function: weather }],
    }),
    take: (answer, stream) => {
      const { content, tool_calls: calls = [] } = chatMessage(answer, stream);
      // Reasoning is dropped, empty content becomes null, arguments are formatted again.
      const rewritten = calls.map((call) => {
        const spaced = JSON.stringify(JSON.parse(call.function.arguments), null, 1);
        return { ...call, type: "function", function: { ...call.function, arguments: spaced } };
      });
      messages.push({
        role: "assistant",
        content: content === "" ? null : content,
        ...(calls.length > 0 && { tool_calls: rewritten }),
      });
      for (const { id } of calls) messages.push({ role: "tool", tool_call_id: id, content: "sunny" });
      return calls.length > 0;
    },
  };
}

type Block = { type: string; id?: string; text?: string; input?: unknown; cache_control?: unknown };
type BlockEvent = {
  readonly type: string;
  readonly index: number;
  readonly content_block: Block;
  readonly delta: { readonly type?: string; readonly text?: string; readonly partial_json?: string };
};

function readBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  const inputs = new Map<number, string>();
  for (const { type, index, content_block, delta } of eventsOf(text) as readonly BlockEvent[]) {
    if (type === "content_block_start") blocks[index] = { ...content_block };
    const block = blocks[index];
    if (type !== "content_block_delta" || block === undefined) continue;
    if (delta.type === "text_delta") block.text = (block.text ?? "") + (delta.text ?? "");
    if (delta.type === "input_json_delta") inputs.set(index, (inputs.get(index) ?? "") + (delta.partial_json ?? ""));
  }
  for (const [index, input] of inputs) blocks[index]!.input = JSON.parse(input);
  return blocks;
}

export function messagesClient(): Client {
  const first: Block = { type: "text", text: "weather?", cache_control: { type: "ephemeral" } };
  let last: Block[] = [first];
  const messages: { readonly role: string; readonly content: Block[] }[] = [{ role: "user", content: last }];
  const { parameters, ...rest } = weather;
  return {
    path: "/v1/messages?beta=true",
    body: (stream) => ({
      model: "m",
      max_tokens: 100,
      system: [{ type: "text", text: "be brief" }],
      messages,
      stream,
      tools: [{ ...rest, input_schema: parameters }],
    }),
    take: ({ json, text }, stream) => {
      const content = stream ? readBlocks(text) : (json as { readonly content: Block[] }).content;
      // The cache mark moves to the last block.
      for (const block of last) delete block.cache_control;
      messages.push({ role: "assistant", content });
      const calls = content.filter(({ type }) => type === "tool_use");
      const result = (call: Block): Block =>
        Object.assign(
          { type: "tool_result", content: [{ type: "text", text: "sunny" }], cache_control: {} },
          { tool_use_id: call.id },
        );
      last = calls.map(result);
      if (calls.length > 0) messages.push({ role: "user", content: last });
      return calls.length > 0;
    },
  };
}

type ResponseItem = { readonly type: string; readonly id: string; readonly call_id?: string };
type ResponseBody = {
  readonly id: string;
  readonly output: readonly ResponseItem[];
  readonly previous_response_id: string | null;
};
type ResponseEvent = {
  readonly type: string;
  readonly sequence_number: number;
  readonly item: ResponseItem;
  readonly response: ResponseBody;
};

/**
 * `refers`: how the client refers to earlier answers: as whole items, as references, or by the id
 * of the last response.
 */
export function responsesClient({ refers }: { readonly refers: "items" | "references" | "previous" }): Client {
  let input: unknown[] = [{ role: "user", content: [{ type: "input_text", text: "weather?" }] }];
  let previous: string | null = null;
  return {
    path: "/v1/responses",
    body: (stream) => ({
      model: "m",
      instructions: "be brief",
      input,
      stream,
      tools: [{ type: "function", ...weather, strict: true }],
      ...(previous === null ? {} : { previous_response_id: previous }),
    }),
    take: ({ json, text }, stream) => {
      let response = json as ResponseBody;
      if (stream) {
        const events = eventsOf(text) as readonly ResponseEvent[];
        expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_event, index) => index));
        response = events.at(-1)!.response;
        const done = events.filter(({ type }) => type === "response.output_item.done");
        expect(done.map(({ item }) => item)).toEqual(response.output);
      }
      const { id, output } = response;
      // A client that finds a different id here assumes that the server stores nothing.
      expect(response.previous_response_id).toBe(previous);
      const results = output
        .filter(({ type }) => type === "function_call")
        .map(({ call_id }) => ({ type: "function_call_output", call_id, output: "sunny" }));
      if (refers === "previous") [previous, input] = [id, results];
      else {
        const echoed = refers === "items" ? output : output.map((item) => ({ type: "item_reference", id: item.id }));
        input = [...input, ...echoed, ...results];
      }
      return results.length > 0;
    },
  };
}
