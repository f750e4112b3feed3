// A small agent with the AI SDK: one tool, at most four steps. Its argument is the base URL.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";

const model = createOpenAICompatible({ name: "gateway", apiKey: "ai-sdk", baseURL: process.argv[2] ?? "" })("policy");
const prices = /** @type {Readonly<Record<string, number>>} */ ({ "red lamp": 120, "blue chair": 315 });
let calls = 0;
const { text, steps } = await generateText({
  model,
  system: "You answer questions about prices with the tool get_price, and never from memory.",
  messages: [{ role: "user", content: "What does the red lamp cost?" }],
  maxOutputTokens: 128,
  tools: {
    get_price: tool({
      description: "The price of an item.",
      inputSchema: jsonSchema({ type: "object", properties: { item: { type: "string" } }, required: ["item"] }),
      execute: (/** @type {{ item: string }} */ { item }) => {
        calls++;
        return { item, price: prices[item] ?? null };
      },
    }),
  },
  stopWhen: stepCountIs(4),
});
console.log(`${steps.length} steps, ${calls} calls of the tool, the answer: ${JSON.stringify(text)}`);
