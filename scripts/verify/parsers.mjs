// `npm run verify -- parsers`: SGLang's own detectors and reasoning parsers, from its wheel,
// against ours: every golden vector, and random texts for each name; vLLM's tool and reasoning parsers for
// the names that only vLLM has. Some texts are streamed, cut at every position: our readings must equal
// those of the whole text; the table counts where the server's own do not.

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { toolFromDefinition } from "../../dist/core/index.js";
import {
  isResponseTemplate,
  reasoningParser,
  reasoningParserNames,
  startParsing,
  toolCallParser,
  toolCallParserNames,
} from "../../dist/parsers/index.js";
import { pythonLstrip } from "../../dist/python-semantics/index.js";
import { parseJson } from "../../dist/python-semantics/json/index.js";
import { root } from "../run-command.mjs";
import { unpackModules } from "./encoders.mjs";
import { randomOf, randomText } from "./parsers/random-texts.mjs";
import { ownAnswers, reasoningSeeds, seeds } from "./parsers/seeds.mjs";
import { toolsets } from "./parsers/tools.mjs";
import { installInto, makeEnvironment, versionOf } from "./python.mjs";

const version = "0.5.23";
/** Packages that the detectors import; stand-ins replace all other parts of the server. */
const needed = ["transformers==5.23.0", "pybase64", "msgspec", "regex", "requests", "partial-json-parser", "orjson", "openai", "pydantic", "numpy", "cohere_melody==0.15.3"]; // prettier-ignore
const vllm = {
  packageName: "vllm",
  version: "0.33.0",
  paths: ["vllm/tool_parsers/", "vllm/parser/", "vllm/reasoning/", "vllm/utils/"],
};

/** @typedef {{ readonly newest: boolean, readonly quick: boolean }} Options */
/** @typedef {Readonly<Record<string, unknown>> & { readonly text: string, readonly cuts?: readonly number[] }} Request `cuts`: where the text is streamed in two pieces, in code points; 0: in pieces of one character. */
/** @typedef {Readonly<Record<string, unknown>>} Answer */
/** @typedef {{ readonly tools: Readonly<Record<string, string>>, readonly reasoning: Readonly<Record<string, string>> }} Names The first name of each. */

/** @param {Pick<Options, "newest">} options */
export function installParsers({ newest }) {
  const name = newest ? "parsers-newest" : "parsers";
  const environment = makeEnvironment({ name, packages: needed });
  const wheel = installInto(join(environment.folder, "wheel"), newest ? "sglang" : `sglang==${version}`, newest);
  return { python: environment.bin("python"), wheel };
}

/** The parsers of vLLM, which run in the same environment. */
export const installVllmParsers = () => unpackModules(join(root, "build", "verify", "parsers-vllm"), vllm);

/**
 * @param {Options} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyParsers({ newest, quick }) {
  const { python, wheel } = installParsers({ newest });
  const started = performance.now();
  process.stdout.write(`sglang ${wheelVersion(wheel)}, transformers ${versionOf(python, "transformers")}\n`);
  const server = startOracle(python, "oracle.py", wheel);
  const there = /** @type {Names} */ (await server.ask({ names: true }));
  const other = startOracle(python, "vllm_oracle.py", installVllmParsers());
  const elsewhere = namesOnlyIn(/** @type {Names} */ (await other.ask({ names: true })), there);
  const streamed = quick ? { texts: 20, cuts: 8 } : { texts: 200, cuts: Infinity };
  const count = quick ? 100 : 2_000;
  /** @type {readonly { readonly name: string, readonly requests: readonly Request[] }[]} */
  const rows = [...playVectors(), ...playRandom(there, count, streamed), ...playVllm(elsewhere, count, streamed)];
  const results = await Promise.all(
    rows.map(async (row) => {
      const asked = row.requests[0]?.server === "vllm" ? other : server;
      return { ...row, answers: await askAll(asked, row.requests) };
    }),
  );
  server.end();
  other.end();
  let different = 0;
  let unread = 0;
  let [allCuts, allOtherwise] = [0, 0];
  for (const { name, requests, answers } of results) {
    const failures = requests.flatMap((request, index) => compare(request, answers[index] ?? {}) ?? []);
    unread += answers.filter((answer) => answer.out_of_time === true).length;
    different += failures.length;
    const cuts = requests.reduce((sum, request) => sum + (request.cuts?.length ?? 0), 0);
    const otherwise = answers.reduce((sum, answer) => sum + Number(answer.streamed ?? 0), 0);
    allCuts += cuts;
    allOtherwise += otherwise;
    process.stdout.write(
      `  ${name.padEnd(36)} ${String(requests.length - failures.length).padStart(6)} equal ${String(failures.length).padStart(6)} different${cuts === 0 ? "" : `, ${String(cuts).padStart(6)} streams`}${cuts === 0 || name.startsWith("vllm ") ? "" : `, the server itself differs in ${String(otherwise).padStart(6)}`}\n`,
    );
    for (const failure of failures.slice(0, 3)) process.stdout.write(`${failure}\n`);
  }
  const missing = missingNames(there, elsewhere);
  process.stdout.write(`  names without a parser here: ${missing.length === 0 ? "none" : missing.join(", ")}\n`);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  process.stdout.write(
    `${results.reduce((sum, { requests }) => sum + requests.length, 0)} texts, ${different} different, ${unread} that the server does not finish; ${allCuts} streams, in ${allOtherwise} of which the server differs from its own reading of the whole; in ${seconds} s\n`,
  );
  return different === 0 ? 0 : 1;
}

