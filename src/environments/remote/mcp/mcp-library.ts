// What is used of @modelcontextprotocol/client, and how it is found. The package is an optional peer: nothing of it is named in a
// type or loaded before an MCP environment is opened. Its types are not imported, so that a build without it has them all.

import { ConfigurationError } from "../../../core/failure.ts";
import { subscribeToAbort } from "../../../lib/deadline.ts";

/** A JSON-RPC message; what is in it is not believed. */
export type McpMessage = { readonly id?: unknown; readonly method?: unknown };

export interface McpTransport {
  start(): Promise<void>;
  send(message: unknown, options?: unknown): Promise<void>;
  close(): Promise<void>;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: McpMessage, extra?: unknown) => void) | undefined;
}

export interface McpHttpTransport extends McpTransport {
  /** Sends the DELETE that ends the session, if there is one. */
  terminateSession(): Promise<void>;
}

/** `timeout` in milliseconds. */
export type McpRequestOptions = { readonly signal?: AbortSignal; readonly timeout?: number };

/** Of a request whose method is none of the protocol's: anything passes. */
export const anyResult = {
  "~standard": { version: 1, vendor: "trainable-agents", validate: (value: unknown) => ({ value }) },
};

export interface McpClient {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  connect(transport: McpTransport, options?: McpRequestOptions): Promise<void>;
  request(request: object, options?: McpRequestOptions): Promise<unknown>;
  request(request: object, schema: typeof anyResult, options?: McpRequestOptions): Promise<unknown>;
  setRequestHandler(method: string, handler: (request: { readonly params?: unknown }) => Promise<object>): void;
  setNotificationHandler(method: string, handler: (notification: unknown) => void): void;
  getServerCapabilities(): unknown;
  getServerVersion(): unknown;
  getInstructions(): string | undefined;
  close(): Promise<void>;
}

/** The module `@modelcontextprotocol/client`, as far as it is used. */
export interface McpLibrary {
  readonly Client: new (info: object, options: object) => McpClient;
  readonly StreamableHTTPClientTransport: new (url: URL, options: object) => McpHttpTransport;
}

const packageName = "@modelcontextprotocol/client";
const install = `run "npm install ${packageName}@2"`;

/** The package beside ours. Rejects with a `ConfigurationError` that has the command to install it. */
export async function loadMcpLibrary(name: string = packageName): Promise<McpLibrary> {
  let loaded: Readonly<Record<string, unknown>>;
  try {
    loaded = (await import(name)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
    const state = isMissing ? "it is not installed" : `it does not load (${String(error)})`;
    throw new ConfigurationError(`Cannot use MCP through the package "${name}": ${state}; ${install}.`, {
      cause: error,
    });
  }
  const missing = ["Client", "StreamableHTTPClientTransport"].filter((part) => typeof loaded[part] !== "function");
  if (missing.length === 0) return loaded as unknown as McpLibrary;
  throw new ConfigurationError(
    `Cannot use MCP through the package "${name}": it has no ${missing.join(" and no ")}; ${install}.`,
  );
}

// The platform's fetch with a bound on what an answer may hold: a server that never stops sending would fill the memory. And with
// a signal for each call, let go of with it: the library has one for a whole session, on which every call would leave a listener.

/* oxlint-disable no-restricted-globals -- The library speaks to the platform's fetch and streams; the pool of `http/` has neither. */

/** `maxBytes` of one answer's body, a stream of events included. */
export function boundedFetch(maxBytes: number): typeof fetch {
  return async (input, init) => {
    const call = new AbortController();
    const { signal } = init ?? {};
    const leave = subscribeToAbort(signal ?? undefined, () => call.abort(signal?.reason));
    try {
      const answer = await fetch(input, { ...init, signal: call.signal });
      const length = Number(answer.headers.get("content-length") ?? NaN);
      if (answer.body !== null && !(length <= maxBytes)) return withBound(answer, answer.body, { maxBytes, leave });
      leave();
      return answer;
    } catch (error) {
      leave();
      throw error;
    }
  };
}

function withBound(
  answer: Response,
  body: ReadableStream<Uint8Array>,
  { maxBytes, leave }: { readonly maxBytes: number; readonly leave: () => void },
): Response {
  let bytes = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes <= maxBytes) controller.enqueue(chunk);
      else controller.error(new SyntaxError(`An answer has more than ${maxBytes} bytes.`));
    },
    flush: leave,
  });
  const { status, statusText, headers, url } = answer;
  const bounded = new Response(body.pipeThrough(counter), { status, statusText, headers });
  // The library compares it with the address that it requested.
  Object.defineProperty(bounded, "url", { value: url });
  return bounded;
}
