// Dialects that no API of `apiModel` speaks: Google's is completed as a chat, and prompts of token
// ids are refused, because they mean nothing to an API.

import { expect, test } from "vitest";
import { eventsOf, post, tokenizer } from "../gateway-world.test-helper.ts";
import { say } from "../speakers.test-helper.ts";
import { openApiWorld } from "./api-world.test-helper.ts";

const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>';
const parameters = { type: "object", properties: { city: { type: "string" } } };

test.each([false, true])("Google's is translated to chat completions, streamed: %s", async (stream) => {
  const world = await openApiWorld({
    policy: (prompt) => (prompt.includes("<tool_response>") ? "It is sunny." : `Let me look.\n${call}`),
  });
  const at = { gateway: world.gateway } as unknown as Parameters<typeof say>[0];
  const tools = [{ name: "get_weather", parameters }];
  const start = [
    { role: "system", text: "Be brief." },
    { role: "user", text: "Weather?" },
  ] as const;
  const first = await say(at, "google", start, { tools, stream });
  expect(first).toMatchObject({ status: 200, calls: [{ name: "get_weather", arguments: '{"city":"Rome"}' }] });
  const history = [
    ...start,
    { role: "assistant", text: first.text, calls: first.calls },
    { role: "result", id: first.calls[0]!.id, text: "sunny" },
  ] as const;
  const fields = { toolConfig: { functionCallingConfig: { mode: "ANY" } } };
  const second = await say(at, "google", history, { tools, stream, fields });
  expect([second.text, second.ending]).toEqual(["It is sunny.", "STOP"]);
  expect(world.calls.map(({ path }) => path)).toEqual(["/v1/chat/completions", "/v1/chat/completions"]);
  const roles = (world.calls[1]!.body["messages"] as readonly { role: string }[]).map(({ role }) => role);
  expect(roles).toEqual(["system", "user", "assistant", "tool"]);
  const { counters } = world.gateway.sessions[0]!;
  expect(counters).toMatchObject({ branched: {}, ignoredFields: { "toolConfig.functionCallingConfig": 1 } });
  const count = await post(world.gateway, "/v1beta/models/m:countTokens", { contents: [{ parts: [{ text: "a" }] }] });
  expect(count.json).toMatchObject({ error: { code: 404, status: "NOT_FOUND" } });
  await world.close();
});

test.each([
  ["/generate", "input_ids"],
  ["/inference/v1/generate", "token_ids"],
])("token ids are refused, whole and streamed: %s", async (path, field) => {
  const world = await openApiWorld();
  for (const stream of [false, true]) {
    const { status, json, text } = await post(world.gateway, path, { [field]: [...tokenizer.encode("a")], stream });
    expect([status, json["error"], eventsOf(text)]).toMatchObject([400, { param: field }, []]);
  }
  expect(world.calls).toEqual([]);
  await world.close();
});
