// The bookshop served over MCP and OpenEnv: to our own client, which gets the same episodes as in
// process, token for token; and to any other client, which sees only tools. MCP's client library is
// the official one; OpenEnv's, in Python, runs in `npm run verify -- environments`.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Episode } from "../core/index.ts";
import { openRunFolder } from "../store/index.ts";
import { type RunningEnvServer, serveEnvironment } from "./env-server.ts";
import { rollout } from "./rollout.ts";

let cwd = "";
let server: RunningEnvServer;
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "trainable-agents-"));
  server = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0", cwd, maxSessions: 64 });
});
afterEach(async () => {
  await server.close();
  await rm(cwd, { recursive: true });
});

async function episodesOf(env: string, out: string): Promise<readonly Episode[]> {
  await rollout({
    env,
    engine: "expert",
    user: "agenda",
    tasks: [0, 1, 2, 3, 4, 5],
    groupSize: 2,
    seed: 7,
    out,
    cwd,
    concurrency: 4,
    expertNoise: 0.3,
  });
  const episodes: Episode[] = [];
  for await (const episode of openRunFolder(join(cwd, out)).episodes()) episodes.push(episode);
  return episodes.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Times and the sampling process are not part of an episode's content. */
const withoutTimes = ({ events, trajectory, ...episode }: Episode): unknown => ({
  ...episode,
  turns: trajectory.turns.map(({ observationTokens, sampledTokens, logprobs }) => [
    [...observationTokens],
    [...sampledTokens],
    logprobs === null ? null : [...logprobs],
  ]),
  events: events.map(({ type, ...event }) =>
    "result" in event ? [type, event.result] : "line" in event ? [type, event.line.text] : [type],
  ),
});

async function client(
  address: string,
  options: ConstructorParameters<typeof Client>[1] = {},
): Promise<{ readonly mcp: Client; readonly end: () => Promise<void> }> {
  const mcp = new Client({ name: "another", version: "1" }, options);
  const transport = new StreamableHTTPClientTransport(new URL(address), {});
  await mcp.connect(transport);
  const end = async (): Promise<void> => {
    await transport.terminateSession();
    await mcp.close();
  };
  return { mcp, end };
}

describe("serveEnvironment()", () => {
  it.each([
    ["mcp", "/mcp"],
    ["openenv", ""],
  ])("gives a rollout over %s the episodes that it has in process, token for token", async (scheme, path) => {
    const remote = await episodesOf(`${scheme}:${server.url}${path}`, "remote");
    const local = await episodesOf("bookshop", "local");
    expect(local).toHaveLength(12);
    expect(local.some(({ reward }) => reward === 1)).toBe(true);
    expect(remote.map(withoutTimes)).toEqual(local.map(withoutTimes));
    expect(server.sessions()).toEqual({ opened: 12, closed: 12, active: 0 });
  });

  it.each([["legacy"], ["auto"], [{ pin: "2026-07-28" }]] as const)(
    "serves clients that start their servers as programs (%j), through the bridge of ACP agents",
    async (mode) => {
      const bridge = fileURLToPath(new URL("../../dist/gateway/acp/mcp-bridge.js", import.meta.url));
      const mcp = new Client({ name: "another", version: "1" }, { versionNegotiation: { mode } });
      const env = { TRAINABLE_AGENTS_MCP_URL: `${server.url}/mcp?task=3&seed=1` };
      await mcp.connect(new StdioClientTransport({ command: process.execPath, args: [bridge], env }));
      expect(mcp.getNegotiatedProtocolVersion() === "2026-07-28").toBe(mode !== "legacy");
      expect(mcp.getInstructions()).toContain("Talk to the user");
      expect((await mcp.listTools()).tools.map(({ name }) => name)).toContain("look_up");
      expect(await mcp.callTool({ name: "look_up", arguments: { id: "#W1" } })).toMatchObject({ isError: true });
      await expect(mcp.callTool({ name: "nothing", arguments: {} })).rejects.toMatchObject({ code: -32602 });
      await server.close();
      const asking = mcp.callTool({ name: "look_up", arguments: { id: "#W1" } });
      await expect(asking).rejects.toThrow("The environment does not answer");
      await mcp.close();
    },
  );

  it("gives another client tools, a user to talk to and a reward", async () => {
    const { mcp, end } = await client(`${server.url}/mcp?task=3&seed=1`);
    const instructions = mcp.getInstructions() ?? "";
    expect(instructions).toContain('Talk to the user with the tool "respond"');
    const { messages } = await mcp.getPrompt({ name: "task" });
    expect(instructions.endsWith((messages[0]!.content as { readonly text: string }).text)).toBe(true);
    const { tools } = await mcp.listTools();
    expect(tools.map(({ name }) => name).slice(-2)).toEqual(["respond", "finish"]);
    const call = async (name: string, given: Readonly<Record<string, unknown>>) =>
      mcp.request({ method: "tools/call", params: { name, arguments: given } });
    expect(await call("look_up", { id: "#W1" })).toMatchObject({ isError: true });
    // The server validates the schema, as the loop of a rollout would.
    expect(await call("look_up", { id: 5 })).toMatchObject({ isError: true });
    expect(await call("respond", { message: "Who are you?" })).toMatchObject({ structuredContent: { isOver: false } });
    expect(await call("finish", {})).toMatchObject({ structuredContent: { reward: 0 } });
    expect(await call("look_up", { id: "#W1" })).toMatchObject({ isError: true });
    await expect(call("nothing", {})).rejects.toMatchObject({ code: -32602 });
    await end();
    await vi.waitFor(() => expect(server.sessions()).toEqual({ opened: 1, closed: 1, active: 0 }));
  });

  it.each([["auto"], [{ pin: "2026-07-28" }]] as const)(
    "gives a client of revision 2026-07-28 (%j) the episode that the address names, and another one when it begins anew",
    async (mode) => {
      const newest = { versionNegotiation: { mode } };
      const { mcp } = await client(`${server.url}/mcp?task=3&seed=1`, newest);
      expect(mcp.getNegotiatedProtocolVersion()).toBe("2026-07-28");
      expect(mcp.getServerVersion()?.name).toBe("trainable-agents bookshop");
      const instructions = mcp.getInstructions() ?? "";
      const { messages } = await mcp.getPrompt({ name: "task" });
      expect(instructions.endsWith((messages[0]!.content as { readonly text: string }).text)).toBe(true);
      const { tools } = await mcp.listTools();
      expect(tools.map(({ name }) => name).slice(-2)).toEqual(["respond", "finish"]);
      const second = await client(`${server.url}/mcp?task=3&seed=1`, newest);
      const other = await client(`${server.url}/mcp?task=3&seed=1&episode=b`, newest);
      expect(server.sessions()).toMatchObject({ opened: 2, active: 2 });
      const call = (name: string, given: Record<string, unknown>, by = mcp) => by.callTool({ name, arguments: given });
      expect(await call("look_up", { id: 5 })).toMatchObject({ isError: true });
      expect(await call("respond", { message: "Who are you?" })).toMatchObject({
        structuredContent: { isOver: false },
      });
      expect(await call("finish", {})).toMatchObject({ structuredContent: { reward: 0 } });
      expect(await call("look_up", { id: "#W1" }, second.mcp)).toMatchObject({ isError: true });
      expect(await call("respond", { message: "Hello?" }, other.mcp)).toMatchObject({
        structuredContent: { isOver: false },
      });
      await expect(call("nothing", {})).rejects.toMatchObject({ code: -32602 });
      const again = await client(`${server.url}/mcp?task=3&seed=1`, newest);
      expect(again.mcp.getInstructions()).toBe(instructions);
      expect(await call("respond", { message: "Hello?" }, again.mcp)).toMatchObject({
        structuredContent: { isOver: false },
      });
      await vi.waitFor(() => expect(server.sessions()).toEqual({ opened: 3, closed: 1, active: 2 }));
      await Promise.all([mcp, second.mcp, other.mcp, again.mcp].map((one) => one.close()));
    },
  );

  it("answers requests of revision 2026-07-28 by their envelope, and nothing of the private extension", async () => {
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const post = async (method: string, params: object, headers: Readonly<Record<string, string>> = {}) => {
      const answer = await fetch(`${server.url}/mcp?task=1`, {
        method: "POST",
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { _meta: meta, ...params } }),
        headers: {
          "content-type": "application/json",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": method,
          ...headers,
        },
      });
      const { error, result } = (await answer.json()) as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
      return [answer.status, error?.["code"] ?? result?.["resultType"]];
    };
    expect(await post("tools/list", {})).toEqual([200, "complete"]);
    expect(await post("tools/list", { _meta: {} })).toEqual([400, -32602]);
    expect(await post("tools/list", { _meta: { ...meta, "io.modelcontextprotocol/clientCapabilities": 1 } })).toEqual([
      400, -32602,
    ]);
    expect(await post("tools/list", {}, { "mcp-method": "tools/call" })).toEqual([400, -32020]);
    expect(await post("tools/list", {}, { "mcp-protocol-version": "2025-11-25" })).toEqual([400, -32020]);
    expect(await post("tools/list", {}, { "mcp-protocol-version": "2027-01-01" })).toEqual([400, -32022]);
    const call = { name: "respond", arguments: { message: "Hi." } };
    expect(await post("tools/call", call, { "mcp-name": "finish" })).toEqual([400, -32020]);
    expect(await post("tools/call", call)).toEqual([400, -32020]);
    const encoded = `=?base64?${Buffer.from("respond").toString("base64")}?=`;
    expect(await post("tools/call", call, { "mcp-name": encoded })).toEqual([200, "complete"]);
    for (const method of ["ping", "initialize", "resources/list", "subscriptions/listen"])
      expect(await post(method, {})).toEqual([404, -32601]);
    for (const method of ["describe", "tasks", "hear", "grade"])
      expect(await post(`trainable-agents/${method}`, { split: "train", from: 0, count: 5, text: "a" })).toEqual([
        404, -32601,
      ]);
  });

  it("refuses what is not a request, a session that is none, pages of other sites, and episodes beyond its room", async () => {
    const post = async (body: string, headers: Readonly<Record<string, string>> = {}) => {
      const answer = await fetch(`${server.url}/mcp`, {
        method: "POST",
        body,
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
      });
      return [answer.status, ((await answer.json()) as { readonly error?: { readonly code: number } }).error?.code];
    };
    const message = (method: string, params: object = {}) => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    expect(await post("{")).toEqual([400, -32700]);
    expect(await post("[]")).toEqual([400, -32600]);
    expect(await post(message("tools/list"))).toEqual([400, -32600]);
    expect(await post(message("tools/list"), { "mcp-session-id": "none" })).toEqual([404, -32001]);
    expect(await post(message("ping"), { "mcp-protocol-version": "1999-01-01" })).toEqual([400, -32600]);
    expect(await post(message("initialize"), { origin: "http://example.com" })).toEqual([403, undefined]);
    expect(await post(message("initialize"), { "content-type": "text/plain" })).toEqual([415, -32000]);
    const own = (task: unknown) =>
      message("initialize", { capabilities: { experimental: { "trainable-agents": { task } } } });
    expect(await post(own("bookshop:train:none"))).toEqual([400, -32602]);
    expect(await post(own(5))).toEqual([400, -32602]);
    const opened = await Promise.all(Array.from({ length: 66 }, () => post(own("bookshop:train:0"))));
    expect(opened.filter(([status]) => status === 200)).toHaveLength(64);
    expect(opened.filter(([status]) => status === 503)).toHaveLength(2);
  });
});
