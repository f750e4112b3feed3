// openai: Responses, each continued by the id of the previous one.
import OpenAI from "openai";
import { apiKey, baseURL, callTool, converse, isStreamed, start } from "./world.mjs";

const client = new OpenAI({ baseURL, apiKey });
const { guidelines, tools, utterance } = await start();
/** @type {string | undefined} */
let previous;

await converse(async (heard) => {
  /** @type {any[]} */
  let input = [{ role: "user", content: heard }];
  for (;;) {
    const request = /** @type {any} */ ({
      model: "policy",
      instructions: guidelines,
      input,
      previous_response_id: previous,
      tools: tools.map((tool) => ({ type: "function", strict: false, ...tool })),
    });
    const response = isStreamed
      ? await client.responses.stream(request).finalResponse()
      : await client.responses.create(request);
    previous = response.id;
    const calls = /** @type {any[]} */ (response.output.filter(({ type }) => type === "function_call"));
    if (calls.length === 0) return response.output_text;
    input = [];
    for (const { name, call_id, arguments: json } of calls) {
      input.push({ type: "function_call_output", call_id, output: await callTool(name, json) });
    }
  }
}, utterance);
