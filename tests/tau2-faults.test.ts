// Attribution of a failure in τ²-bench, where both sides hold tools: on conversations that the
// reference recorded, and on changed ones.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { scoreTau2File } from "../src/api/score-files.ts";
import { tau2Facts } from "../src/api/tau2-facts.ts";
import { loadTau2Data, readMessages, type Tau2Message, type Tau2Task } from "../src/environments/tau2-bench/index.ts";
import { attributeFault, type ConversationStep, type TaskFacts } from "../src/graders/index.ts";
import { type JsonObject, parseJson } from "../src/python-semantics/json/index.ts";
import { sharedFolder } from "./conformance/shared-folder.ts";

const folder = sharedFolder("tau2-bench");
const user = (text: string): ConversationStep => ({ type: "user", text, hangsUp: false });
const agent = (text: string): ConversationStep => ({ type: "agent", text });
const phone = (name: string, result: string, given: Readonly<Record<string, string>> = {}): ConversationStep => ({
  type: "user-call",
  name,
  arguments: new Map(Object.entries(given)),
  result,
  isError: false,
});
const stop: ConversationStep = { type: "user", text: "Bye.", hangsUp: true };

describe.skipIf(folder === null)("faults in τ²-bench (skipped without ../shared/tau2-bench)", async () => {
  const data = folder === null ? null! : await loadTau2Data({ domain: "telecom", folder });
  const tasks = folder === null ? [] : await data.tasks("base");
  const needs = (name: string): Tau2Task =>
    tasks.find(({ criteria }) =>
      criteria?.actions?.some((action) => action.name === name && action.requestor === "user"),
    )!;
  const faultOf = async (name: string, steps: readonly ConversationStep[], change: Partial<TaskFacts> = {}) => {
    const facts = { ...(await tau2Facts(data, needs(name))), ...change };
    const { fault, rule } = attributeFault({
      conversation: [...steps, stop],
      outcome: "completed",
      failure: null,
      facts,
    });
    return `${fault}: ${rule}`;
  };

  test("the calls of both sides are known, and every solution is reachable", async () => {
    for (const domain of ["telecom", "retail", "airline"]) {
      const loaded = await loadTau2Data({ domain, folder: folder! });
      for (const task of (await loaded.tasks("base")).slice(0, 40)) {
        const facts = await tau2Facts(loaded, task);
        const actions = task.criteria?.actions ?? [];
        expect(facts.isReachable, task.id).toBe(true);
        expect((facts.expectedCalls ?? []).length + facts.expectedUserCalls!.length).toBe(actions.length);
        expect(facts.userTools.length > 0).toBe(domain === "telecom");
      }
    }
    const { expectedUserCalls, knownFacts } = await tau2Facts(data, needs("toggle_airplane_mode"));
    expect(expectedUserCalls!.map(({ name }) => name)).toContain("toggle_airplane_mode");
    expect(knownFacts).toContainEqual({ name: "phone number", value: "555-123-2002" });
  });

  test("a user who says that it did what it never did is at fault, and an agent who never asked is", async () => {
    const ask = agent("Please turn airplane mode off on your phone.");
    expect(await faultOf("toggle_airplane_mode", [user("Hi."), ask, user("Done, I've turned it off.")])).toBe(
      "user: claimed-call",
    );
    expect(await faultOf("toggle_airplane_mode", [user("Hi."), ask, user("I have not done it, where is it?")])).toMatch(
      /^agent/,
    );
    expect(
      await faultOf("toggle_airplane_mode", [user("Hi."), agent("Is airplane mode on?"), user("I've done nothing.")]),
    ).toMatch(/^agent/);
    expect(await faultOf("toggle_airplane_mode", [user("Hi."), agent("Goodbye."), user("Done.")])).toMatch(/^agent/);
    const obeyed = [user("Hi."), ask, phone("toggle_airplane_mode", "Airplane Mode is now OFF."), user("Done.")];
    expect(await faultOf("toggle_airplane_mode", obeyed)).toMatch(/^agent/);
  });

  test("a user who calls with another argument than it was told is at fault, unless it was told that one", async () => {
    const right = "4g_5g_preferred";
    const set = (mode: string) => phone("set_network_mode_preference", "Preferred Network Mode set.", { mode });
    const ask = (mode: string) => agent(`Please set the network mode to ${mode} with set_network_mode_preference.`);
    const name = "set_network_mode_preference";
    const expected = needs(name).criteria!.actions!.find((action) => action.name === name)!;
    expect(expected.arguments.get("mode")).toBe(right);
    expect(await faultOf(name, [user("Hi."), ask(right), set("3g_only"), user("So.")])).toBe("user: other-arguments");
    expect(await faultOf(name, [user("Hi."), ask("3g_only"), set("3g_only"), user("So.")])).toMatch(/^agent/);
    expect(await faultOf(name, [user("Hi."), ask(right), set("3g_only"), set(right), user("So.")])).toMatch(/^agent/);
  });

  test("a user who changes what nobody spoke of, or reports another state than it was shown, is at fault", async () => {
    const wild = [user("Hi."), agent("What is your name?"), phone("disconnect_vpn", "VPN disconnected."), user("Ann.")];
    expect(await faultOf("toggle_airplane_mode", wild)).toBe("user: unrequested-call");
    const looked = [
      user("Hi."),
      agent("What is your name?"),
      phone("check_vpn_status", "VPN is turned OFF."),
      user("Ann."),
    ];
    expect(await faultOf("toggle_airplane_mode", looked)).toMatch(/^agent/);
    const shown = phone("check_network_status", "Airplane Mode: ON\nMobile Data Enabled: No");
    const said = (text: string) => [user("Hi."), agent("Is airplane mode on?"), shown, user(text)];
    expect(await faultOf("toggle_airplane_mode", said("Airplane mode is off."))).toBe("user: misreported-result");
    for (const fair of [
      "Airplane mode is on.",
      "Airplane mode was off before.",
      "It is off if airplane mode is on.",
      "Airplane mode is not off.",
    ]) {
      expect(await faultOf("toggle_airplane_mode", said(fair)), fair).toMatch(/^agent/);
    }
  });

  test("is found in time that grows with the text", async () => {
    const name = "toggle_airplane_mode";
    const long = "A".repeat(200_000);
    const steps = Array.from({ length: 300 }, () => [
      agent("Please go on."),
      phone("check_vpn_status", "VPN is OFF"),
      user("So."),
    ]);
    const begun = performance.now();
    await faultOf(name, [
      phone("check_network_status", long),
      user(long),
      agent(`${long} ${"a is ".repeat(40_000)}`),
      ...steps.flat(),
    ]);
    expect(performance.now() - begun).toBeLessThan(5_000);
  });

  test("of recorded conversations those are the user's in which it changed what nobody spoke of", async () => {
    const lines = (await readFile(join(folder!, "goldens", "evaluate.jsonl"), "utf8")).trim().split("\n");
    const counts = { agent: 0, user: 0 };
    for (const line of lines) {
      const record = parseJson(line) as JsonObject;
      const messages = readMessages(record.get("messages") ?? [], "evaluate.jsonl");
      const task = tasks.find(({ id }) => id === record.get("task_id"));
      if (record.get("domain") !== "telecom" || task === undefined || messages.length === 0) continue;
      const solution = new Set(task.criteria?.actions?.map(({ name }) => name));
      const wild = messages.some(
        (one) =>
          one.role === "user" &&
          one.toolCalls?.some(
            ({ name }) =>
              data.userTools.some((tool) => tool.name === name) &&
              !solution.has(name) &&
              !/^(check|run|can)_/.test(name),
          ),
      );
      // A reward of 0 makes every conversation a failure.
      const tasksOfFile = new Map([[task.id, task]]);
      const simulations = [simulationOf(task, messages)];
      const [run] = await scoreTau2File({ domain: "telecom", isSolo: false, tasks: tasksOfFile, simulations }, folder);
      const { fault, evidence } = run!.score.fault!;
      expect(fault, `${task.id}: ${evidence}`).toBe(wild ? "user" : "agent");
      counts[wild ? "user" : "agent"]++;
    }
    expect(counts.agent).toBeGreaterThan(20);
    expect(counts.user).toBeGreaterThan(0);
  });
});

function simulationOf(task: Tau2Task, messages: readonly Tau2Message[]) {
  return {
    id: "s",
    digest: "s",
    taskId: task.id,
    trial: 0,
    reason: "user_stop" as const,
    messages,
    reward: 0,
    breakdown: null,
    agentCost: null,
    userCost: null,
    durationSeconds: null,
  };
}
