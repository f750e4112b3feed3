// Agents over ACP, in a rollout: real child processes that use the protocol's own library. One plays
// whole tasks of the bookshop with the expert as its policy; others die, hang, ask for permissions,
// log to their output, or take MCP servers only as programs.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Episode, freeUsage, type UserSource } from "../core/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { openRunFolder } from "../store/index.ts";
import { type RolloutOptions, rollout } from "./rollout.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const example = join(root, "examples", "agents", "acp.mjs");

/** An agent that does what the first word of its command says. */
const odd = `
import { agent, methods, ndJsonStream } from ${JSON.stringify(import.meta.resolve("@agentclientprotocol/sdk"))};
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
const [what = "", argument = ""] = process.argv.slice(2);
let server = null;
let isCancelled = false;
const toolCall = { toolCallId: "1", title: "rm -rf /", status: "pending" };
const options = ["allow_once", "reject_once"].map((kind) => ({ optionId: kind, name: kind, kind }));
const app = agent({ name: "odd" })
  .onRequest(methods.agent.initialize, () => {
    if (what === "dies-first") process.exit(3);
    return { protocolVersion: what === "version" ? 9 : 1, agentCapabilities: { mcpCapabilities: { http: false } } };
  })
  .onRequest(methods.agent.session.new, ({ params }) => {
    if (what === "no-session") throw new Error("sign in first");
    server = params.mcpServers[0];
    return { sessionId: "s" };
  })
  .onNotification(methods.agent.session.cancel, () => { isCancelled = true; })
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const say = (text) => client.notify(methods.client.session.update, { sessionId: "s", update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } } });
    if (what === "dies") { console.error("Error: out of luck"); process.exit(4); }
    if (what === "hangs") { spawn("sleep", ["60"]); await new Promise(() => undefined); }
    if (what === "floods") for (;;) await say("x".repeat(1e5));
    if (what === "others") await client.notify(methods.client.session.update, { sessionId: "other", update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "hidden" } } });
    if (what === "rambles") for (;;) await new Promise((resolve) => process.stdout.write("x".repeat(1e6), resolve));
    if (what === "refuses") return { stopReason: "refusal" };
    if (what === "fails") throw new Error("no model");
    if (what === "asks") {
      await client.notify(methods.client.session.update, { sessionId: "s", update: { ...toolCall, sessionUpdate: "tool_call", kind: argument } });
      const { outcome } = await client.request(methods.client.session.requestPermission, { sessionId: "s", toolCall, options });
      await say("permission: " + (outcome.optionId ?? outcome.outcome));
      return { stopReason: "end_turn" };
    }
    if (what === "logs") console.log("a line that is no message");
    if (what === "tools" || what === "shuts") {
      const { command, args, env } = server;
      const child = spawn(command, args, { env: { ...process.env, ...Object.fromEntries(env.map(({ name, value }) => [name, value])) } });
      const ask = async (message) => {
        child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
        if (message.id === undefined) return null;
        for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line);
      };
      const begun = await ask({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "odd", version: "1" } } });
      await ask({ method: "notifications/initialized" });
      if (what === "shuts") {
        await ask({ id: 1, method: "tools/call", params: { name: "shut", arguments: {} } });
        while (!isCancelled) await new Promise((resolve) => setTimeout(resolve, 5));
        await say("It is shut.");
        return { stopReason: "cancelled" };
      }
      const { result } = await ask({ id: 1, method: "tools/list" });
      await say("tools: " + result.tools.map(({ name }) => name).join(" ") + "; rules: " + (begun.result.instructions.length > 100));
      child.kill();
      return { stopReason: "end_turn" };
    }
    await say("I do "); await say("not know.");
    return { stopReason: "end_turn" };
  });
app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
`;

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "agent-acp-"));
  await writeFile(join(folder, "odd.mjs"), odd);
});
afterEach(() => rm(folder, { recursive: true }));

async function play(agentAcp: string, options: RolloutOptions = {}): Promise<Episode> {
  const out = options.out ?? join(folder, "run");
  const shared = { env: "bookshop", tasks: "0", groupSize: 1, engine: "none", cwd: folder } as const;
  await rollout({ ...shared, agentAcp, agentTimeout: 30, ...options, out });
  const found: Episode[] = [];
  for await (const episode of openRunFolder(out).episodes()) found.push(episode);
  expect(found).toHaveLength(1);
  return found[0]!;
}

const oddly = (what: string, options: RolloutOptions = {}) => play(`"${process.execPath}" odd.mjs ${what}`, options);
const programOf = ({ events }: Episode) => events.find((event) => event.type === "program");
const transcriptOf = (episode: Episode): string => programOf(episode)?.stdout ?? "";

