// Random conversations for `npm run verify -- encoders`: those of the chat templates, with
// thoughts, messages of every role in the middle, tools as functions, template variables, and
// shapes that modules refuse. The same seed gives the same conversations.

import { parseJson } from "../../../dist/python-semantics/json/index.js";
import { wireMessages } from "../../../dist/renderers/index.js";
import { randomConversation, toolDefinitions } from "../random-conversation.mjs";

/** @typedef {import("../random-conversation.mjs").Random} Random */
/** @typedef {import("../../../dist/python-semantics/json/index.js").JsonValue} JsonValue */
/** @typedef {import("../../../dist/python-semantics/json/index.js").JsonObject} JsonObject */
/** @typedef {import("../../../dist/renderers/index.js").RendererFamily} RendererFamily */

/** Values of each variable, as JSON. @type {Readonly<Record<string, readonly string[]>>} */
const values = {
  thinking: ["true", "false", "null", "1"],
  enable_thinking: ["true", "false"],
  clear_thinking: ["true", "false"],
  drop_thinking: ["true", "false"],
  reasoning_effort: ['"low"', '"medium"', '"high"', '"xhigh"', '"max"', '"none"', '"fast"', "1", "33", "100", "101", "0", "0.5", "0.125", "0.375", "0.999", "-0.0", "0.004", "true", "null"],
}; // prettier-ignore

const strays = [
  ...["plain text", "[1]", '"{}"', '"twice"', "NaN"].map((text) => ({ name: "find_order", text })),
  { name: "东京 \u{1f600}", text: '{"a b": "x\\ny", "c": [1.50, {"d": "\\u00e9"}], "e": null}' },
];

/**
 * @param {Random} random
 * @param {{ readonly family: RendererFamily, readonly variables: readonly string[] }} encoder
 */
export function randomRequest(random, { family, variables }) {
  const chance = (/** @type {number} */ percent) => random.integer(100) < percent;
  const { messages, hasTools } = randomConversation(random);
  const changed = messages.map((message) => {
    if (message.role !== "assistant") return message;
    const reasoning = chance(50) ? `I should look ${"once more ".repeat(random.integer(3))}` : message.reasoning;
    const stray = strays[random.integer(strays.length)];
    const toolCalls = message.toolCalls.map((call) =>
      chance(8) && stray !== undefined ? { ...call, name: stray.name, argumentsText: stray.text } : call,
    );
    return { ...message, reasoning, toolCalls };
  });
  /** @type {JsonObject[]} */
  const wire = [...wireMessages({ ...family, restate: (given) => given }, changed)];
  for (const [percent, role, content] of /** @type {const} */ ([
    [15, "developer", "Use the shelves."],
    [3, "developer", ""],
    [15, "system", "A rule in the middle."],
    [2, "critic", "Nobody knows this role."],
    [8, "user", "One more thing."],
  ])) {
    if (!chance(percent)) continue;
    wire.splice(random.integer(wire.length + 1), 0, new Map([["role", role], ["content", content]])); // prettier-ignore
  }
  /** @type {JsonObject} */
  const kwargs = new Map();
  for (const name of variables) {
    const texts = values[name] ?? [];
    if (chance(name === "thinking" ? 70 : 35))
      kwargs.set(name, parseJson(texts[random.integer(texts.length)] ?? "null"));
  }
  return { messages: wire, tools: hasTools ? parseJson(JSON.stringify(toolDefinitions)) : null, kwargs };
}
