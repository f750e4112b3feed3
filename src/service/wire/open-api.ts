// The OpenAPI document, made from the same schemas that read requests and describe answers: it cannot say anything else than
// the service does.

import { z } from "zod";
import { errorAnswer } from "./answers.ts";

/** One operation of the service, as its document describes it. */
export type Operation = {
  readonly method: "get" | "post";
  /** With parameters as `{id}`. */
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly query: Readonly<Record<string, { readonly schema: z.ZodType; readonly description: string }>>;
  /** `null`: it has none. */
  readonly body: z.ZodType | null;
  readonly takesKey: boolean;
  /** `null`: it is open to everybody who reaches the service. */
  readonly access: "token" | null;
  readonly answers: Readonly<
    Record<number, { readonly description: string; readonly content: z.ZodType | string | null }>
  >;
  /** Statuses of refusals, all with the same body; any may be refused with 403. */
  readonly refusals: readonly number[];
};

const refusalWords: Readonly<Record<number, string>> = {
  400: "The request cannot be read, or names what there is not.",
  401: "The token is missing or wrong.",
  403: "The service has no token, and the request comes from a page of another site.",
  404: "There is nothing of this name.",
  409: "Not now, or not this: the code says which.",
  413: "The body is too large.",
  415: "The body is not application/json.",
  429: "Too much waits already; Retry-After says when to ask again.",
  500: "The producer failed; the message says why.",
  503: "The service is closing; Retry-After says when to ask again.",
};

export function openApiDocument(operations: readonly Operation[], info: { readonly version: string }): unknown {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) (paths[operation.path] ??= {})[operation.method] = describe(operation);
  return {
    openapi: "3.1.0",
    info: {
      title: "trainable-agents rollout service",
      version: info.version,
      description: "Rolls out episodes of tool-using agents for a trainer, token by token.",
      license: { name: "MIT", identifier: "MIT" },
    },
    paths,
    components: { securitySchemes: { token: { type: "http", scheme: "bearer" } } },
  };
}

function describe(operation: Operation): unknown {
  const { id, summary, query, body, takesKey, access, answers, refusals } = operation;
  const inPath = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
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
  const key = {
    name: "Idempotency-Key",
    in: "header",
    required: false,
    description: "The same key with the same body is the same request, also after a restart.",
    schema: { type: "string", minLength: 1, maxLength: 255 },
  };
  const refused = [...refusals, 403].map((status) => [
    status,
    { description: refusalWords[status] ?? "It was refused.", content: jsonContent(errorAnswer) },
  ]);
  const answered = Object.entries(answers).map(([status, { description, content }]) => [
    status,
    {
      description,
      ...(content === null
        ? {}
        : {
            content: typeof content === "string" ? { [content]: { schema: { type: "string" } } } : jsonContent(content),
          }),
    },
  ]);
  return {
    operationId: id,
    summary,
    parameters: [...inPath, ...inQuery, ...(takesKey ? [key] : [])],
    ...(body === null
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: jsonSchema(body, "input") } } } }),
    ...(access === null ? {} : { security: [{}, { token: [] }] }),
    responses: Object.fromEntries([...answered, ...refused]) as unknown,
  };
}

function jsonContent(schema: z.ZodType): unknown {
  return { "application/json": { schema: jsonSchema(schema, "output") } };
}

function jsonSchema(schema: z.ZodType, io: "input" | "output"): unknown {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
