// The dialect of a request, by its path.

import type { Dialect } from "../request.ts";
import { chatDialect, completionsDialect } from "./chat.ts";
import { sglangDialect, vllmDialect } from "./generate.ts";
import { googleDialect } from "./google.ts";
import { messagesDialect } from "./messages.ts";
import { responsesDialect } from "./responses.ts";

export type DialectPath = {
  readonly dialect: Dialect;
  /** True if the request counts tokens, and nothing is sampled. */
  readonly counts: boolean;
  /** Key in the query; `null` if it has none, or the dialect's clients do not send it there. */
  readonly key: string | null;
};

const dialects: Readonly<Record<string, Dialect>> = {
  "/chat/completions": chatDialect,
  "/messages": messagesDialect,
  "/responses": responsesDialect,
  "/completions": completionsDialect,
  "/generate": sglangDialect,
  "/inference/v1/generate": vllmDialect,
};

/**
 * A model of Google, after a version of its API or none, also below a project. A base URL that
 * ends with /v1 precedes the version of the API.
 */
const googlePath =
  /^(?:\/v1)?(?:\/v1(?:alpha|beta)\d*)?\/(?:projects\/[^/]+\/locations\/[^/]+\/publishers\/[^/]+\/)?(?:models|tunedModels)\/([^/]+?)(?::|%3A)(generateContent|streamGenerateContent|countTokens)$/i;

/** `null` if no dialect has the path. `path`: without the key of a session. */
export function dialectAt(path: string, query: string): DialectPath | null {
  const own = path.startsWith("/v1/") ? path.slice(3) : path;
  const counted = own.replace(/\/count_tokens$/, "");
  const dialect = dialects[counted];
  if (dialect !== undefined) return { dialect, counts: own !== counted, key: null };
  const [, model, method] = googlePath.exec(path) ?? [];
  if (model === undefined || method === undefined) return null;
  const parameters = new URLSearchParams(query);
  const [isStreamed, counts] = ["streamgeneratecontent", "counttokens"].map((one) => one === method.toLowerCase()) as [
    boolean,
    boolean,
  ];
  const hasEvents = parameters.get("alt")?.toLowerCase() === "sse";
  return {
    dialect: googleDialect({ model: unescaped(model), isStreamed, hasEvents, counts }),
    counts,
    key: parameters.get("key"),
  };
}

function unescaped(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
