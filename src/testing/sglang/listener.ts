// A front on a socket of this machine.

import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";

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
  /** Closes the socket and every connection. Idempotent. */
  close(): Promise<void>;
};

/** Rejects when the port cannot be taken. */
export async function listenOn(server: object, options: ListenOptions): Promise<FrontListener> {
  const http = server as HttpServer;
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
    close: () => {
      closing ??= new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      });
      return closing;
    },
  };
}
