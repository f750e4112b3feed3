// The agent of fetch.mjs with the AI SDK: npm install ai @ai-sdk/openai zod. The provider reads OPENAI_BASE_URL and OPENAI_API_KEY.

import { openai } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";
import { description, finish, instructions, lookUp, task } from "./shop.mjs";

const { text } = await generateText({
  model: openai("gpt-4o-mini"),
  instructions,
  prompt: task.question,
  tools: {
    look_up: tool({ description, inputSchema: z.object({ title: z.string() }), execute: ({ title }) => lookUp(title) }),
  },
  stopWhen: stepCountIs(10),
});
finish(text);
