// What a session is called that a key opens by first use. Its name stands in the journal, in exports, in the viewer and in messages, and
// the key may be anybody's: a client that was not pointed elsewhere sends the key of its provider. So a key is a name only where it is
// built as people build names; everything else is called by its hash.

import { hash } from "node:crypto";

/**
 * Words and numbers, joined by single separators: "s1", "codex", "weather-17", "run_2026.11.25-a3". A word has one case and at most fifteen
 * letters, and digits only after them; nobody's key is built like that, because keys are random.
 */
const plainName = /^(?:[a-z]{1,15}|[A-Z]{1,15}|[A-Z][a-z]{1,14})\d{0,5}(?:[-_.](?:(?:[a-z]{1,15}|[A-Z]{1,15}|[A-Z][a-z]{1,14})\d{0,5}|\d{1,8})){0,5}$/; // prettier-ignore
const longestName = 40;

/** First words of keys by which their providers tell them, for those that are short or made up. */
const keyWord = /^(?:sk|pk|rk|ta|gsk|hf|xai|ghp|gho|ghu|ghs|ghr|github|glpat|pplx|nvapi|npm|pypi|xox[a-z]|aiza|akia|asia|eyj|csk|fw|tvly|dapi|bearer|basic)(?:[-_.]|\d|$)/i; // prettier-ignore

export function sessionName(key: string): string {
  const isName = key.length <= longestName && plainName.test(key) && !keyWord.test(key);
  return isName ? key : `session-${hash("sha256", key).slice(0, 12)}`;
}
