// Requests of real client programs, recorded on the wire and sent to the gateway: each is answered
// in the format of its dialect, with events in the order that the client reads, and the requests of
// one client form one append-only trajectory. They were recorded against another server, whose ids
// are replaced by those of the gateway. Provenance: ../shared/gateway/README.md.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { type Answered, eventsOf, openWorld, recordViolations, send, tokenizer } from "./gateway-world.test-helper.ts";

type Json = { readonly [name: string]: unknown };
type Recorded = {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Json | string | null;
};

/** Requests of one client, identified by a credential or path. */
type Conversation = { readonly name: string; readonly requests: readonly Recorded[] };

const folder = sharedFolder("gateway");
const template = sharedFolder("models", "qwen3", "chat_template.jinja");

/**
 * Conversations that are not one trajectory with one turn per request, with the reason. A client
 * that lost its connection repeats its request, and is answered with the turn that was sampled.
 */
const repeated: Readonly<Record<string, string>> = {
  "sdks-streamed-and-whole k-langgraph-stream": "the client lost its connection, and sent the same request again",
};

function conversationsOf(file: string): Conversation[] {
  const requests = readFileSync(join(folder ?? "", file), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Recorded);
  const byClient = new Map<string, Recorded[]>();
  for (const request of requests) {
    const key = /^\/s\/([^/]+)\//.exec(request.url)?.[1] ?? credentialOf(request);
    const name = `${file.replace(".jsonl", "")} ${key}`;
    byClient.set(name, [...(byClient.get(name) ?? []), request]);
  }
  return [...byClient].map(([name, ofClient]) => ({ name, requests: ofClient }));
}

function credentialOf({ headers }: Recorded): string {
  return headers["x-api-key"] ?? headers["authorization"]?.replace("Bearer ", "") ?? "nobody";
}

const conversations = folder === null ? [] : readdirSync(folder).filter((file) => file.endsWith(".jsonl")).flatMap(conversationsOf); // prettier-ignore

/**
 * The policy's answer as a client echoes it: the part of its second request that the first did not
 * have.
 */
type Echo = { reasoning: string | null; text: string; calls: { id: string; name: string; arguments: unknown }[] };

function itemsOf(body: Recorded["body"]): readonly Json[] {
  if (typeof body !== "object" || body === null) return [];
  return (body["messages"] ?? body["input"] ?? []) as readonly Json[];
}

function echoOf(later: Recorded, count: number): Echo {
  const echo: Echo = { reasoning: null, text: "", calls: [] };
  const call = (id: unknown, name: unknown, input: unknown): void => {
    const value: unknown = typeof input === "string" ? JSON.parse(input) : input;
    echo.calls.push({ id: String(id), name: String(name), arguments: value });
  };
  for (const item of itemsOf(later.body).slice(count)) {
    if (item["type"] === "function_call") call(item["call_id"], item["name"], item["arguments"]);
    // A reference indicates that there was reasoning, but does not contain it.
    if (item["type"] === "item_reference") echo.reasoning = "as it was";
    if (item["type"] === "reasoning") echo.reasoning = String((item["summary"] as readonly Json[])[0]?.["text"]);
    if (item["role"] !== "assistant") continue;
    if (typeof item["reasoning_content"] === "string") echo.reasoning = item["reasoning_content"];
    if (typeof item["content"] === "string") echo.text += item["content"];
    for (const { id, function: called } of (item["tool_calls"] ?? []) as readonly Json[])
      call(id, (called as Json)["name"], (called as Json)["arguments"]);
    for (const block of Array.isArray(item["content"]) ? (item["content"] as readonly Json[]) : []) {
      if (block["type"] === "thinking") echo.reasoning = String(block["thinking"]);
      if (block["type"] === "text") echo.text += String(block["text"]);
      if (block["type"] === "tool_use") call(block["id"], block["name"], block["input"]);
    }
  }
  return echo;
}

/** Text of an answer in the format of Qwen3. */
function sampledText({ reasoning, text, calls }: Echo): string {
  const called = calls.map(
    (call) => `\n<tool_call>\n${JSON.stringify({ name: call.name, arguments: call.arguments })}\n</tool_call>`,
  );
  return `<think>\n${reasoning ?? "hidden"}\n</think>\n\n${text}${called.join("")}`;
}

