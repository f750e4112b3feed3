import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { sharedFolder } from "./shared-folder.ts";
import { playUserFlow, type UserFlow } from "./user-flows.ts";

const folder = sharedFolder("tau-bench", "goldens");

describe.skipIf(folder === null)("simulated users (skipped without ../shared/tau-bench/goldens)", () => {
  const flows =
    folder === null ? [] : (JSON.parse(readFileSync(`${folder}/user-flows.json`, "utf8")) as readonly UserFlow[]);

  it.each(flows.map((flow, index) => [index, flow.strategy, flow] as const))(
    "flow %i (%s) goes as the reference's, call by call",
    async (_index, _strategy, flow) => {
      expect(await playUserFlow(flow)).toBeNull();
    },
  );

  it("notices a changed reply, a changed message and a missing call", async () => {
    const flow = flows.find(({ strategy }) => strategy === "verify");
    const last = flow?.events.at(-1);
    if (flow === undefined || last === undefined) throw new Error("There is no verify flow.");
    const withLast = (changed: object): UserFlow => ({
      ...flow,
      events: [...flow.events.slice(0, -1), { ...last, ...changed }],
    });
    expect(await playUserFlow(withLast({ returned: "other" }))).toContain("recorded: said other");
    expect(await playUserFlow(withLast({ content: "other" }))).toContain("model call");
    expect(await playUserFlow(withLast({ model_calls: last.model_calls.slice(0, 2) }))).toContain("one call more");
    expect(await playUserFlow({ ...flow, strategy: "unknown" })).toBeUndefined();
  });
});
