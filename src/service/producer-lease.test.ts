// The trainer of a producer, and the time that the producer runs without it.

import { describe, expect, test } from "vitest";
import { createManualClock } from "../lib/clock.test-helper.ts";
import type { LoggedRequest } from "./request-log.ts";
import { createTestService, type TestService, type TestServiceOptions } from "./service.test-helper.ts";

type Producer = {
  readonly id: string;
  readonly state: string;
  readonly version: number;
  readonly weight_version: string | null;
  readonly handed_over: number;
  readonly lease_left_seconds: number | null;
};
type Batch = { readonly status: string; readonly producer: Producer };

const synchronous = { samples: 2, batch_groups: 2, max_staleness: 0, weight_version: "0", lease_seconds: 60 };

function serve(options: TestServiceOptions = {}) {
  const clock = createManualClock();
  const said: string[] = [];
  const tested = createTestService({
    clock,
    weights: { version: "0" },
    ...options,
    parts: { onNotice: (message) => said.push(message), ...options.parts },
  });
  return { ...tested, clock, said };
}
type Served = Pick<TestService, "sendJson">;
const start = ({ sendJson }: Served, body: object = synchronous, key?: string) =>
  sendJson<Producer>("/v1/producers", body, key === undefined ? {} : { "idempotency-key": key });
const get = ({ sendJson }: Served, { id }: Producer) => sendJson<Producer>(`/v1/producers/${id}`);
const take = ({ sendJson }: Served, { id }: Producer, number: number, wait_seconds = 60) =>
  sendJson<Batch>(`/v1/producers/${id}/batches/${number}`, { wait_seconds });
const act = ({ sendJson }: Served, { id }: Producer, action: string) =>
  sendJson<Producer>(`/v1/producers/${id}/${action}`, "");
const report = ({ sendJson }: Served, version: string, training?: string) =>
  sendJson("/v1/weights", { version, ...(training === undefined ? {} : { training }) });

describe("the lease of a producer", () => {
  test("ends when its trainer is not heard: it says so, begins nothing more, and resumes when its trainer is back", async () => {
    const served = serve();
    const producer = await start(served, { ...synchronous, training: "first" });
    expect(producer).toMatchObject({ state: "running", training: "first", lease_seconds: 60, lease_left_seconds: 60 });
    await take(served, producer, 0);
    await served.clock.advance(59_000);
    // A client that only polls the status does not count as a trainer.
    expect(await get(served, producer)).toMatchObject({ state: "running", lease_left_seconds: 1 });
    await served.clock.advance(1000);
    expect(await get(served, producer)).toMatchObject({ state: "lapsed", lease_left_seconds: null });
    expect(served.service.producers).toEqual([]);
    expect(served.said).toEqual([expect.stringContaining('of training "first" begins nothing more')]);
    expect(served.said[0]).toContain("came for 60 s");
    const calls = served.calls();
    await report(served, "1");
    await report(served, "1", "second");
    await new Promise((done) => setTimeout(done, 20));
    expect([served.calls(), (await get(served, producer)).version]).toEqual([calls, 0]);
    served.weights.version = "1";
    await report(served, "1", "first");
    expect(await get(served, producer)).toMatchObject({ state: "running", version: 1, lease_left_seconds: 60 });
    expect(await take(served, producer, 1)).toMatchObject({ status: "ready", producer: { handed_over: 4 } });
    await served.service.close({ wait: false });
    expect(served.clock.sleeping).toBe(0);
  });

  test.each([
    ["a batch", (served: Served, producer: Producer) => take(served, producer, 0)],
    ["a heartbeat", (served: Served, producer: Producer) => act(served, producer, "heartbeat")],
    ["the same request", (served: Served) => start(served, synchronous, "key")],
    ["continue", (served: Served, producer: Producer) => act(served, producer, "continue")],
  ])("begins again with %s, before it ended and after", async (_, heard) => {
    const served = serve();
    const producer = await start(served, synchronous, "key");
    await served.clock.advance(40_000);
    await heard(served, producer);
    await served.clock.advance(40_000);
    expect(await get(served, producer)).toMatchObject({ state: "running", lease_left_seconds: 20 });
    await served.clock.advance(20_000);
    expect(await get(served, producer)).toMatchObject({ state: "lapsed" });
    await heard(served, producer);
    expect(await get(served, producer)).toMatchObject({ state: "running", lease_left_seconds: 60 });
    await served.service.close({ wait: false });
  });

  test("does not end while a request waits for a batch, nor where it pauses or drains anyway", async () => {
    const served = serve();
    served.gate.close();
    const producer = await start(served);
    const waiting = take(served, producer, 0);
    await new Promise((done) => setImmediate(done));
    await served.clock.advance(200_000);
    expect(await get(served, producer)).toMatchObject({ state: "running" });
    served.gate.open();
    expect(await waiting).toMatchObject({ status: "ready" });
    await act(served, producer, "pause");
    await served.clock.advance(200_000);
    expect(await get(served, producer)).toMatchObject({ state: "paused", lease_left_seconds: null });
    await served.service.close({ wait: false });
  });

  test("is an hour unless it is requested, and at least a second", async () => {
    const served = serve();
    const { lease_seconds: _, ...body } = synchronous;
    expect(await start(served, body)).toMatchObject({ lease_seconds: 3600, training: null });
    expect((await served.send("/v1/producers", { ...body, lease_seconds: 0.5 })).status).toBe(400);
    await served.service.close({ wait: false });
  });
});

