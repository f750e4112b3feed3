// LangGraph's agent, as created by `langchain`, with its own memory.
import { tool } from "@langchain/core/tools";
import { MemorySaver } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const { guidelines, tools, utterance } = await start();
const agent = createAgent({
  model: new ChatOpenAI({ model: "policy", apiKey, configuration: { baseURL } }),
  systemPrompt: guidelines,
  tools: tools.map(({ name, description, parameters }) =>
    tool((/** @type {unknown} */ given) => callTool(name, given), { name, description, schema: parameters }),
  ),
  checkpointer: new MemorySaver(),
});

await converse(async (heard) => {
  const given = { messages: [{ role: "user", content: heard }] };
  const options = { configurable: { thread_id: "one" } };
  if (!isStreamed) return String((await agent.invoke(given, options)).messages.at(-1)?.content);
  // Messages are streamed if their parts are requested. (`streaming: true` would fetch a vocabulary
  // to count tokens.)
  /** @type {any} */
  let last = null;
  for await (const [kind, part] of await agent.stream(given, { ...options, streamMode: ["messages", "values"] }))
    if (kind === "values") last = part;
  return String(last?.messages.at(-1)?.content);
}, utterance);
