// Whether the servers that a request names are those of the settings. Only they are sent the key: whoever may send requests
// could otherwise name a server of their own and read it there.

import { parseBaseUrl } from "../http/index.ts";
import { httpAddress } from "../lib/address.ts";
import type { RolloutSettings } from "./rollout-settings.ts";

type Addressed = Pick<RolloutSettings, "engine" | "url" | "host" | "port">;

/** `urls`: as in a setting, with commas between them. Throws a `ConfigurationError` for what is no address. */
export function areOwnServers(urls: string, settings: Addressed): boolean {
  const own = new Set(originsOf(settings.url ?? addressOf(settings)));
  return originsOf(urls).every((origin) => own.has(origin));
}

function originsOf(urls: string): readonly string[] {
  return urls.split(",").map((url) => parseBaseUrl(url, { what: "server" }).origin);
}

function addressOf({ engine, host, port }: Addressed): string {
  return httpAddress(host ?? "127.0.0.1", port ?? (engine === "vllm" ? 8000 : 30_000));
}
