// Secrets inside addresses and command lines: which parts they are, and the text without them. A part is secret by the words of its
// name (`api_key`, `X-Amz-Signature`, `--token`), by standing before the "@" of an address, or by beginning as keys of known
// services begin. Not a search for secrets in prose: a value without a telling name passes.

/** Stands where a part of a text was taken out. */
export const hiddenMark = "***";

/** Words that make a name secret, in any place of it. */
const secretWords =
  "key|token|secret|password|passwd|passphrase|passcode|pass|pwd|auth|authorization|authentication|authtoken|signature|sig|" +
  "credential|credentials|creds|cred|jwt|bearer|apikey|otp|pat|sas|hmac|cookie";
/** Words that are written together with those, as in `accesskey` and `clientsecret`. */
const companions =
  "api|app|access|account|admin|auth|aws|azure|bearer|basic|client|csrf|db|encryption|function|functions|gateway|id|jwt|license|" +
  "login|master|oauth|private|proxy|refresh|root|sas|secret|service|session|shared|signing|storage|subscription|user|web|write|x|xsrf";
const secretWord = new RegExp(`^(?:${companions})*(?:${secretWords})$`);
/** Last words of names that only say where a secret is, or count something. */
const harmlessEnd =
  /^(?:env|variable|file|path|dir|directory|folder|name|names|type|mode|count|limit|size|length|ttl|tokens)$/;
/** Secret as whole names only. */
const secretNames: ReadonlySet<string> = new Set(["code", "session", "sessionid", "sid"]);
/** How keys of services that mark theirs begin. */
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
  // "pass word" and "api key" count as "password" and "apikey", in whatever way they are cut.
  return (
    secretNames.has(words.join("")) || words.some((word) => secretWord.test(word)) || secretWord.test(words.join(""))
  );
}

/**
 * The text as it may be stored and shown: credentials and values of secret parts of its addresses and words are {@link hiddenMark}.
 * Anything else stays as it is, so that a text without secrets is unchanged, and hiding twice changes nothing.
 */
export function hideSecrets(text: string): string {
  return replaceSecrets(text, () => undefined);
}

/** The secrets that {@link hideSecrets} takes out, as they are written and as they are meant. */
export function secretsInText(text: string): readonly string[] {
  const found = new Set<string>();
  replaceSecrets(text, (secret) => {
    const bare = /^(["'])(.*)\1$/s.exec(secret)?.[2] ?? secret;
    for (const form of [bare, decoded(bare)]) {
      found.add(form);
      // A header's value is quoted without its scheme, too.
      const [, credential = ""] = /^(?:Basic|Bearer)\s+(\S.*)$/i.exec(form) ?? [];
      found.add(credential);
    }
  });
  found.delete("");
  return [...found];
}

/** True for an address of HTTP or a WebSocket in the text that names a user or a password. */
export function hasHttpCredentials(text: string): boolean {
  return [...text.matchAll(credentials)].some(([, scheme = ""]) => isHttp(scheme));
}

/** True when something was taken out of the text. */
export function isHidden(text: string): boolean {
  return text.includes(hiddenMark);
}

/** The authority of an address ends at the first slash, question mark or hash, and its credentials at the last "@" of it. */
const credentials = /([a-z][a-z0-9+.-]{0,30}):\/\/([^\s/?#\\]*)@/gi;
/** `name=` in a query, a fragment, an assignment, or a flag. */
const assignment = /(?:^|[?&#;,=\s"':])([\w.%~[\]-]{1,200})=/g;
/** `--name `. */
const flag = /(?:^|\s)--?([A-Za-z][\w-]{0,100})\s+(?=[^\s-])/g;
/** `Name: `, as headers are given to programs. */
const header =
  /(?:^|[\s"'])(?=[\w-]{0,100}(?:key|token|secret|pass|pwd|auth|sig|cred|jwt|bearer|cookie|session))([A-Za-z][\w-]{0,100}):\s*(?=[^\s/])/gi;

/** Values, from where a name ends. A comma before another address ends one, because addresses are listed with commas. */
const values = {
  address: /(?:[^\s&#,]|,(?![a-z][a-z0-9+.-]{0,30}:))*/iy,
  word: /"[^"]*"|'[^']*'|(?:[^\s&#"'<>,]|,(?![a-z][a-z0-9+.-]{0,30}:))*/iy,
  line: /[^"'\n]*/y,
};
/** Names of variables, whose values are elsewhere. */
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

/** How much of a value says that it is a key, or an address with one. */
const peekedCharacters = 400;

/** One pass: a secret value is passed over, any other may hold names of its own. */
function replaceNamed(
  text: string,
  parts: {
    readonly name: RegExp;
    readonly value: RegExp;
    /** `beginning`: of the value, and of what follows it. */
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
    // Whole values are read of secrets only, which are passed over: reading all of them would take the square of the length.
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

/** An address within a parameter, written with percent signs. */
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
