// The used part of @agentclientprotocol/sdk, an optional peer, and how it is loaded. It validates what
// an agent sends against the schema of the protocol.

import { ConfigurationError } from "../../core/index.ts";
import { loadPeer } from "../../system/peer-library.ts";

/** An update of a turn. Other kinds than those of messages and tool calls are only noticed. */
export type AcpUpdate =
  | {
      readonly sessionUpdate: "agent_message_chunk";
      readonly content: { readonly type: string; readonly text?: string };
    }
  | ({ readonly sessionUpdate: "tool_call" | "tool_call_update" } & AcpToolCall)
  | { readonly sessionUpdate: "another" };

export type AcpToolCall = {
  readonly toolCallId: string;
  readonly title?: string | null;
  readonly kind?: string | null;
  readonly status?: string | null;
};

export type AcpPermissionRequest = {
  readonly toolCall: AcpToolCall;
  readonly options: readonly { readonly optionId: string; readonly kind: string }[];
};

/** Methods of an agent: parameters and result. */
export type AcpMethods = {
  readonly initialize: [
    params: object,
    result: {
      readonly protocolVersion: number;
      readonly agentCapabilities?: { readonly mcpCapabilities?: { readonly http?: boolean } | null } | null;
    },
  ];
  readonly "session/new": [
    params: { readonly cwd: string; readonly mcpServers: readonly object[] },
    result: { readonly sessionId: string },
  ];
  readonly "session/prompt": [
    params: {
      readonly sessionId: string;
      readonly prompt: readonly { readonly type: "text"; readonly text: string }[];
    },
    result: { readonly stopReason: string },
  ];
};

export interface AcpAgent {
  request<Method extends keyof AcpMethods>(
    method: Method,
    params: AcpMethods[Method][0],
  ): Promise<AcpMethods[Method][1]>;
  notify(method: "session/cancel", params: { readonly sessionId: string }): Promise<void>;
}

export interface AcpClient {
  onNotification(
    method: "session/update",
    handler: (context: { readonly params: { readonly sessionId: string; readonly update: AcpUpdate } }) => void,
  ): this;
  onRequest(
    method: "session/request_permission",
    handler: (context: { readonly params: AcpPermissionRequest }) => object,
  ): this;
  /** The connection closes when `hold` has settled. */
  connectWith<T>(stream: AcpStream, hold: (agent: AcpAgent) => Promise<T>): Promise<T>;
}

/** Messages of a connection; only the library reads it. */
export interface AcpStream {
  readonly readable: unknown;
  readonly writable: unknown;
}

export interface AcpLibrary {
  readonly PROTOCOL_VERSION: number;
  /** An error response of the agent. */
  readonly RequestError: new (...parameters: never[]) => Error;
  client(options: { readonly name: string }): AcpClient;
  ndJsonStream(
    output: WritableStream<Uint8Array>,
    input: ReadableStream<Uint8Array>,
    options: { readonly maxMessageBytes: number },
  ): AcpStream;
}

/** Loads the library. Rejects with a `ConfigurationError` that has the command to install it. */
export async function loadAcp(): Promise<AcpLibrary> {
  const name = "@agentclientprotocol/sdk";
  const parts = ["client", "ndJsonStream", "RequestError"];
  return (await loadPeer({
    name,
    use: "ACP",
    install: `npm install ${name}@2`,
    parts,
    error: ConfigurationError,
  })) as unknown as AcpLibrary;
}

/** Kinds of tool calls that an agent may carry out, as ACP names them, or all of them. */
export type AgentPermissions = "all" | readonly string[];

/** Kinds of ACP 1. A tool of an MCP server is "other" to most agents. */
export const permissionKinds = [
  ...["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"],
] as const;
