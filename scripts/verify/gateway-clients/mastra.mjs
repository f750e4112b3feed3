// Mastra: an agent over the AI SDK's provider, with the conversation that it returns.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const { guidelines, tools, utterance } = await start();
const provider = createOpenAICompatible({ name: "gateway", baseURL, apiKey });
const agent = new Agent({
  id: "clerk",
  name: "clerk",
  instructions: guidelines,
  model: provider("policy"),
  tools: Object.fromEntries(
    tools.map(({ name, description, parameters }) => [
      name,
      createTool({
        id: name,
        description,
        inputSchema: /** @type {any} */ (parameters),
        execute: (/** @type {any} */ given) => callTool(name, given?.context ?? given),
      }),
    ]),
  ),
});
/** @type {any[]} */
const messages = [];

await converse(async (heard) => {
  messages.push({ role: "user", content: heard });
  const options = { maxSteps: 30 };
  /** @type {any} */
  let answer;
  if (isStreamed) {
    const stream = await agent.stream(messages, options);
    answer = await stream.getFullOutput();
  } else answer = await agent.generate(messages, options);
  messages.push(...answer.response.messages);
  return answer.text;
}, utterance);
