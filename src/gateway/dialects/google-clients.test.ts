// Requests of @google/genai, recorded on the wire: with a history of the program and with the
// chats of the library, whole and streamed. Each conversation is one append-only trajectory.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { episodeSamples } from "../../rollout/index.ts";
import { openWorld, recordViolations, send } from "../gateway-world.test-helper.ts";

type Recorded = {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
};

const file = join(import.meta.dirname, "..", "..", "..", "tests", "goldens", "gateway", "google-genai-2.32.0.jsonl");
const all = readFileSync(file, "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Recorded);
const keyOf = ({ headers }: Recorded): string => headers["x-goog-api-key"]!;
const keys = [...new Set(all.map(keyOf))];

/** The policy whose answers the recorded requests echo. */
function policy(prompt: string): string {
  const city = prompt.includes("And in Oslo?") ? "Oslo" : "Rome";
  if (prompt.slice(prompt.lastIndexOf("<|im_start|>user")).includes("<tool_response>"))
    return `It is sunny in ${city}.`;
  return `Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "${city}"}}\n</tool_call>`;
}

test("there are four conversations", () => {
  expect(keys).toEqual(["models-whole", "models-streamed", "chat-whole", "chat-streamed"]);
});

test.each(keys)("the conversation %s is one trajectory", async (key) => {
  const world = await openWorld(policy);
  const requests = all.filter((one) => keyOf(one) === key);
  let calls = 0;
  for (const request of requests) {
    const { status, text } = await send(world.gateway, request);
    expect([status, text]).toEqual([200, text]);
    if (request.url.includes("countTokens")) expect(text).toMatch(/^\{"totalTokens":\d+\}$/);
    else calls++;
    expect(text.includes("data: ")).toBe(request.url.includes("alt=sse"));
  }
  const { counters } = world.gateway.sessions[0]!;
  expect(counters).toMatchObject({ calls, extended: calls - 1, branched: {}, reencoded: 0, ignoredFields: {} });
  await world.gateway.reward(key, { reward: 1, metrics: {}, log: "", info: new Map() });
  const episode = await world.gateway.end(key);
  expect(recordViolations(episode, world.sampled)).toEqual([]);
  expect(episodeSamples(episode).samples).toHaveLength(1);
  await world.close();
});