describe("an agent over ACP", { timeout: 120_000 }, () => {
  test("plays a task: utterances are prompts, tools come over MCP, the environment grades", async () => {
    const episode = await play(`"${process.execPath}" "${example}"`, { engine: "expert" });
    expect([episode.outcome, episode.stopReason, episode.reward]).toEqual(["completed", "user_hung_up", 1]);
    expect(episode.trajectory.turns.length).toBeGreaterThan(2);
    expect(transcriptOf(episode)).toMatch(/^user: .*\n(tool: \w+\n)*agent: /);
    expect(programOf(episode)).toMatchObject({ isPrompted: true, exitCode: null, isTimedOut: false });
  });

  test("starts the tools as a program for an agent that takes only those", async () => {
    const episode = await oddly("tools");
    expect(transcriptOf(episode)).toMatch(/agent: tools: (\w+ )+\w+; rules: true\n/);
    expect(transcriptOf(episode)).not.toMatch(/ (respond|finish)\b/);
    expect([episode.outcome, episode.reward]).toEqual(["completed", 0]);
  });

  test("leaves out what another session of the agent says", async () => {
    const shown = transcriptOf(await oddly("others"));
    expect(shown).toContain("agent: I do not know.\n");
    expect(shown).not.toContain("hidden");
  });

  test("reads a message in parts, and passes over lines that are none", async () => {
    expect(transcriptOf(await oddly("logs"))).toContain("agent: I do not know.\n");
  });

  test.each([
    ["dies", "program-failed", /ended with code 4: Error: out of luck/],
    ["dies-first", "program-failed", /ended with code 3/],
    ["refuses", "agent-refused", /refused to answer/],
    ["fails", "program-failed", /answered session\/prompt with an error: .*no model/],
    ["no-session", "program-failed", /answered session\/new with an error: .*sign in first/],
    ["version", "program-failed", /speaks version 9 of the protocol/],
    ["rambles", "program-failed", /broke the connection: a line is longer than 16777216 bytes/],
    ["floods", "program-failed", /message is longer than 1000000 characters/],
    ["asks execute", "permission-refused", /"rm -rf \/", of kind "execute"; allow the kind with --agent-permissions/],
  ])("%s: a failure of the agent", async (what, code, message) => {
    const { outcome, failure, reward } = await oddly(what);
    expect([outcome, reward, failure?.boundary, failure?.code]).toEqual(["failed", null, "gateway", code]);
    expect(failure?.message).toMatch(message);
  });

  test("gives permission for the kinds of the policy only", async () => {
    expect(transcriptOf(await oddly("asks other"))).toContain("agent: permission: allow_once\n");
    const all = await oddly("asks execute", { agentPermissions: "all", out: join(folder, "all") });
    expect(transcriptOf(all)).toContain("agent: permission: allow_once\n");
    const none = await oddly("asks think", { agentPermissions: "none", out: join(folder, "none") });
    expect(none.failure?.code).toBe("permission-refused");
  });

  test("kills an agent that takes too long, with all that it started", async () => {
    const episode = await oddly("hangs", { agentTimeout: 2 });
    expect(episode.failure).toMatchObject({ boundary: "gateway", code: "timeout" });
    expect(programOf(episode)).toMatchObject({ isTimedOut: true });
  });

  test("ends at the maximum number of turns, as a truncated episode", async () => {
    const episode = await oddly("answers", { maxTurns: 2 });
    expect([episode.outcome, episode.stopReason]).toEqual(["truncated", "max_turns"]);
    expect(transcriptOf(episode).match(/^user: /gm)).toHaveLength(2);
  });

  test("ends when a tool ends the episode, whatever the agent says afterwards", async () => {
    const env = defineEnvironment<{ isShut: boolean }>({
      name: "door",
      guidelines: "",
      tools: {
        shut: {
          description: "Shuts the door.",
          parameters: { type: "object", properties: {} },
          endsEpisode: true,
          run: (_, state) => {
            state.isShut = true;
          },
        },
      },
      tasks: { train: [{ instruction: "Shut the door.", state: { isShut: false } }] },
      grade: ({ state }) => (state.isShut ? 1 : 0),
    });
    const episode = await oddly("shuts", { env, user: "task" });
    expect([episode.outcome, episode.stopReason, episode.reward]).toEqual(["completed", "tool_ended", 1]);
    expect(transcriptOf(episode)).not.toContain("agent:");
  });

  test("a failing user is not the agent's failure, and the conversation is kept", async () => {
    const user: UserSource = {
      name: "broken",
      create: () => ({
        open: async () => ({ type: "utterance", text: "Hello.", usage: freeUsage }),
        reply: () => Promise.reject(new Error("out of order")),
      }),
    };
    const episode = await oddly("answers", { user });
    const { outcome, failure } = episode;
    expect([outcome, failure?.boundary]).toEqual(["failed", "user"]);
    expect(failure?.message).toContain("out of order");
    expect(transcriptOf(episode)).toBe("user: Hello.\nagent: I do not know.\n");
  });

  test.each<[RolloutOptions, string]>([
    [{ agentPermissions: "other,sudo" }, '"sudo" is not a kind of tool call'],
    [{ agentCommand: "node a.mjs" }, "both run the episodes"],
    [{ env: "tasks.jsonl" }, "it is a file of tasks"],
    [{ strategy: "react" }, "Cannot use --strategy with --agent-acp"],
  ])("refuses %o", async (options, message) => {
    await writeFile(join(folder, "tasks.jsonl"), '{"id": "one"}\n');
    await expect(oddly("answers", options)).rejects.toThrow(message);
  });
});