describe("reports", () => {
  test("of a training reach its producers alone; those without a name reach the ones without", async () => {
    const served = serve();
    const [first, second, unnamed] = [
      await start(served, { ...synchronous, training: "first" }),
      await start(served, { ...synchronous, training: "second" }),
      await start(served),
    ];
    await report(served, "1", "second");
    await report(served, "2");
    await report(served, "3");
    const versions = await Promise.all([first, second, unnamed].map((producer) => get(served, producer)));
    expect(versions.map(({ version }) => version)).toEqual([0, 1, 2]);
    expect(versions.map(({ weight_version }) => weight_version)).toEqual(["0", "1", "3"]);
    expect(await served.sendJson("/v1/info")).toMatchObject({ weight_version: "3" });
    await served.service.close({ wait: false });
  });

  test("without a name wait for the trainer of a producer that has lapsed, and reach it when it is back", async () => {
    const served = serve();
    const producer = await start(served);
    await take(served, producer, 0);
    await served.clock.advance(60_000);
    served.weights.version = "1";
    await report(served, "1");
    expect(await get(served, producer)).toMatchObject({ state: "lapsed", version: 0 });
    expect(await take(served, producer, 1)).toMatchObject({ status: "ready", producer: { version: 1 } });
    await served.service.close({ wait: false });
  });

  test("and leases are the same to a later process", async () => {
    const log: LoggedRequest[] = [];
    const requests = { append: async (entry: LoggedRequest) => void log.push(entry), close: async () => undefined };
    const disk = { requests, kept: new Map(), groups: new Map(), records: new Map() };
    const before = serve(disk);
    const [lapsed, named, kept] = [
      await start(before, synchronous, "lapsed"),
      await start(before, { ...synchronous, training: "named" }, "named"),
      await start(before, { ...synchronous, lease_seconds: 100 }, "kept"),
    ];
    await before.clock.advance(60_000);
    await report(before, "1");
    await report(before, "1", "named");
    await before.service.close({ wait: true });

    const after = serve(disk);
    await after.service.restore([...log], { decided: disk.records });
    expect(await get(after, lapsed)).toMatchObject({ state: "lapsed", version: 0 });
    expect(await get(after, named)).toMatchObject({ state: "running", version: 1, lease_left_seconds: 60 });
    // The lease is full again, because the trainer could not reach the service while it was away.
    expect(await get(after, kept)).toMatchObject({ state: "running", version: 1, lease_left_seconds: 100 });
    expect(await act(after, lapsed, "heartbeat")).toMatchObject({ state: "running", version: 1 });
    await after.service.close({ wait: true });

    const last = serve(disk);
    await last.service.restore([...log], { decided: disk.records });
    expect(await get(last, lapsed)).toMatchObject({ state: "running", version: 1 });
    await last.service.close({ wait: false });
  });
});
