// A conversation of 61 messages with 16 tools: 30 turns, each with a call and its result. The same
// words in every process.

import { createRandom } from "../../dist/lib/random.js";
import { readableVocabulary } from "../../dist/tokenizers/readable-tokenizer.js";

const random = createRandom(5);
const pick = (list) => list[random.integer(list.length)];
const words = (count) => Array.from({ length: count }, () => pick(readableVocabulary)).join(" ");

function tool(index) {
  const properties = Object.fromEntries(
    Array.from({ length: 4 }, (_, place) => [
      `${pick(readableVocabulary)}_${place}`,
      { type: "string", description: `${words(9)}.` },
    ]),
  );
  const parameters = { type: "object", properties, required: Object.keys(properties).slice(0, 2) };
  return { type: "function", function: { name: `tool_${index}`, description: `${words(14)}.`, parameters } };
}

function turn(index) {
  const call = { name: `tool_${index % 16}`, arguments: { order_id: `#W${random.integer(1e7)}`, note: words(6) } };
  const calls = [{ id: `call${String(index).padStart(5, "0")}`, type: "function", function: call }];
  return [
    { role: "assistant", content: words(8), tool_calls: calls },
    {
      role: "tool",
      name: call.name,
      tool_call_id: calls[0].id,
      content: JSON.stringify({ status: words(2), total: 12.5, items: words(20) }),
    },
  ];
}

const messages = [
  { role: "user", content: words(20) },
  ...Array.from({ length: 30 }, (_, index) => turn(index)).flat(),
];
const tools = Array.from({ length: 16 }, (_, index) => tool(index));
/** The conversation as plain JSON. */
export const wholePrompt = { messages, tools };
