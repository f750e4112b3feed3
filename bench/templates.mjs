// Cost of rendering a whole prompt: 61 messages (30 turns with tool calls and results) and 16
// tools, by the model's own template with our Jinja and with @huggingface/jinja, for comparison.
// Templates come from ../shared; interleaved rounds, CPU time, medians with their range; compare
// the ratios.
// Run: npm run bench -- templates [rounds]

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { Template } from "@huggingface/jinja";

import { fromPlain, toPlain } from "../dist/python-semantics/json/index.js";
import { bundledChatTemplate, compileChatTemplate, segmentsText } from "../dist/renderers/index.js";
import { cpuOf, machine, median, spread } from "./lib/measure.mjs";
import { wholePrompt } from "./lib/whole-prompt.mjs";

const rounds = Number(process.argv[2] ?? 15);
/** Renderings in one measurement: a single one is shorter than the resolution of the CPU clock. */
const repeats = 20;
/** The bundled template, and those of ../shared. */
const names = [
  "bundled",
  "qwen2.5-instruct",
  "qwen3",
  "qwen3-coder",
  "llama-3.1-instruct",
  "glm-4.6",
  "kimi-k2",
  "seed-oss",
];

const { messages, tools } = wholePrompt;
const input = {
  messages: messages.map(fromPlain),
  tools: fromPlain(tools),
  addGenerationPrompt: true,
  kwargs: new Map(),
  context: { specialTokens: fromPlain({ bos_token: "<s>", eos_token: "</s>" }), now: "2026-01-15T12:00:00" },
};
const plain = {
  messages: toPlain(input.messages),
  tools: toPlain(input.tools),
  add_generation_prompt: true,
  bos_token: "<s>",
  eos_token: "</s>",
};

function contestants(name) {
  const path = fileURLToPath(new URL(`../../shared/models/${name}/chat_template.jinja`, import.meta.url));
  if (name !== "bundled" && !existsSync(path)) return null;
  const source = name === "bundled" ? bundledChatTemplate : readFileSync(path, "utf8");
  const library = new Template(source);
  const compiled = compileChatTemplate(source);
  return {
    ours: () => segmentsText(compiled(input)),
    library: () => library.render(plain),
  };
}

/** Milliseconds of one rendering. */
async function time(render) {
  const { result, cpuUs } = await cpuOf(() => {
    let length = 0;
    for (let repeat = 0; repeat < repeats; repeat++) length += render().length;
    return length;
  });
  if (result === 0) throw new Error("Nothing was rendered.");
  return cpuUs / 1000 / repeats;
}

function isRefused(render) {
  try {
    render();
    return false;
  } catch {
    return true;
  }
}

console.log(machine());
console.log(
  `${messages.length} messages, ${tools.length} tools; ${rounds} rounds of ${repeats} renderings, CPU ms a rendering\n`,
);
for (const name of names) {
  const all = contestants(name);
  if (all === null) {
    console.log(`${name}: no ../shared/models/${name}/chat_template.jinja`);
    continue;
  }
  const playing = Object.entries(all).filter(([, render]) => !isRefused(render));
  const times = Object.fromEntries(playing.map(([contestant]) => [contestant, []]));
  for (const [, render] of playing) await time(render);
  for (let round = 0; round < rounds; round++) {
    for (const [contestant, render] of playing) times[contestant].push(await time(render));
  }
  const length = all.ours().length;
  console.log(`${name} (${length} characters)`);
  for (const [contestant] of Object.entries(all)) {
    const values = times[contestant];
    const ratio = values === undefined ? "" : `   ${(median(values) / median(times.ours)).toFixed(2)} of ours`;
    console.log(`  ${contestant.padEnd(9)} ${values === undefined ? "does not render it" : spread(values, 3)}${ratio}`);
  }
}
