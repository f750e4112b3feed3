// openai: Responses, with the items of earlier responses sent again.
import OpenAI from "openai";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const client = new OpenAI({ baseURL, apiKey });
const { guidelines, tools, utterance } = await start();
/** @type {any[]} */
const input = [];

await converse(async (heard) => {
  input.push({ role: "user", content: heard });
  for (;;) {
    const request = /** @type {any} */ ({
      model: "policy",
      instructions: guidelines,
      input,
      tools: tools.map((tool) => ({ type: "function", strict: false, ...tool })),
    });
    const response = isStreamed
      ? await client.responses.stream(request).finalResponse()
      : await client.responses.create(request);
    input.push(...response.output);
    const calls = response.output.filter(({ type }) => type === "function_call");
    if (calls.length === 0) return response.output_text;
    for (const { name, call_id, arguments: json } of /** @type {any[]} */ (calls)) {
      input.push({ type: "function_call_output", call_id, output: await callTool(name, json) });
    }
  }
}, utterance);
