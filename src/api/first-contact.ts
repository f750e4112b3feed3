// Checks of servers before a run begins: they answer and accept requests, they serve the model of
// the folder with the requested context, and the models of user, agent and judge exist at their
// addresses.

import { AttributedError, ConfigurationError, type Tokenizer } from "../core/index.ts";
import { chatBase, findHostKey } from "../chat-models/index.ts";
import { asFields, createHttpPool, showAddress } from "../http/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { jsonOf } from "../lib/text.ts";
import type { ServerEngine } from "../parts/engine.ts";

export type FirstContactOptions = {
  /** Time to wait for a server that answers but does not accept requests yet. */
  readonly maxWaitMs: number;
  /** True to wait for an unreachable server as well. */
  readonly waitsForUnreachable: boolean;
  readonly signal: AbortSignal;
  /** Called once when it has to wait. */
  readonly onNotice: (message: string) => void;
  /** Default: the real one. */
  readonly clock?: Clock;
};

const pollMs = 1000;

/**
 * Resolves with the result of `ask` when the server accepts requests. Rejects with the last fault
 * when that takes too long. `ask` is repeated after faults that may pass: a router may call a
 * worker healthy for seconds after its death.
 */
export async function untilServerIsReady<T>(
  engine: ServerEngine,
  options: FirstContactOptions,
  ask: () => Promise<T>,
): Promise<T> {
  const { maxWaitMs, waitsForUnreachable, signal, onNotice, clock = systemClock } = options;
  const start = clock.now();
  for (let tries = 0; ; tries++) {
    let fault: AttributedError | null = null;
    let isReady = false;
    try {
      isReady = await engine.isReady({ signal });
      if (isReady) return await ask();
    } catch (error) {
      const mayPass = error instanceof AttributedError && error.failure.retryable;
      if (!mayPass || (!isReady && !waitsForUnreachable)) throw error;
      fault = error;
    }
    if (clock.now() - start + pollMs > maxWaitMs) throw fault ?? notReady(engine.address, maxWaitMs);
    if (tries === 0) {
      const state = fault === null ? "takes no requests yet" : "cannot be reached";
      onNotice(`The server at ${engine.address} ${state}; waiting ${Math.round(maxWaitMs / 1000)} seconds at most.`);
    }
    await clock.sleep(pollMs, signal);
  }
}

function notReady(address: string, maxWaitMs: number): ConfigurationError {
  return new ConfigurationError(
    `Cannot roll out: the server at ${address} answers, but has not accepted requests for ${Math.round(maxWaitMs / 1000)} seconds ` +
      "(it is loading, paused, or a router without a healthy worker); check it, or raise --engine-wait.",
  );
}

/** Words, digits, spaces and letters of several scripts: other vocabularies split them differently. */
export const probe = "The 12 quick brown foxes\n\tjump over 345 lazy dogs; naïve Grüße, 你好, привет!";

/**
 * Rejects with a `ConfigurationError` when a server has a different vocabulary than the folder, or
 * less context than requested.
 */
