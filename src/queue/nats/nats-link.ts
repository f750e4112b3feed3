// A connection to NATS that reconnects: broker restarts, partitions and wiped disks are states of
// it, not errors. It knows nothing of jobs. Messages that must arrive are sent until they have;
// messages that a broken connection may lose are sent once.

import { setTimeout as sleep } from "node:timers/promises";
import { type AttributedError, ConfigurationError, faultAt, messageOf } from "../../core/index.ts";
import { Waiters } from "../../lib/deadline.ts";
import { readFileSync } from "node:fs";
import { type NatsAddress, parseNatsAddress } from "./nats-address.ts";
import { type JetStream, type JetStreamManager, loadNatsLibrary, type NatsConnection } from "./nats-library.ts";
import { requireRegularSync } from "../../system/regular-file.ts";

/** Address of the broker, and the credentials. */
export type NatsConnectOptions = {
  /** Address in the format of `parseNatsAddress`. */
  readonly address: string;
  /**
   * Password of the address's user, or a token if the address names no user. Default: those of the
   * address.
   */
  readonly secret?: string | null;
  /**
   * Path of a credentials file (JWT and seed), or of a file with the seed of an nkey. It is read
   * again for every connection. Default: none.
   */
  readonly credentials?: string | null;
  /**
   * Paths of PEM files: the authority that signed the servers' certificates, and our own
   * certificate with its key. Default: none.
   */
  readonly tls?: { readonly ca: string | null; readonly cert: string | null; readonly key: string | null };
  /**
   * Maximum time to wait for a broker that is not reachable yet, in milliseconds. Default: 60,000.
   */
  readonly waitMs?: number;
  /**
   * Interval between two pings of the broker, in milliseconds; after the second ping without an
   * answer the connection is lost. Default: 15,000.
   */
  readonly pingMs?: number;
  readonly signal?: AbortSignal;
};

/** Time limit of a request to JetStream. */
const requestMs = 5000;
/** Interval between two attempts to reach a broker that is away. */
const retryMs = 500;

export type NatsLink = {
  readonly address: NatsAddress;
  readonly nc: NatsConnection;
  readonly js: JetStream;
  readonly jsm: JetStreamManager;
  /** A new subject for replies. */
  readonly createInbox: () => string;
  /** Aborts when the connection is closed for good. */
  readonly closed: AbortSignal;
  readonly isUp: boolean;
  /** Registers a callback for each reconnection. */
  onUp(callback: () => void): void;
  /**
   * Resolves when the broker is connected; rejects when the link is closed or the signal aborts.
   */
  up(signal?: AbortSignal): Promise<void>;
  /**
   * Publishes to a stream until the stream has the message. Rejects, attributed to boundary
   * "queue", once the link is closed, and for a message that is too long. Resolves with its
   * sequence number in the stream.
   */
  persist(subject: string, payload: string): Promise<{ readonly seq: number }>;
  /**
   * Publishes a message that is not kept, until the broker has received it; only connected
   * subscribers receive it. Rejects once the link is closed.
   */
  tell(subject: string, payload: string): Promise<void>;
  close(): Promise<void>;
};

/**
 * Connects to the broker. Rejects with a `ConfigurationError` if it is not reachable in time, or
 * refuses the credentials.
 */
