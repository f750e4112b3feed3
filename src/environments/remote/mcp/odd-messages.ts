// Reads messages that deviate from the protocol, so that a malformed field costs only that field,
// and a malformed tool only that tool. The client library checks each message as a whole and drops
// it as a whole, so it is given a message that it accepts, with the server's own inside, and
// `tools/list` and `tools/call` are read here. All other messages are reduced to the fields that
// are understood.

import { type Tool, toolFromDefinition } from "../../../core/message.ts";
import { parseJson } from "../../../python-semantics/json/parse-json.ts";
import { fromForeign } from "../../../python-semantics/json/plain.ts";
import type { McpMessage } from "./mcp-library.ts";
import { asRecord } from "./result-text.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Key under which a result contains the server's own result. */
const rawKey = "trainable-agents/raw";
/** Requests whose answers are passed on whole, with the answer that wraps them for the library. */
const around: Readonly<Record<string, Fields>> = {
  "tools/call": { content: [] },
  "tools/list": { tools: [], ttlMs: 0, cacheScope: "private" },
};

/** The result as the server sent it. */
export function rawResult(result: unknown): unknown {
  const fields = asRecord(result);
  return fields !== null && rawKey in fields ? fields[rawKey] : result;
}

/**
 * Reads the messages of one connection. It records requests as they are sent, so that answers are
 * matched by id.
 */
export class OddMessages {
  readonly #requests = new Map<string, { readonly id: string | number; readonly method: string }>();

  sent(message: unknown): void {
    const { id, method } = asRecord(message) ?? {};
    if (typeof method === "string" && isId(id)) this.#requests.set(String(id), { id, method });
  }

  /**
   * The message in a form that the library accepts; `null` if it is not a message, such as a line
   * of a log.
   */
  read(value: unknown): McpMessage | null {
    const message = asRecord(value);
    if (message === null) return null;
    const { method, id, params } = message;
    if (typeof method === "string") {
      // A line of a log may also have a "method".
      if (message["jsonrpc"] !== "2.0") return null;
      const given = isId(id) ? { id } : {};
      const fields = asRecord(params);
      return { jsonrpc: "2.0", ...given, method, ...(fields === null ? {} : { params: withoutOddMeta(fields) }) };
    }
    if (!("result" in message) && !("error" in message)) return null;
    const key = isId(id) ? String(id) : null;
    const request = key === null ? undefined : this.#requests.get(key);
    if (request === undefined && message["jsonrpc"] !== "2.0") return null;
    if (key !== null) this.#requests.delete(key);
    const answer = { jsonrpc: "2.0", id: request?.id ?? (isId(id) ? id : null) };
    const fault = message["error"] ?? null;
    if (fault !== null) return { ...answer, error: errorOf(fault) };
    return { ...answer, result: resultOf(request?.method ?? "", message["result"]) };
  }
}

const isId = (id: unknown): id is string | number =>
  typeof id === "string" || (typeof id === "number" && Number.isFinite(id));

function errorOf(fault: unknown): Fields {
  const { code, message, data } = asRecord(fault) ?? {};
  const text = typeof message === "string" ? message : typeof fault === "string" ? fault : JSON.stringify(fault);
  const number = typeof code === "number" && Number.isInteger(code) ? code : -32603;
  return { code: number, message: text.slice(0, 10_000), ...(data === undefined ? {} : { data }) };
}

function resultOf(method: string, result: unknown): Fields {
  const fields = asRecord(result);
  if (Object.hasOwn(around, method) && fields?.["resultType"] !== "input_required") {
    return { resultType: "complete", ...around[method], [rawKey]: result ?? null };
  }
  if (fields === null) return {};
  if (method === "initialize") return aboutServer(fields);
  if (method === "server/discover") return discovered(fields);
  return withoutOddMeta(fields);
}

/**
 * The answer to `initialize`. A server that omits the version is taken as the oldest revision with
 * sessions.
 */
function aboutServer(fields: Fields): Fields {
  const { protocolVersion, instructions } = fields;
  return {
    protocolVersion: typeof protocolVersion === "string" ? protocolVersion : "2025-03-26",
    capabilities: capabilitiesOf(fields["capabilities"]),
    serverInfo: identityOf(fields["serverInfo"]),
    ...(typeof instructions === "string" ? { instructions } : {}),
  };
}

/**
 * The answer to `server/discover` of revision 2026-07-28. An answer of another shape means an older
 * server, and stays unchanged.
 */
