// A call in another format through the gateway: streamed text stays as it was sent, and in repair
// mode it is sent as a call.

import { expect, test } from "vitest";

import type { SampleOptions, SampleRequest } from "../core/index.ts";
import { createQwenRenderer } from "../renderers/index.ts";
import { eventsOf, openWorld, post, tokenizer } from "./gateway-world.test-helper.ts";
import { speakers } from "./speakers.test-helper.ts";

const bare = '{"name": "find_order", "arguments": {"order_id": "#W1"}}';
const parameters = { type: "object", properties: { order_id: { type: "string" } } };
const tools = [{ type: "function", function: { name: "find_order", parameters } }];

async function answered(said: string, { repair, stream }: { readonly repair: boolean; readonly stream: boolean }) {
  const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct", repair });
  const world = await openWorld(() => said, { renderer });
  const sample = world.engine.sample.bind(world.engine);
  world.engine.sample = async (request: SampleRequest, options?: SampleOptions) => {
    const result = await sample(request);
    for (const id of result.sampledTokens) {
      options?.onTokens?.(Uint32Array.of(id));
      // Longer than the reader's interval between two parses.
      await new Promise((resolve) => setTimeout(resolve, 26));
    }
    return result;
  };
  const body = { model: "m", stream, tools, messages: [{ role: "user", content: "Where is #W1?" }] };
  const answer = await post(world.gateway, speakers.chat.path, body);
  expect(answer.status).toBe(200);
  const { text, calls } = stream
    ? speakers.chat.streamed(eventsOf(answer.text) as Parameters<typeof speakers.chat.streamed>[0])
    : speakers.chat.whole(answer.json);
  await world.gateway.reward("s1", { reward: 1, metrics: {}, log: "", info: new Map() });
  const { problems } = await world.gateway.end("s1");
  await world.close();
  return { text, calls: calls.map((call) => [call.name, call.arguments]), codes: problems.map(({ code }) => code) };
}

test.each([
  [bare, [["find_order", '{"order_id": "#W1"}']], ["repaired"]],
  [`Let me see.\n${bare}`, [], ["other-format"]],
] as const)("%j is told alike, streamed or not", async (said, calls, codes) => {
  for (const stream of [false, true]) {
    expect(await answered(said, { repair: false, stream })).toEqual({ text: said, calls: [], codes: ["other-format"] });
    const text = calls.length === 0 ? said : "";
    expect(await answered(said, { repair: true, stream })).toEqual({ text, calls, codes });
  }
});
