// The name of a session that a key opens by first use. The name appears in the journal, in exports,
// in the viewer and in messages, and the key may be a real secret: a misconfigured client sends its
// provider's key. So a key becomes the name only if it looks like a name that people would choose;
// any other key is replaced by its hash.

import { hash } from "node:crypto";

/** Lower or upper case, or capitalized. */
const letters = (most: number): string => `(?:[a-z]{1,${most}}|[A-Z]{1,${most}}|[A-Z][a-z]{1,${most - 1}})`;
/**
 * Letters, then optional digits, at most 17 characters: shorter than any key of a provider, so that
 * no random key has this form by chance (an AWS key id has 20, often letters before digits).
 */
const word = `(?:${letters(15)}\\d{0,2}|${letters(10)}\\d{3,5})`;
/**
 * Names made of words and numbers with single separators: "s1", "codex", "weather-17",
 * "run_2026.11.25-a3".
 */
const plainName = new RegExp(`^${word}(?:[-_.](?:${word}|\\d{1,8})){0,5}$`);
const longestName = 40;

/** Prefixes by which providers mark their keys, for keys that are short or invented. */
const keyWord = /^(?:sk|pk|rk|ta|gsk|hf|xai|gh[opusr]|glpat|pplx|nvapi|xox[a-z]|csk|fw|tvly|dapi)[-_]/i;

export function sessionName(key: string): string {
  const isName = key.length <= longestName && plainName.test(key) && !keyWord.test(key);
  return isName ? key : `session-${hash("sha256", key).slice(0, 12)}`;
}
