// Our byte-level BPE against @huggingface/tokenizers: a 10 kB prompt, the short pieces that turns
// add, decoding, loading. Interleaved rounds, CPU time, medians with their range; compare the
// ratios. The vocabulary is Qwen3's from ../shared, or a small one of our own tests if that is
// missing. Then the same texts in a thread: the size from which on sending a text to a thread and
// its ids back blocks the loop for less time than encoding it here.
// Run: npm run bench -- tokenizer [threads]; "threads" runs only the second part.

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

import { Tokenizer as LibraryTokenizer } from "@huggingface/tokenizers";

import { createRandom } from "../dist/lib/random.js";
import { createTokenizer } from "../dist/tokenizers/index.js";
import { readableVocabulary } from "../dist/tokenizers/readable-tokenizer.js";
import { machine, median, spread } from "./lib/measure.mjs";

const rounds = 15;
const random = createRandom(11);
const pick = (list) => list[random.integer(list.length)];
const words = (count) => Array.from({ length: count }, () => pick(readableVocabulary)).join(" ");

const place = fileURLToPath(new URL("../../shared/models/qwen3/tokenizer.json", import.meta.url));
const isReal = existsSync(place);
const definitionText = isReal ? readFileSync(place, "utf8") : smallDefinition();

function smallDefinition() {
  const lines = readFileSync(new URL("../src/tokenizers/fixtures/definitions.jsonl", import.meta.url), "utf8").split(
    "\n",
  );
  return JSON.stringify(lines.map((line) => (line === "" ? {} : JSON.parse(line))).find((line) => "base" in line).base);
}

function promptOf(characters) {
  let prompt = `<|im_start|>system\n${words(80)}.\n\n# Tools\n\n<tools>\n`;
  while (prompt.length < characters) {
    const properties = {
      [pick(readableVocabulary)]: { type: "string", description: `${words(9)}, such as '#W${random.integer(1e7)}'.` },
    };
    prompt += `${JSON.stringify({ type: "function", function: { name: `${pick(readableVocabulary)}_${pick(readableVocabulary)}`, description: `${words(14)}.`, parameters: { type: "object", properties } } })}\n`;
  }
  return `${prompt.slice(0, characters - 11)}<|im_end|>\n`;
}

/**
 * Text that a turn adds: the end of the action, a tool result with new numbers, the next generation
 * prompt.
 */
function delta() {
  const order = {
    order_id: `#W${random.integer(1e7)}`,
    name: words(2),
    total: random.integer(1e5) / 100,
    item: String(random.integer(1e10)),
  };
  return `\n<|im_start|>user\n<tool_response>\n${JSON.stringify(order)}\n</tool_response><|im_end|>\n<|im_start|>assistant\n`;
}

/** CPU milliseconds of `action`. */
function cpu(action) {
  const before = process.cpuUsage();
  const result = action();
  const { user, system } = process.cpuUsage(before);
  return { ms: (user + system) / 1000, result };
}

async function load() {
  const before = process.cpuUsage();
  const tokenizer = await createTokenizer("own", { tokenizerJson: JSON.parse(definitionText), tokenizerConfig: null });
  const { user, system } = process.cpuUsage(before);
  return { ms: (user + system) / 1000, result: tokenizer };
}

function loadLibrary() {
  return cpu(() => {
    const model = new LibraryTokenizer(JSON.parse(definitionText), {});
    return {
      encode: (text) => Uint32Array.from(model.encode(text, { add_special_tokens: false }).ids),
      decode: (ids) => model.decode([...ids], { clean_up_tokenization_spaces: false }),
    };
  });
}

/**
 * Megabytes per second of both, rounds interleaved. `work` returns the number of bytes that it
 * processed.
 */
function compare(name, own, library, makeWork) {
  const rates = { own: [], library: [] };
  for (let round = -2; round < rounds; round++) {
    const work = makeWork();
    for (const [key, tokenizer] of [
      ["own", own],
      ["library", library],
    ]) {
      const { ms, result: bytes } = cpu(() => work(tokenizer));
      if (round >= 0) rates[key].push(bytes / 1000 / ms);
    }
  }
  report(name, rates, "MB/s", median(rates.own) / median(rates.library));
}

function report(name, values, unit, ratio) {
  console.log(
    `${name.padEnd(34)} own ${spread(values.own).padStart(26)} ${unit}   library ${spread(values.library).padStart(26)} ${unit}   ${ratio.toFixed(1)} times`,
  );
}

