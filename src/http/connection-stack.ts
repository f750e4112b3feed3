// Connections to one server, the one that rested least first: those that are needed stay open, and the others close by
// themselves. Not undici's `Pool`, which looks through all of its connections twice for each request: with thousands of them
// that was the costliest function of a profile of the whole loop (`node --cpu-prof bench/concurrency.mjs`).

import { Client, Dispatcher } from "undici";

export type ConnectionOptions = {
  /** Further requests wait for one, in order. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
};

type Connection = { readonly client: Client; isFree: boolean };
type Waiting = { readonly options: Dispatcher.DispatchOptions; readonly handler: Dispatcher.DispatchHandler };

export class ConnectionStack extends Dispatcher {
  readonly #origin: string;
  readonly #options: ConnectionOptions;
  readonly #all: Connection[] = [];
  readonly #free: Connection[] = [];
  #waiting: (Waiting | null)[] = [];
  /** Of `#waiting`; those before it have been sent, and nothing is kept of them. */
  #next = 0;

  constructor(origin: string, options: ConnectionOptions) {
    super();
    this.#origin = origin;
    this.#options = options;
  }

  /** Whether the next request would be sent at once. */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const connection = this.#free.pop() ?? this.#add();
    if (connection === null) this.#waiting.push({ options, handler });
    else this.#serve(connection, { options, handler });
    return this.#free.length > 0 || this.#all.length < this.#options.connections;
  }

  /** Every call that is under way or waits ends with a fault. */
  override async destroy(): Promise<void> {
    // A client that is destroyed refuses each request with the fault that says so.
    const [waiting, next] = [this.#waiting, this.#next];
    this.#waiting = [];
    this.#next = 0;
    await Promise.all(this.#all.map(({ client }) => client.destroy()));
    for (const call of waiting.slice(next)) {
      if (call !== null) this.#all[0]?.client.dispatch(call.options, call.handler);
    }
  }

  #add(): Connection | null {
    const { connections, connectTimeoutMs } = this.#options;
    if (this.#all.length >= connections) return null;
    const client = new Client(this.#origin, {
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: connectTimeoutMs },
    });
    const connection: Connection = { client, isFree: false };
    client.on("drain", () => {
      if (!connection.isFree) this.#serve(connection, this.#firstWaiting());
    });
    this.#all.push(connection);
    return connection;
  }

  /** The call, and those that wait after it for as long as the connection is free. */
  #serve(connection: Connection, call: Waiting | undefined): void {
    const { client } = connection;
    connection.isFree = false;
    for (let next = call; next !== undefined; next = this.#firstWaiting()) {
      const isFree = client.dispatch(next.options, next.handler);
      // One that took nothing on, for the call had ended, will not say that it is free.
      if (!isFree && client.stats.size > 0) return;
    }
    connection.isFree = true;
    this.#free.push(connection);
  }

  #firstWaiting(): Waiting | undefined {
    const waiting = this.#waiting[this.#next];
    if (waiting === undefined || waiting === null) return undefined;
    this.#waiting[this.#next] = null;
    this.#next += 1;
    if (this.#next > 1024 && this.#next * 2 > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#next);
      this.#next = 0;
    }
    return waiting;
  }
}
