// The used part of @agentclientprotocol/sdk, and how it is loaded. The package is an optional peer:
// none of its names is used in a type, and it is loaded before the first episode of an ACP agent.
// It validates what an agent sends against the schema of the protocol.

import { ConfigurationError, messageOf } from "../../core/index.ts";

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

const packageName = "@agentclientprotocol/sdk";

/** Loads the library. Rejects with a `ConfigurationError` if it is not installed. */
export async function loadAcp(): Promise<AcpLibrary> {
  try {
    return (await import(packageName)) as AcpLibrary;
  } catch (cause) {
    throw new ConfigurationError(
      `Cannot run an agent over ACP: the package ${packageName} does not load (${messageOf(cause).split("\n")[0]}); ` +
        `run "npm install ${packageName}@2".`,
      { cause },
    );
  }
}