/** @param {string} wheel */
function wheelVersion(wheel) {
  return readdirSync(wheel)
    .find((name) => /^sglang-.*\.dist-info$/.test(name))
    ?.slice("sglang-".length, -".dist-info".length);
}

/** Runs the vectors of every clone, and those of ../shared if present. */
function playVectors() {
  const folders = [join(root, "tests", "goldens", "parsers"), join(root, "..", "shared", `parsers-${version}`)];
  return folders
    .filter((folder) => existsSync(folder))
    .map((folder) => ({
      name: `vectors (${folder === folders[0] ? "tests/goldens" : "../shared"})`,
      requests: readdirSync(folder)
        .filter((file) => file.endsWith(".jsonl"))
        .flatMap((file) => readVectors(join(folder, file))),
    }));
}

/** @param {string} file @returns {readonly Request[]} */
function readVectors(file) {
  return readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => {
      const { parser, reasoning_parser, options, tools, text } = /** @type {Request} */ (JSON.parse(line));
      return parser === undefined ? { reasoning_parser, options, text } : { parser, tools, text };
    });
}

/**
 * @param {Names} there
 * @param {number} count Texts a name.
 * @param {{ readonly texts: number, readonly cuts: number }} streamed Number of texts that are also
 * streamed, and number of cuts for each.
 */
function playRandom(there, count, streamed) {
  const allTools = Object.values(toolsets);
  const sets = [allTools.flat().slice(0, 7), ...allTools];
  const foreign = Object.values(seeds).flat();
  const names = toolCallParserNames.filter(
    (name) => there.tools[name] !== undefined && toolCallParser(name).name === name,
  );
  const tools = names.map((name) => {
    const random = randomOf(seedOf(name));
    const good = seeds[name] ?? [];
    const requests = Array.from({ length: good.length === 0 ? 0 : count }, (_, index) => ({
      parser: name,
      tools: random.pick(sets),
      text: index % 4 === 0 ? random.pick(good) : randomText(good, foreign, random),
    }));
    return { name, requests: withCuts(requests, streamed) };
  });
  const reasoning = reasoningParserNames
    .filter((name) => there.reasoning[name] !== undefined && reasoningParser(name).name === name)
    .map((name) => {
      const random = randomOf(seedOf(name));
      const good = [
        ...reasoningSeeds(reasoningParser(name).markers),
        ...(ownAnswers[name] ?? []),
        ...(seeds[name] ?? []),
      ];
      const requests = Array.from({ length: count }, () => ({
        reasoning_parser: name,
        options: {
          ...(random.integer(2) === 0 ? {} : { force_reasoning: true }),
          // Our reasoning parser is followed by a tool-call parser.
          ...(name === "muse" ? { tool_call_parser_active: true } : {}),
        },
        text: randomText(good, foreign, random),
      }));
      return { name: `reasoning ${name}`, requests: withCuts(requests, streamed) };
    });
  return [...tools, ...reasoning];
}

/** Longer texts are not streamed character by character. */
const shortText = 200;

/**
 * The first requests with the positions at which their texts are cut.
 *
 * @template {Request} R
 * @param {readonly R[]} requests
 * @param {{ readonly texts: number, readonly cuts: number }} streamed
 */
function withCuts(requests, streamed) {
  return requests.map((request, index) => {
    if (index >= streamed.texts) return request;
    const { length } = Array.from(request.text);
    const step = Math.max(1, Math.ceil(length / streamed.cuts));
    const cuts = Array.from({ length }, (_, at) => at).filter((at) => at > 0 && (at + index) % step === 0);
    return { ...request, cuts: length <= shortText ? [0, ...cuts] : cuts };
  });
}

