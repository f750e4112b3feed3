// @openai/agents: its own agent loop, over Responses or Chat Completions.
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

setTracingDisabled(true);
const useResponses = process.argv[4] !== "chat";
const { guidelines, tools, utterance } = await start();
const agent = new Agent({
  name: "agent",
  instructions: guidelines,
  model: "policy",
  tools: tools.map(({ name, description, parameters }) =>
    tool({
      name,
      description,
      parameters: /** @type {any} */ (parameters),
      strict: false,
      execute: (input) => callTool(name, input),
    }),
  ),
});
const runner = new Runner({ modelProvider: new OpenAIProvider({ apiKey, baseURL, useResponses }) });
/** @type {any[]} */
let history = [];

await converse(async (heard) => {
  history = [...history, { role: "user", content: heard }];
  const options = { maxTurns: 30 };
  const result = isStreamed
    ? await runner.run(agent, history, { ...options, stream: true })
    : await runner.run(agent, history, options);
  if (isStreamed) await /** @type {any} */ (result).completed;
  history = result.history;
  return String(result.finalOutput);
}, utterance);
