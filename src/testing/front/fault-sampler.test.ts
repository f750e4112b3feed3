import { describe, expect, test } from "vitest";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { createFaultSampler, faultNames, type FaultName, type FaultSampler } from "./fault-sampler.ts";
import { createFunctionSampler, type SamplerRequest } from "./sampler.ts";
import { sglangProtocols } from "../sglang/protocol.ts";
import { readSampling } from "../sglang/read-request.ts";

const honest = createFunctionSampler(() => ({ ids: [5, 6, 7, 8] }));

function asked(requestId: string): SamplerRequest {
  const { sampler } = readSampling({}, { endTokenIds: [], vocabularySize: null, protocol: sglangProtocols["0.5.23"] });
  return { promptIds: Uint32Array.of(1), params: { ...sampler, maxNewTokens: 8 }, requestId, routingKey: null };
}

/** Results of many requests as text. */
async function outcomes(sampler: FaultSampler, names: readonly string[]): Promise<string[]> {
  const one = async (name: string): Promise<string> => {
    const options = { signal: new AbortController().signal, onTokens: () => "continue" as const };
    const output = await sampler.sample(asked(name), options).catch((error: unknown) => String(error));
    return JSON.stringify(output);
  };
  return Promise.all(names.map(one));
}

const names = Array.from({ length: 400 }, (_, index) => `r${index}`);
const allAt = (rate: number): Readonly<Record<FaultName, number>> =>
  Object.fromEntries(faultNames.map((name) => [name, rate])) as Record<FaultName, number>;

describe("createFaultSampler()", () => {
  test("which request meets which fault follows from seed and id, not from their order", async () => {
    const rates = { ...allAt(0.1), "weight-bump": 0, slow: 0 };
    const forward = await outcomes(createFaultSampler(honest, { seed: 1, rates }), names);
    const backward = await outcomes(createFaultSampler(honest, { seed: 1, rates }), names.toReversed());
    expect(backward.toReversed()).toEqual(forward);
    expect(await outcomes(createFaultSampler(honest, { seed: 2, rates }), names)).not.toEqual(forward);
  });

  test("each fault comes at about its rate, and at most one of those that spoil an answer", async () => {
    const sampler = createFaultSampler(honest, { seed: 3, rates: allAt(0.05), slowMs: 0 });
    const seen = await outcomes(sampler, names);
    const spoiled = faultNames.slice(2).reduce((sum, name) => sum + sampler.counts[name], 0);
    for (const name of faultNames) expect(sampler.counts[name]).toBeGreaterThan(4);
    expect(seen.filter((text) => text.startsWith('"')).length).toBe(
      spoiled - sampler.counts.abort - sampler.counts.cut,
    );
    expect(spoiled).toBeLessThan(0.5 * names.length);
  });

  test("without rates it is the sampler it stands on, operations included", async () => {
    const updated: string[] = [];
    const inner = { ...honest, updateWeights: async (path: string) => void updated.push(path) };
    const sampler = createFaultSampler(inner, { seed: 1, rates: {} });
    const [text] = await outcomes(sampler, ["a"]);
    expect(JSON.parse(text ?? "")).toMatchObject({ ids: [5, 6, 7, 8], finish: "end", weightVersion: null });
    await sampler.updateWeights?.("./m");
    expect(updated).toEqual(["./m"]);
    expect(Object.keys(sampler)).not.toContain("flushCache");
  });

  test("slow answers wait on the clock, and no longer than their request", async () => {
    const clock = createManualClock();
    const sampler = createFaultSampler(honest, { seed: 1, rates: { slow: 1 }, slowMs: 1000, clock });
    const controller = new AbortController();
    const options = { signal: controller.signal, onTokens: () => "continue" as const };
    const given = sampler.sample(asked("a"), options);
    await clock.advance(1000);
    expect((await given).ids).toHaveLength(4);
    const left = sampler.sample(asked("b"), options);
    controller.abort(new Error("left"));
    await expect(left).rejects.toThrow("left");
    expect(clock.sleeping).toBe(0);
  });

  test("every bump is a version nobody has seen", async () => {
    const sampler = createFaultSampler(honest, { seed: 1, rates: { "weight-bump": 1 } });
    const versions = (await outcomes(sampler, ["a", "b", "c"])).map(
      (text) => (JSON.parse(text) as { weightVersion: string }).weightVersion,
    );
    expect(new Set(versions).size).toBe(3);
  });

  test("refuses a rate that is no probability", () => {
    expect(() => createFaultSampler(honest, { seed: 1, rates: { drop: 1.5 } })).toThrow('rate of "drop" is 1.5');
  });
});
