// @anthropic-ai/sdk: Messages.
import Anthropic from "@anthropic-ai/sdk";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey });
const { guidelines, tools, utterance } = await start();
/** @type {any[]} */
const messages = [];

await converse(async (heard) => {
  messages.push({ role: "user", content: heard });
  for (;;) {
    const request = /** @type {any} */ ({
      model: "policy",
      max_tokens: 1000,
      system: guidelines,
      messages,
      tools: tools.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
    });
    const message = isStreamed
      ? await client.messages.stream(request).finalMessage()
      : await client.messages.create(request);
    messages.push({ role: "assistant", content: message.content });
    const calls = /** @type {any[]} */ (message.content.filter(({ type }) => type === "tool_use"));
    if (calls.length === 0) return message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    const results = [];
    for (const { id, name, input } of calls) {
      results.push({ type: "tool_result", tool_use_id: id, content: await callTool(name, input) });
    }
    messages.push({ role: "user", content: results });
  }
}, utterance);
