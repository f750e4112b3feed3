// A WebSocket on which every message gets one answer, in order, for protocols without request ids.
// Faults have the codes of the HTTP client. It is not a general socket: it does not support pushed
// messages, and never reconnects, because the remote state was lost with the connection. It uses
// `ws` instead of undici, whose socket cannot be abandoned: a server that never answers a closing
// frame would hold it open.

import type { WebSocket } from "ws";
import type { AttributedError, Boundary } from "../core/failure.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import type { BaseUrl } from "./base-url.ts";
import { type HttpRequest, targetOf } from "./http-client.ts";
import { endedCall, httpFailure } from "./http-failure.ts";

export type SocketOptions = {
  /** The boundary that failures are attributed to. */
  readonly boundary: Boundary;
  /** Ends the attempt to connect with code "cancelled"; ignored afterwards. */
  readonly signal?: AbortSignal;
  /** Deadline for establishing a connection. Default 10,000 ms. */
  readonly connectTimeoutMs?: number;
  /**
   * Maximum size of one message; a longer one ends the connection with code "bad-reply". Default 16
   * MiB.
   */
  readonly maxBytes?: number;
  readonly headers?: Readonly<Record<string, string>>;
};

/**
 * `isAnswer` is false for a message that arrived before the request was sent, which then was not
 * sent.
 */
export type SocketAnswer = { readonly text: string; readonly isAnswer: boolean };

/**
 * Rejects with an `AttributedError` that has an `HttpFailureCode`; the socket is unusable after
 * that. Calls must not overlap.
 */
export interface AnsweringSocket {
  /**
   * Sends a message and resolves with the next one received; resolves at once with an unsolicited
   * one, such as the reason why a server closes.
   */
  ask(message: string, options?: { readonly signal?: AbortSignal }): Promise<SocketAnswer>;
  /**
   * Sends `farewell` if still possible, and resolves when the connection has ended: by itself, or
   * closed by us after `graceMs` (default 2,000), or at once after a fault. Idempotent.
   */
  close(options?: { readonly farewell?: string; readonly graceMs?: number }): Promise<void>;
}

/** Maximum number of unsolicited messages; with more, the exchange is not a dialogue. */
const mostUnasked = 1;

/** Connects. `base` is an HTTP address; `path` is appended to its own path. */
export async function openSocket(base: BaseUrl, path: string, options: SocketOptions): Promise<AnsweringSocket> {
  const { signal, boundary, connectTimeoutMs = 10_000, maxBytes = 16 * 1024 * 1024, headers = {} } = options;
  const request: HttpRequest = { base, method: "GET", path, headers: {}, body: null };
  if (signal?.aborted) throw endedCall(request, boundary, { code: "cancelled", state: "the caller cancelled it" });
  const library = await import("ws");
  if (signal?.aborted) throw endedCall(request, boundary, { code: "cancelled", state: "the caller cancelled it" });
  const socket = new library.WebSocket(base.origin.replace(/^http/, "ws") + targetOf(request), {
    headers: base.authorization === null ? headers : { authorization: base.authorization, ...headers },
    handshakeTimeout: connectTimeoutMs,
    maxPayload: maxBytes,
    perMessageDeflate: false,
    followRedirects: false,
  });
  const opened = new SocketDialogue(socket, { request, boundary });
  const leave = subscribeToAbort(signal, () => socket.terminate());
  try {
    await opened.connected;
    return opened;
  } catch (error) {
    if (signal?.aborted) throw endedCall(request, boundary, { code: "cancelled", state: "the caller cancelled it" });
    throw error;
  } finally {
    leave();
  }
}

type Waiting = { readonly resolve: (text: string) => void; readonly reject: (error: Error) => void };

class SocketDialogue implements AnsweringSocket {
  readonly connected: Promise<void>;
  readonly #socket: WebSocket;
  readonly #place: { readonly request: HttpRequest; readonly boundary: Boundary };
  readonly #unasked: string[] = [];
  readonly #ended: Promise<void>;
  #waiting: Waiting | null = null;
  #fault: AttributedError | null = null;

