// Reach of an agent with what it was given: the key of a gateway session, or the agents' token of
// an environment server. The tests try every route and every method with a client that claims to be
// ours; nothing that belongs to others may come back.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WebSocket } from "ws";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningEnvServer, serveEnvironment } from "./env-server.ts";
import { gateway, type RunningGateway } from "./gateway.ts";

/**
 * All content that an agent must not read is marked as such; the instruction of its own task is the
 * text that its user says.
 */
const world = `
  const splits = { train: 2, test: 3 };
  const taskOf = (split, index) => ({
    id: "w:" + split + ":" + index, environment: "w", split, index, contentHash: "h" + index,
    instruction: split === "train" && index === 0 ? "Hello." : "SECRET instruction", agenda: null,
  });
  const secret = new Map([["note", "SECRET info"]]);
  export default {
    name: "w", splits: Object.keys(splits), users: ["task"], argumentErrors: "loop",
    taskset: (split) => ({ name: "w", split, size: splits[split], task: (index) => taskOf(split, index) }),
    open: (task) => ({
      task, guidelines: "Be brief.", info: secret, digest: () => "",
      tools: [{
        name: "look", definition: new Map([["type", "function"], ["function", new Map([
          ["name", "look"], ["description", "Looks."], ["parameters", new Map([["type", "object"]])]])]]),
      }],
      call: () => ({ text: "seen", isError: false, endsEpisode: false, reward: 0.123456, info: secret }),
      receiveUtterance: () => undefined,
      grade: () => ({ reward: 0.5, metrics: { SECRET: 1 }, log: "SECRET log", info: secret }),
    }),
  };`;

let cwd = "";
let running: RunningGateway;
let server: RunningEnvServer;
const variables = { TOKEN: "operator-token-of-the-test", AGENT: "agent-token-of-the-test" };
const operator = { authorization: `Bearer ${variables.TOKEN}` };
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), "trainable-agents-"));
  await writeFile(join(cwd, "world.mjs"), world);
  const common = { env: "./world.mjs", split: "train", cwd, variables, tokenEnv: "TOKEN", listen: "127.0.0.1:0" };
  running = await gateway({ ...common, engine: "expert", out: "run" });
  server = await serveEnvironment({ ...common, agentTokenEnv: "AGENT" });
});
afterAll(async () => {
  await running.close();
  await server.close();
  await rm(cwd, { recursive: true });
});

type Answered = { readonly status: number; readonly text: string; readonly session: string | null };

async function send(url: string, init: RequestInit): Promise<Answered> {
  const answer = await fetch(url, init);
  return { status: answer.status, text: await answer.text(), session: answer.headers.get("mcp-session-id") };
}

type Rpc = { readonly method: string; readonly params?: object };

function rpc(address: string, { method, params = {} }: Rpc, headers: Readonly<Record<string, string>> = {}) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  return send(address, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
}

/** The introduction that `environments/remote/mcp` sends, and more dangerous ones. */
const claims: readonly unknown[] = [
  {},
  { task: "w:test:1", seed: 0 },
  { task: "w:train:0", seed: 0 },
  { isTrusted: true, token: variables.TOKEN },
];
const claiming = (claim: unknown): Rpc => ({
  method: "initialize",
  params: { capabilities: { experimental: { "trainable-agents": claim } }, clientInfo: { name: "trainable-agents" } },
});

/** The private methods, those of the protocol, and names that do not exist. */
const requests: readonly Rpc[] = [
  { method: "trainable-agents/describe" },
  ...["train", "test"].map((split) => ({ method: "trainable-agents/tasks", params: { split, from: 0, count: 9 } })),
  { method: "trainable-agents/hear", params: { text: "SECRET?" } },
  { method: "trainable-agents/grade", params: { outcome: "completed" } },
  { method: "tools/list" },
  { method: "tools/call", params: { name: "look", _meta: { "trainable-agents/arguments": '{"a": 1}' } } },
  { method: "tools/call", params: { name: "respond", arguments: { message: "Hello?" } } },
  { method: "prompts/list" },
  { method: "prompts/get", params: { name: "task" } },
  { method: "resources/list" },
  { method: "completion/complete" },
  { method: "tools/call", params: { name: "finish", arguments: {} } },
  { method: "tools/call", params: { name: "finish", arguments: {} } },
];

async function expectNothingPrivate(address: string, headers: Readonly<Record<string, string>>): Promise<void> {
  for (const claim of claims) {
    const begun = await rpc(address, claiming(claim), headers);
    expect(begun.status, begun.text).toBe(200);
    expect(begun.text).not.toMatch(/SECRET|experimental/);
    for (const request of requests) {
      const { text } = await rpc(address, request, { ...headers, "mcp-session-id": begun.session! });
      expect(text, request.method).not.toMatch(/SECRET|0\.123456|trainable-agents\/(result|definition)|w:test/);
      if (request.method.startsWith("trainable-agents/")) expect(text).toContain("-32601");
    }
  }
}

const opened = async (): Promise<{ readonly id: string; readonly key: string; readonly mcp_url: string }> => {
  const headers = { ...operator, "content-type": "application/json" };
  const body = JSON.stringify({ environment_task: "w:train:0" });
  return JSON.parse((await send(`${running.url}/v1/sessions`, { method: "POST", headers, body })).text) as never;
};

