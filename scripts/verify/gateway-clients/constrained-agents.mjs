// @openai/agents: an agent with a tool and an outputType; it calls the tool, then answers with an object.
import assert from "node:assert/strict";
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

setTracingDisabled(true);
const openAIClient = new OpenAI({
  baseURL: process.env["TRAINABLE_AGENTS_BASE_URL"] ?? "",
  apiKey: process.env["TRAINABLE_AGENTS_SESSION"] ?? "",
});
let called = 0;
const agent = new Agent({
  name: "weather",
  instructions: "Look it up.",
  model: "policy",
  tools: [
    tool({
      name: "get_weather",
      description: "The weather of a city.",
      parameters: z.object({ city: z.string() }),
      execute: async ({ city }) => `${++called}: sunny in ${city}`,
    }),
  ],
  outputType: z.object({ city: z.string(), degrees: z.number() }),
});
const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: /** @type {any} */ (openAIClient) }) });
const { finalOutput } = await runner.run(agent, "What is the weather in Rome?");
assert.deepEqual([finalOutput, called], [{ city: "Rome", degrees: 21 }, 1]);
console.log("constrained: ok");
