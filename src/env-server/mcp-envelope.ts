// MCP's revision 2026-07-28 over HTTP: without `initialize` and without sessions, each request
// states its revision and the capabilities of its client in `params._meta`, and repeats in headers
// what a proxy needs. This file recognizes and checks such requests, and adds the fields of that
// revision to results. `mcp-face.ts` carries out the requests.

type Fields = Readonly<Record<string, unknown>>;

/** Supported versions, the newest first. */
export const envelopeVersions: readonly string[] = ["2026-07-28"];

const metaPrefix = "io.modelcontextprotocol/";
const versionHeader = "mcp-protocol-version";

/** Requests whose header `Mcp-Name` repeats the given parameter. */
const namedBy: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
};

/** Methods whose results state how long they may be cached. Ours may not: an episode continues. */
const cacheable: ReadonlySet<string> = new Set(["server/discover", "tools/list", "prompts/list"]);

/** Refusal of a request, as a JSON-RPC error and an HTTP status. */
export type EnvelopeRefusal = {
  readonly status: number;
  readonly code: number;
  readonly message: string;
  readonly data: Fields | null;
};

export type EnvelopeVerdict =
  /** A request of an older revision, which begins with `initialize`. */
  | { readonly type: "session" }
  | { readonly type: "refused"; readonly refusal: EnvelopeRefusal }
  | { readonly type: "envelope" };

const headerMismatch = -32020;
const unsupportedVersion = -32022;
const invalidParams = -32602;

/** Classifies a request. `headers`: names in lower case. */
export function readEnvelope(
  message: { readonly method: string; readonly params: Fields },
  headers: Readonly<Record<string, string | undefined>>,
): EnvelopeVerdict {
  const { method, params } = message;
  const meta = fieldsOf(params["_meta"]);
  const claimed = meta?.[`${metaPrefix}protocolVersion`];
  const named = headers[versionHeader];
  const isNew = named !== undefined && envelopeVersions.includes(named);
  if (!isNew && typeof claimed !== "string") return { type: "session" };
  const missing = ["protocolVersion", "clientCapabilities"].filter((key) => meta?.[metaPrefix + key] === undefined);
  if (missing.length > 0) {
    const keys = missing.map((key) => metaPrefix + key).join(", ");
    return refused(400, invalidParams, `params._meta has no ${keys}.`);
  }
  if (named !== claimed) return refused(400, headerMismatch, "MCP-Protocol-Version is another than in params._meta.");
  if (headers["mcp-method"] !== method) return refused(400, headerMismatch, "Mcp-Method is another than the method.");
  const key = Object.hasOwn(namedBy, method) ? namedBy[method]! : null;
  const name = key === null ? null : params[key];
  if (typeof name === "string" && decodedHeader(headers["mcp-name"]) !== name) {
    return refused(400, headerMismatch, `Mcp-Name is another than params.${key}.`);
  }
  if (!envelopeVersions.includes(String(claimed))) {
    const data = { supported: envelopeVersions, requested: claimed };
    return refused(400, unsupportedVersion, "This revision of the protocol is not supported.", data);
  }
  if (fieldsOf(meta?.[`${metaPrefix}clientCapabilities`]) === null) {
    return refused(400, invalidParams, `${metaPrefix}clientCapabilities is not an object.`);
  }
  return { type: "envelope" };
}

function refused(status: number, code: number, message: string, data: Fields | null = null): EnvelopeVerdict {
  return { type: "refused", refusal: { status, code, message, data } };
}

/** Decodes a header: values that headers do not allow are sent as base64 between markers. */
function decodedHeader(value: string | undefined): string | null {
  const [, encoded] = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/.exec(value ?? "") ?? [];
  return encoded === undefined ? (value ?? null) : Buffer.from(encoded, "base64").toString("utf8");
}

/** Result in the form that a client of that revision expects. */
export function envelopeResult(method: string, result: unknown, serverInfo: Fields): Fields {
  const fields = fieldsOf(result) ?? {};
  return {
    resultType: "complete",
    ...fields,
    ...(cacheable.has(method) ? { ttlMs: 0, cacheScope: "private" } : {}),
    _meta: { ...fieldsOf(fields["_meta"]), [`${metaPrefix}serverInfo`]: serverInfo },
  };
}

function fieldsOf(value: unknown): Fields | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}
