// MLflow and trackio as they behaved on 2026-11-23 (3.17.2, 0.43.0), as far as curves need them, in
// one server. The real ones are tested in `npm run verify -- metrics`.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

type Metric = { readonly key: string; readonly value: number; readonly step: number };
type Body = {
  readonly metrics?: Metric[];
  readonly params?: { key: string; value: string }[];
  readonly logs?: { log_id: string; step: number; metrics: object }[];
};

/** The received data, and switches for the server's behaviour. */
export type FakeMetricServer = {
  readonly url: string;
  isDown: boolean;
  /** True to drop the next reply; reset after one. */
  losesReply: boolean;
  readonly metrics: Metric[];
  readonly params: unknown[];
  readonly calls: string[];
  readonly logs: Map<string, object>;
  authorization: string;
  close(): void;
};

export async function startMetricServer(): Promise<FakeMetricServer> {
  const http = createServer((incoming, outgoing) => {
    let text = "";
    incoming.setEncoding("utf8").on("data", (part: string) => (text += part));
    incoming.on("end", () => {
      if (server.isDown) return void outgoing.writeHead(503).end("down");
      const path = (incoming.url ?? "").replace("/api/2.0/mlflow", "");
      const body = (text === "" ? {} : JSON.parse(text)) as Body;
      server.calls.push(path);
      server.authorization = incoming.headers.authorization ?? String(incoming.headers["x-trackio-write-token"]);
      const reply = (value: object, status = 200): void => void outgoing.writeHead(status).end(JSON.stringify(value));
      if (path === "/experiments/create") return reply({ error_code: "RESOURCE_ALREADY_EXISTS" }, 400);
      if (path.startsWith("/experiments/get-by-name")) return reply({ experiment: { experiment_id: "7" } });
      if (path === "/runs/create") return reply({ run: { info: { run_id: "r1" } } });
      if (path.startsWith("/runs/get?")) {
        const last = server.metrics.slice(-1).map(({ key, step }) => ({ key, step }));
        return reply({ run: { data: { metrics: last } } });
      }
      if (path === "/runs/log-batch") {
        // A repeated step is stored twice, as in MLflow.
        server.metrics.push(...(body.metrics ?? []));
        server.params.push(...(body.params ?? []));
        if (server.losesReply && body.metrics !== undefined) {
          server.losesReply = false;
          return void incoming.socket.destroy();
        }
      }
      for (const { log_id: id, ...log } of body.logs ?? []) server.logs.set(id, log);
      return reply({});
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const server: FakeMetricServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    isDown: false,
    losesReply: false,
    metrics: [],
    params: [],
    calls: [],
    logs: new Map(),
    authorization: "",
    close: () => void http.close(),
  };
  return server;
}
