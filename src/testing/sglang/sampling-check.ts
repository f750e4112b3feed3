// Sampling parameters of a /generate body, read as strictly as SGLang reads them: a name it does not know, or a value of a
// type it does not expect, is an exception nobody catches (HTTP 500); a value out of range is HTTP 400 with the reason.

import { Refusal } from "./refusal.ts";
import type { SamplerParams } from "../front/sampler.ts";

/** What the front itself does about a generation. */
export type OutputParams = {
  readonly stopStrings: readonly string[];
  readonly stopPatterns: readonly RegExp[];
  readonly skipSpecialTokens: boolean;
  readonly noStopTrim: boolean;
};

export type CheckedSampling = {
  /** `maxNewTokens` is what was asked for; `null`: as much as the context allows. */
  readonly sampler: Omit<SamplerParams, "maxNewTokens"> & { readonly maxNewTokens: number | null };
  readonly output: OutputParams;
  readonly n: number;
  /** True when the body named a bound: only then is it held against the context. */
  readonly hasOwnBound: boolean;
};

const names = new Set(
  `max_new_tokens stop stop_token_ids stop_regex temperature top_p top_k min_p frequency_penalty presence_penalty
   repetition_penalty min_new_tokens n json_schema regex ebnf structural_tag ignore_eos skip_special_tokens
   spaces_between_special_tokens no_stop_trim custom_params stream_interval logit_bias sampling_seed`.split(/\s+/),
);

/** Below this, sampling is greedy. */
const greedyTemperature = 1e-6;

/** Throws a `Refusal`. */
export function checkSampling(value: unknown, model: { readonly endTokenIds: readonly number[] }): CheckedSampling {
  const read = new Reader(value);
  for (const name of read.names()) if (!names.has(name)) throw Refusal.crash();
  const temperature = read.number("temperature", 1);
  const topP = read.number("top_p", 1);
  const topK = read.integer("top_k", -1);
  const minP = read.number("min_p", 0);
  const frequencyPenalty = read.number("frequency_penalty", 0);
  const presencePenalty = read.number("presence_penalty", 0);
  const repetitionPenalty = read.number("repetition_penalty", 1);
  const minNewTokens = read.integer("min_new_tokens", 0);
  const maxNewTokens = read.has("max_new_tokens") ? read.nullableInteger("max_new_tokens") : 128;
  const n = read.integer("n", 1);
  require(temperature >= 0, `temperature must be non-negative, got ${temperature}.`);
  require(topP > 0 && topP <= 1, `top_p must be in (0, 1], got ${topP}.`);
  require(minP >= 0 && minP <= 1, `min_p must be in [0, 1], got ${minP}.`);
  require(topK >= 1 || topK === -1, `top_k must be -1 (disable) or at least 1, got ${topK}.`);
  require(Math.abs(frequencyPenalty) <= 2, `frequency_penalty must be in [-2, 2], got ${frequencyPenalty}.`);
  require(Math.abs(presencePenalty) <= 2, `presence_penalty must be in [-2, 2], got ${presencePenalty}.`);
  require(repetitionPenalty >= 0 &&
    repetitionPenalty <= 2, `repetition_penalty must be in [0, 2], got ${repetitionPenalty}.`);
  require(minNewTokens >= 0, `min_new_tokens must be non-negative, got ${minNewTokens}.`);
  if (maxNewTokens !== null) {
    require(maxNewTokens >= 0, `max_new_tokens must be at least 0, got ${maxNewTokens}.`);
    require(minNewTokens <=
      maxNewTokens, `min_new_tokens must be in [0, max_new_tokens(${maxNewTokens})], got ${minNewTokens}.`);
  }
  require(n >= 1, `n must be at least 1, got ${n}.`);
  refuseGrammars(read);
  const isGreedy = temperature < greedyTemperature;
  return {
    sampler: {
      maxNewTokens,
      minNewTokens,
      temperature: isGreedy ? 1 : temperature,
      topP,
      topK: isGreedy ? 1 : topK,
      minP,
      frequencyPenalty,
      presencePenalty,
      repetitionPenalty,
      stopTokenIds: read.boolean("ignore_eos", false)
        ? new Set()
        : new Set([...model.endTokenIds, ...read.integers("stop_token_ids")]),
      logitBias: read.bias("logit_bias"),
      seed: read.nullableInteger("sampling_seed"),
    },
    output: {
      stopStrings: read.strings("stop"),
      stopPatterns: read.strings("stop_regex").map(toPattern),
      skipSpecialTokens: read.boolean("skip_special_tokens", true),
      noStopTrim: read.boolean("no_stop_trim", false),
    },
    n,
    hasOwnBound: read.has("max_new_tokens") && maxNewTokens !== null,
  };
}

function require(holds: boolean, message: string): void {
  if (!holds) throw Refusal.ofValue(message);
}

function refuseGrammars(read: Reader): void {
  const asked = ["json_schema", "regex", "ebnf", "structural_tag"].filter((name) => read.has(name));
  require(asked.length <= 1, "Only one of regex, json_schema, or ebnf can be set.");
  require(asked.length === 0, `Grammars are not supported by this server, got ${asked[0]}.`);
}

function toPattern(source: string): RegExp {
  try {
    return new RegExp(source, "u");
  } catch {
    throw Refusal.crash();
  }
}

/** Reads fields of a value that may be anything. A wrong type is the crash it is in the reference. */
class Reader {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(value: unknown) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw Refusal.ofShape("sampling_params: Input should be a valid dictionary");
    }
    this.#fields = value as Readonly<Record<string, unknown>>;
  }

  names(): string[] {
    return Object.keys(this.#fields);
  }

  /** Null counts as absent, as it does in the reference's constructor for all that may be null. */
  has(name: string): boolean {
    return Object.hasOwn(this.#fields, name) && (this.#fields[name] !== null || name === "max_new_tokens");
  }

  number(name: string, absent: number): number {
    if (!this.has(name)) return this.#refuseNull(name, absent);
    const value = this.#fields[name];
    if (typeof value !== "number") throw Refusal.crash();
    return value;
  }

  integer(name: string, absent: number): number {
    const value = this.number(name, absent);
    if (!Number.isInteger(value)) throw Refusal.crash();
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
    if (typeof value !== "boolean") throw Refusal.crash();
    return value;
  }

  integers(name: string): number[] {
    const list = this.#list(name);
    if (!list.every((entry): entry is number => Number.isInteger(entry))) throw Refusal.crash();
    return list;
  }

  strings(name: string): string[] {
    if (typeof this.#fields[name] === "string") return [this.#fields[name]];
    const list = this.#list(name);
    if (!list.every((entry) => typeof entry === "string")) throw Refusal.crash();
    return list;
  }

  bias(name: string): ReadonlyMap<number, number> {
    const value = this.#fields[name];
    if (value === undefined || value === null) return new Map();
    if (typeof value !== "object" || Array.isArray(value)) throw Refusal.crash();
    const entries = Object.entries(value).map(([id, bias]: [string, unknown]) => {
      if (!/^\d+$/.test(id) || typeof bias !== "number") throw Refusal.crash();
      return [Number(id), bias] as const;
    });
    return new Map(entries);
  }

  #list(name: string): unknown[] {
    const value = this.#fields[name];
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) throw Refusal.crash();
    return value as unknown[];
  }

  #refuseNull(name: string, absent: number): number {
    // Comparing None with a number raises.
    if (Object.hasOwn(this.#fields, name)) throw Refusal.crash();
    return absent;
  }
}