describe("the key of a session", () => {
  it("opens the tools of its own world, and nothing that this package adds to their protocol", async () => {
    const { mcp_url: address } = await opened();
    await expectNothingPrivate(address, {});
    const call = { method: "tools/call", params: { name: "finish", arguments: {} } };
    const begun = await rpc(address, claiming({}));
    const { text } = await rpc(address, call, { "mcp-session-id": begun.session! });
    expect(JSON.parse(text)).toMatchObject({ result: { structuredContent: { reward: 0.5 } } });
    const other = await opened();
    // The session of one world does not exist in another.
    expect((await rpc(other.mcp_url, { method: "ping" }, { "mcp-session-id": begun.session! })).status).toBe(404);
  });

  it("opens no route but those of its model and its tools, whatever carries it", async () => {
    const [own, other] = [await opened(), await opened()];
    const paths = ["", "/", "/health", "/mcp", "/tasks", "/v1/weights", "/v1/sessions", "/v1/responses/resp_1"];
    for (const id of [own.id, other.id]) {
      paths.push(...["", "/reward", "/end", "/samples", "/key", "/mcp"].map((action) => `/v1/sessions/${id}${action}`));
    }
    const prefixes = ["", `/s/${own.key}`, `/s/${own.key}/s/${other.id}`, `/s/${own.key}/v1`];
    const carriers = ["authorization", "x-api-key", "api-key"] as const;
    const bodies = [{}, { reward: 1 }, { environment_task: "w:test:1" }, { id: other.id }];
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
        fc.constantFrom(...prefixes),
        fc.constantFrom(...paths),
        fc.constantFrom(...carriers, null),
        fc.constantFrom(...bodies),
        async (method, prefix, path, carrier, body) => {
          const value = carrier === "authorization" ? `Bearer ${own.key}` : own.key;
          const headers: Record<string, string> = { "content-type": "application/json" };
          if (carrier !== null) headers[carrier] = value;
          const sent = method === "GET" ? {} : { body: JSON.stringify(body) };
          const { status, text } = await send(`${running.url}${prefix}${path}`, { method, headers, ...sent });
          expect(text).not.toMatch(/SECRET|w:test/);
          if (method === "GET" && prefix === "" && path === "/health") return;
          expect(status, `${method} ${prefix}${path}: ${text}`).toBeGreaterThanOrEqual(400);
        },
      ),
      { numRuns: process.env["FULL"] === "1" ? 2000 : 300 },
    );
    for (const { id } of [own, other]) {
      const { text } = await send(`${running.url}/v1/sessions/${id}`, { headers: operator });
      expect(JSON.parse(text)).toMatchObject({ id, reward: null, turns: 0 });
    }
  });
});

describe("the agents' token of an environment server", () => {
  const agent = { authorization: `Bearer ${variables.AGENT}` };

  it("opens tools over MCP, and nothing that this package adds", async () => {
    await expectNothingPrivate(`${server.url}/mcp?task=w:train:0`, agent);
    const trusted = await rpc(`${server.url}/mcp`, claiming({ task: "w:train:0", seed: 0 }), operator);
    expect(trusted.text).toContain("SECRET info");
    const graded = { method: "trainable-agents/grade", params: {} };
    const named = { "mcp-session-id": trusted.session! };
    expect((await rpc(`${server.url}/mcp`, graded, { ...agent, ...named })).status).toBe(404);
    expect((await rpc(`${server.url}/mcp`, graded, { ...operator, ...named })).text).toContain("SECRET log");
    expect((await rpc(`${server.url}/mcp`, claiming({}), {})).status).toBe(401);
  });

  it("opens tools over OpenEnv, and neither tasks nor the user's side", async () => {
    for (const query of ["", "?split=test"]) {
      expect(await send(`${server.url}/tasks${query}`, { headers: agent })).toMatchObject({ status: 403 });
      expect(await send(`${server.url}/tasks${query}`, { headers: operator })).toMatchObject({ status: 200 });
    }
    const reset = (more: object) => ({ type: "reset", data: { task: "w:train:0", ...more } });
    const call = (name: string) => ({
      type: "step",
      data: { type: "call_tool", tool_name: name, arguments: { message: "Hello?" } },
    });
    const own = { user: "client" };
    const ends = [call("respond"), call("finish")];
    for (const end of ends) {
      const answers = await play([reset(own), { type: "state" }, reset({}), call("look"), end], agent);
      expect(answers[0]).toMatchObject({ type: "error", data: { code: "VALIDATION_ERROR" } });
      expect(answers.at(-1)).toMatchObject({ data: { done: true, reward: expect.any(Number) as unknown } });
      expect(JSON.stringify(answers)).not.toContain("SECRET");
    }
    const trusted = await play([reset(own), call("finish")], operator);
    expect(JSON.stringify(trusted)).toContain("SECRET log");
    const once = { method: "POST", headers: agent, body: JSON.stringify(own) };
    expect(await send(`${server.url}/reset`, once)).toMatchObject({ status: 422 });
  });

  it("is another than the token of the server", async () => {
    const same = { tokenEnv: "TOKEN", agentTokenEnv: "TOKEN", variables, cwd, env: "bookshop" };
    await expect(serveEnvironment(same)).rejects.toThrow("use two tokens");
  });
});

async function play(messages: readonly object[], headers: Readonly<Record<string, string>>): Promise<unknown[]> {
  const socket = new WebSocket(`${server.url.replace("http", "ws")}/ws`, { headers });
  await new Promise((resolve, reject) => {
    socket.once("open", resolve);
    socket.once("error", reject);
  });
  const answers: unknown[] = [];
  for (const message of messages) {
    const answer = new Promise<string>((resolve) => {
      socket.once("message", (data: Buffer) => resolve(data.toString()));
    });
    socket.send(JSON.stringify(message));
    answers.push(JSON.parse(await answer));
  }
  socket.close();
  return answers;
}
