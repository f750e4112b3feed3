// Options that every engine with a server has.

import { address, free, seconds, section, text, variable, whole } from "../parts/setting.ts";

/** Time in seconds. */
export const defaultEngineWait = 300;

export const serverOptions = section("The policy", {
  url: address("an address like http://127.0.0.1:30000, or several with commas between them").help(
    "SGLang server or router, or vLLM server, like http://router:30000; several with commas between them share the episodes",
    { ...free, isCommon: true },
  ),
  host: text("<name>", "a host name").help("instead of --url: host of the server (default: 127.0.0.1)", free),
  port: whole(null, { min: 1, max: 65_535 }).help(
    "instead of --url: port of the server (default: 30000; vLLM: 8000)",
    free,
  ),
  apiKeyEnv: variable.help("environment variable with the key of the server"),
  engineAuthorizationEnv: variable.help(
    'environment variable with the value of the Authorization header that the server is sent, in place of a key, like "Basic <base64>"',
  ),
  connectTimeout: seconds(10).help("of a connection to the engine's server", free),
  firstByteTimeout: seconds().help("of the beginning of a reply of the engine (default: that of the whole call)", free),
  engineWait: seconds().help(
    `how long a turn, and the first contact, waits for an engine's server that takes no requests (default: ${defaultEngineWait}; unless given, the first contact does not wait for one that cannot be reached)`,
    free,
  ),
});
