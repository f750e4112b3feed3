// Options that every engine with a server has.

import { address, free, named, seconds, section, text, variable, whole } from "../parts/setting.ts";

/** Time in seconds. */
export const defaultEngineWait = 300;

export const serverOptions = section("The policy", {
  url: address("an address like http://127.0.0.1:30000, or several with commas between them").help(
    "SGLang server or router, or vLLM server, like http://router:30000; several, separated by commas, share the episodes",
    { ...free, isCommon: true },
  ),
  host: text("<name>", "a host name").help("instead of --url: host of the server (default: 127.0.0.1)", free),
  port: whole(null, { min: 1, max: 65_535 }).help(
    "instead of --url: port of the server (default: 30000; vLLM: 8000)",
    free,
  ),
  adapter: named("a LoRA adapter").help(
    "LoRA adapter that samples, by the name under which the server has it (default: none, the base samples)",
  ),
  apiKeyEnv: variable.help("environment variable with the key for the server"),
  engineAuthorizationEnv: variable.help(
    'environment variable with the Authorization header for the server, instead of a key, like "Basic <base64>"',
  ),
  connectTimeout: seconds(10).help("time limit for connecting to the engine's server", free),
  firstByteTimeout: seconds().help(
    "time limit for the first byte of an engine's reply (default: that of the whole call)",
    free,
  ),
  engineWait: seconds().help(
    `how long a turn, or the first contact, waits for an engine's server that accepts no requests (default: ${defaultEngineWait}; unless given, the first contact does not wait for an unreachable server)`,
    free,
  ),
});