/** Replaces ids of the recording server with those of the gateway. */
function replaceIds(body: Recorded["body"], ids: ReadonlyMap<string, string>): unknown {
  return JSON.parse(JSON.stringify(body), (_name, value: unknown) =>
    typeof value === "string" ? (ids.get(value) ?? value) : value,
  );
}

/** Ids in the recorded echo, in order: calls, and the items of Responses. */
function idsIn(items: readonly Json[]): { readonly calls: string[]; readonly items: string[] } {
  const found = { calls: [] as string[], items: [] as string[] };
  for (const item of items) {
    const blocks = Array.isArray(item["content"]) ? (item["content"] as readonly Json[]) : [];
    for (const one of [item, ...blocks, ...((item["tool_calls"] ?? []) as readonly Json[])]) {
      const id = one["type"] === "function_call" ? one["call_id"] : one["id"];
      const isCall = ["function_call", "tool_use", "function"].includes(String(one["type"]));
      if (isCall && typeof id === "string") found.calls.push(id);
      if (/^(rs|fc)_/.test(String(one["id"]))) found.items.push(String(one["id"]));
    }
  }
  return found;
}

const [aText, aNumber, aList]: unknown[] = [String, Number, Array].map((type): unknown => expect.any(type));
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

/** Dialects by the end of their paths: the formats of a whole and of a streamed answer. */
const dialects: Readonly<
  Record<string, { readonly whole: Json; readonly isOrdered: (text: string) => boolean; readonly error: Json }>
> = {
  "/chat/completions": {
    whole: {
      id: matching(/^chatcmpl-/),
      object: "chat.completion",
      created: aNumber,
      model: "tiny",
      choices: [{ index: 0, message: { role: "assistant" }, finish_reason: matching(/^(tool_calls|stop)$/) }],
      usage: { prompt_tokens: aNumber, completion_tokens: aNumber },
    },
    isOrdered: (text) => {
      const kinds = (eventsOf(text) as { choices: readonly Json[]; usage?: unknown }[]).map(({ choices }) => {
        const { delta, finish_reason: reason } = (choices[0] ?? { delta: null }) as { delta: Json | null; finish_reason: unknown }; // prettier-ignore
        if (delta === null) return "usage";
        if (reason !== null) return "finish";
        if (delta["role"] !== undefined) return "role";
        if (delta["tool_calls"] !== undefined) return "call";
        return delta["reasoning_content"] === undefined ? "content" : "reasoning";
      });
      const order = /^role( reasoning)*( content)*( call)* finish( usage)?$/;
      return order.test(kinds.join(" ")) && text.endsWith("data: [DONE]\n\n");
    },
    error: { error: { message: aText, type: "invalid_request_error" } },
  },
  "/messages": {
    whole: {
      id: matching(/^msg_/),
      type: "message",
      role: "assistant",
      model: "tiny",
      content: aList,
      stop_reason: matching(/^(tool_use|end_turn)$/),
      usage: { input_tokens: aNumber, output_tokens: aNumber },
    },
    isOrdered: (text) => {
      const block = "content_block_start( content_block_delta)* content_block_stop";
      const order = new RegExp(`^message_start( ${block})+ message_delta message_stop$`);
      return order.test(namesIn(text).join(" "));
    },
    error: { type: "error", error: { type: aText, message: aText } },
  },
  "/responses": {
    whole: {
      id: matching(/^resp_/),
      object: "response",
      status: "completed",
      model: "tiny",
      output: aList,
      usage: { input_tokens: aNumber, output_tokens: aNumber, total_tokens: aNumber },
    },
    isOrdered: (text) => {
      const part = "content_part.added( output_text.delta)* output_text.done content_part.done";
      const thought =
        "reasoning_summary_part.added( reasoning_summary_text.delta)* reasoning_summary_text.done reasoning_summary_part.done";
      const call = "function_call_arguments.delta function_call_arguments.done";
      const item = `output_item.added (${part}|${thought}|${call}) output_item.done`;
      const names = namesIn(text).map((name) => name.replace("response.", ""));
      const isCounted = (eventsOf(text) as readonly Json[]).every((event, at) => event["sequence_number"] === at);
      return isCounted && new RegExp(`^created in_progress( ${item})+ completed$`).test(names.join(" "));
    },
    error: { error: { message: aText, type: "invalid_request_error" } },
  },
};

/** Names of events; the `event` line and the type in the data must agree. */
function namesIn(text: string): readonly string[] {
  const names = [...text.matchAll(/^event: (.+)$/gm)].map(([, name = ""]) => name);
  expect((eventsOf(text) as readonly Json[]).map(({ type }) => type)).toEqual(names);
  return names;
}

