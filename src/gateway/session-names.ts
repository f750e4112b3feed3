// The name of a session that a key opens by first use. The name appears in the journal, in exports,
// in the viewer and in messages, and the key may be a real secret: a misconfigured client sends its
// provider's key. So a key becomes the name only if it looks like a name that people would choose;
// any other key is replaced by its hash.

import { hash } from "node:crypto";

/**
 * Lower or upper case, or capitalized, at most fifteen letters, then optional digits: random keys
 * do not have this form.
 */
const word = "(?:[a-z]{1,15}|[A-Z]{1,15}|[A-Z][a-z]{1,14})\\d{0,5}";
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
