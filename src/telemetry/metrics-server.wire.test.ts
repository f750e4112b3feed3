import { expect, test } from "vitest";
import { passingEpisode } from "./episode-events.test-helper.ts";
import { serveMetrics, createRunMetrics } from "./prometheus.ts";

test("serveMetrics() answers a scrape, knows no other path, and says when its port is taken", async () => {
  const metrics = createRunMetrics();
  for (const event of passingEpisode) metrics.event("a#0", event);
  const server = await serveMetrics(metrics, { port: 0 });
  const answer = await fetch(server.url);
  expect(answer.headers.get("content-type")).toContain("text/plain");
  expect(await answer.text()).toContain(
    'trainable_agents_episodes_total{outcome="completed",stop_reason="tool_ended"} 1',
  );
  expect((await fetch(new URL("/", server.url))).status).toBe(404);
  expect((await fetch(server.url, { method: "POST" })).status).toBe(404);
  const port = Number(new URL(server.url).port);
  await expect(serveMetrics(metrics, { port })).rejects.toThrow(
    `Cannot serve metrics at 127.0.0.1:${port}: the port is taken; choose another port, like prometheus:9465.`,
  );
  await server.close();
  await metrics.close();
});
