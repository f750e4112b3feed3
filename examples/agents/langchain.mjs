// The agent of fetch.mjs with LangChain: npm install langchain @langchain/openai zod. The client reads OPENAI_BASE_URL and
// OPENAI_API_KEY.

import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";
import { z } from "zod";
import { description, finish, instructions, lookUp, task } from "./shop.mjs";

const look_up = tool(({ title }) => lookUp(title), {
  name: "look_up",
  description,
  schema: z.object({ title: z.string() }),
});
const agent = createAgent({
  model: new ChatOpenAI({ model: "gpt-4o-mini" }),
  tools: [look_up],
  systemPrompt: instructions,
});
const { messages } = await agent.invoke({ messages: [{ role: "user", content: task.question }] });
finish(messages.at(-1).text);
