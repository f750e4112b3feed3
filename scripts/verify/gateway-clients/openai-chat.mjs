// openai: Chat Completions.
import OpenAI from "openai";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const client = new OpenAI({ baseURL, apiKey });
const { guidelines, tools, utterance } = await start();
/** @type {any[]} */
const messages = [{ role: "system", content: guidelines }];

await converse(async (heard) => {
  messages.push({ role: "user", content: heard });
  for (;;) {
    const request = { model: "policy", messages, tools: tools.map((tool) => ({ type: "function", function: tool })) };
    const message = isStreamed
      ? await client.chat.completions.stream(/** @type {any} */ (request)).finalMessage()
      : (await client.chat.completions.create(/** @type {any} */ (request))).choices[0].message;
    messages.push(message);
    if ((message.tool_calls ?? []).length === 0) return message.content ?? "";
    for (const call of message.tool_calls) {
      messages.push({
        role: "tool",
        tool_call_id: call.id,
        content: await callTool(call.function.name, call.function.arguments),
      });
    }
  }
}, utterance);
