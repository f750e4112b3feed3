// Which endpoint a server has. Asked once, by a GET that no version answers with anything but "there is no such method"
// (405) or "there is no such path" (404), so that asking samples nothing.

import type { EngineServer, HttpCallOptions } from "../../http/index.ts";
import { completionsEndpoint, generateEndpoint, type Endpoint } from "./endpoints.ts";

/** Rejects with an `AttributedError` when the server says neither. */
export async function findEndpoint(server: EngineServer, options: HttpCallOptions): Promise<Endpoint> {
  const { path } = generateEndpoint;
  const answer = await server.send(server.request(path, null), options);
  if (answer.status === 404) return completionsEndpoint;
  // Some proxies let a GET through to a body check.
  if (answer.status === 405 || answer.status === 400 || answer.status === 422) return generateEndpoint;
  throw server.refusal(answer, server.context("look for the endpoint of", path));
}
