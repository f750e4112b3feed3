// Keys: read from the environment by name, and taken out of everything that is shown or written. A flag never holds a key.

import { ConfigurationError } from "../core/index.ts";
import { createRedactor, parseBaseUrl } from "../http/index.ts";
import { parseNatsAddress } from "../queue/nats/index.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Names of variables that keys were read from, whether a flag, a file or a run to resume named them. */
const readFrom = new WeakMap<Env, Set<string>>();

/**
 * The key in the variable that a flag names. Throws a `ConfigurationError` when it is not set; the message repeats the name
 * only when it can hardly be a key itself.
 */
export function readKey(env: Env, variable: string | null, flag: string): string | null {
  if (variable === null) return null;
  const key = env[variable]?.trim() ?? "";
  if (key !== "") {
    const names = readFrom.get(env) ?? new Set();
    readFrom.set(env, names.add(variable));
    return key;
  }
  const named = /^[A-Z][A-Z0-9_]{0,40}$/.test(variable)
    ? `environment variable "${variable}"`
    : "the variable it names";
  throw new ConfigurationError(
    `Cannot use ${flag}: ${named} is not set; export it, and give ${flag} its name, not the key itself.`,
  );
}

/** Shorter values are no secrets ("EMPTY", "none"), and replacing them would garble what people said. */
const shortestSecret = 8;

/**
 * Takes secrets out of texts: the named keys, those that `readKey` has read until then, whatever else the environment holds
 * under the name of a key, and credentials in addresses; in the spellings that `createRedactor` names.
 */
export function redactorFor(
  env: Env,
  options: { readonly variables: readonly (string | null)[]; readonly urls: readonly (string | null)[] },
): (text: string) => string {
  let redact: ((text: string) => string) | null = null;
  let known = 0;
  return (text) => {
    const names = readFrom.get(env) ?? new Set();
    if (redact === null || names.size > known) {
      known = names.size;
      redact = createRedactor(secretsIn(env, { ...options, variables: [...options.variables, ...names] }));
    }
    return redact(text);
  };
}

function secretsIn(env: Env, options: Parameters<typeof redactorFor>[1]): readonly string[] {
  const values = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && (options.variables.includes(name) || /(API_?KEY|_TOKEN|_SECRET|_PASSWORD)$/i.test(name))
      ? [value.trim()]
      : [],
  );
  // Several addresses may stand in one value.
  for (const url of options.urls) {
    for (const part of new Set([url, ...(url?.split(",") ?? [])])) values.push(...credentialsOf(part));
  }
  return values.filter((value) => value.length >= shortestSecret);
}

function credentialsOf(url: string | null): readonly string[] {
  if (url === null) return [];
  try {
    if (/^\s*(nats|tls):/i.test(url)) return parseNatsAddress(url).secrets;
    return parseBaseUrl(url, { what: "server" }).secrets;
  } catch {
    // An address that cannot be read is refused where it is used.
    return [];
  }
}
