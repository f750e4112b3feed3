import { afterAll, expect, test } from "vitest";
import { openWorld } from "../gateway/gateway-world.test-helper.ts";
import { policyModel } from "./index.ts";

const call = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>';
const world = await openWorld((_, turn) => (turn === 0 ? call : "It is 3."));
const { gateway } = world;
afterAll(() => world.close());

test("the policy is a model of the AI SDK, and its calls are turns of its session", async () => {
  const { id, key } = await gateway.open({ task: "sum" });
  const model = policyModel(gateway, { key });
  const tools = [{ type: "function" as const, name: "add", inputSchema: { type: "object" as const, properties: {} } }];
  const user = { role: "user" as const, content: [{ type: "text" as const, text: "1 + 2?" }] };
  const first = await model.doGenerate({ prompt: [user], tools });
  const [asked] = first.content.filter((part) => part.type === "tool-call");
  expect(asked).toMatchObject({ toolName: "add", input: '{"a": 1, "b": 2}' });
  const { toolCallId } = asked!;
  const { stream } = await model.doStream({
    prompt: [
      user,
      { role: "assistant", content: [{ type: "tool-call", toolCallId, toolName: "add", input: { a: 1, b: 2 } }] },
      {
        role: "tool",
        content: [{ type: "tool-result", toolCallId, toolName: "add", output: { type: "text", value: "3" } }],
      },
    ],
    tools,
  });
  let text = "";
  for await (const part of stream) if (part.type === "text-delta") text += part.delta;
  expect(text).toBe("It is 3.");
  await gateway.reward(id, { reward: 1, metrics: {}, log: "", info: new Map() });
  const episode = await gateway.end(id);
  expect(episode.trajectory.turns.map(({ parent }) => parent)).toEqual([null, 0]);
  expect(episode.reward).toBe(1);
});
