// Routes, and the OpenAPI document generated from them: it uses the same schemas that parse
// requests and describe responses, so it cannot differ from the service.

import { z } from "zod";
import { errorAnswer } from "./responses.ts";

/** The arguments of a handler. */
export type Call = {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  /** Parsed JSON; `undefined` if the operation takes no body. */
  readonly body: unknown;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
};

type RouteOptions = {
  readonly id: string;
  readonly summary: string;
  /** Query parameters. Default: none. */
  readonly query?: Readonly<Record<string, { readonly schema: z.ZodType; readonly description: string }>>;
  /** Schema of the body. Default: none. */
  readonly body?: z.ZodType;
  /** True if an `Idempotency-Key` header is read. Default: false. */
  readonly takesKey?: boolean;
  /** Required credential; `null` if no token is required. Default: "token". */
  readonly access?: "token" | null;
  /** Responses by status: a description, and a schema of JSON or another content type. */
  readonly answers: Readonly<Record<number, readonly [string, z.ZodType | string]>>;
  /**
   * Statuses of errors in addition to those that follow from the other options; all have the same
   * body.
   */
  readonly errors?: readonly number[];
  readonly handle: (call: Call) => Response | Promise<Response>;
};

/** One operation of the service. */
export type Route = Required<Omit<RouteOptions, "body">> & {
  readonly method: "get" | "post";
  /** Path with parameters written as `{id}`. */
  readonly path: string;
  /** Schema of the body; `null` for none. */
  readonly body: z.ZodType | null;
};

export function defineRoute(method: Route["method"], path: string, options: RouteOptions): Route {
  const { query = {}, body = null, takesKey = false, access = "token", errors = [] } = options;
  const isProbe = access === null;
  const reads = body !== null || Object.keys(query).length > 0;
  const implied = [
    ...(reads ? [400] : []),
    ...(body === null ? [] : [413, 415]),
    ...(isProbe ? [] : [401, 503]),
    ...(path.includes("{id}") ? [404] : []),
  ];
  return {
    ...options,
    method,
    path,
    query,
    body,
    takesKey,
    access,
    errors: [...new Set([...implied, ...errors, 403])],
  };
}

const errorDescriptions: Readonly<Record<number, string>> = {
  400: "The request is malformed, or names a nonexistent task, split or engine.",
  401: "The token is missing or wrong.",
  403: "The service has no token, and the request comes from another site's page.",
  404: "There is no object with this id.",
  409: "The request conflicts with the current state; the code says how.",
  413: "The body is too large.",
  415: "The body is not application/json.",
  429: "Too many episodes are already waiting; Retry-After says when to try again.",
  500: "The producer failed; the message says why.",
  503: "The service is about to end, or its disk refuses writes; Retry-After says when to try again.",
};

const idempotencyKey = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "A request with the same key and body counts as the same request, also after a restart.",
  schema: { type: "string", minLength: 1, maxLength: 255 },
};

export function openApiDocument(routes: readonly Route[], info: { readonly version: string }): unknown {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) (paths[route.path] ??= {})[route.method] = describe(route);
  return {
    openapi: "3.1.0",
    info: {
      title: "trainable-agents rollout service",
      version: info.version,
      description: "Runs episodes of tool-using agents for a trainer, recorded token by token.",
      license: { name: "MIT", identifier: "MIT" },
    },
    paths,
    components: { securitySchemes: { token: { type: "http", scheme: "bearer" } } },
  };
}

function describe({ id, summary, path, query, body, takesKey, access, answers, errors }: Route): unknown {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const inQuery = Object.entries(query).map(([name, { schema, description }]) => ({
    name,
    in: "query",
    required: false,
    description,
    schema: jsonSchema(schema, "input"),
  }));
  const responses: Record<number, unknown> = {};
  for (const [status, [description, content]] of Object.entries(answers)) {
    responses[Number(status)] = { description, content: contentOf(content) };
  }
  for (const status of errors) {
    responses[status] = { description: errorDescriptions[status] ?? "An error.", content: contentOf(errorAnswer) };
  }
  return {
    operationId: id,
    summary,
    parameters: [...inPath, ...inQuery, ...(takesKey ? [idempotencyKey] : [])],
    ...(body && { requestBody: { required: true, content: contentOf(body, "input") } }),
    ...(access && { security: [{}, { token: [] }] }),
    responses,
  };
}

function contentOf(content: z.ZodType | string, io: "input" | "output" = "output"): unknown {
  if (typeof content === "string") return { [content]: { schema: { type: "string" } } };
  return { "application/json": { schema: jsonSchema(content, io) } };
}

function jsonSchema(schema: z.ZodType, io: "input" | "output"): unknown {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
