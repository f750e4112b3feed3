// Sessions of a gateway with a world of their own: the program samples over Chat, calls the world's tools over MCP with the official
// client, and the world grades.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openRunFolder } from "../store/index.ts";
import { gateway, type GatewayOptions, type RunningGateway } from "./gateway.ts";

let cwd = "";
let running: RunningGateway;
const notices: string[] = [];
const start = (more: Partial<GatewayOptions> = {}): Promise<RunningGateway> =>
  gateway({
    engine: "expert",
    listen: "127.0.0.1:0",
    out: "run",
    cwd,
    onNotice: (notice) => void notices.push(notice),
    env: "bookshop",
    ...more,
  });
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "trainable-agents-"));
  notices.length = 0;
});
afterEach(async () => {
  await running.close();
  await rm(cwd, { recursive: true });
});

type Answer = Readonly<Record<string, unknown>> & {
  readonly id: string;
  readonly key: string;
  readonly mcp_url: string;
};

async function post(path: string, body: object, key: string | null = null): Promise<Answer> {
  const answer = await fetch(`${running.url}${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
  });
  return (await answer.json()) as Answer;
}

async function connect(address: string): Promise<Client> {
  const client = new Client({ name: "an agent", version: "1" }, {});
  await client.connect(new StreamableHTTPClientTransport(new URL(address)));
  return client;
}

describe("gateway() with an environment", () => {
  it("offers a session the tools of its task, and grades it at the end", async () => {
    running = await start();
    const session = await post("/v1/sessions", { environment_task: "3", group_size: 1 });
    expect(session).toMatchObject({ task: "bookshop:train:3", group: "bookshop:train:3" });
    const client = await connect(session.mcp_url);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain("look_up");
    expect(await client.callTool({ name: "look_up", arguments: { id: "#W1" } })).toMatchObject({ isError: true });
    expect(await client.callTool({ name: "respond", arguments: { message: "Hello." } })).toMatchObject({
      isError: false,
    });
    const messages = [{ role: "user", content: "Hello." }];
    expect(await post("/v1/chat/completions", { model: "policy", messages }, session.key)).toHaveProperty("choices");
    expect(await post(`/v1/sessions/${session.id}/reward`, { reward: 1 })).toMatchObject({
      error: { param: "reward" },
    });
    const ended = await post(`/v1/sessions/${session.id}/end`, {});
    expect(ended).toMatchObject({ outcome: "completed", reward: 0, turns: 1 });
    await expect(client.listTools()).rejects.toThrow("Cannot find the tools");
    await client.close();
    for await (const { grade } of openRunFolder(join(cwd, "run")).episodes()) {
      expect(grade?.metrics).toMatchObject({ toolErrors: 1 });
    }
  });

  it("refuses a task that is none, a session without a world, and worlds without an environment", async () => {
    running = await start();
    expect(await post("/v1/sessions", { environment_task: "none" })).toMatchObject({
      error: { param: "environment_task" },
    });
    const { key } = await running.open({ id: "plain" });
    await expect(connect(`${running.url}/s/${key}/mcp`)).rejects.toThrow("Cannot find the tools");
    await expect(connect(`${running.url}/s/nobody/mcp`)).rejects.toThrow("Cannot find the tools");
    await running.close();
    await rm(join(cwd, "run"), { recursive: true });
    running = await gateway({ engine: "expert", listen: "127.0.0.1:0", out: "run", cwd });
    expect(await post("/v1/sessions", { environment_task: "3" })).toMatchObject({
      error: { param: "environment_task" },
    });
    await expect(gateway({ engine: "expert", out: "other", cwd, user: "agenda" })).rejects.toThrow("pass --env");
  });

  it("a world that cannot grade fails its episode at the grader, without a reward", async () => {
    const world = `
      const task = { id: "t", environment: "w", split: "train", index: 0, contentHash: "h", instruction: "x", agenda: null };
      export default {
        name: "w", splits: ["train"], users: ["task"], argumentErrors: "loop",
        taskset: () => ({ name: "w", split: "train", size: 1, task: () => task }),
        open: () => ({
          task, guidelines: "", tools: [], info: new Map(), digest: () => "",
          call: () => { throw new Error("none"); }, receiveUtterance: () => undefined,
          grade: () => { throw new Error("the database is gone"); },
        }),
      };`;
    await writeFile(join(cwd, "world.mjs"), world);
    running = await start({ env: "./world.mjs" });
    const session = await post("/v1/sessions", { environment_task: "0" });
    const ended = await post(`/v1/sessions/${session.id}/end`, {});
    expect(ended).toMatchObject({ outcome: "failed", stop_reason: "fault", reward: null });
    for await (const { failure } of openRunFolder(join(cwd, "run")).episodes()) {
      expect(failure).toMatchObject({ boundary: "grader", message: expect.stringContaining("is gone") as unknown });
    }
    expect(notices.some((notice) => notice.includes("the database is gone"))).toBe(true);
  });

  it("ends a session ungraded whose world was another process's", async () => {
    running = await start();
    const session = await post("/v1/sessions", { environment_task: "3" });
    await running.close();
    running = await start();
    const ended = await post(`/v1/sessions/${session.id}/end`, {});
    expect(ended).toMatchObject({ outcome: "aborted", reward: null });
    expect(notices.some((notice) => notice.includes("was another process's"))).toBe(true);
  });
});
