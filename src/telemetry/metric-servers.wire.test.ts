// Curves to MLflow and trackio, through outages, lost replies and resumes.

import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { passingEpisode } from "./episode-events.test-helper.ts";
import { observeCurves } from "./curves.ts";
import { createMlflow, createTrackio } from "./metric-servers.ts";
import { startMetricServer } from "./metric-servers.test-helper.ts";

const server = await startMetricServer();
const { url } = server;
afterAll(() => server.close());

const folder = await mkdtemp(join(tmpdir(), "trainable-agents-mlflow-"));
const run = { id: "run", name: "first", configuration: { "pass^k": 4, env: "bookshop", data: null } };

async function waitUntil(holds: () => boolean): Promise<void> {
  for (let tries = 0; tries < 6000 && !holds(); tries++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(holds()).toBe(true);
}

test("MLflow gets each step once: after an outage, a lost reply and a resume", async () => {
  const faults: string[] = [];
  const memory = join(folder, "mlflow.json");
  const options = {
    run,
    variables: { MLFLOW_TRACKING_TOKEN: "t" },
    onFault: (message: string) => faults.push(message),
  };
  // An empty file, as a killed process may leave it.
  await writeFile(memory, "");
  const first = observeCurves(createMlflow(url, memory, options), { everyEpisodes: 1 });
  server.isDown = true;
  for (const event of passingEpisode) first.event("a", event);
  await waitUntil(() => faults.length === 1);
  expect(faults[0]).toMatch(/^MLflow at http:.* takes no points \(status 503: down\); the run continues/);
  server.isDown = false;
  server.losesReply = true;
  for (const event of passingEpisode) first.event("b", event);
  await first.close();
  expect(faults.at(-1)).toMatch(/accepts points again\.$/);
  const steps = (): number[] => server.metrics.filter(({ key }) => key === "reward/mean").map(({ step }) => step);
  expect(steps()).toEqual([1, 2]);
  expect(server.params).toEqual([{ key: "pass_hat_k", value: "4" }, { key: "env", value: "bookshop" }]); // prettier-ignore
  expect([server.calls.at(-1), server.authorization]).toEqual(["/runs/update", "Bearer t"]);

  server.calls.length = 0;
  const second = observeCurves(createMlflow(url, memory, options), { everyEpisodes: 1 });
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
    onFault: (message: string) => faults.push(message),
  };
  const sink = observeCurves(createTrackio(url, options), { everyEpisodes: 1 });
  for (const event of passingEpisode) sink.event("a", event);
  await sink.close();
  expect([...server.logs.keys(), server.authorization]).toEqual(["run-1", "w"]);
  expect(server.logs.get("run-1")).toMatchObject({
    project: "trainable-agents",
    run: "first",
    step: 1,
    metrics: { "reward/mean": 1 },
  });
  const lost = observeCurves(createTrackio("http://127.0.0.1:1", options), { everyEpisodes: 1 });
  for (const event of passingEpisode) lost.event("a", event);
  await lost.close();
  expect(faults.at(-1)).toMatch(/has not taken 1 points of the curves; they are lost\.$/);
});
