// The page of metrics over HTTP, for Prometheus to scrape. One path and one health check; not the rollout service.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { ConfigurationError } from "../core/index.ts";

export type MetricsPage = { readonly contentType: string; page(): Promise<string> };

export type MetricsServer = {
  /** Where the page is. */
  readonly url: string;
  close(): Promise<void>;
};

export type MetricsServerOptions = {
  /** Default 9464, the port that exporters of metrics have by convention; 0: any free one. */
  readonly port?: number;
  /** Default "127.0.0.1": metrics have no password. */
  readonly host?: string;
};

/** Serves `/metrics`. Throws a `ConfigurationError` when the port cannot be had. Does not keep the process alive. */
export async function serveMetrics(metrics: MetricsPage, options: MetricsServerOptions = {}): Promise<MetricsServer> {
  const { port = 9464, host = "127.0.0.1" } = options;
  const server = createServer((request, response) => {
    const path = request.url?.split("?", 1)[0];
    if (path !== "/metrics" || (request.method !== "GET" && request.method !== "HEAD")) {
      response.writeHead(404, { "content-type": "text/plain" }).end("Metrics are at /metrics.\n");
      return;
    }
    metrics.page().then(
      (page) => response.writeHead(200, { "content-type": metrics.contentType }).end(page),
      () => response.writeHead(500).end(),
    );
  });
  server.requestTimeout = 10_000;
  await listen(server, { port, host });
  server.unref();
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}/metrics`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: Server, at: { readonly port: number; readonly host: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      reject(
        new ConfigurationError(
          `Cannot serve metrics at ${at.host}:${at.port}: ${cause.code === "EADDRINUSE" ? "the port is taken" : cause.message}; choose another port, like prometheus:9465.`,
          { cause },
        ),
      );
    });
    server.listen(at.port, at.host, resolve);
  });
}
