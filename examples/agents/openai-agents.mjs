// The agent of fetch.mjs with the OpenAI Agents SDK: npm install @openai/agents zod. It speaks Responses, and reads OPENAI_BASE_URL
// and OPENAI_API_KEY.

import { Agent, run, setTracingDisabled, tool } from "@openai/agents";
import { z } from "zod";
import { description, finish, instructions, lookUp, task } from "./shop.mjs";

// Traces would go to OpenAI with the key, which here is that of a session.
setTracingDisabled(true);
const look_up = tool({
  name: "look_up",
  description,
  parameters: z.object({ title: z.string() }),
  execute: async ({ title }) => lookUp(title),
});
const agent = new Agent({ name: "Clerk", instructions, model: "gpt-4o-mini", tools: [look_up] });
const { finalOutput } = await run(agent, task.question);
finish(finalOutput);
