// The settings of the vLLM engine.

import { ConfigurationError } from "../../core/failure.ts";
import type { ServerEngineOptions } from "../../http/index.ts";
import type { EndpointName } from "./endpoints.ts";
import type { VllmWarning } from "./logprobs-mode.ts";

export type VllmEngineOptions = ServerEngineOptions & {
  /** Address of a server, e.g. `http://vllm:8000`. Not together with `host` or `port`. */
  readonly url?: string;
  /** Default "127.0.0.1". */
  readonly host?: string;
  /** Default 8000. */
  readonly port?: number;
  /** Name of the served model, or of an adapter. Default `null`: left to the server. */
  readonly model?: string | null;
  /** Where to sample. Default "auto": "generate" where the server has it, else "completions"; asked at the first call. */
  readonly endpoint?: EndpointName | "auto";
  /**
   * What the server was started with: --logprobs-mode raw_logprobs (vLLM's default) or processed_logprobs. Nothing is
   * converted; with "raw", sampling that distorts the distribution calls `onWarning`. Default "raw".
   */
  readonly logprobsMode?: "raw" | "processed";
  /** Called once for each code. Default: a warning of the process. */
  readonly onWarning?: (warning: VllmWarning) => void;
  /** Header by which a router keeps the calls of an episode on one server; `null`: none. Default "x-session-id". */
  readonly routingHeader?: string | null;
  /** Asks for server-sent events; the results are the same, and an `abort` that closes the connection keeps the tokens that came. Default false. */
  readonly stream?: boolean;
};

const refused = (words: string): ConfigurationError =>
  new ConfigurationError(`Cannot make an engine for vLLM: ${words}.`);

/** Throws a `ConfigurationError` for values that plain JavaScript, or a configuration file, may hold. */
export function checkChoices(options: VllmEngineOptions): void {
  const { endpoint = "auto", logprobsMode = "raw", routingHeader = null, model = null } = options;
  if (!["auto", "generate", "completions"].includes(endpoint)) {
    throw refused(`endpoint is ${JSON.stringify(endpoint)}, wanted "auto", "generate" or "completions"`);
  }
  if (!["raw", "processed"].includes(logprobsMode)) {
    throw refused(`logprobsMode is ${JSON.stringify(logprobsMode)}, wanted "raw" or "processed"`);
  }
  if (routingHeader !== null && !/^[A-Za-z0-9-]+$/.test(routingHeader)) {
    throw refused(`routingHeader is ${JSON.stringify(routingHeader)}, wanted the name of a header`);
  }
  if (model === "") throw refused("model is empty, wanted the name of a served model or null");
}

/** The warning of whoever gave no `onWarning`. */
export function warnProcess({ code, message }: VllmWarning): void {
  process.emitWarning(message, { type: "VllmWarning", code });
}