export async function openLink(
  title: string,
  options: NatsConnectOptions,
  onNotice: (message: string) => void,
): Promise<NatsLink> {
  const address = parseNatsAddress(options.address);
  const library = await loadNatsLibrary();
  const nc = await connect();
  let jsm: JetStreamManager;
  try {
    jsm = await repeated(() => library.jetstreamManager(nc, { timeout: requestMs }), options);
  } catch (error) {
    await nc.close();
    refuseCancelled(options, error);
    throw new ConfigurationError(
      `Cannot use the queue at ${address.shown}: JetStream is not available (${messageOf(error)}); start nats-server with -js, and allow this account to use it.`,
      { cause: error },
    );
  }
  const js = library.jetstream(nc);
  const closed = new AbortController();
  const changed = new Waiters();
  const callbacks: (() => void)[] = [];
  let isUp = true;
  let lastProblem = "";
  void awaitEnd();
  void watch();

  return {
    address,
    nc,
    js,
    jsm,
    createInbox: () => library.createInbox(),
    closed: closed.signal,
    get isUp() {
      return isUp;
    },
    onUp: (callback) => void callbacks.push(callback),
    up,
    persist,
    tell: async (subject, payload) => {
      for (let isTold = false; !isTold;) {
        await up();
        nc.publish(subject, payload);
        isTold = await nc.flush().then(
          () => true,
          () => false,
        );
        if (!isTold) await sleep(100);
      }
    },
    close: () => nc.close(),
  };

  async function connect(): Promise<NatsConnection> {
    const { waitMs = 60_000, pingMs = 15_000, signal } = options;
    const until = performance.now() + waitMs;
    const { ca, cert, key } = options.tls ?? { ca: null, cert: null, key: null };
    const files = Object.entries({ caFile: ca, certFile: cert, keyFile: key }).filter(([, path]) => path !== null);
    const common = {
      servers: address.servers,
      name: `trainable-agents ${title}`,
      timeout: requestMs,
      maxReconnectAttempts: -1,
      reconnectTimeWait: retryMs,
      reconnectJitter: retryMs,
      reconnectJitterTLS: retryMs,
      pingInterval: pingMs,
      maxPingOut: 2,
      ...authentication(),
      ...(address.isTls || files.length > 0 ? { tls: Object.fromEntries(files) } : {}),
    };
    for (let isFirst = true; ; isFirst = false) {
      try {
        return await library.connect(common);
      } catch (error) {
        const isAway = /refused|timeout|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ECONNRESET/i.test(
          deepMessage(error),
        );
        refuseCancelled(options, error);
        if (isAway && performance.now() + retryMs < until) {
          if (isFirst) onNotice(`Waiting for the broker at ${address.shown} ...`);
          await sleep(retryMs, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
          continue;
        }
        const remedy = isAway
          ? "start nats-server -js there, or correct --queue"
          : "correct the address, its user, the credentials or the certificates";
        throw new ConfigurationError(`Cannot reach the broker at ${address.shown}: ${deepMessage(error)}; ${remedy}.`, {
          cause: error,
        });
      }
    }
  }

  function authentication(): object {
    const { credentials = null, secret = null } = options;
    if (credentials !== null) {
      requireRegularSync(credentials);
      const read = (): Uint8Array => readFileSync(credentials);
      // A credentials file has two blocks with headings; a seed is one line that begins with SU.
      const isSeed = /^\s*SU[A-Z2-7]+\s*$/.test(readFileSync(credentials, "utf8"));
      if (!isSeed) return { authenticator: library.credsAuthenticator(read) };
      const seed = (): Uint8Array => Buffer.from(Buffer.from(read()).toString("utf8").trim());
      return { authenticator: library.nkeyAuthenticator(seed) };
    }
    const { user, password, token } = address;
    // An address with only a user is parsed as a token; if a secret is given separately, that token
    // is the user name.
    if (secret !== null)
      return user === null && token === null ? { token: secret } : { user: user ?? token, pass: secret };
    if (user !== null) return { user, pass: password };
    return token === null ? {} : { token };
  }

  async function awaitEnd(): Promise<void> {
    const error = await nc.closed();
    isUp = false;
    closed.abort(unreachable(error instanceof Error ? messageOf(error) : "the connection is closed", error));
    changed.wake();
  }

  async function watch(): Promise<void> {
    for await (const { type, error } of nc.status()) {
      if (type === "disconnect" && isUp) {
        isUp = false;
        onNotice(`Notice: the connection to the broker at ${address.shown} is lost; it is tried again.`);
      } else if (type === "reconnect") {
        isUp = true;
        onNotice(`Notice: the broker at ${address.shown} is back.`);
        changed.wake();
        for (const callback of callbacks) callback();
      } else if (type === "error" && error !== undefined && messageOf(error) !== lastProblem) {
        lastProblem = messageOf(error);
        onNotice(`Notice: the broker at ${address.shown} reports a problem: ${lastProblem}.`);
      }
    }
  }

  async function up(signal?: AbortSignal): Promise<void> {
    const isAway = (): boolean => !isUp && !closed.signal.aborted;
    while (isAway()) await changed.wait(signal);
    closed.signal.throwIfAborted();
  }

  async function persist(subject: string, payload: string): Promise<{ readonly seq: number }> {
    const most = nc.info?.max_payload ?? 1_048_576;
    const size = Buffer.byteLength(payload);
    if (size > most) {
      throw faultAt(
        "queue",
        "message-too-large",
        `Cannot send a message of ${size} bytes: the broker at ${address.shown} accepts at most ${most}; raise max_payload in its configuration.`,
      );
    }
    for (let waitMs = 100, isFirst = true; ; waitMs = Math.min(2 * waitMs, 2000)) {
      await up();
      try {
        return await js.publish(subject, payload, { timeout: requestMs });
      } catch (error) {
        if (closed.signal.aborted) throw closed.signal.reason;
        // Without a stream the request gets no response: the stream was wiped, and its coordinator
        // creates it again.
        if (isUp && isFirst && !/no responders|timeout/i.test(deepMessage(error))) {
          isFirst = false;
          onNotice(
            `Notice: the broker at ${address.shown} did not take a message, which is sent again: ${messageOf(error)}.`,
          );
        }
        await sleep(waitMs);
      }
    }
  }

  function unreachable(state: string, cause: unknown): AttributedError {
    return faultAt("queue", "unreachable", `Cannot use the queue at ${address.shown}: ${state}.`, { cause });
  }
}

/** Throws the cancellation if a start was cancelled, instead of the error that followed from it. */
export function refuseCancelled({ signal, address }: NatsConnectOptions, cause: unknown): void {
  if (signal?.aborted !== true) return;
  const message = `Cannot use the queue at ${parseNatsAddress(address).shown}: the start was cancelled.`;
  throw faultAt("queue", "cancelled", message, { cause });
}

/**
 * Resolves with the result of an action, which is retried while the broker is away; rejects with
 * its error after `waitMs`, or when the signal aborts.
 */
export async function repeated<T>(
  action: () => Promise<T>,
  { waitMs = 60_000, signal }: Pick<NatsConnectOptions, "waitMs" | "signal">,
): Promise<T> {
  for (const until = performance.now() + waitMs; ;) {
    try {
      return await action();
    } catch (error) {
      // A disabled JetStream does not respond, either; a stream that was created and is not found
      // has been wiped since.
      const isAway = /timeout|no responders|disconnect|unavailable|not available|(stream|consumer) not found/i.test(
        deepMessage(error),
      );
      if (!isAway || performance.now() > until || signal?.aborted === true) throw error;
      await sleep(retryMs, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
    }
  }
}

/** Message of an error with that of its cause: the library's own errors often have no text. */
function deepMessage(error: unknown): string {
  const own = messageOf(error);
  return error instanceof Error && error.cause !== undefined ? `${own} (${messageOf(error.cause)})` : own;
}
