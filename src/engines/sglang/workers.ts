// Who really samples: a router forwards generations but neither aborts nor pauses, so those calls must reach every worker.

import {
  asFields,
  badReply,
  parseBaseUrl,
  parseJson,
  showAddress,
  type BaseUrl,
  type EngineServer,
  type FailureContext,
  type HttpCallOptions,
} from "../../http/index.ts";

export type SglangWorker = {
  /** Safe to show. */
  readonly url: string;
  /** The router's opinion; `null` when it does not say. */
  readonly isHealthy: boolean | null;
};

export type Worker = SglangWorker & { readonly server: EngineServer };

/** Routers since mid-2025, and those before. */
const listings = ["/workers", "/list_workers"];

/**
 * The workers behind a router; `null` when the server is a worker itself. Rejects with an `AttributedError` when the
 * router refuses or names addresses that cannot be called.
 */
export async function listWorkers(server: EngineServer, options: HttpCallOptions): Promise<readonly Worker[] | null> {
  for (const path of listings) {
    const context = server.context("list the workers of", path);
    const answer = await server.send(server.request(path, null), options);
    if (answer.status === 404 || answer.status === 405) continue;
    if (answer.status !== 200) throw server.refusal(answer, context);
    return readWorkers(parseJson(answer.body, context), context).map(({ base, isHealthy }) => ({
      url: base.origin + base.path,
      isHealthy,
      server: server.at(base),
    }));
  }
  return null;
}

function readWorkers(value: unknown, context: FailureContext): { base: BaseUrl; isHealthy: boolean | null }[] {
  const fields = asFields(value);
  const entries: unknown = fields?.["workers"] ?? fields?.["urls"];
  if (!Array.isArray(entries)) throw badReply(context, "it lists neither workers nor urls");
  return (entries as readonly unknown[]).map((entry) => {
    const worker = asFields(entry);
    const url = worker === null ? entry : worker["url"];
    const health = worker?.["is_healthy"];
    return { base: readAddress(url, context), isHealthy: typeof health === "boolean" ? health : null };
  });
}

function readAddress(url: unknown, context: FailureContext): BaseUrl {
  if (typeof url !== "string") throw badReply(context, "a worker has no url");
  try {
    // A router that knows data-parallel ranks writes `http://host:port@rank`; the server behind all ranks is one.
    return parseBaseUrl(url.replace(/@\d+$/, ""), { what: "SGLang worker" });
  } catch {
    throw badReply(context, `the address "${showAddress(url)}" of a worker cannot be called`, { retryable: false });
  }
}
