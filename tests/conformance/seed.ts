// Golden suite `seed`: records of the original Python loop, run through the preset `slime-tau`.
// Every request, message, token and mask must be the same; for families whose template rewrites
// history only requests and rewards.

import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError } from "#src/core/index.ts";
import { type SlimeTauMessage, type SlimeTauResult } from "#src/rollout/slime-tau/index.ts";
import {
  dumpJson,
  fromPlain,
  type JsonObject,
  type JsonValue,
  parseJson,
  toPlain,
} from "#src/python-semantics/json/index.ts";
import { PythonError } from "#src/python-semantics/index.ts";
import { rendererFamily, rendererFamilyNames } from "#src/renderers/index.ts";
import { loadTokenizer } from "#src/tokenizers/index.ts";
import { findData } from "./find-data.ts";
import { findChatTemplate } from "./models-render.ts";
import { GoldenTally, readGoldenFile, textOf } from "./golden-file.ts";
import { playSeedRecord, type SeedPlay, type SeedSet } from "./seed-play.ts";
import type { GoldenFileReport, GoldenSuite, GoldenSuiteOptions } from "./suite.ts";

/** Tokenizer folders of sets that are named for the template, if the folder has another name. */
const tokenizerFolders: Readonly<Record<string, string>> = { "qwen3-instruct-2507": "qwen3" };

export const seedSuite: GoldenSuite = {
  name: "seed",
  run: async function* (folder, options) {
    const files = (await readdir(folder)).filter((file) => /^episodes-.*\.jsonl$/.test(file)).sort();
    for (const file of files) yield await playFile(folder, file, options);
  },
};

async function playFile(folder: string, file: string, options: GoldenSuiteOptions): Promise<GoldenFileReport> {
  const name = file.slice("episodes-".length, -".jsonl".length);
  const tally = new GoldenTally(file);
  const records = await readGoldenFile(join(folder, file));
  if (!rendererFamilyNames.includes(name)) {
    for (const _ of records) tally.unsupported(`no renderer for "${name}" yet`);
    return tally.report();
  }
  const set = await loadSet(name, folder, options);
  for (const record of records) {
    const domain = textOf(record, "domain");
    if (domain !== "retail") {
      tally.unsupported(`the seed's records of domain "${domain}" are not played yet`);
      continue;
    }
    const play = await playSeedRecord(record, set);
    const expected = objectOf(record, "expected");
    if (rendererFamily(name).history === "rewrites") {
      tally.compare(record, expectedRequests(expected), () => actualRequests(play));
    } else {
      tally.compare(record, comparable(expected), () => actual(play, set, expected));
    }
  }
  return tally.report();
}

async function loadSet(name: string, folder: string, options: GoldenSuiteOptions): Promise<SeedSet> {
  const tokenizerFolder = tokenizerFolders[name] ?? name;
  const models = findEither("models", `${tokenizerFolder}/tokenizer.json`, { folder, data: options.data });
  const tauBench = findEither("tau-bench", "retail/orders.json", { folder, data: options.data });
  const instruction = parseObject(await readFile(join(folder, "tool-instruction.txt"), "utf8"));
  const prefix = parseObject(await readFile(join(folder, `prefix-${name}.json`), "utf8"));
  const chatTemplate =
    findChatTemplate(name, folder, options) ?? findChatTemplate(name, folder, { ...options, data: null });
  if (chatTemplate === null) {
    throw new ConfigurationError(
      `Cannot run the goldens of "${name}": ${name}/chat_template.jinja is not in the data.`,
    );
  }
  return {
    chatTemplate,
    tokenizer: await loadTokenizer(join(models, tokenizerFolder)),
    prefix: { text: textOf(prefix, "text") ?? "", ids: (prefix.get("ids") ?? []) as number[] },
    toolInstruction: {
      replaces: textOf(instruction, "replaces") ?? "",
      instruction: textOf(instruction, "instruction") ?? "",
    },
    tauBench,
  };
}

/**
 * The suite needs two kinds of data and `--data` may name one of them: the other is searched for in
 * the usual places.
 */
function findEither(
  kind: string,
  file: string,
  place: { readonly folder: string; readonly data: string | null },
): string {
  const options = { goldens: place.folder, mustContain: [file] };
  try {
    return findData(kind, { ...options, data: place.data });
  } catch (error) {
    if (place.data === null) throw error;
    return findData(kind, { ...options, data: null });
  }
}

/**
 * The recorded outcome without texts from CPython or pydantic: error messages are theirs, error
 * types are the loop's.
 */
function comparable(expected: JsonObject): JsonValue {
  const copy = new Map(expected);
  const turns = copy.get("turns");
  if (Array.isArray(turns)) copy.set("turns", turns.map(withoutErrorTexts));
  if (copy.has("raises")) copy.set("raises", errorType(copy.get("raises")!));
  const posted = (copy.get("posted") ?? []) as JsonObject[];
  copy.set("posted", posted.map(withPlainSampling));
  return copy;
}

/**
 * JavaScript sends 1.0 as 1, which no server can distinguish, so sampling parameters are compared
 * by value.
 */
function withPlainSampling(post: JsonObject): JsonObject {
  const sampling = post.get("sampling_params");
  return sampling === undefined ? post : new Map(post).set("sampling_params", fromPlain(toPlain(sampling)));
}

