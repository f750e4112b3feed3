// MLflow and trackio as they answered on 2026-11-23 (3.17.2, 0.43.0); the real ones in `npm run verify -- metrics`.

import { mkdtemp, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { passingEpisode } from "./episode-events.test-helper.ts";
import { createMlflow, createTrackio } from "./metric-servers.ts";

type Metric = { readonly key: string; readonly value: number; readonly step: number };
type Body = {
  readonly metrics?: Metric[];
  readonly params?: { key: string; value: string }[];
  readonly status?: string;
  readonly name?: string;
  readonly logs?: { log_id: string; step: number; metrics: object }[];
};

const server = {
  isDown: false,
  losesReply: false,
  metrics: [] as Metric[],
  params: [] as unknown[],
  calls: [] as string[],
  logs: new Map<string, object>(),
  authorization: "",
};
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
      // As MLflow does: a step that comes twice is kept twice.
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
const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
afterAll(() => http.close());

const folder = await mkdtemp(join(tmpdir(), "trainable-agents-mlflow-"));
const run = { id: "run", name: "first", configuration: { "pass^k": 4, env: "bookshop", data: null } };

async function waitUntil(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 500 && !holds(); tries++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(holds()).toBe(true);
}

test("MLflow gets each step once: after an outage, a lost reply and a resume", async () => {
  const faults: string[] = [];
  const memory = join(folder, "mlflow.json");
  const options = {
    run,
    variables: { MLFLOW_TRACKING_TOKEN: "t" },
    everyEpisodes: 1,
    onFault: (message: string) => faults.push(message),
    timeoutMs: 2000,
  };
  // What a killed process may have left.
  await writeFile(memory, "");
  const first = createMlflow(url, memory, options);
  server.isDown = true;
  for (const event of passingEpisode) first.event("a", event);
  await waitUntil(() => faults.length === 1);
  expect(faults[0]).toMatch(/^MLflow at http:.* takes no points \(status 503: down\); the run continues/);
  server.isDown = false;
  server.losesReply = true;
  for (const event of passingEpisode) first.event("b", event);
  await first.close();
  expect(faults.at(-1)).toMatch(/takes points again\.$/);
  const steps = (): number[] => server.metrics.filter(({ key }) => key === "reward/mean").map(({ step }) => step);
  expect(steps()).toEqual([1, 2]);
  expect(server.params).toEqual([{ key: "pass_hat_k", value: "4" }, { key: "env", value: "bookshop" }]); // prettier-ignore
  expect([server.calls.at(-1), server.authorization]).toEqual(["/runs/update", "Bearer t"]);

  server.calls.length = 0;
  const second = createMlflow(url, memory, options);
  for (const event of passingEpisode) second.recorded("a", event);
  for (const event of passingEpisode) second.recorded("b", event);
  for (const event of passingEpisode) second.event("c", event);
  await second.close();
  expect([steps(), server.calls.includes("/runs/create")]).toEqual([[1, 2, 3], false]);
});

test("trackio gets points with ids; a server that stays down is reported and ends nothing", async () => {
  const faults: string[] = [];
  const options = {
    run,
    variables: { TRACKIO_WRITE_TOKEN: "w" },
    everyEpisodes: 1,
    onFault: (message: string) => faults.push(message),
    timeoutMs: 300,
  };
  const sink = createTrackio(url, options);
  for (const event of passingEpisode) sink.event("a", event);
  await sink.close();
  expect([...server.logs.keys(), server.authorization]).toEqual(["run-1", "w"]);
  expect(server.logs.get("run-1")).toMatchObject({
    project: "trainable-agents",
    run: "first",
    step: 1,
    metrics: { "reward/mean": 1 },
  });
  const lost = createTrackio("http://127.0.0.1:1", options);
  for (const event of passingEpisode) lost.event("a", event);
  await lost.close();
  expect(faults.at(-1)).toMatch(/has not taken 1 points of the curves; they are lost\.$/);
});
