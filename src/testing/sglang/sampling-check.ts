// Sampling parameters of a /generate body, read as strictly as SGLang reads them: a name it does not know, or a value of a
// type it does not expect, is refused by its name; a value out of range with the reason. The types are named as its reader
// names them.

import { type SglangProtocol, Refusal } from "./protocol.ts";
import type { SamplerParams } from "../front/sampler.ts";

/** What the front itself does about a generation. */
export type OutputParams = {
  readonly stopStrings: readonly string[];
  readonly stopPatterns: readonly RegExp[];
  readonly skipSpecialTokens: boolean;
  readonly noStopTrim: boolean;
};

export type CheckedSampling = {
  /** `maxNewTokens` is as requested; `null`: as much as the context allows. */
  readonly sampler: Omit<SamplerParams, "maxNewTokens"> & { readonly maxNewTokens: number | null };
  readonly output: OutputParams;
  readonly n: number;
  readonly streamInterval: number;
  /** True when the body named a bound: only then is it held against the context. */
  readonly hasOwnBound: boolean;
};

export type SamplingLimits = {
  readonly endTokenIds: readonly number[];
  readonly vocabularySize: number | null;
  readonly protocol: SglangProtocol;
};

/** In the order in which the server lists them. */
const names =
  `max_new_tokens stop stop_token_ids stop_regex temperature top_p top_k min_p frequency_penalty presence_penalty
   repetition_penalty min_new_tokens n json_schema regex ebnf structural_tag ignore_eos skip_special_tokens
   spaces_between_special_tokens no_stop_trim stream_interval logit_bias sampling_seed custom_params beam_width watermark
   choice`.split(/\s+/);

/** Below this, sampling is greedy. */
const greedyTemperature = 1e-6;

/** Throws a `Refusal`. */
export function checkSampling(value: unknown, model: SamplingLimits): CheckedSampling {
  const { protocol } = model;
  const read = new Reader(value, protocol.nullIsDefault);
  const unknown = read.names().find((name) => !names.includes(name));
  if (unknown !== undefined) {
    const expected = names.map((name) => `\`${name}\``).join(", ");
    throw Refusal.ofParameter(`unknown field \`${unknown}\`, expected one of ${expected}`);
  }
  const temperature = read.number("temperature", 1);
  const topP = read.number("top_p", 1);
  const namedTopK = read.integer("top_k", -1);
  const minP = read.number("min_p", 0);
  const frequencyPenalty = read.number("frequency_penalty", 0);
  const presencePenalty = read.number("presence_penalty", 0);
  const repetitionPenalty = read.number("repetition_penalty", 1);
  const minNewTokens = read.integer("min_new_tokens", 0);
  const maxNewTokens = read.has("max_new_tokens") ? read.nullableInteger("max_new_tokens") : 128;
  const n = read.integer("n", 1);
  const streamInterval = read.integer("stream_interval", 1);
  const stopTokenIds = read.integers("stop_token_ids");
  const stopStrings = read.strings("stop");
  const stopPatterns = read.strings("stop_regex");
  const logitBias = read.bias("logit_bias", model.vocabularySize);
  // Greedy sampling replaces top_k before it is looked at.
  const isGreedy = temperature >= 0 && temperature < greedyTemperature;
  const topK = isGreedy ? 1 : namedTopK;
  require(temperature >= 0, `temperature must be ${protocol.temperatureRange}, got ${temperature}.`);
  require(topP > 0 && topP <= 1, `top_p must be in (0, 1], got ${topP}.`);
  require(minP >= 0 && minP <= 1, `min_p must be in [0, 1], got ${minP}.`);
  require(topK >= 1 || topK === -1, `top_k must be -1 (disable) or at least 1, got ${topK}.`);
  require(Math.abs(frequencyPenalty) <= 2, `frequency_penalty must be in [-2, 2], got ${frequencyPenalty}.`);
  require(Math.abs(presencePenalty) <= 2, `presence_penalty must be in [-2, 2], got ${presencePenalty}.`);
  const { allowsZero, range } = protocol.repetitionPenalty;
  require(repetitionPenalty <= 2 &&
    (allowsZero
      ? repetitionPenalty >= 0
      : repetitionPenalty > 0), `repetition_penalty must be in ${range}, got ${repetitionPenalty}.`);
  require(minNewTokens >= 0, `min_new_tokens must be in [0, max_new_tokens], got ${minNewTokens}.`);
  if (maxNewTokens !== null) {
    require(maxNewTokens >= 0, `max_new_tokens must be at least 0, got ${maxNewTokens}.`);
    require(minNewTokens <=
      maxNewTokens, `min_new_tokens must be in [0, max_new_tokens(${maxNewTokens})], got ${minNewTokens}.`);
  }
  const seed = read.nullableInteger("sampling_seed");
  require(seed === null ||
    Math.abs(seed) < 2 ** 63, `sampling_seed must be in [-2**63, 2**63 - 1], got ${exact(seed)}.`);
  refuseGrammars(read, protocol);
  return {
    sampler: {
      maxNewTokens,
      minNewTokens,
      temperature: isGreedy ? 1 : temperature,
      topP,
      topK,
      minP,
      frequencyPenalty,
      presencePenalty,
      repetitionPenalty,
      stopTokenIds: read.boolean("ignore_eos", false) ? new Set() : new Set([...model.endTokenIds, ...stopTokenIds]),
      logitBias,
      seed,
    },
    output: {
      stopStrings,
      stopPatterns: stopPatterns.map(toPattern),
      skipSpecialTokens: read.boolean("skip_special_tokens", true),
      noStopTrim: read.boolean("no_stop_trim", false),
    },
    n: Math.max(1, n),
    streamInterval: Math.max(1, streamInterval),
    hasOwnBound: read.has("max_new_tokens") && maxNewTokens !== null,
  };
}

