// Keys: read from the environment by name, and removed from all output. A flag never holds a key.

import { ConfigurationError } from "../core/index.ts";
import { createRedactor } from "../http/redactor.ts";
import { secretsInText } from "../lib/hidden-parts.ts";
import { parseNatsAddress } from "../queue/nats/nats-address.ts";
import type { Access } from "../parts/engine.ts";
import { keyOf } from "../parts/setting.ts";

type Env = Readonly<Record<string, string | undefined>>;

/**
 * Names of variables that keys were read from, no matter if a flag, a file or a resumed run named
 * them.
 */
const readFrom = new WeakMap<Env, Set<string>>();

/**
 * The key in the variable that a flag names. Throws a `ConfigurationError` when it is not set; the
 * message repeats the name only when it can hardly be a key itself.
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
    `Cannot use ${flag}: ${named} is not set; export it, and set ${flag} to its name, not to the key itself.`,
  );
}

const accessNames = {
  engine: { key: "apiKeyEnv", authorization: "engineAuthorizationEnv" },
  agent: { key: "agentApiKeyEnv", authorization: "agentAuthorizationEnv" },
  user: { key: "userApiKeyEnv", authorization: "userAuthorizationEnv" },
  judge: { key: "judgeApiKeyEnv", authorization: "judgeAuthorizationEnv" },
  env: { key: "envApiKeyEnv", authorization: "envAuthorizationEnv" },
} as const;

/** Parts of a run that have a server. */
export type AccessPart = keyof typeof accessNames;
type AccessSetting<Part extends AccessPart> = (typeof accessNames)[Part]["key" | "authorization"];

/** Names of variables that may hold secrets of the servers of these settings. */
export function accessVariables(settings: Readonly<Record<string, unknown>>): readonly string[] {
  const names = Object.values(accessNames).flatMap(({ key, authorization }) => [key, authorization]);
  return [...names, "metricsAuthorizationEnv", "queueTokenEnv"]
    .map((name) => settings[name])
    .filter((value) => typeof value === "string");
}

/** Reads the variables that the settings name. Throws a `ConfigurationError` when one is not set, or both are named. */
export function readAccess<Part extends AccessPart>(
  part: Part,
  settings: Readonly<Record<AccessSetting<Part>, string | null>>,
  env: Env,
): Access {
  const { key, authorization } = accessNames[part];
  const named = settings as Readonly<Record<string, string | null>>;
  const [keyFlag, flag] = [`--${keyOf(key)}`, `--${keyOf(authorization)}`];
  const [keyName = null, name = null] = [named[key], named[authorization]];
  if (keyName !== null && name !== null) {
    throw new ConfigurationError(
      `Cannot use ${keyFlag} with ${flag}: a key is also sent in the Authorization header; pass only one of them.`,
    );
  }
  return { apiKey: readKey(env, keyName, keyFlag), authorization: readKey(env, name, flag) };
}

/** Shorter values are not secrets ("EMPTY", "none"), and replacing them would garble conversations. */
const shortestSecret = 8;

/**
 * Removes secrets from text: the named keys, the keys that `readKey` has read so far, all other
 * values that the environment holds under the name of a key, and credentials in addresses; in the
 * spellings that `createRedactor` names.
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
  for (const url of options.urls) {
    if (url !== null) values.push(...secretsInText(url), ...queueSecrets(url));
  }
  return values.filter((value) => value.length >= shortestSecret);
}

/** A password of a queue may hold any character. */
function queueSecrets(url: string): readonly string[] {
  if (!/^\s*(nats|tls):/i.test(url)) return [];
  try {
    return parseNatsAddress(url).secrets;
  } catch {
    // An unreadable address is refused where it is used.
    return [];
  }
}
