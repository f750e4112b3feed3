import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GroupQuota, type QuotaDecisions } from "./group-quota.ts";

type Outcome = "pass" | "drop";

/**
 * Runs a quota with groups of given outcomes that end in a given order (drawn from those in
 * flight).
 */
function playQuota(
  outcomes: readonly Outcome[],
  picks: readonly number[],
  options: { readonly target: number; readonly oversample: number; readonly order: "plan" | "finished" },
) {
  const quota = new GroupQuota({ ...options, maxGroups: outcomes.length });
  const open: number[] = [];
  const kept: number[] = [];
  const surplus: number[] = [];
  let mostUndecided = 0;
  const take = (decisions: QuotaDecisions): void => {
    kept.push(...decisions.kept);
    surplus.push(...decisions.surplus);
  };
  for (let step = 0; ; step++) {
    while (quota.mayOpen) open.push(quota.open());
    mostUndecided = Math.max(mostUndecided, quota.opened - kept.length - surplus.length);
    if (open.length === 0 || quota.isMet) break;
    const [index] = open.splice((picks[step % Math.max(1, picks.length)] ?? 0) % open.length, 1);
    take(outcomes[index!] === "pass" ? quota.pass(index!) : quota.drop(index!));
  }
  return { kept: kept.toSorted((a, b) => a - b), surplus, opened: quota.opened, open };
}

const outcomes = fc.array(fc.constantFrom<Outcome>("pass", "drop"), { minLength: 1, maxLength: 40 });
const picks = fc.array(fc.nat(1000), { maxLength: 40 });

describe("GroupQuota", () => {
  it("keeps in plan order what passes first in the plan, whatever ends first", () => {
    fc.assert(
      fc.property(
        outcomes,
        picks,
        fc.integer({ min: 1, max: 8 }),
        fc.double({ min: 1, max: 3, noNaN: true }),
        (...drawn) => {
          const [groups, order, target, oversample] = drawn;
          const passing = [...groups.keys()].filter((index) => groups[index] === "pass");
          const { kept, opened } = playQuota(groups, order, { target, oversample, order: "plan" });
          expect(kept).toEqual(passing.slice(0, target));
          // Without over-sampling only required groups are opened, so the whole run depends only on
          // the plan.
          if (oversample === 1) {
            expect(opened).toBe(kept.length === target ? passing[target - 1]! + 1 : groups.length);
          }
        },
      ),
      { seed: 1, numRuns: 300 },
    );
  });

  it("keeps in finishing order the first that pass, and never more than the target", () => {
    fc.assert(
      fc.property(outcomes, picks, fc.integer({ min: 1, max: 8 }), (groups, order, target) => {
        const { kept, surplus } = playQuota(groups, order, { target, oversample: 2, order: "finished" });
        const passing = groups.filter((outcome) => outcome === "pass").length;
        expect(kept).toHaveLength(Math.min(target, passing));
        expect(new Set([...kept, ...surplus]).size).toBe(kept.length + surplus.length);
      }),
      { seed: 1, numRuns: 200 },
    );
  });

  it("gives up after as many groups as it may open", () => {
    expect(playQuota(Array<Outcome>(12).fill("drop"), [], { target: 3, oversample: 1, order: "plan" })).toMatchObject({
      kept: [],
      opened: 12,
    });
  });

  it("keeps every group that passes without a target", () => {
    const quota = new GroupQuota({ target: null, oversample: 1, order: "plan", maxGroups: Infinity });
    expect([quota.open(), quota.open()]).toEqual([0, 1]);
    expect(quota.pass(1)).toEqual({ kept: [1], surplus: [] });
    expect(quota.drop(0)).toEqual({ kept: [], surplus: [] });
    expect([quota.mayOpen, quota.isMet]).toEqual([true, false]);
  });

  it("counts what an earlier run decided", () => {
    const quota = new GroupQuota({ target: 2, oversample: 1, order: "plan", maxGroups: 9 });
    quota.restore(quota.open(), "kept");
    quota.restore(quota.open(), "dropped");
    expect(quota.mayOpen).toBe(true);
    expect(quota.pass(quota.open())).toEqual({ kept: [2], surplus: [] });
    expect(quota.isMet).toBe(true);
  });

  it("refuses numbers that mean nothing", () => {
    const options = { target: 2, oversample: 1, order: "plan", maxGroups: 9 } as const;
    expect(() => new GroupQuota({ ...options, target: 0 })).toThrow("quota.target is 0");
    expect(() => new GroupQuota({ ...options, oversample: 0.5 })).toThrow("oversample is 0.5");
    expect(() => new GroupQuota({ ...options, maxGroups: 0 })).toThrow("maxGroups is 0");
  });
});
