// The rewards of a verifier: what Harbor 0.25 makes of the files that a task's tests leave in
// /logs/verifier, with Harbor's names of exceptions as codes of failures at boundary "grader".

import { type AttributedError, faultAt } from "../../core/failure.ts";
import { parseJson } from "../../python-semantics/json/parse-json.ts";
import { JsonFloat } from "../../python-semantics/json/value.ts";

/**
 * Faults of a verifier, by Harbor's names. "NoRewardError" is ours: rewards without the key "reward"
 * that are not exactly one.
 */
export type VerifierFaultCode =
  | "VerifierTimeoutError"
  | "RewardFileNotFoundError"
  | "RewardFileEmptyError"
  | "VerifierOutputParseError"
  | "ValidationError"
  | "NoRewardError"
  | "AddTestsDirError";

/** A fault of the verifier, which fails its episode: it has no reward, not 0. */
export function verifierFault(
  code: VerifierFaultCode,
  problem: string,
  options: { readonly cause?: unknown } = {},
): AttributedError {
  return faultAt("grader", code, `Cannot grade the episode: ${problem}.`, options);
}

/** The rewards file that was found, with its content. */
export type RewardFile = { readonly type: "json" | "text"; readonly content: string };

/** All rewards by name, finite. Throws a failure with Harbor's name for a file without rewards. */
export function readRewards(file: RewardFile | null): Readonly<Record<string, number>> {
  if (file === null) {
    throw verifierFault(
      "RewardFileNotFoundError",
      "the tests wrote neither /logs/verifier/reward.json nor /logs/verifier/reward.txt",
    );
  }
  const { type, content } = file;
  const name = type === "json" ? "reward.json" : "reward.txt";
  if (content === "") throw verifierFault("RewardFileEmptyError", `"${name}" is empty`);
  return type === "json" ? readJson(content) : { reward: readText(content) };
}

function readText(content: string): number {
  const value = pythonFloat(content);
  if (value !== null && Number.isFinite(value)) return value;
  throw verifierFault("VerifierOutputParseError", `"reward.txt" is ${shown(content)}, expected a finite number`);
}

const digits = String.raw`\d+(?:_\d+)*`;
const float = new RegExp(`^[+-]?(?:${digits}(?:\\.(?:${digits})?)?|\\.${digits})(?:e[+-]?${digits})?$`, "i");

/** Python's `float(text)`, for text without digits of other scripts; `null` where it raises or is not finite. */
function pythonFloat(text: string): number | null {
  const trimmed = text.trim();
  return float.test(trimmed) ? Number(trimmed.replaceAll("_", "")) : null;
}

function readJson(content: string): Readonly<Record<string, number>> {
  let parsed: unknown;
  try {
    parsed = parseJson(content);
  } catch (error) {
    throw verifierFault("VerifierOutputParseError", '"reward.json" is not JSON', { cause: error });
  }
  if (!(parsed instanceof Map)) {
    // Harbor accepts a number at first, and refuses it later, where it expects rewards by name.
    const isNumber = Number.isFinite(toNumber(parsed) ?? NaN);
    const problem = `"reward.json" is ${shown(content)}, expected an object of numbers`;
    throw verifierFault(isNumber ? "ValidationError" : "VerifierOutputParseError", problem);
  }
  return Object.fromEntries(
    [...(parsed as ReadonlyMap<string, unknown>)].map(([name, value]) => {
      const number = toNumber(value);
      if (number !== null && Number.isFinite(number)) return [name, number];
      throw verifierFault(
        "VerifierOutputParseError",
        `the reward ${JSON.stringify(name)} in "reward.json" is not a finite number`,
      );
    }),
  );
}

function toNumber(value: unknown): number | null {
  if (value instanceof JsonFloat) return value.value;
  return typeof value === "number" || typeof value === "boolean" || typeof value === "bigint" ? Number(value) : null;
}

function shown(content: string): string {
  return JSON.stringify(content.length > 80 ? `${content.slice(0, 80)}...` : content);
}

/** The reward for learning: the one named "reward", or the only one. */
export function mainReward(rewards: Readonly<Record<string, number>>): number {
  if (Object.hasOwn(rewards, "reward")) return rewards["reward"]!;
  const names = Object.keys(rewards);
  if (names.length === 1) return rewards[names[0]!]!;
  throw verifierFault(
    "NoRewardError",
    names.length === 0
      ? "the tests wrote no rewards"
      : `the tests wrote the rewards ${names.slice(0, 10).join(", ")}, and none is named "reward"`,
  );
}
