// Client cost of one more turn of a conversation, by its length so far: the bridge, which encodes
// only new content, against rendering and encoding the whole prompt again, as a loop without
// bridges does. A bridged turn should cost the same at 2, 8 and 32 thousand tokens; the ratio shows
// whether it does. CPU time of this thread, interleaved, medians.
// Run: npm run bench -- bridge [family]

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { rendererFor } from "../dist/renderers/index.js";
import { createReadableTokenizer, loadTokenizer } from "../dist/tokenizers/index.js";
import { machine, median, spread } from "./lib/measure.mjs";

const family = process.argv[2] ?? "qwen2.5-instruct";
const lengths = [2_000, 8_000, 32_000];
const rounds = 15;
const turns = 200;

const folder = fileURLToPath(new URL("../../shared/models/qwen3", import.meta.url));
const tokenizer = existsSync(folder) ? await loadTokenizer(folder) : createReadableTokenizer();
const template = fileURLToPath(new URL(`../../shared/models/${family}/chat_template.jinja`, import.meta.url));
const renderer = rendererFor(family, tokenizer, {
  now: "2026-01-15T12:00:00",
  ...(existsSync(template) ? { chatTemplate: readFileSync(template, "utf8") } : {}),
});
const stop = renderer.stopTokenIds.slice(0, 1);
const tools = [];

/**
 * Serial number that makes the content of every turn different, so that nothing is cached from the
 * last one.
 */
let serial = 0;
const result = () =>
  `{"order_id": "#W${(serial += 7919)}", "status": "shipped", "total": ${serial / 100}, "items": ["a", "b"]}`;
const callText = () =>
  `<tool_call>\n{"name": "find_order", "arguments": {"order_id": "#W${(serial += 7919)}"}}\n</tool_call>`;
const toolMessage = () => ({ role: "tool", content: result(), name: "find_order", callId: "call_0_0" });
const assistant = (content) => ({ role: "assistant", content, reasoning: null, toolCalls: [] });

/** A conversation of about this many tokens, up to and including an answer. */
function conversationOf(tokens) {
  const messages = [
    { role: "system", content: "You work in a bookshop." },
    { role: "user", content: "Where are my orders?" },
  ];
  let length = 0;
  while (length < tokens) {
    const [action, answer] = [callText(), toolMessage()];
    messages.push(assistant(action), answer);
    length += tokenizer.encode(action).length + tokenizer.encode(answer.content).length + 14;
  }
  const action = callText();
  messages.push(assistant(action));
  return { messages, lastAction: Uint32Array.from([...tokenizer.encode(action), ...stop]) };
}

const conversations = lengths.map(conversationOf);
const prompts = conversations.map(({ messages }) => renderer.renderPrompt(messages.slice(0, -1), tools).tokens.length);

/** CPU microseconds of one turn. */
function cost(count, action) {
  const before = process.cpuUsage();
  for (let turn = 0; turn < count; turn++) action();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

const bridged = lengths.map(() => []);
const rendered = lengths.map(() => []);
for (let round = -2; round < rounds; round++) {
  conversations.forEach(({ messages, lastAction }, at) => {
    const bridge = cost(turns, () => {
      const answer = renderer.bridge({ messages, tools, lastAction, newMessages: [toolMessage()] });
      if (answer.type !== "extended") throw new Error(answer.reason);
    });
    const whole = cost(2, () => renderer.renderPrompt([...messages, toolMessage()], tools));
    if (round >= 0) {
      bridged[at].push(bridge);
      rendered[at].push(whole);
    }
  });
}

console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- bridge${process.argv[2] === undefined ? "" : ` ${family}`}`);
console.log(
  `work      family ${family}, tokenizer ${tokenizer.name}; ${rounds} rounds of ${turns} turns, CPU us a turn, median (range)`,
);
console.log(`${"tokens so far".padEnd(16)}${"bridged".padEnd(28)}rendered and encoded again`);
lengths.forEach((_, at) => {
  console.log(`${String(prompts[at]).padEnd(16)}${spread(bridged[at]).padEnd(28)}${spread(rendered[at])}`);
});
const ratios = bridged[2].map((value, round) => value / bridged[0][round]);
console.log(`bridged, ${prompts[2]} tokens over ${prompts[0]}: ${spread(ratios, 2)}   (flat: 1)`);
console.log(`rendered again, the same: ${(median(rendered[2]) / median(rendered[0])).toFixed(1)}`);