console.log(machine());
console.log(
  `vocabulary: ${isReal ? "Qwen3" : "small, of the tests"}, ${(definitionText.length / 1e6).toFixed(1)} MB of JSON; ${rounds} rounds, CPU time, median (range)`,
);

async function compareAll() {
  const loads = { own: [], library: [] };
  let own;
  let library;
  for (let round = 0; round < 5; round++) {
    ({ result: own } = await load().then((loaded) => (loads.own.push(loaded.ms), loaded)));
    const loaded = loadLibrary();
    loads.library.push(loaded.ms);
    library = loaded.result;
  }

  const prompt = promptOf(10_000);
  compare("encode a 10 kB prompt, again", own, library, () => (tokenizer) => {
    for (let time = 0; time < 20; time++) tokenizer.encode(prompt);
    return prompt.length * 20;
  });
  compare("encode new 10 kB prompts", own, library, () => {
    const prompts = Array.from({ length: 20 }, () => promptOf(10_000));
    return (tokenizer) => prompts.reduce((bytes, text) => (tokenizer.encode(text), bytes + text.length), 0);
  });
  compare("encode what 400 turns add", own, library, () => {
    const deltas = Array.from({ length: 400 }, delta);
    return (tokenizer) => deltas.reduce((bytes, text) => (tokenizer.encode(text), bytes + text.length), 0);
  });
  const ids = own.encode(prompt);
  compare("decode a 10 kB prompt", own, library, () => (tokenizer) => {
    for (let time = 0; time < 20; time++) tokenizer.decode(ids);
    return prompt.length * 20;
  });
  const someIds = ids.subarray(0, 300);
  compare("decode 300 tokens one by one", own, library, () => (tokenizer) => {
    const decoder = tokenizer.startDecoding();
    for (const id of someIds) decoder.push(id);
    return decoder.finish().length + own.decode(someIds).length;
  });
  report("load (parse and build)", loads, "ms", median(loads.library) / median(loads.own));
  return own;
}

const least = (values) => `${Math.min(...values).toFixed(2)} (median ${median(values).toFixed(2)})`;

/** Milliseconds by which `action` blocks the event loop: all of its synchronous parts. */
function blocked(action) {
  const before = performance.now();
  action();
  return performance.now() - before;
}

/**
 * Time for which encoding a new text blocks the event loop, in this thread and with a worker
 * thread: writing the message, reading the answer. The worker's own time is not counted, since
 * another core does it, but the delay of its answer is shown. Wall-clock time, so read the minimum
 * of the rounds: the others were disturbed.
 */
async function compareThread(own) {
  const thread = new Worker(new URL("./lib/encode-thread.mjs", import.meta.url), {
    workerData: JSON.parse(definitionText),
  });
  const answers = new Map();
  let readMs = 0;
  await new Promise((resolve) => {
    thread.on("message", (message) => {
      if (message.key < 0) return resolve();
      readMs = blocked(() => answers.get(message.key)?.(message.ids.length));
    });
  });
  console.log(
    `\n${"new text".padEnd(12)}${"loop blocked, encoded here".padEnd(30)}${"loop blocked, in a thread".padEnd(30)}until the answer is there`,
  );
  let key = 0;
  for (const size of [1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000]) {
    const here = [];
    const handing = [];
    const waiting = [];
    for (let round = -1; round < 9; round++) {
      const texts = [promptOf(size), promptOf(size)];
      const local = blocked(() => own.encode(texts[0]));
      const start = performance.now();
      let posting = 0;
      await new Promise((resolve) => {
        answers.set(key, resolve);
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- of windows, not of threads
        posting = blocked(() => thread.postMessage({ key, text: texts[1] }));
      });
      key++;
      if (round < 0) continue;
      here.push(local);
      handing.push(posting + readMs);
      waiting.push(performance.now() - start);
    }
    console.log(
      `${`${size / 1000} kB`.padEnd(12)}${`${least(here)} ms`.padEnd(30)}${`${least(handing)} ms`.padEnd(30)}${least(waiting)} ms`,
    );
  }
  await thread.terminate();
}
if (process.argv[2] === "threads")
  await compareThread(
    await createTokenizer("own", { tokenizerJson: JSON.parse(definitionText), tokenizerConfig: null }),
  );
else await compareThread(await compareAll());