/** A whole number in digits; doubles from 2^53 on print rounded otherwise. */
function exact(value: number | null): string {
  return value === null ? "null" : BigInt(value).toString();
}

function require(holds: boolean, message: string): void {
  if (!holds) throw Refusal.ofValue(message);
}

function refuseGrammars(read: Reader, protocol: SglangProtocol): void {
  const named = ["json_schema", "regex", "ebnf", "structural_tag"].filter((name) => read.has(name));
  require(named.length <= 1, protocol.twoGrammars);
  require(named.length ===
    0, "Grammar-based generation (json_schema, regex, ebnf, structural_tag) is not supported when the server is launched with --grammar-backend none");
  for (const name of ["beam_width", "watermark", "choice"]) {
    require(!read.has(name), `This server samples only: ${name} is not supported.`);
  }
}

function toPattern(source: string): RegExp {
  try {
    return new RegExp(source, "u");
  } catch {
    throw Refusal.crash();
  }
}

/** Reads fields of a value that may be anything. */
class Reader {
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #nullIsDefault: boolean;

  constructor(value: unknown, nullIsDefault: boolean) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw Refusal.ofShape("sampling_params", "Input should be a valid dictionary");
    }
    this.#fields = value as Readonly<Record<string, unknown>>;
    this.#nullIsDefault = nullIsDefault;
  }

  names(): string[] {
    return Object.keys(this.#fields);
  }

  /** Null counts as absent, but for the one field where it means something. */
  has(name: string): boolean {
    return Object.hasOwn(this.#fields, name) && (this.#fields[name] !== null || name === "max_new_tokens");
  }

  number(name: string, absent: number, expected = "f64"): number {
    if (!this.has(name)) {
      // Older versions compare None with a number, which raises.
      if (Object.hasOwn(this.#fields, name) && !this.#nullIsDefault) throw wrongType(null, expected);
      return absent;
    }
    const value = this.#fields[name];
    if (typeof value !== "number") throw wrongType(value, expected);
    if (!Number.isFinite(value)) throw Refusal.ofShape("0", "JSON decode error");
    return value;
  }

  integer(name: string, absent: number): number {
    const value = this.number(name, absent, "i64");
    if (!Number.isInteger(value)) throw wrongType(value, "i64");
    return value;
  }

  nullableInteger(name: string): number | null {
    const value = this.#fields[name];
    if (value === undefined || value === null) return null;
    return this.integer(name, 0);
  }

  boolean(name: string, absent: boolean): boolean {
    const value = this.#fields[name];
    if (value === undefined || value === null) return absent;
    if (typeof value !== "boolean") throw wrongType(value, "a boolean");
    return value;
  }

  integers(name: string): number[] {
    const list = this.#list(name, "a sequence");
    for (const entry of list) if (!Number.isInteger(entry)) throw wrongType(entry, "i64");
    return list as number[];
  }

  strings(name: string): string[] {
    if (typeof this.#fields[name] === "string") return [this.#fields[name]];
    const list = this.#list(name, "a value or an array of values for StringOrList");
    for (const entry of list) if (typeof entry !== "string") throw wrongType(entry, "a string");
    return list as string[];
  }

  bias(name: string, vocabularySize: number | null): ReadonlyMap<number, number> {
    const value = this.#fields[name];
    if (value === undefined || value === null) return new Map();
    if (typeof value !== "object" || Array.isArray(value)) throw wrongType(value, "a map");
    const entries = Object.entries(value).map(([id, bias]: [string, unknown]) => {
      if (typeof bias !== "number") throw wrongType(bias, "f64");
      if (!/^-?\d+$/.test(id)) throw Refusal.ofValue(`invalid literal for int() with base 10: '${id}'`);
      require(Number(id) >= 0 &&
        Number(id) <
          (vocabularySize ?? Infinity), `logit_bias must has keys in [0, ${(vocabularySize ?? 0) - 1}], got ${id}.`);
      return [Number(id), bias] as const;
    });
    return new Map(entries);
  }

  #list(name: string, expected: string): unknown[] {
    const value = this.#fields[name];
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) throw wrongType(value, expected);
    return value as unknown[];
  }
}

function wrongType(value: unknown, expected: string): Refusal {
  return Refusal.ofParameter(`invalid type: ${typeName(value)}, expected ${expected}`);
}

function typeName(value: unknown): string {
  switch (typeof value) {
    case "string":
      return `string ${JSON.stringify(value)}`;
    case "boolean":
      return `boolean \`${value}\``;
    case "number":
      return `${Number.isInteger(value) ? "integer" : "floating point"} \`${value}\``;
    default:
      return value === null ? "null" : Array.isArray(value) ? "sequence" : "map";
  }
}