/** @param {string} text @param {number} cut */
function piecesAt(text, cut) {
  const characters = Array.from(text);
  return cut === 0 ? characters : [characters.slice(0, cut).join(""), characters.slice(cut).join("")];
}

/** @param {string} name */
const seedOf = (name) =>
  Array.from(name).reduce((sum, character) => (sum * 31 + (character.codePointAt(0) ?? 0)) >>> 0, 7);

/**
 * Runs texts for the names that only vLLM has. vLLM streams by tokens, so only our parsers stream.
 *
 * @param {Names} elsewhere
 * @param {number} count
 * @param {{ readonly texts: number, readonly cuts: number }} streamed
 */
function playVllm(elsewhere, count, streamed) {
  const vectors = ["vllm-parsers.jsonl", "vllm-reasoning.jsonl"].flatMap((file) =>
    readVectors(join(root, "tests", "goldens", file)),
  );
  const reasoning = Object.fromEntries(
    Object.entries(elsewhere.reasoning).filter(([name]) => !readOtherwise.includes(name)),
  );
  const played = playRandom({ ...elsewhere, reasoning }, count, streamed);
  const rows = [{ name: "vectors (vLLM)", requests: vectors }, ...played];
  return rows
    .filter(({ requests }) => requests.length > 0)
    .map(({ name, requests }) => ({
      name: name.startsWith("vectors") ? name : `vllm ${name}`,
      requests: requests.map((request) => ({ ...request, server: "vllm" })),
    }));
}

/** Reasoning parsers of vLLM that are compared together with the calls, or that are ours. */
const readOtherwise = ["cohere_command3", "seed_oss"];

/** @param {Names} names @param {Names} others @returns {Names} */
function namesOnlyIn(names, others) {
  /** @param {"tools" | "reasoning"} kind */
  const only = (kind) =>
    Object.fromEntries(Object.entries(names[kind]).filter(([name]) => others[kind][name] === undefined));
  return { tools: only("tools"), reasoning: only("reasoning") };
}

/** @param {Names} there @param {Names} elsewhere */
function missingNames(there, elsewhere) {
  /** @param {Names} names */
  const missing = ({ tools, reasoning }) => [
    ...Object.keys(tools).filter((name) => !isResponseTemplate(name) && !toolCallParserNames.includes(name)),
    ...Object.keys(reasoning)
      .filter((name) => !isResponseTemplate(name) && !reasoningParserNames.includes(name))
      .map((name) => `reasoning ${name}`),
  ];
  return [...missing(there), ...missing(elsewhere).map((name) => `${name} of vLLM`)];
}

/**
 * The difference between the two readings, as text; `null` if they are equal, or the server did not
 * finish.
 *
 * @param {Request} request @param {Answer} answer
 */
function compare(request, answer) {
  if (answer.out_of_time === true) return null;
  const own = read(request);
  const reading = request.server === "vllm" ? vllmReading(own.reading.expected) : own.reading;
  const { reasoning } = answer;
  const all = reasoning === undefined ? reading : { ...reading, ...readBoth(request) };
  const expected = reasoning === undefined ? answer : { ...answer, after_reasoning: answer.expected };
  const [ours, theirs] = [sorted(all), sorted({ ...expected, streamed: undefined })];
  if (ours !== theirs) return `    ${JSON.stringify(request.text)}\n      server ${theirs}\n      ours   ${ours}`;
  for (const cut of request.cuts ?? []) {
    const streamed = own.stream(piecesAt(request.text, cut));
    if (streamed !== null) return `    ${JSON.stringify(request.text)} cut at ${cut}: ${streamed}`;
  }
  return null;
}

/** The reading of both parsers of a name, for servers that have one for both. @param {Request} request */
function readBoth(request) {
  const { reasoning, normalText } = reasoningParser(String(request.parser)).split(request.text);
  return {
    reasoning,
    after_reasoning: vllmReading(read({ ...request, text: normalText }).reading.expected).expected,
  };
}

/** vLLM does not number calls, and has no quick test. @param {object} expected */
function vllmReading(expected) {
  if (!("calls" in expected) || !Array.isArray(expected.calls)) return { expected };
  const calls = /** @type {readonly { name: string, parameters: string }[]} */ (expected.calls);
  return { expected: { ...expected, calls: calls.map(({ name, parameters }) => ({ name, parameters })) } };
}

