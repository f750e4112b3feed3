// One interface for four dialects, for tests that are the same in each: it writes a history as a
// client of the dialect would, and reads an answer, whole or streamed, as such a client would.

import { eventsOf, post, type World } from "./gateway-world.test-helper.ts";

export type SaidCall = { readonly id: unknown; readonly name: string; readonly arguments: string };

/**
 * A message as a client has it. `id`: the client's id of the call; `undefined` if it sends none.
 */
export type Said =
  | { readonly role: "system" | "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text: string | null; readonly calls: readonly SaidCall[] }
  | { readonly role: "result"; readonly id: unknown; readonly text: string };

export type Heard = {
  readonly status: number;
  /** The whole body as received. */
  readonly raw: string;
  readonly text: string;
  readonly calls: readonly SaidCall[];
  /** `finish_reason`, `stop_reason`, or the status of a response. */
  readonly ending: unknown;
  readonly stopSequence: unknown;
  readonly error: Readonly<Record<string, unknown>> | null;
};

type Wire = Readonly<Record<string, unknown>>;
type Parameters = { readonly name: string; readonly parameters: unknown };

export type Speaker = {
  readonly path: string;
  /** @default `path`, with `stream` in the body */
  readonly streamPath?: string;
  body(history: readonly Said[], tools: readonly Parameters[]): Wire;
  whole(json: Wire): Pick<Heard, "text" | "calls" | "ending" | "stopSequence">;
  streamed(events: readonly Wire[]): Pick<Heard, "text" | "calls" | "ending" | "stopSequence">;
};

const list = (value: unknown): readonly Wire[] => (value ?? []) as readonly Wire[];
const of = (value: unknown): Wire => value as Wire;
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

const chat: Speaker = {
  path: "/v1/chat/completions",
  body: (history, tools) => ({
    model: "m",
    messages: history.map((said) => {
      if (said.role === "result") return { role: "tool", tool_call_id: said.id, content: said.text };
      if (said.role !== "assistant") return { role: said.role, content: said.text };
      const calls = said.calls.map(({ id, name, arguments: text }) => ({
        id,
        type: "function",
        function: { name, arguments: text },
      }));
      return { role: "assistant", content: said.text, ...(calls.length > 0 && { tool_calls: calls }) };
    }),
    ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: "function", function: tool })) }),
  }),
  whole: (json) => {
    const choice = list(json["choices"])[0]!;
    const message = of(choice["message"]);
    const calls = list(message["tool_calls"]).map(({ id, function: called }) => ({ ...(of(called) as SaidCall), id }));
    return { text: textOf(message["content"]), calls, ending: choice["finish_reason"], stopSequence: null };
  },
  streamed: (events) => {
    const choices = events.flatMap((event) => list(event["choices"]));
    const deltas = choices.map(({ delta }) => of(delta));
    const calls = deltas
      .flatMap((delta) => list(delta["tool_calls"]))
      .map(({ id, function: called }) => ({ ...(of(called) as SaidCall), id }));
    const text = deltas.map(({ content }) => textOf(content)).join("");
    const last = choices.at(-1) ?? {};
    return { text, calls, ending: last["finish_reason"], stopSequence: null };
  },
};

const itemsOf = (output: readonly Wire[], status: unknown): ReturnType<Speaker["whole"]> => {
  const texts = output.filter(({ type }) => type === "message").flatMap(({ content }) => list(content));
  const calls = output.filter(({ type }) => type === "function_call");
  return {
    text: texts.map(({ text }) => textOf(text)).join(""),
    calls: calls.map((call) => ({ ...(call as SaidCall), id: call["call_id"] })),
    ending: status,
    stopSequence: null,
  };
};

const responses: Speaker = {
  path: "/v1/responses",
  body: (history, tools) => ({
    model: "m",
    input: history.flatMap((said): unknown[] => {
      if (said.role === "result") return [{ type: "function_call_output", call_id: said.id, output: said.text }];
      if (said.role !== "assistant") return [{ role: said.role, content: said.text }];
      const text = said.text === null || said.text === "" ? [] : [{ role: "assistant", content: said.text }];
      const calls = said.calls.map(({ id, name, arguments: given }) => ({
        type: "function_call",
        call_id: id,
        name,
        arguments: given,
      }));
      return [...text, ...calls];
    }),
    ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: "function", ...tool })) }),
  }),
  whole: (json) => itemsOf(list(json["output"]), json["status"]),
  streamed: (events) => {
    const items = events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => of(item));
    const deltas = events.filter(({ type }) => type === "response.output_text.delta");
    const told = deltas.map(({ delta }) => textOf(delta)).join("");
    const read = itemsOf(items, of(events.at(-1)!["response"])["status"]);
    if (told !== read.text) throw new Error(`The deltas say ${told}, the items ${read.text}.`);
    return read;
  },
};

