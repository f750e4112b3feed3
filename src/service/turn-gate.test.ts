import { expect, test } from "vitest";
import { type Engine, type SampleRequest, type SampleResult, TokenBuffer } from "../core/index.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { gatedEngine, TurnGate } from "./turn-gate.ts";

const request: SampleRequest = {
  prompt: new TokenBuffer(),
  sampling: {} as SampleRequest["sampling"],
  stopTokenIds: [],
  requestId: "ep:0:1~",
  routingKey: "ep",
};

function engineThat(sample: Engine["sample"], isReady?: () => Promise<boolean>): Engine {
  return { name: "test", sample, close: async () => {}, ...(isReady === undefined ? {} : { isReady }) };
}

test("a pause longer than the bound of a call fails nothing; a call that takes longer does", async () => {
  const clock = createManualClock();
  const gate = new TurnGate();
  const result = {} as SampleResult;
  const never = new Promise<SampleResult>(() => undefined);
  let calls = 0;
  const engine = engineThat(() => (calls++ === 0 ? Promise.resolve(result) : never));
  const gated = gatedEngine(engine, gate, { timeoutMs: 1000, clock });
  gate.close();
  const held = gated.sample(request);
  await clock.advance(3_600_000);
  expect(calls).toBe(0);
  gate.open();
  expect(await held).toBe(result);
  const slow = expect(gated.sample(request)).rejects.toMatchObject({ failure: { code: "timeout", retryable: true } });
  await clock.advance(1000);
  await slow;
});

test("a gated engine says whether its server takes requests, when the engine can tell", async () => {
  const gate = new TurnGate();
  const mute = engineThat(() => Promise.reject(new Error("not requested")));
  expect("isReady" in gatedEngine(mute, gate)).toBe(false);
  const loading = engineThat(
    () => Promise.reject(new Error("not requested")),
    () => Promise.resolve(false),
  );
  expect(await gatedEngine(loading, gate).isReady?.()).toBe(false);
});