function withoutErrorTexts(turn: JsonValue): JsonValue {
  const copy = new Map(turn as JsonObject);
  copy.delete("delta_lengths");
  const parsed = copy.get("parsed");
  if (parsed instanceof Map && (parsed.has("error") || parsed.has("raises"))) copy.set("parsed", "failed");
  if (copy.has("raises")) copy.set("raises", errorType(copy.get("raises")!));
  return copy;
}

function errorType(raises: JsonValue): JsonValue {
  return raises instanceof Map ? (raises.get("type") ?? null) : raises;
}

function actual(play: SeedPlay, set: SeedSet, expected: JsonObject): JsonValue {
  const wanted = (expected.get("posted") ?? []) as JsonObject[];
  const outcome: JsonObject = new Map<string, JsonValue>([
    [
      "posted",
      play.posted.map((post, index) =>
        postedRecord(post, play.posted[index - 1]?.text ?? set.prefix.text, wanted[index]),
      ),
    ],
    ["turns", play.turns],
    ["user_heard", [...play.userHeard]],
    ["replies_left", play.repliesLeft],
    ["user_lines_left", play.userLinesLeft],
  ]);
  if (play.result instanceof Error) outcome.set("raises", typeOf(play.result));
  else outcome.set("result", resultRecord(play.result, set, objectOf(expected, "result")));
  return outcome;
}

function postedRecord(post: SeedPlay["posted"][number], before: string, wanted: JsonObject | undefined): JsonValue {
  const record: JsonObject = new Map<string, JsonValue>([
    ["url", post.url],
    ...measures(post.text),
    ["added", post.text.startsWith(before) ? post.text.slice(before.length) : null],
  ]);
  if (wanted?.has("text") === true) record.set("text", post.text);
  if (wanted?.has("sampling_params") === true || !post.hasScriptSampling) record.set("sampling_params", post.sampling);
  return record;
}

function resultRecord(result: SlimeTauResult, set: SeedSet, expected: JsonObject): JsonValue {
  const { prompt, tokens, lossMask } = result;
  const promptRecord: JsonObject = new Map<string, JsonValue>([
    ...measures(prompt),
    ["rest", prompt.startsWith(set.prefix.text) ? prompt.slice(set.prefix.text.length) : null],
  ]);
  if (objectOf(expected, "prompt").has("text")) promptRecord.set("text", prompt);
  const startsWithPrefix = set.prefix.ids.every((id, at) => tokens[at] === id);
  return new Map<string, JsonValue>([
    ["status", result.status],
    ["reward", parseJson(result.reward === 1 ? "1.0" : "0.0")],
    ["prompt", promptRecord],
    ["response", result.response],
    ["response_length", result.responseLength],
    ["info", result.info],
    ["messages", result.messages.map(messageRecord)],
    [
      "tokens",
      new Map<string, JsonValue>([
        ["count", tokens.length],
        ["prompt_count", tokens.length - result.responseLength],
        ["after_prefix", startsWithPrefix ? [...tokens.subarray(set.prefix.ids.length)] : null],
        ["sha256", sha256(tokens.join(","))],
      ]),
    ],
    ["loss_mask_runs", runsOf(lossMask)],
  ]);
}

function messageRecord(message: SlimeTauMessage): JsonValue {
  if (message.role === "system") {
    return new Map<string, JsonValue>([
      ["role", "system"],
      ["content_is", new Map(measures(message.content))],
    ]);
  }
  const name: [string, JsonValue][] = message.role === "tool" ? [["name", message.name]] : [];
  return new Map<string, JsonValue>([["role", message.role], ...name, ["content", message.content]]);
}

function runsOf(mask: readonly number[]): JsonValue[] {
  const runs: [number, number][] = [];
  for (const bit of mask) {
    const last = runs.at(-1);
    if (last?.[0] === bit) last[1]++;
    else runs.push([bit, 1]);
  }
  return runs;
}

/** Expected values for a family that rewrites history: the texts that were sent, and the reward. */
function expectedRequests(expected: JsonObject): JsonValue {
  const posted = (expected.get("posted") ?? []) as JsonObject[];
  const result = objectOf(expected, "result");
  return new Map<string, JsonValue>([
    ["posted", posted.map((post) => post.get("sha256") ?? null)],
    ["reward", result.get("reward") ?? null],
    ["raises", expected.has("raises") ? errorType(expected.get("raises")!) : null],
  ]);
}

function actualRequests({ posted, result }: SeedPlay): JsonValue {
  const failed = result instanceof Error;
  return new Map<string, JsonValue>([
    ["posted", posted.map((post) => sha256(post.text))],
    ["reward", failed ? null : parseJson(result.reward === 1 ? "1.0" : "0.0")],
    ["raises", failed ? typeOf(result) : null],
  ]);
}

function typeOf(error: Error): string {
  return error instanceof PythonError ? error.pythonType : `not a Python error: ${error.stack ?? error.message}`;
}

/** Hash, code points and UTF-8 bytes of a text. */
function measures(text: string): [string, JsonValue][] {
  return [
    ["sha256", sha256(text)],
    ["chars", Array.from(text).length],
    ["bytes", Buffer.byteLength(text)],
  ];
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function objectOf(record: JsonObject, key: string): JsonObject {
  const value = record.get(key);
  return value instanceof Map ? value : new Map();
}

function parseObject(text: string): JsonObject {
  const value = parseJson(text);
  if (value instanceof Map) return value;
  throw new Error(`Cannot read a golden file: ${dumpJson(value).slice(0, 40)} is not a JSON object.`);
}
