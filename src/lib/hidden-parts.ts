// Finds secrets inside addresses and command lines, and removes them from the text. A part is
// secret by the words in its name (`api_key`, `X-Amz-Signature`, `--token`), by its position before
// the "@" of an address, or by the key prefix of a known service. It does not search prose: a value
// without a telling name passes.

/** Replacement for a removed part of a text. */
export const hiddenMark = "***";

/** Words that make a name secret, anywhere in it. */
const secretWords =
  "key|token|secret|password|passwd|passphrase|passcode|pass|pwd|auth|authorization|authentication|authtoken|signature|sig|" +
  "credential|credentials|creds|cred|jwt|bearer|apikey|otp|pat|sas|hmac|cookie";
/** Words that are joined with those, as in `accesskey` and `clientsecret`. */
const companions =
  "api|app|access|account|admin|auth|aws|azure|bearer|basic|client|csrf|db|encryption|function|functions|gateway|id|jwt|license|" +
  "login|master|oauth|private|proxy|refresh|root|sas|secret|service|session|shared|signing|storage|subscription|user|web|write|x|xsrf";
const secretWord = new RegExp(`^(?:${companions})*(?:${secretWords})$`);
/** Last words of names that only state where a secret is, or count something. */
const harmlessEnd =
  /^(?:env|variable|file|path|dir|directory|folder|name|names|type|mode|count|limit|size|length|ttl|tokens)$/;
/** Names that are secret only as a whole. */
const secretNames: ReadonlySet<string> = new Set(["code", "session", "sessionid", "sid"]);
/** Prefixes of keys from services that mark theirs. */
const knownKey =
  /^(?:sk-|sk_|pk_|rk_|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|hf_|xox[abeprs]-|AKIA|ASIA|AIza|eyJ|npm_|pypi-|nvapi-|gsk_|r8_|Basic\s|Bearer\s)./;

/** True for the name of a parameter, a header, a variable or a flag whose value is a secret. */
export function isSecretName(name: string): boolean {
  const words = decoded(name)
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replaceAll(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((word) => word !== "");
  if (harmlessEnd.test(words.at(-1) ?? "")) return false;
  // "pass word" and "api key" count as "password" and "apikey", however they are split.
  return (
    secretNames.has(words.join("")) || words.some((word) => secretWord.test(word)) || secretWord.test(words.join(""))
  );
}

/**
 * The text in a form that may be stored and shown: credentials and values of secret parts in its
 * addresses and words become {@link hiddenMark}. Everything else is unchanged, so hiding is
 * idempotent, and a text without secrets stays equal.
 */
export function hideSecrets(text: string): string {
  return replaceSecrets(text, () => undefined);
}

/** The secrets that {@link hideSecrets} removes, both as written and decoded. */
export function secretsInText(text: string): readonly string[] {
  const found = new Set<string>();
  replaceSecrets(text, (secret) => {
    const bare = /^(["'])(.*)\1$/s.exec(secret)?.[2] ?? secret;
    for (const form of [bare, decoded(bare)]) {
      found.add(form);
      // The value of a header may also be quoted without its scheme.
      const [, credential = ""] = /^(?:Basic|Bearer)\s+(\S.*)$/i.exec(form) ?? [];
      found.add(credential);
    }
  });
  found.delete("");
  return [...found];
}

/** True if the text has an HTTP or WebSocket address with a user or a password. */
export function hasHttpCredentials(text: string): boolean {
  return [...text.matchAll(credentials)].some(([, scheme = ""]) => isHttp(scheme));
}

/** True if something was removed from the text. */
export function isHidden(text: string): boolean {
  return text.includes(hiddenMark);
}

/**
 * The authority of an address ends at the first slash, question mark or hash, and its credentials
 * at its last "@".
 */
const credentials = /([a-z][a-z0-9+.-]{0,30}):\/\/([^\s/?#\\]*)@/gi;
/** `name=` in a query, a fragment, an assignment, or a flag. */
const assignment = /(?:^|[?&#;,=\s"':])([\w.%~[\]-]{1,200})=/g;
/** `--name `. */
const flag = /(?:^|\s)--?([A-Za-z][\w-]{0,100})\s+(?=[^\s-])/g;
/** `Name: `, the form in which headers are passed to programs. */
const header =
  /(?:^|[\s"'])(?=[\w-]{0,100}(?:key|token|secret|pass|pwd|auth|sig|cred|jwt|bearer|cookie|session))([A-Za-z][\w-]{0,100}):\s*(?=[^\s/])/gi;

/**
 * Values, starting where a name ends. A comma before another address ends a value, because lists of
 * addresses use commas.
 */
const values = {
  address: /(?:[^\s&#,]|,(?![a-z][a-z0-9+.-]{0,30}:))*/iy,
  word: /"[^"]*"|'[^']*'|(?:[^\s&#"'<>,]|,(?![a-z][a-z0-9+.-]{0,30}:))*/iy,
  line: /[^"'\n]*/y,
};
/** References to variables, whose values are elsewhere. */
const reference = /^["']?(?:[A-Za-z]+\s+)?\$(?:\w+|\{\w+\})["']?$/;

function replaceSecrets(text: string, found: (secret: string) => void): string {
  const shown = text.replaceAll(credentials, (whole, scheme: string, pair: string) => {
    if (pair === hiddenMark) return whole;
    for (const part of pair.split(":")) found(part);
    return `${scheme}://${hiddenMark}@`;
  });
  const value = /^\s*[a-z][a-z0-9+.-]{0,30}:\/\/\S*\s*$/i.test(shown) ? values.address : values.word;
  const isSecret = (name: string, beginning: string): boolean =>
    isSecretName(name) || knownKey.test(beginning.replace(/^["']/, "")) || credentialsInside(beginning);
  const queried = replaceNamed(shown, { name: assignment, value, isSecret, found });
  const flagged = replaceNamed(queried, { name: flag, value: values.word, isSecret, found });
  return replaceNamed(flagged, { name: header, value: values.line, isSecret: isSecretName, found });
}

/** Number of characters of a value that suffice to recognise a key, or an address with one. */
const peekedCharacters = 400;

/** One pass: it skips secret values, and searches any other value for names inside it. */
function replaceNamed(
  text: string,
  parts: {
    readonly name: RegExp;
    readonly value: RegExp;
    /** `beginning` is the start of the value and of the text after it. */
    readonly isSecret: (name: string, beginning: string) => boolean;
    readonly found: (secret: string) => void;
  },
): string {
  const { name, value, isSecret, found } = parts;
  let shown = "";
  let copied = 0;
  name.lastIndex = 0;
  for (let match = name.exec(text); match !== null; match = name.exec(text)) {
    const start = name.lastIndex;
    // Only secret values are read completely, and then skipped: reading every value would take
    // quadratic time.
    if (!isSecret(match[1] ?? "", text.slice(start, start + peekedCharacters))) continue;
    value.lastIndex = start;
    const given = value.exec(text)?.[0] ?? "";
    if (given === "" || given === hiddenMark || reference.test(given)) continue;
    found(given);
    shown += text.slice(copied, start) + hiddenMark;
    copied = start + given.length;
    name.lastIndex = copied;
  }
  return shown + text.slice(copied);
}

/** True for an address with credentials inside a parameter, percent-encoded. */
function credentialsInside(beginning: string): boolean {
  const value = /^[^\s&#,]*/.exec(beginning)?.[0] ?? "";
  return /%3a%2f%2f/i.test(value) && [...decoded(value).matchAll(credentials)].length > 0;
}

function isHttp(scheme: string): boolean {
  return /^(?:https?|wss?)$/i.test(scheme);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
