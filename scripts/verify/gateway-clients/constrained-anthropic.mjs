// @anthropic-ai/sdk: any tool, a tool by name, and a format of the output, whole and streamed.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({
  baseURL: (process.env["TRAINABLE_AGENTS_BASE_URL"] ?? "").replace(/\/v1$/, ""),
  apiKey: process.env["TRAINABLE_AGENTS_SESSION"] ?? "",
});
const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const tools = ["get_weather", "get_time"].map((name) => ({ name, description: name, input_schema: schema }));
/** @param {string} content */
const asking = (content) => ({ model: "policy", max_tokens: 900, messages: [{ role: "user", content }] });

for (const [choice, name] of /** @type {const} */ ([
  [{ type: "any" }, "get_weather"],
  [{ type: "tool", name: "get_time" }, "get_time"],
])) {
  const request = /** @type {any} */ ({ ...asking(name), tools, tool_choice: choice });
  const message = await client.messages.stream(request).finalMessage();
  const block = /** @type {any} */ (message.content.at(-1));
  assert.deepEqual([message.stop_reason, block.name, block.input], ["tool_use", name, { city: "Rome" }]);
}
const message = await client.messages.create(
  /** @type {any} */ ({ ...asking("format"), output_config: { format: { type: "json_schema", schema } } }),
);
assert.deepEqual(JSON.parse(/** @type {any} */ (message).content[0].text), { city: "Rome" });
console.log("constrained: ok");