/** @param {Request} request */
function read(request) {
  if (typeof request.reasoning_parser === "string") {
    const parser = reasoningParser(request.reasoning_parser);
    const options = {
      forceReasoning: /** @type {{ force_reasoning?: boolean }} */ (request.options)?.force_reasoning === true,
    };
    const split = parser.split(request.text, options);
    return {
      reading: { expected: { reasoning_text: split.reasoning, normal_text: split.normalText } },
      /** @param {readonly string[]} pieces */
      stream: (pieces) => {
        const stage = parser.startSplitting(options);
        const shown = { reasoning: "", rest: "" };
        for (const piece of pieces) {
          const { reasoning, rest } = stage.push(piece);
          shown.reasoning += reasoning;
          shown.rest += rest;
        }
        const isSure = split.reasoning.startsWith(shown.reasoning);
        return isSure ? null : `${JSON.stringify(shown)} is not the beginning of ${JSON.stringify(split)}`;
      },
    };
  }
  const parser = toolCallParser(String(request.parser));
  const tools = /** @type {import("../../dist/python-semantics/json/index.js").JsonObject[]} */ (
    parseJson(JSON.stringify(request.tools))
  ).map(toolFromDefinition);
  const parse = parser.parse(request.text, { tools });
  return {
    reading: {
      expected:
        parse.raised === null
          ? { normal_text: parse.normalText, calls: parse.calls.map((call) => ({ name: call.name, parameters: call.parameters, tool_index: call.toolIndex })) }
          : { error: parse.raised },
      has_tool_call: parser.hasToolCall(request.text),
      detector_normal_text: parse.detectorNormalText,
    },
    /** @param {readonly string[]} pieces */
    stream: (pieces) => {
      const streaming = startParsing({ toolCallParser: parser, reasoningParser: null, tools });
      const shown = pieces.flatMap((piece) => streaming.push(piece));
      const finished = streaming.finish();
      const reading = sorted(finished.parse);
      if (reading !== sorted(parse)) return `${reading} is not ${sorted(parse)}`;
      return finished.isAsShown ? misshown([...shown, ...finished.deltas], finished.parse) : null;
    },
  }; // prettier-ignore
}

/**
 * Joined deltas if they differ from the parse; `null` if they agree.
 *
 * @param {readonly import("../../dist/parsers/index.js").ParseDelta[]} deltas
 * @param {{ readonly content: string, readonly calls: readonly { readonly name: string | null, readonly parameters: string }[] }} parse
 */
function misshown(deltas, { content, calls }) {
  /** @type {{ name: string | null, parameters: string }[]} */
  const shown = [];
  let text = "";
  for (const delta of deltas) {
    if (delta.type === "text") text += delta.text;
    if (delta.type === "call-start") shown.push({ name: delta.name, parameters: "" });
    const call = delta.type === "call-arguments" ? shown[delta.index] : undefined;
    if (call !== undefined && delta.type === "call-arguments") call.parameters += delta.text;
  }
  const expected = [pythonLstrip(content), calls.map(({ name, parameters }) => ({ name, parameters }))];
  return sorted([text, shown]) === sorted(expected)
    ? null
    : `shown was ${sorted([text, shown])}, read ${sorted(expected)}`;
}

/** JSON with the keys of objects sorted. @param {unknown} value */
const sorted = (value) => JSON.stringify(value, inOrder);

/** @param {string} _ @param {unknown} value @returns {unknown} */
function inOrder(_, value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  /** @type {[string, unknown][]} */
  const entries = Object.entries(value);
  return Object.fromEntries(entries.toSorted(([left], [right]) => (left < right ? -1 : 1)));
}

/** @param {ReturnType<typeof startOracle>} server @param {readonly Request[]} requests */
const askAll = (server, requests) => Promise.all(requests.map((request) => server.ask(request)));

/** @param {string} python @param {string} program @param {string} wheel */
function startOracle(python, program, wheel) {
  const child = spawn(python, [join(root, "scripts", "verify", "parsers", program), wheel], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  /** @type {((answer: Answer) => void)[]} */
  const waiting = [];
  /** @type {(error: Error) => void} */
  let fail = () => {};
  /** @type {Promise<never>} */
  const ended = new Promise((_, reject) => (fail = reject));
  ended.catch(() => {});
  createInterface({ input: child.stdout }).on("line", (line) =>
    waiting.shift()?.(/** @type {Answer} */ (JSON.parse(line))),
  );
  child.on("exit", (code) => fail(new Error(`The detectors ended with ${code} before their last answer.`)));
  return {
    /** @param {object} request @returns {Promise<Answer>} */
    ask: (request) => {
      child.stdin.write(`${JSON.stringify(request)}\n`);
      return Promise.race([ended, new Promise((resolve) => waiting.push(resolve))]);
    },
    end: () => child.stdin.end(),
  };
}
