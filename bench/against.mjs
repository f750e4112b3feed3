// Parsers and templates of this build against those of another built checkout, in one process and
// in turn: CPU of the golden texts of each parser, by themselves and after 4 kB of other text, and of
// a whole prompt. The minimum of each counts, because other load on the machine only adds time.
// Formats and templates that only one of them knows are left out. Compare the ratios: below 1, this
// build needs less CPU.
// Run: npm run bench -- against <its folder> [rounds]

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { root } from "../scripts/run-command.mjs";
import { cpuOf, machine, median } from "./lib/measure.mjs";
import { wholePrompt } from "./lib/whole-prompt.mjs";

const [other, rounds = "15"] = process.argv.slice(2);
const limit = 1.05;
/** A measurement is repeated until it takes this long: the clock of CPU time is not more precise. */
const shortestMs = 10;
/** Runs until V8 has compiled the code. */
const warmUp = 100;
const prose = "The order was placed on Tuesday and ships from the second shelf. ".repeat(64);
const templates = ["bundled", "qwen2.5-instruct", "qwen3", "qwen3-coder", "llama-3.1-instruct", "glm-4.6", "kimi-k2", "seed-oss"]; // prettier-ignore

if (other === undefined || !existsSync(join(resolve(other), "dist"))) {
  process.stderr.write("Cannot compare: the first parameter is not a built checkout; give the folder of one.\n");
  process.exit(2);
}
const sides = await Promise.all([root, resolve(other)].map(load));

/** The modules that are measured. */
async function load(checkout) {
  const module = (path) => import(pathToFileURL(join(checkout, "dist", path)).href);
  const [core, json, parsers, renderers] = await Promise.all(
    ["core/index.js", "python-semantics/json/index.js", "parsers/index.js", "renderers/index.js"].map(module),
  );
  return { ...core, ...json, ...parsers, ...renderers };
}

/** `null` where a side does not know the name, or the template. */
function unlessUnknown(make) {
  try {
    return make();
  } catch {
    return null;
  }
}

/** @param {string} file The vectors of one parser, or those of the reasoning parsers. */
const vectorsOf = (file) =>
  readFileSync(join(root, "tests", "goldens", "parsers", file), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

/** Reads all vectors of a parser once, each text by itself and after other text. */
function parsing(side, name) {
  const parser = side.toolCallParser(name);
  const cases = vectorsOf(`${name}.jsonl`).flatMap(({ text, tools }) => {
    const given = tools.map((tool) => side.toolFromDefinition(side.fromPlain(tool)));
    return [text, prose + text].map((whole) => () => parser.parse(whole, { tools: given }).calls.length);
  });
  return () => cases.reduce((sum, read) => sum + read(), 0);
}

function splitting(side, name, texts) {
  const parser = side.reasoningParser(name);
  return () => texts.reduce((sum, text) => sum + parser.split(text).reasoning.length, 0);
}

function rendering(side, source) {
  const compiled = side.compileChatTemplate(source);
  const input = {
    messages: wholePrompt.messages.map(side.fromPlain),
    tools: side.fromPlain(wholePrompt.tools),
    addGenerationPrompt: true,
    kwargs: new Map(),
    context: {
      specialTokens: side.fromPlain({ bos_token: "<s>", eos_token: "</s>" }),
      now: "2026-01-15T12:00:00",
    },
  };
  const render = () => side.segmentsText(compiled(input)).length;
  render();
  return render;
}

async function timed(work, times) {
  const { cpuUs } = await cpuOf(() => {
    for (let time = 0; time < times; time++) work();
  });
  return cpuUs / times / 1000;
}

/** The ratio of the minima; `null` if a side has no such work. */
async function compare(name, make) {
  const works = sides.map((side) => unlessUnknown(() => make(side)));
  if (works.includes(null)) return null;
  const times = [];
  for (const work of works) {
    await timed(work, warmUp);
    times.push(Math.max(1, Math.ceil(shortestMs / Math.max(await timed(work, 20), 0.001))));
  }
  const costs = works.map(() => []);
  for (let round = 0; round < Number(rounds); round++) {
    const turn = round % 2 === 0 ? [0, 1] : [1, 0];
    for (const at of turn) costs[at].push(await timed(works[at], times[at]));
  }
  const [ours, theirs] = costs.map((values) => Math.min(...values));
  const ratio = ours / theirs;
  console.log(
    `  ${name.padEnd(30)} ${ours.toFixed(3).padStart(9)} ms ${theirs.toFixed(3).padStart(9)} ms   ratio ${ratio.toFixed(2)}`,
  );
  return ratio;
}

async function group(title, works) {
  console.log(`${title}: this build, the other one`);
  const ratios = [];
  for (const [name, make] of works) ratios.push(await compare(name, make));
  const known = ratios.filter((ratio) => ratio !== null);
  if (known.length === 0) return console.log("  nothing that both know\n");
  const middle = median(known);
  const verdict = middle <= limit ? "met" : "missed";
  console.log(
    `  ${known.length} of ${ratios.length}, median ${middle.toFixed(2)} (target: at most ${limit}: ${verdict}), highest ${Math.max(...known).toFixed(2)}\n`,
  );
}

console.log(`${machine()}; CPU of ${rounds} rounds in turn\n`);
const [own] = sides;
const texts = new Map();
for (const { reasoning_parser: name, text } of vectorsOf("reasoning.jsonl")) {
  texts.set(name, [...(texts.get(name) ?? []), text, prose + text]);
}
const names = own.toolCallParserNames.filter((name) =>
  existsSync(join(root, "tests", "goldens", "parsers", `${name}.jsonl`)),
);
await group(
  "Parsers of calls",
  names.map((name) => [name, (side) => parsing(side, name)]),
);
await group(
  "Parsers of reasoning",
  Array.from(texts, ([name, given]) => [name, (side) => splitting(side, name, given)]),
);
await group(
  "Templates",
  templates.flatMap((name) => {
    const path = join(root, "..", "shared", "models", name, "chat_template.jinja");
    if (name !== "bundled" && !existsSync(path)) return [];
    const source = name === "bundled" ? own.bundledChatTemplate : readFileSync(path, "utf8");
    return [[name, (side) => rendering(side, source)]];
  }),
);
