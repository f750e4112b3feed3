// A front on a socket of this machine.

import type { AddressInfo } from "node:net";
import { createServer } from "node:http";
import { getRequestListener, type HttpBindings } from "@hono/node-server";

export type ListenOptions = {
  /** Default "127.0.0.1". */
  readonly host?: string;
  /** 0 takes a free one. Default 0. */
  readonly port?: number;
};

export type FrontListener = {
  /** E.g. `http://127.0.0.1:30000`. */
  readonly url: string;
  readonly port: number;
  /** Takes no more connections, and resolves when the last running request is answered. */
  drain(): Promise<void>;
  /** Closes the socket and every connection. Idempotent. */
  close(): Promise<void>;
};

/** Rejects when the port cannot be taken. */
export async function listenOn(
  fetch: (request: Request, bindings: HttpBindings) => Response | Promise<Response>,
  options: ListenOptions,
): Promise<FrontListener> {
  // The library would otherwise replace the global Request and Response of whoever uses this package.
  const listener = getRequestListener((request, bindings) => fetch(request, bindings as HttpBindings), {
    overrideGlobalObjects: false,
  });
  const http = createServer((incoming, outgoing) => void listener(incoming, outgoing));
  const { host = "127.0.0.1", port = 0 } = options;
  await new Promise<void>((resolve, reject) => {
    http.once("error", reject);
    http.listen(port, host, () => {
      http.off("error", reject);
      resolve();
    });
  });
  const address = http.address() as AddressInfo;
  let closing: Promise<void> | null = null;
  return {
    url: `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`,
    port: address.port,
    drain: () =>
      new Promise((resolve) => {
        // Connections that clients keep open would otherwise hold it for seconds.
        const timer = setInterval(() => http.closeIdleConnections(), 20);
        http.close(() => {
          clearInterval(timer);
          resolve();
        });
      }),
    close: () => {
      closing ??= new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      });
      return closing;
    },
  };
}
