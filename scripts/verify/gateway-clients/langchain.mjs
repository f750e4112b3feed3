// @langchain/openai: a chat model with bound tools.
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const { guidelines, tools, utterance } = await start();
const model = new ChatOpenAI({ model: "policy", apiKey, configuration: { baseURL }, streaming: isStreamed }).bindTools(
  tools.map((tool) => ({ type: "function", function: tool })),
);
/** @type {any[]} */
const messages = [new SystemMessage(guidelines)];

await converse(async (heard) => {
  messages.push(new HumanMessage(heard));
  for (;;) {
    /** @type {any} */
    let message = null;
    if (isStreamed)
      for await (const chunk of await model.stream(messages))
        message = message === null ? chunk : message.concat(chunk);
    else message = await model.invoke(messages);
    if (message === null) throw new Error("The stream was empty.");
    messages.push(message);
    if ((message.tool_calls ?? []).length === 0) return String(message.content);
    for (const { id, name, args } of message.tool_calls) {
      messages.push(new ToolMessage({ tool_call_id: id, name, content: await callTool(name, args) }));
    }
  }
}, utterance);
