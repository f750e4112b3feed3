// ai: generateObject, and generateText with a required tool, over three providers.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, tool } from "ai";
import { z } from "zod";

const baseURL = process.env["TRAINABLE_AGENTS_BASE_URL"] ?? "";
const apiKey = process.env["TRAINABLE_AGENTS_SESSION"] ?? "";
const models = {
  compatible: () =>
    createOpenAICompatible({ name: "gateway", baseURL, apiKey, supportsStructuredOutputs: true })("policy"),
  responses: () => createOpenAI({ baseURL, apiKey }).responses("policy"),
  anthropic: () => createAnthropic({ baseURL, apiKey })("policy"),
};
const model = models[/** @type {keyof typeof models} */ (process.argv[2])]();
const schema = z.object({ city: z.string(), degrees: z.number() });

const { object } = await generateObject({ model, schema, prompt: "What is the weather?" });
assert.deepEqual(object, { city: "Rome", degrees: 21 });
const inputSchema = z.object({ city: z.string() });
const { toolCalls } = await generateText({
  model,
  prompt: "Call a tool.",
  tools: {
    getWeather: tool({ description: "weather", inputSchema }),
    getTime: tool({ description: "time", inputSchema }),
  },
  toolChoice: "required",
});
assert.deepEqual(
  toolCalls.map(({ toolName, input }) => [toolName, input]),
  [["getWeather", { city: "Rome" }]],
);
console.log("constrained: ok");