function discovered(fields: Fields): Fields {
  const { supportedVersions, instructions, ttlMs, cacheScope } = fields;
  if (!Array.isArray(supportedVersions)) return fields;
  const meta = asRecord(fields["_meta"]) ?? {};
  const identity = meta[serverInfoKey] === undefined ? {} : { [serverInfoKey]: identityOf(meta[serverInfoKey]) };
  return {
    resultType: "complete",
    supportedVersions: supportedVersions.filter((version) => typeof version === "string"),
    capabilities: capabilitiesOf(fields["capabilities"]),
    ...(typeof instructions === "string" ? { instructions } : {}),
    ttlMs: typeof ttlMs === "number" && Number.isSafeInteger(ttlMs) && ttlMs >= 0 ? ttlMs : 0,
    cacheScope: cacheScope === "public" ? "public" : "private",
    _meta: { ...meta, ...identity },
  };
}

const serverInfoKey = "io.modelcontextprotocol/serverInfo";

function identityOf(value: unknown): Fields {
  const { name, version } = asRecord(value) ?? {};
  return {
    name: typeof name === "string" ? name : "unknown",
    version: typeof version === "string" ? version : "unknown",
  };
}

/** Capabilities that are used; `tools` are listed in any case. */
function capabilitiesOf(value: unknown): Fields {
  const { tools, experimental } = asRecord(value) ?? {};
  const said = Object.entries(asRecord(experimental) ?? {}).filter(([, entry]) => asRecord(entry) !== null);
  return {
    tools: asRecord(tools)?.["listChanged"] === true ? { listChanged: true } : {},
    ...(said.length === 0 ? {} : { experimental: Object.fromEntries(said) }),
  };
}

function withoutOddMeta(fields: Fields): Fields {
  const { _meta, ...rest } = fields;
  return asRecord(_meta) === null ? rest : fields;
}

/** A page of the answer to `tools/list`. */
export type ToolPage = {
  readonly tools: readonly unknown[];
  /** Cursor of the next page; `null` on the last page. */
  readonly nextCursor: string | null;
};

export function readToolPage(result: unknown): ToolPage {
  const { tools, nextCursor } = asRecord(rawResult(result)) ?? {};
  return {
    tools: Array.isArray(tools) ? tools : [],
    nextCursor: typeof nextCursor === "string" && nextCursor !== "" ? nextCursor : null,
  };
}

/** Key of the exact definition that an `env-server` sends with a tool. */
const exactDefinition = "trainable-agents/definition";

/**
 * The tool without its malformed fields: a description that is not text, and parts of its schema
 * that do not fit an object. Throws a `TypeError` for a tool that cannot be called at all.
 * `maxSize`: values and characters of the definition.
 */
export function readTool(value: unknown, maxSize: number): Tool {
  const fields = asRecord(value);
  if (fields === null) throw new TypeError("it is not an object");
  const { name, description, inputSchema, _meta } = fields;
  if (typeof name !== "string" || name === "") throw new TypeError("it has no name");
  const exact = asRecord(_meta)?.[exactDefinition];
  if (typeof exact === "string" && exact.length <= maxSize) {
    const definition = parseJson(exact);
    if (definition instanceof Map) return toolFromDefinition(definition);
  }
  const body = {
    name,
    ...(typeof description === "string" ? { description } : {}),
    parameters: schemaOf(inputSchema),
  };
  const definition = fromForeign({ type: "function", function: body }, { maxSize });
  if (definition instanceof Map) return toolFromDefinition(definition);
  throw new TypeError("it is not an object");
}

/**
 * The schema of the arguments, which are an object even if its root says nothing; throws a
 * `TypeError` if the root names another type.
 */
function schemaOf(value: unknown): Fields {
  const schema = asRecord(value);
  if (schema === null) return { type: "object", properties: {} };
  const { type } = schema;
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  const isNamed = types.some((one) => typeof one === "string");
  if (isNamed && !types.includes("object")) throw new TypeError(`its arguments are of type ${JSON.stringify(type)}`);
  // Entries keep the server's own order, as its other clients show them to models.
  const entries = Object.entries(schema).flatMap(([key, entry]): (readonly [string, unknown])[] => {
    if (key === "type") return isNamed ? [[key, entry]] : [];
    if (key === "properties") return asRecord(entry) === null ? [] : [[key, entry]];
    if (key !== "required") return [[key, entry]];
    return Array.isArray(entry) ? [[key, entry.filter((one) => typeof one === "string")]] : [];
  });
  return Object.fromEntries(isNamed ? entries : [["type", "object"], ...entries]);
}