export async function checkServerModel(
  engine: ServerEngine,
  expected: {
    readonly tokenizer: Tokenizer;
    /** `null` for the readable tokenizer, which has no folder. */
    readonly folder: string | null;
    readonly maxContextTokens: number | null;
    /** Names in `sampling.extra`. */
    readonly sampling: readonly string[];
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { tokenizer, folder, maxContextTokens, sampling, signal } = expected;
  const dropped = (await engine.droppedParameters?.(sampling, { signal })) ?? [];
  if (dropped.length > 0) {
    throw new ConfigurationError(
      `Cannot roll out through the router at ${engine.address}: it silently drops ${dropped.join(", ")}; leave ` +
        "--sampling-extra, or name the servers behind the router with --url.",
    );
  }
  const ours = [...tokenizer.encode(probe)];
  for (const { address, contextLength, tokens } of await engine.serverFacts(probe, { signal })) {
    if (contextLength !== null && maxContextTokens !== null && maxContextTokens > contextLength) {
      throw new ConfigurationError(
        `Cannot roll out with --max-context-tokens ${maxContextTokens}: the server at ${address} has a context of ${contextLength} tokens; ` +
          "lower the limit, or start the server with a longer context.",
      );
    }
    if (folder === null || tokens === null || tokens.join() === ours.join()) continue;
    throw new ConfigurationError(
      `Cannot roll out with --model ${folder}: the server at ${address} has a different vocabulary (it splits a probe of ${probe.length} ` +
        `characters into ${tokens.length} tokens, the folder into ${ours.length}, and the ids differ); name the folder of the model that it serves.`,
    );
  }
}

/**
 * Requests the list of models from an OpenAI-compatible server. Rejects with a `ConfigurationError`
 * when it cannot be reached, refuses the key, or lacks the model. A list that is withheld or lacks
 * this model does not decide: some servers accept models by other names, or any name, and some keys
 * may sample but not list. In that case one token is requested from the model.
 */
export async function checkChatModel(
  contact: {
    readonly part: "user" | "agent" | "judge";
    readonly url: string;
    /** `null` if programs name it, so that only the server and the key are tried. */
    readonly model: string | null;
    readonly apiKey: string | null;
    /** Value of the `Authorization` header, in place of a key. Default `null`: none. */
    readonly authorization?: string | null;
    /** Variables that hold keys of known hosts, if no key is given. */
    readonly variables: Readonly<Record<string, string | undefined>>;
  },
  signal: AbortSignal,
): Promise<void> {
  const { part, url, model, variables, authorization = null } = contact;
  const base = chatBase(url, part, authorization);
  const address = showAddress(url.trim());
  const given = contact.apiKey === null ? {} : { apiKey: contact.apiKey };
  const apiKey = authorization === null ? findHostKey(part, base, { variables, ...given }) : null;
  const http = createHttpPool({ boundary: "user", connections: 1 });
  const headers = { ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }) };
  const options = { signal, timeoutMs: 5000 };
  try {
    const list = await http.request({ base, method: "GET", path: "/models", headers, body: null }, options);
    const names = list.status === 200 ? modelNames(list.body.toString()) : [];
    const isListed = names.some((name) => name === model || name.startsWith(`${model}:`) || name.includes("*"));
    if (!refusesKey(list) && (model === null || names.length === 0 || isListed)) return;
    const body = JSON.stringify({ model: model ?? "", messages: [{ role: "user", content: "Hi" }], max_tokens: 1 });
    const sent = { ...headers, "content-type": "application/json" };
    const reply = await http.request({ base, method: "POST", path: "/chat/completions", headers: sent, body }, options);
    if (refusesKey(reply) || (refusesKey(list) && reply.status === 404)) {
      throw new ConfigurationError(
        `Cannot use the ${part}'s model at ${address}: the server refuses the key (HTTP ${refusesKey(reply) ? reply.status : list.status}); name the variable that holds the right one with --${part}-api-key-env, or --${part}-authorization-env.`,
      );
    }
    if (model === null) return;
    const isUnknown = reply.status === 404 || (reply.status === 400 && reply.body.toString().includes(model));
    if (names.length === 0 || !isUnknown) return;
    throw new ConfigurationError(
      `Cannot use "${model}" as the ${part}'s model: the server at ${address} has ${names.slice(0, 10).join(", ")}${names.length > 10 ? ", ..." : ""}; correct --${part}-model.`,
    );
  } catch (error) {
    if (!(error instanceof AttributedError) || error.failure.code === "cancelled") throw error;
    // The server is reachable but does not answer this request.
    if (error.failure.code !== "unreachable") return;
    throw new ConfigurationError(
      `Cannot reach the server of the ${part}'s model at ${address}: ${error.failure.message.replace(/^[^:]*:\S*: /, "")}`,
      { cause: error },
    );
  } finally {
    await http.close();
  }
}

function refusesKey({ status }: { readonly status: number }): boolean {
  return status === 401 || status === 403;
}

/** The names of the models; empty when the answer is not a list of models. */
function modelNames(body: string): readonly string[] {
  const data = asFields(jsonOf(body))?.["data"];
  if (!Array.isArray(data)) return [];
  return data.map((entry) => asFields(entry)?.["id"]).filter((id) => typeof id === "string");
}
