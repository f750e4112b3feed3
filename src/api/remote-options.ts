// Options in the address of a remote environment:
// `openenv:ws://127.0.0.1:8000?reward=last&capacity=4`. They are kept in the address, so that a
// recorded run contains them. A parameter with the name of a secret (`api_key`) belongs to the
// server: it is sent with every request and never recorded.

import { ConfigurationError } from "../core/index.ts";
import type { accessOptions, mcpOptions, taskOptions } from "../environments/remote/options.ts";
import type { RemoteSource } from "../environments/remote/index.ts";
import { parseBaseUrl } from "../http/index.ts";
import { isSecretName } from "../lib/hidden-parts.ts";
import { suggestion } from "../lib/nearest.ts";
import type { EnvironmentContext, LoadedEnvironment } from "../parts/environment.ts";
import type { SettingValues } from "../parts/setting.ts";

type Options = SettingValues<typeof accessOptions & typeof taskOptions & typeof mcpOptions>;

/** Context of a remote environment: `rest` is its address, `options` those that are not in it. */
export type RemoteContext<More extends keyof Options = never> = EnvironmentContext<
  Pick<Options, "envApiKeyEnv" | "envAuthorizationEnv" | More>
>;

/** A remote environment with the defaults of its rollouts. */
export function loadedRemote(source: RemoteSource): LoadedEnvironment {
  return { source, defaultSplit: source.splits[0] ?? "", defaultTasks: "all" };
}

export type RemoteAddress = {
  readonly origin: string;
  /** Path without a trailing slash. */
  readonly path: string;
  /** The server's own parameters, with their question mark; empty when there are none. */
  readonly search: string;
  /** The value of an option; `null` if it is not given. */
  text(name: string): string | null;
  choice<T extends string>(name: string, choices: readonly T[]): T | null;
  count(name: string): number | null;
  flag(name: string): boolean | null;
};

/**
 * Throws a `ConfigurationError` for an invalid address, one with credentials, and an unknown or
 * mistyped option.
 */
export function readRemoteAddress(
  address: string,
  options: { readonly what: string; readonly known: readonly string[] },
): RemoteAddress {
  const { what, known } = options;
  const [place = "", query = ""] = address.split(/\?(.*)/s);
  const setting = "--env-authorization-env";
  const base = parseBaseUrl(place.replace(/^ws(s?):\/\//i, "http$1://"), { what, setting });
  const refuse = (state: string): never => {
    throw new ConfigurationError(`Cannot use the address of the ${what}: ${state}; correct --env.`);
  };
  const given = new URLSearchParams(query);
  const parts = query.split("&").filter((part) => part !== "");
  const isOwn = (name: string): boolean => known.includes(name);
  for (const name of given.keys()) {
    if (isOwn(name) || isSecretName(name)) continue;
    const near = suggestion(name, known);
    refuse(`it has no option "${name}", there are ${known.join(", ")}${near === null ? "" : ` (${near})`}`);
  }
  // Other parameters are kept as written: a signature may not survive decoding and encoding.
  const passed = parts.filter((part) => ![...new URLSearchParams(part).keys()].some(isOwn)).join("&");
  const text = (name: string): string | null => given.get(name);
  const choice = <T extends string>(name: string, choices: readonly T[]): T | null => {
    const value = text(name);
    const found = choices.find((one) => one === value);
    return value === null ? null : (found ?? refuse(`${name} is "${value}", expected one of ${choices.join(", ")}`));
  };
  return {
    origin: base.origin,
    path: base.path,
    search: passed === "" ? "" : `?${passed}`,
    text,
    choice,
    count: (name) => {
      const value = text(name);
      if (value === null) return null;
      return /^[1-9]\d{0,8}$/.test(value)
        ? Number(value)
        : refuse(`${name} is "${value}", expected a whole number from 1`);
    },
    flag: (name) => {
      const value = choice(name, ["true", "false"]);
      return value === null ? null : value === "true";
    },
  };
}
