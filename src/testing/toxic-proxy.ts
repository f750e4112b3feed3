// A TCP proxy that gives a connection the faults of networks: delays, low bandwidth, resets in the
// middle of an answer, peers that vanish, truncated answers. It stands between a client under test
// and any server; of HTTP it reads only the first line of a request, so that a test can choose.

import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { systemClock, type Clock } from "../lib/clock.ts";

/** Fault applied to one answer. */
export type Toxic =
  | { readonly type: "none" }
  /** Every piece of the answer is delayed by this time. */
  | { readonly type: "latency"; readonly ms: number }
  /** The answer arrives no faster than this. */
  | { readonly type: "bandwidth"; readonly bytesPerSecond: number }
  /** The head of the answer is held for this time. */
  | { readonly type: "slow-head"; readonly ms: number }
  /** The connection is reset after this many bytes of the answer. */
  | { readonly type: "reset"; readonly afterBytes: number }
  /** The connection ends regularly after this many bytes of the answer. */
  | { readonly type: "truncate"; readonly afterBytes: number }
  /** The peer vanishes silently: the request is accepted, and no answer ever comes. */
  | { readonly type: "half-open" };

export type ToxicProxyOptions = {
  readonly targetPort: number;
  /** Called for every request, with its first line: `POST /generate HTTP/1.1`. */
  readonly choose: (requestLine: string) => Toxic;
  /** Clock for delays. Default: the real one. */
  readonly clock?: Clock;
};

export type ToxicProxy = {
  /** Address, for example `http://127.0.0.1:40001`. */
  readonly url: string;
  readonly port: number;
  /** Number of connections that are open now. */
  connections(): number;
  /**
   * Starts a partition: from now on nothing passes either way, and neither side is notified. The
   * returned function ends it.
   */
  partition(): () => void;
  /** Closes the socket and every connection. Idempotent. */
  close(): Promise<void>;
};

/** Starts a proxy on a free port of this machine, in front of a server of this machine. */
export async function createToxicProxy(options: ToxicProxyOptions): Promise<ToxicProxy> {
  const { targetPort, choose, clock = systemClock } = options;
  const open = new Set<Socket>();
  let partitions = 0;
  const server = createServer((client) => {
    const upstream = connect(targetPort, "127.0.0.1");
    for (const socket of [client, upstream]) {
      open.add(socket);
      if (partitions > 0) socket.pause();
      // Broken connections are the purpose of the proxy; the other end is closed below.
      socket.on("error", () => undefined);
      socket.on("close", () => open.delete(socket));
    }
    const answer = new AnswerPath(client, clock);
    client.on("data", (bytes) => {
      // A request that arrives in pieces begins once; clients send the next one when the last is
      // answered.
      if (answer.isAnswered) answer.begin(choose(bytes.toString("latin1").split("\r\n", 1)[0] ?? ""));
      if (!answer.isLost) upstream.write(bytes);
    });
    upstream.on("data", (bytes) => answer.pass(bytes));
    upstream.on("close", () => answer.end());
    client.on("close", () => upstream.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve());
  });
  const { port } = server.address() as AddressInfo;
  let closing: Promise<void> | null = null;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    connections: () => open.size,
    partition: () => {
      partitions++;
      for (const socket of open) socket.pause();
      let isOver = false;
      return () => {
        if (!isOver && --partitions === 0) for (const socket of open) socket.resume();
        isOver = true;
      };
    },
    close: () => {
      closing ??= new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      });
      return closing;
    },
  };
}

/** The path of answers to one client. Pieces leave in the order in which they arrived. */
class AnswerPath {
  readonly #client: Socket;
  readonly #clock: Clock;
  #toxic: Toxic = { type: "none" };
  #sent = 0;
  #received = 1;
  #queue: Promise<void> = Promise.resolve();

  constructor(client: Socket, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * True if part of the reply to the last request was received, so that the next request begins a
   * new answer.
   */
  get isAnswered(): boolean {
    return this.#received > 0;
  }

  get isLost(): boolean {
    return this.#toxic.type === "half-open";
  }

  begin(toxic: Toxic): void {
    this.#toxic = toxic;
    this.#sent = 0;
    this.#received = 0;
  }

  pass(bytes: Buffer): void {
    const isHead = this.#received === 0;
    this.#received += bytes.length;
    const toxic = this.#toxic;
    this.#queue = this.#queue.then(() => this.#send(bytes, toxic, isHead));
  }

  /** Called when the server has closed the connection. */
  end(): void {
    if (!this.isLost) this.#queue = this.#queue.then(() => void this.#client.end());
  }

  async #send(bytes: Buffer, toxic: Toxic, isHead: boolean): Promise<void> {
    if (this.#client.destroyed) return;
    switch (toxic.type) {
      case "none":
        this.#client.write(bytes);
        return;
      case "latency":
        await this.#clock.sleep(toxic.ms);
        this.#client.write(bytes);
        return;
      case "slow-head":
        if (isHead) await this.#clock.sleep(toxic.ms);
        this.#client.write(bytes);
        return;
      case "bandwidth": {
        // Sends fifty pieces a second.
        const piece = Math.max(1, Math.floor(toxic.bytesPerSecond / 50));
        for (let at = 0; at < bytes.length && !this.#client.destroyed; at += piece) {
          await this.#clock.sleep(20);
          this.#client.write(bytes.subarray(at, at + piece));
        }
        return;
      }
      case "reset":
      case "truncate": {
        const left = toxic.afterBytes - this.#sent;
        this.#sent += bytes.length;
        if (bytes.length < left) {
          this.#client.write(bytes);
          return;
        }
        // The reset comes only after the bytes before it have left this process.
        await new Promise<void>((resolve) => {
          this.#client.write(bytes.subarray(0, Math.max(0, left)), () => resolve());
        });
        if (toxic.type === "reset") this.#client.resetAndDestroy();
        else this.#client.end();
        return;
      }
      case "half-open":
        return;
      default:
        toxic satisfies never;
    }
  }
}
