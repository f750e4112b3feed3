// openai: a JSON schema, any object and a forced tool, whole and streamed, in Chat and in Responses.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({
  baseURL: process.env["TRAINABLE_AGENTS_BASE_URL"] ?? "",
  apiKey: process.env["TRAINABLE_AGENTS_SESSION"] ?? "",
});
const weather = z.object({ city: z.string(), degrees: z.number(), sky: z.enum(["clear", "cloudy"]) });
const right = { city: "Rome", degrees: 21, sky: "clear" };
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const [first, second] = ["get_weather", "get_time"];
const tools = [first, second].map((name) => ({ type: "function", function: { name, parameters } }));
const flat = tools.map(({ type, function: own }) => ({ type, ...own, strict: false }));
/** @param {string} content */
const asking = (content) => ({ model: "policy", messages: [{ role: "user", content }] });

const parsed = await client.chat.completions.parse(
  /** @type {any} */ ({ ...asking("parse"), response_format: zodResponseFormat(weather, "weather") }),
);
assert.deepEqual(parsed.choices[0]?.message.parsed, right);
const any = await client.chat.completions.create(
  /** @type {any} */ ({ ...asking("any"), response_format: { type: "json_object" } }),
);
assert.equal(typeof JSON.parse(any.choices[0].message.content), "object");
for (const choice of ["required", { type: "function", function: { name: second } }]) {
  const request = /** @type {any} */ ({ ...asking(`choose ${JSON.stringify(choice)}`), tools, tool_choice: choice });
  const message = await client.chat.completions.stream(request).finalMessage();
  const [call] = /** @type {any} */ (message.tool_calls);
  const expected = choice === "required" ? first : second;
  assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], [expected, { city: "Rome" }]);
}
const response = await client.responses.parse(
  /** @type {any} */ ({ model: "policy", input: "parse", text: { format: zodTextFormat(weather, "weather") } }),
);
assert.deepEqual(response.output_parsed, right);
const forced = await client.responses.create(
  /** @type {any} */ ({ model: "policy", input: "call", tools: flat, tool_choice: { type: "function", name: second } }),
);
assert.deepEqual(
  forced.output.map((/** @type {any} */ item) => item.name),
  [second],
);
console.log("constrained: ok");
