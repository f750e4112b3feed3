// An agent without a library. Run it over the tasks beside it, with any model behind an API:
//
//   npx trainable-agents eval --env examples/agents/tasks.jsonl --agent-command "node examples/agents/fetch.mjs" \
//     --agent-model openai/gpt-4o-mini --trials 4

import { description, finish, instructions, lookUp, task } from "./shop.mjs";

const parameters = { type: "object", properties: { title: { type: "string" } }, required: ["title"] };
const tools = [{ type: "function", function: { name: "look_up", description, parameters } }];
const messages = [
  { role: "system", content: instructions },
  { role: "user", content: task.question },
];
for (let turn = 0; turn < 10; turn++) {
  const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${process.env.OPENAI_API_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "gpt-4o-mini", messages, tools }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { message } = (await response.json()).choices[0];
  messages.push(message);
  if (!message.tool_calls?.length) {
    finish(message.content);
    break;
  }
  for (const { id, function: call } of message.tool_calls) {
    messages.push({ role: "tool", tool_call_id: id, content: lookUp(JSON.parse(call.arguments).title) });
  }
}
