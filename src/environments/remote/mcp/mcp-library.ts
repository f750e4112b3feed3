// The used part of @modelcontextprotocol/client, and how it is loaded. The package is an optional
// peer: none of its names is used in a type or loaded before an MCP environment is opened. Its
// types are not imported, so that a build without the package has all types.

import { ConfigurationError } from "../../../core/failure.ts";
import { loadPeer } from "../../../system/peer-library.ts";

/** A JSON-RPC message; none of its content is trusted. */
export type McpMessage = Readonly<Record<string, unknown>>;

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

/** Result schema of a request whose method is not part of the protocol: any value passes. */
export const anyResult = {
  "~standard": { version: 1, vendor: "trainable-agents", validate: (value: unknown) => ({ value }) },
};

/**
 * Protocol era of a server: revision 2026-07-28, as its answer to `server/discover` says, or an
 * older one.
 */
export type McpEra = { readonly kind: "legacy" } | { readonly kind: "modern"; readonly discover: unknown };

/** `prior`: the server's known era, which makes the client skip the discovery. */
export type McpConnectOptions = McpRequestOptions & { readonly prior?: McpEra };

export interface McpClient {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  connect(transport: McpTransport, options?: McpConnectOptions): Promise<void>;
  request(request: object, options?: McpRequestOptions): Promise<unknown>;
  request(request: object, schema: typeof anyResult, options?: McpRequestOptions): Promise<unknown>;
  setRequestHandler(method: string, handler: (request: { readonly params?: unknown }) => Promise<object>): void;
  setNotificationHandler(method: string, handler: (notification: unknown) => void): void;
  getServerCapabilities(): unknown;
  getServerVersion(): unknown;
  getInstructions(): string | undefined;
  /** "modern": 2026-07-28 or later. */
  getProtocolEra(): "legacy" | "modern" | undefined;
  getDiscoverResult(): unknown;
  /** `toolDefinition`: source of the headers that a schema asks to be sent with a call. */
  callTool(params: object, options: McpRequestOptions & { readonly toolDefinition: object }): Promise<unknown>;
  /** Requests notifications from a server of revision 2026-07-28. */
  listen(filter: object, options?: McpRequestOptions): Promise<unknown>;
  close(): Promise<void>;
}

/** The used part of the module `@modelcontextprotocol/client`. */
export interface McpLibrary {
  readonly Client: new (info: object, options: object) => McpClient;
  readonly StreamableHTTPClientTransport: new (url: URL, options: object) => McpHttpTransport;
}

/** Loads the package. Rejects with a `ConfigurationError` that has the command to install it. */
export async function loadMcpLibrary(name = "@modelcontextprotocol/client"): Promise<McpLibrary> {
  const parts = ["Client", "StreamableHTTPClientTransport"];
  const install = "npm install @modelcontextprotocol/client@2";
  return (await loadPeer({ name, use: "MCP", install, parts, error: ConfigurationError })) as unknown as McpLibrary;
}
