// Tools that a policy cannot call are named before it needs them: at the start of a run, of a
// service and of a gateway, and by the doctor commands.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EnvironmentSource } from "../core/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { createScriptedEngine } from "../engines/scripted/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { auditEnvironment } from "./audit-environment.ts";
import { evaluate } from "./evaluate.ts";
import { gateway } from "./gateway.ts";
import { rollout, type RolloutEvent } from "./rollout.ts";
import { serve } from "./serve.ts";

const tool = { description: "Looks.", parameters: { type: "object", properties: {} }, run: () => "" };
const world = defineEnvironment({
  name: "w",
  guidelines: "Look.",
  tools: { look: tool, "look-up": tool, "look/all": tool },
  tasks: { train: [{ instruction: "Wait.", state: {} }] },
  grade: () => 1,
});
const named = '"look-up", "look/all"';
const policy = { model: "readable", toolParser: "pythonic" } as const;
const engine = () => createScriptedEngine({ tokenizer: createReadableTokenizer(), script: () => "Hello.<|im_end|>" });

let cwd = "";
let notices: string[] = [];
const closing: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "trainable-agents-"));
  notices = [];
  await writeFile(join(cwd, user.userLines), "Hi.\n###STOP###");
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  await rm(cwd, { recursive: true });
});
const user = { user: "scripted", userLines: "lines.txt" } as const;
const onNotice = (notice: string): void => void notices.push(notice);
const onEvent = (event: RolloutEvent): void => void (event.type === "notice" && onNotice(event.message));
const warnings = (): string[] => notices.filter((one) => one.includes("cannot call"));

describe("names of tools that the call format cannot write", () => {
  it.each([
    ["rollout", rollout],
    ["evaluate", evaluate],
  ])("are said by %s, once, before an episode runs", async (_, run) => {
    const options = { cwd, variables: {}, env: world, engine: engine(), ...user, out: "r", ...policy } as const;
    await run({ ...options, onEvent: (event: RolloutEvent) => (event.type === "run-start" ? onNotice("start") : onEvent(event)) }); // prettier-ignore
    expect(warnings()).toEqual([expect.stringContaining(`cannot call tools ${named}`)]);
    expect(notices.indexOf(warnings()[0]!)).toBeLessThan(notices.indexOf("start"));
    expect(warnings()[0]).toContain('in the format "pythonic"');
  });

  it("are not said of formats that can write them, and not of tools that stand in the prompt's text", async () => {
    const options = { cwd, variables: {}, env: world, ...user, onEvent, model: "readable" } as const;
    await rollout({ ...options, engine: engine(), out: "a" });
    await rollout({ ...options, engine: engine(), out: "b", toolParser: "pythonic", strategy: "act" });
    expect(warnings()).toEqual([]);
  });

  it("are said of a world elsewhere when its tools are shown", async () => {
    const elsewhere: EnvironmentSource = { ...world, boundsOpening: true };
    await rollout({
      cwd,
      variables: {},
      env: elsewhere,
      engine: engine(),
      ...user,
      out: "r",
      groupSize: 3,
      onEvent,
      ...policy,
    });
    expect(warnings()).toEqual([expect.stringContaining(named)]);
  });

  it("are said by a service at its start", async () => {
    const options = {
      cwd,
      variables: {},
      env: world,
      engine: engine(),
      out: "r",
      listen: "127.0.0.1:0",
      onNotice,
    } as const;
    const running = await serve({ ...options, ...user, ...policy });
    closing.push(() => running.close());
    expect(warnings()).toEqual([expect.stringContaining(named)]);
  });

  it("are said by a gateway: of its worlds at the start, of a client's tools when they come", async () => {
    const options = { cwd, variables: {}, engine: engine(), out: "r", listen: "127.0.0.1:0", onNotice } as const;
    const running = await gateway({ ...options, env: world, ...user, ...policy });
    closing.push(() => running.close());
    expect(warnings()).toEqual([expect.stringContaining(named)]);
    const { key } = await running.open({ task: "t" });
    const functions = ["look", "list files", "read"].map((name) => ({ type: "function", function: { name } }));
    for (let call = 0; call < 2; call++) {
      const answer = await fetch(`${running.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi." }], tools: functions }),
      });
      expect(answer.status).toBe(200);
    }
    expect(warnings()).toHaveLength(2);
    expect(warnings()[1]).toContain('cannot call tool "list files": its name');
  });

  it("are found by doctor environment, for every format", async () => {
    const { findings } = await auditEnvironment({ cwd, variables: {}, env: world, taskCount: 1, callCount: 1 });
    const found = findings.find(({ check }) => check === "tool names");
    expect(found).toMatchObject({ result: "warning" });
    expect(found!.text).toContain("pythonic");
    const plain = await auditEnvironment({ cwd, variables: {}, env: "bookshop", taskCount: 1, callCount: 1 });
    expect(plain.findings).toContainEqual(expect.objectContaining({ check: "tool names", result: "ok" }));
  });
});