  constructor(socket: WebSocket, place: { readonly request: HttpRequest; readonly boundary: Boundary }) {
    this.#socket = socket;
    this.#place = place;
    this.#ended = new Promise((resolve) => socket.once("close", () => resolve()));
    this.connected = new Promise((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("close", () => reject(this.#fault ?? this.#ends("connection-lost", "it was closed")));
    });
    socket.on("message", (data, isBinary) => this.#take(data as Buffer, isBinary));
    socket.on("error", (error) => this.#fail(this.#faultOf(error)));
    socket.on("unexpected-response", (_request, response) => {
      this.#fail(this.#ends("bad-reply", `the address serves no WebSocket (HTTP ${response.statusCode ?? "?"})`));
      response.destroy();
      socket.terminate();
    });
    socket.on("close", (code, reason) => {
      const said = reason.length > 0 ? ` (${code}: ${reason.toString("utf8").slice(0, 200)})` : ` (${code})`;
      this.#fail(this.#ends("connection-lost", `the connection was closed${said}`));
    });
  }

  ask(message: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<SocketAnswer> {
    if (this.#waiting !== null) throw new Error("Cannot ask over a socket: the last question has no answer yet.");
    // A message that arrived before the connection ended still counts as an answer: servers state
    // why they close.
    const unasked = this.#unasked.shift();
    if (unasked !== undefined) return Promise.resolve({ text: unasked, isAnswer: false });
    if (this.#fault !== null) return Promise.reject(this.#fault);
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#waiting = null;
        leave();
      };
      this.#waiting = {
        resolve: (text) => {
          settle();
          resolve({ text, isAnswer: true });
        },
        reject: (error) => {
          settle();
          reject(error);
        },
      };
      const leave = subscribeToAbort(signal, () => {
        // The answer would be mistaken for that to the next request.
        this.#fail(this.#ends("cancelled", "the caller cancelled it"));
        this.#socket.terminate();
      });
      if (this.#fault === null) this.#socket.send(message, (error) => error && this.#fail(this.#faultOf(error)));
    });
  }

  async close(options: { readonly farewell?: string; readonly graceMs?: number } = {}): Promise<void> {
    const { farewell, graceMs = 2000 } = options;
    const socket = this.#socket;
    if (this.#fault !== null) socket.terminate();
    else if (socket.readyState === socket.OPEN) {
      if (farewell === undefined) socket.close(1000);
      else socket.send(farewell, () => undefined);
    }
    const timer = setTimeout(() => socket.terminate(), graceMs);
    await this.#ended;
    clearTimeout(timer);
  }

  #take(data: Buffer, isBinary: boolean): void {
    if (isBinary) {
      this.#fail(this.#ends("bad-reply", "received a binary message, expected text"));
      this.#socket.terminate();
    } else if (this.#waiting !== null) this.#waiting.resolve(data.toString("utf8"));
    else if (this.#unasked.push(data.toString("utf8")) > mostUnasked) {
      this.#fail(this.#ends("bad-reply", "messages came that nothing was asked for"));
      this.#socket.terminate();
    }
  }

  /** The first fault is kept. */
  #fail(fault: AttributedError): void {
    this.#fault ??= fault;
    this.#waiting?.reject(this.#fault);
  }

  #faultOf(error: Error): AttributedError {
    const code = "code" in error && typeof error.code === "string" ? error.code : "";
    if (code.startsWith("WS_ERR_")) return this.#ends("bad-reply", `${error.message} (${code})`);
    if (error.message.includes("handshake has timed out"))
      return this.#ends("timeout", "no connection was made in time");
    return httpFailure(error, this.#place.request, this.#place.boundary);
  }

  #ends(code: "cancelled" | "timeout" | "bad-reply" | "connection-lost", state: string): AttributedError {
    return endedCall(this.#place.request, this.#place.boundary, { code, state });
  }
}
