// Which endpoint a server has. Asked once, by an empty body that samples nothing: the endpoint of ids refuses it as invalid
// (400, 422) where it is served, and in other ways where it is not (404; 403 since 0.32, unless it was enabled).

import type { EngineServer, HttpCallOptions } from "../../http/index.ts";
import { completionsEndpoint, generateEndpoint, type Endpoint } from "./endpoints.ts";
import { isDisabled } from "./vllm-dialect.ts";

/** Rejects with an `AttributedError` when the server says neither. */
export async function findEndpoint(server: EngineServer, options: HttpCallOptions): Promise<Endpoint> {
  const { path } = generateEndpoint;
  const answer = await server.send(server.request(path, "{}"), options);
  if (answer.status === 404 || answer.status === 405) return completionsEndpoint;
  if (answer.status === 403 && isDisabled(answer.body.toString())) return completionsEndpoint;
  if (answer.status === 400 || answer.status === 422) return generateEndpoint;
  throw server.refusal(answer, server.context("look for the endpoint of", path));
}
