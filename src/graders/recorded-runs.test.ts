import { describe, expect, it } from "vitest";
import { readTauResults } from "./recorded-runs.ts";

const file = (...messages: readonly object[]): string =>
  JSON.stringify([{ task_id: 3, reward: 1.0, info: { user_cost: 0.5 }, traj: messages, trial: 2 }]);

describe("readTauResults()", () => {
  it("reads tool calls as fields of messages, the first of several, with lossless arguments", () => {
    const call = (name: string, written: string) => ({
      function: { name, arguments: written },
      id: "x",
      type: "function",
    });
    const [run] = readTauResults(
      file(
        { role: "system", content: "guidelines" },
        { role: "user", content: "Hi." },
        { role: "assistant", content: null, tool_calls: [call("pay", '{"amount": 5.0}'), call("pay", "{}")] },
        { role: "tool", name: "pay", content: "Error: no" },
        { role: "assistant", content: "Sorry.", tool_calls: null },
        { role: "user", content: "Bye. ###STOP###" },
      ),
      "f",
    );
    expect(run).toMatchObject({ taskIndex: 3, trial: 2, reward: 1, userCost: 0.5, error: null });
    expect(run?.conversation).toMatchObject([
      { type: "user", text: "Hi.", hangsUp: false },
      { type: "call", name: "pay", result: "Error: no", isError: true },
      { type: "agent", text: "Sorry." },
      { type: "user", text: "Bye.", hangsUp: true },
    ]);
    const [, paid] = run?.conversation ?? [];
    expect(paid?.type === "call" && paid.arguments.get("amount")).toEqual({ value: 5 });
  });

  it("reads actions that act and react agents write as text", () => {
    const [run] = readTauResults(
      file(
        { role: "system", content: "guidelines\n#Available tools\n[]\n" },
        { role: "user", content: "Hi." },
        { role: "assistant", content: 'Thought:\nlook\nAction:\n{"name": "look", "arguments": {"id": 1}}' },
        { role: "user", content: "API output: found" },
        { role: "assistant", content: 'Action: {"name": "respond", "arguments": {"content": "There."}}' },
        { role: "user", content: "And?" },
        { role: "assistant", content: "Action:\n plain words " },
        { role: "user", content: "###STOP###" },
      ),
      "f",
    );
    expect(run?.conversation).toMatchObject([
      { type: "user", text: "Hi." },
      { type: "call", name: "look", result: "found", isError: false },
      { type: "agent", text: "There." },
      { type: "user", text: "And?" },
      { type: "agent", text: "plain words" },
      { type: "user", text: "", hangsUp: true },
    ]);
  });

  it.each([
    ["{}", "expected a list of results"],
    ["[1]", 'result 1 of "f": it is not an object'],
    ['[{"task_id": "x"}]', '"task_id" is not an index'],
    ['[{"task_id": -1}]', '"task_id" is not an index'],
    ['[{"task_id": 0, "trial": 0, "reward": "high", "traj": []}]', '"reward" is not a number'],
    ['[{"task_id": 0, "trial": 0, "reward": 1, "traj": {}}]', '"traj" is not a list'],
    ['[{"task_id": 0, "trial": 0, "reward": null, "traj": []}]', '"reward" is not a number'],
    ["nonsense", "it is not JSON"],
  ])("refuses %s", (text, wanted) => {
    expect(() => readTauResults(text, "f")).toThrow(wanted);
  });

  it.each(["NaN", "Infinity", "-Infinity"])("takes a reward of %s for one that was not given", (reward) => {
    const runs = readTauResults(`[{"task_id": 0, "trial": 0, "reward": ${reward}, "traj": [], "x": NaN}]`, "f");
    expect(runs).toMatchObject([{ reward: null }]);
  });
});