function dialectOf(url: string): (typeof dialects)[string] {
  const path = Object.keys(dialects).find((end) => url.replace(/\?.*/, "").endsWith(end));
  if (path === undefined) throw new Error(`A recorded request is of no dialect: ${url}`);
  return dialects[path]!;
}

/** Ids in an answer, streamed or whole, in order. */
function givenIds({ text }: Answered): { readonly calls: string[]; readonly items: string[] } {
  const unique = (pattern: RegExp): string[] => [...new Set([...text.matchAll(pattern)].map(([, id = ""]) => id))];
  return {
    calls: unique(/"(?:call_id|id)":"((?:call|toolu)_[^"]+)"/g),
    items: unique(/"(?:item_id|id)":"((?:rs|fc)_[^"]+)"/g),
  };
}

describe.skipIf(folder === null || template === null)("recorded clients (skipped without ../shared/gateway)", () => {
  test("there are as many as were recorded", () => {
    expect(conversations.reduce((sum, { requests }) => sum + requests.length, 0)).toBe(39);
  });

  test.each(conversations.map((one) => [one.name, one] as const))("%s", async (name, { requests }) => {
    const posts = requests.filter(({ method }) => method === "POST");
    const answers: string[] = [];
    posts.forEach((_request, at) => {
      const later = posts[at + 1];
      const count = itemsOf(posts[at]!.body).length;
      const isRepeated = later !== undefined && itemsOf(later.body).length === count;
      if (isRepeated) return;
      answers.push(later === undefined ? "<think>\nso\n</think>\n\nIt is done." : sampledText(echoOf(later, count)));
    });
    const world = await openWorld((_prompt, call) => answers[call]!, {
      renderer: createQwenRenderer({ tokenizer, family: "qwen3", chatTemplate: readFileSync(template!, "utf8") }),
    });
    const ids = new Map<string, string>();
    for (const [at, request] of posts.entries()) {
      const { url, headers } = request;
      const body = replaceIds(request.body, ids);
      const isRepeated = at + 1 < posts.length && itemsOf(posts[at + 1]!.body).length === itemsOf(request.body).length;
      const answer = await send(world.gateway, { method: "POST", url, headers, body, delivers: !isRepeated });
      expect(answer.status, answer.text).toBe(200);
      const dialect = dialectOf(url);
      if ((request.body as Json)["stream"] === true) expect(dialect.isOrdered(answer.text), answer.text).toBe(true);
      else expect(answer.json).toMatchObject(dialect.whole);
      const [had, given] = [idsIn(itemsOf(posts[at + 1]?.body ?? null)), givenIds(answer)];
      had.calls.forEach((id, place) => ids.set(id, given.calls[place] ?? id));
      // A client may name its own items, and omit some of ours.
      for (const id of had.items) ids.set(id, given.items.find((one) => one.startsWith(id.slice(0, 3))) ?? id);
    }
    for (const { url, headers } of requests.filter(({ method }) => method !== "POST")) {
      expect((await send(world.gateway, { method: "HEAD", url, headers, body: null })).status).toBe(404);
    }
    if (posts.length === 0) return;
    const { id, counters } = world.gateway.sessions[0]!;
    expect(world.gateway.sessions.length).toBe(1);
    const turns = repeated[name] === undefined ? posts.length : posts.length - 1;
    expect(counters).toMatchObject({ branched: {}, reencoded: 0, extended: turns - 1, calls: turns });
    expect(counters.replayed).toBe(posts.length - turns);
    await world.gateway.reward(id, { reward: 1, metrics: {}, log: "", info: new Map() });
    const episode = await world.gateway.end(id);
    expect(episode.trajectory.turns.map(({ parent, rewriteReason }) => [parent, rewriteReason])).toEqual(
      episode.trajectory.turns.map((_turn, at) => [at === 0 ? null : at - 1, null]),
    );
    expect(episodeSamples(episode).samples.length).toBe(1);
    expect(recordViolations(episode, world.sampled)).toEqual([]);
    // A request to an ended session gets an error in the shape of its dialect, with a status that
    // clients do not retry.
    const { url, headers, body } = posts[posts.length - 1]!;
    const refused = await send(world.gateway, { method: "POST", url, headers, body });
    expect(refused.status).toBe(400);
    expect(refused.json).toMatchObject(dialectOf(url).error);
    await world.close();
  });
});
