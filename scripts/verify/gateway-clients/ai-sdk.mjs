// The package `ai`: its own agent loop, over five providers.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const providers = {
  responses: () => createOpenAI({ apiKey, baseURL })("policy"),
  chat: () => createOpenAI({ apiKey, baseURL }).chat("policy"),
  compatible: () => createOpenAICompatible({ name: "gateway", apiKey, baseURL })("policy"),
  anthropic: () => createAnthropic({ apiKey, baseURL })("policy"),
  google: () => createGoogleGenerativeAI({ apiKey, baseURL })("policy"),
};
const model = providers[/** @type {keyof typeof providers} */ (process.argv[4] ?? "chat")]();
const { guidelines: system, tools: definitions, utterance } = await start();
const tools = Object.fromEntries(
  definitions.map(({ name, description, parameters }) => [
    name,
    tool({
      description,
      inputSchema: jsonSchema(/** @type {any} */ (parameters)),
      execute: (input) => callTool(name, input),
    }),
  ]),
);
/** @type {any[]} */
const messages = [];

await converse(async (heard) => {
  messages.push({ role: "user", content: heard });
  const options = { model, system, messages, tools, stopWhen: stepCountIs(30) };
  const result = isStreamed ? streamText(options) : await generateText(options);
  // Messages of all steps; `response.messages` has only those of the last one.
  messages.push(...(await result.responseMessages));
  return await result.text;
}, utterance);