const messages: Speaker = {
  path: "/v1/messages",
  body: (history, tools) => ({
    model: "m",
    max_tokens: 500,
    messages: history.map((said) => {
      if (said.role === "result") {
        return { role: "user", content: [{ type: "tool_result", tool_use_id: said.id, content: said.text }] };
      }
      if (said.role !== "assistant") return { role: said.role, content: said.text };
      const text = said.text === null || said.text === "" ? [] : [{ type: "text", text: said.text }];
      const calls = said.calls.map(({ id, name, arguments: given }) => ({
        type: "tool_use",
        id,
        name,
        input: JSON.parse(given) as unknown,
      }));
      return { role: "assistant", content: [...text, ...calls] };
    }),
    ...(tools.length > 0 && { tools: tools.map(({ name, parameters }) => ({ name, input_schema: parameters })) }),
  }),
  whole: (json) => {
    const blocks = list(json["content"]);
    const text = blocks.filter(({ type }) => type === "text").map((block) => textOf(block["text"]));
    const calls = blocks.filter(({ type }) => type === "tool_use");
    return {
      text: text.join(""),
      calls: calls.map(({ id, name, input }) => ({ id, name: textOf(name), arguments: JSON.stringify(input) })),
      ending: json["stop_reason"],
      stopSequence: json["stop_sequence"],
    };
  },
  streamed: (events) => {
    const blocks: { start: Wire; text: string; json: string }[] = [];
    for (const { type, content_block: start, delta } of events) {
      if (type === "content_block_start") blocks.push({ start: of(start), text: "", json: "" });
      const last = blocks.at(-1);
      if (type !== "content_block_delta" || last === undefined) continue;
      last.text += textOf(of(delta)["text"]);
      last.json += textOf(of(delta)["partial_json"]);
    }
    const end = of(events.find(({ type }) => type === "message_delta")!["delta"]);
    const calls = blocks.filter(({ start }) => start["type"] === "tool_use");
    return {
      text: blocks.map(({ text }) => text).join(""),
      calls: calls.map(({ start, json }) => ({ id: start["id"], name: textOf(start["name"]), arguments: json })),
      ending: end["stop_reason"],
      stopSequence: end["stop_sequence"],
    };
  },
};

const google: Speaker = {
  path: "/v1beta/models/m:generateContent",
  streamPath: "/v1beta/models/m:streamGenerateContent?alt=sse",
  body: (history, tools) => {
    const system = history.flatMap((said) => (said.role === "system" ? [{ text: said.text }] : []));
    const contents = history.flatMap((said): unknown[] => {
      if (said.role === "result") {
        return [{ role: "user", parts: [{ functionResponse: { id: said.id, response: { output: said.text } } }] }];
      }
      if (said.role !== "assistant")
        return said.role === "system" ? [] : [{ role: "user", parts: [{ text: said.text }] }];
      const text = said.text === null || said.text === "" ? [] : [{ text: said.text }];
      const calls = said.calls.map(({ id, name, arguments: given }) => ({
        functionCall: { id, name, args: JSON.parse(given) as unknown },
      }));
      return [{ role: "model", parts: [...text, ...calls] }];
    });
    const declared = tools.map(({ name, parameters }) => ({ name, parametersJsonSchema: parameters }));
    return {
      contents,
      ...(system.length > 0 && { systemInstruction: { parts: system } }),
      ...(tools.length > 0 && { tools: [{ functionDeclarations: declared }] }),
    };
  },
  whole: (json) => google.streamed([json]),
  streamed: (events) => {
    const candidates = events.flatMap(({ candidates: all }) => list(all));
    const parts = candidates.flatMap(({ content }) => list(of(content)["parts"]));
    const shown = parts.filter(({ thought }) => thought !== true);
    const calls = parts.flatMap(({ functionCall }) => (functionCall === undefined ? [] : [of(functionCall)]));
    return {
      text: shown.map(({ text }) => textOf(text)).join(""),
      calls: calls.map(({ id, name, args }) => ({ id, name: textOf(name), arguments: JSON.stringify(args) })),
      ending: candidates.at(-1)?.["finishReason"],
      stopSequence: null,
    };
  },
};

export const speakers = { chat, responses, messages, google } as const;

/** Sends a history, and reads the answer. */
export async function say(
  world: World,
  dialect: keyof typeof speakers,
  history: readonly Said[],
  {
    tools = [],
    stream = false,
    fields = {},
    key = "s1",
  }: {
    readonly tools?: readonly Parameters[];
    readonly stream?: boolean;
    readonly fields?: Wire;
    readonly key?: string;
  } = {},
): Promise<Heard> {
  const speaker: Speaker = speakers[dialect];
  const { path, streamPath = null } = speaker;
  const body = { ...speaker.body(history, tools), ...(streamPath === null && { stream }), ...fields };
  const { status, json, text: raw } = await post(world.gateway, stream ? (streamPath ?? path) : path, body, { key });
  const none = { text: "", calls: [], ending: null, stopSequence: null };
  if (status !== 200) return { status, raw, ...none, error: of(json["error"]) };
  return { status, raw, error: null, ...(stream ? speaker.streamed(eventsOf(raw) as Wire[]) : speaker.whole(json)) };
}
