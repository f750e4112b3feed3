// The used part of NATS's own client for Node, and the code that finds it. Both packages are
// optional peers: no type refers to them, and they are loaded only when a queue is opened. Their
// types are not imported, so that our types are complete in a build without them.

import { ConfigurationError } from "../../core/index.ts";
import { loadPeer } from "../../system/peer-library.ts";

export interface NatsMessage {
  readonly subject: string;
  /** Subject for acknowledging a delivered job or receipt. */
  readonly reply?: string;
  readonly data: Uint8Array;
  /** Headers of a status message, which has no data: 404, 408, 409, 503. */
  readonly headers?: { readonly code: number; readonly description: string; get(name: string): string };
  respond(payload?: string | Uint8Array): boolean;
}

export interface NatsSubscription {
  /** Ends the subscription once all messages that the server had sent are processed. */
  drain(): Promise<void>;
}

export interface NatsConnection {
  readonly info?: { readonly version: string; readonly max_payload: number };
  publish(subject: string, payload?: string | Uint8Array, options?: { readonly reply?: string }): void;
  subscribe(
    subject: string,
    options: { readonly callback: (error: Error | null, message: NatsMessage) => void },
  ): NatsSubscription;
  request(subject: string, payload: string, options: { readonly timeout: number }): Promise<NatsMessage>;
  flush(): Promise<void>;
  close(): Promise<void>;
  /** Resolves once the connection is closed for good, with the error that closed it. */
  closed(): Promise<void | Error>;
  status(): AsyncIterable<{ readonly type: string; readonly error?: Error }>;
}

export type StreamInfo = {
  /** Creation time: a different value means that the stream was created again. */
  readonly created: string;
  readonly state: { readonly messages: number; readonly subjects?: Readonly<Record<string, number>> };
};

export interface JetStreamManager {
  readonly streams: {
    /** Creates a stream; also resolves for an existing stream with the same configuration. */
    add(configuration: object): Promise<StreamInfo>;
    update(name: string, configuration: object): Promise<StreamInfo>;
    info(name: string, options?: { readonly subjects_filter: string }): Promise<StreamInfo>;
    purge(name: string, options?: { readonly filter: string }): Promise<unknown>;
    /** Deletes a message. `erase`: true to overwrite its bytes as well. */
    deleteMessage(name: string, seq: number, erase: boolean): Promise<boolean>;
    getMessage(name: string, query: { readonly last_by_subj: string }): Promise<{ readonly data: Uint8Array } | null>;
  };
  readonly consumers: {
    add(stream: string, configuration: object): Promise<unknown>;
    update(stream: string, name: string, configuration: object): Promise<unknown>;
    info(
      stream: string,
      name: string,
    ): Promise<{ readonly config: { readonly ack_wait?: number }; readonly num_ack_pending: number }>;
    list(stream: string): AsyncIterable<{ readonly name: string }>;
    delete(stream: string, name: string): Promise<boolean>;
  };
}

export interface JetStream {
  /** Publishes a message. Resolves when the stream has it, with its sequence number. */
  publish(subject: string, payload: string, options: { readonly timeout: number }): Promise<{ readonly seq: number }>;
}

/** Provides the identity of a client, for each connection again. */
export type Authenticator = (nonce?: string) => object;

/** The used part of the modules. */
export interface NatsLibrary {
  connect(options: object): Promise<NatsConnection>;
  createInbox(): string;
  credsAuthenticator(read: () => Uint8Array): Authenticator;
  nkeyAuthenticator(read: () => Uint8Array): Authenticator;
  jetstream(connection: NatsConnection): JetStream;
  jetstreamManager(connection: NatsConnection, options: { readonly timeout: number }): Promise<JetStreamManager>;
}

const used: Readonly<Record<string, readonly (keyof NatsLibrary)[]>> = {
  "@nats-io/transport-node": ["connect", "createInbox", "credsAuthenticator", "nkeyAuthenticator"],
  "@nats-io/jetstream": ["jetstream", "jetstreamManager"],
};
const install = `npm install ${Object.keys(used)
  .map((name) => `${name}@3`)
  .join(" ")}`;

/**
 * Loads the packages. Rejects with a `ConfigurationError` that contains the command to install
 * them.
 */
export async function loadNatsLibrary(load?: (name: string) => Promise<unknown>): Promise<NatsLibrary> {
  const library: Record<string, unknown> = {};
  for (const [name, parts] of Object.entries(used)) {
    const loaded = await loadPeer({ name, use: "a NATS queue", install, parts, error: ConfigurationError }, load);
    for (const part of parts) library[part] = loaded[part];
  }
  return library as unknown as NatsLibrary;
}
