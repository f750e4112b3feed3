// Agent programs that are evaluated with a model behind an API, or with one of their own: real
// child processes, a real server in place of the API, and the run folder that they write.

import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ChatAgent, Episode } from "../core/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { openRunFolder } from "../store/index.ts";
import { compareRuns } from "./compare-runs.ts";
import { evaluate, type EvaluateOptions } from "./evaluate.ts";
import { gateway } from "./gateway.ts";
import { rollout, type RolloutEvent } from "./rollout.ts";
import { serve } from "./serve.ts";

/** A program that calls the model once, then does as its task says. */
const agent = `
const task = JSON.parse(process.env.TRAINABLE_AGENTS_TASK);
if (task.shows) console.error(JSON.stringify(process.env));
if (task.text) console.log(task.text);
if (task.asks ?? true) {
  const answer = await fetch(process.env.OPENAI_BASE_URL + "/chat/completions", {
    method: "POST",
    headers: { authorization: "Bearer " + process.env.OPENAI_API_KEY, "content-type": "application/json" },
    body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: task.id }] }),
  });
  console.log(answer.status, await answer.text());
}
if (task.fails) { console.error("its world is gone"); process.exit(3); }
if (!task.silent) console.log(JSON.stringify({ reward: task.reward ?? 1 }));
`;

const key = "sk-the-real-key-of-the-user";

type Taken = { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: string };
let root = "";
let server: Server;
let url = "";
let taken: Taken[] = [];
/** Statuses of the next answers; 200 after them. */
let statuses: number[] = [];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "evaluate-programs-"));
  [taken, statuses] = [[], []];
  await writeFile(join(root, "agent.mjs"), agent);
  server = createServer((incoming, outgoing) => {
    let body = "";
    incoming.setEncoding("utf8").on("data", (part: string) => (body += part));
    incoming.on("end", () => {
      const path = incoming.url ?? "";
      if (incoming.method === "GET") {
        outgoing.end('{"data": [{"id": "small"}]}');
        return;
      }
      taken.push({ path, headers: incoming.headers, body });
      const status = statuses.shift() ?? 200;
      const usage = { prompt_tokens: 1000, completion_tokens: 100 };
      const choices = [{ message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }];
      const answer = status === 200 ? { choices, usage } : { error: { message: `no, ${key}` } };
      outgoing.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  await rm(root, { recursive: true });
});

type Task = Readonly<Record<string, unknown>> & { readonly id: string };

async function shared(...tasks: readonly Task[]) {
  await writeFile(join(root, "tasks.jsonl"), tasks.map((task) => `${JSON.stringify(task)}\n`).join(""));
  const command = `"${process.execPath}" agent.mjs`;
  return {
    ...({ env: "tasks.jsonl", agentCommand: command, agentTimeout: 20, cwd: root, out: "run" } as const),
    variables: { PATH: process.env["PATH"], REAL_KEY: key },
  };
}

const behindApi = () => ({ agentUrl: url, agentModel: "small", agentApiKeyEnv: "REAL_KEY" }) satisfies EvaluateOptions;

async function stored(folder = "run"): Promise<Episode[]> {
  const found: Episode[] = [];
  for await (const episode of openRunFolder(join(root, folder)).episodes()) found.push(episode);
  return found.toSorted((left, right) => (left.id < right.id ? -1 : 1));
}

function program(episode: Episode | undefined) {
  const event = episode?.events.find(({ type }) => type === "program");
  return event?.type === "program" ? event : null;
}

describe("evaluate() with a program and a model behind an API", { timeout: 60_000 }, () => {
  test("sends its calls on, records a conversation, and grades it by what it prints", async () => {
    const options = await shared({ id: "good", reward: 1 }, { id: "bad", reward: 0 });
    const prices = join(root, "prices.json");
    await writeFile(prices, '{"small": {"input": 100, "output": 1000}}');
    const { evaluation, scores } = await evaluate({ ...options, ...behindApi(), prices, trials: 2 });
    expect(evaluation.passRates.map(({ k, passHatK }) => [k, passHatK])).toEqual([
      [1, 0.5],
      [2, 0.5],
    ]);
    expect(scores.map(({ agentCost, turns }) => [agentCost, turns])).toEqual(Array.from({ length: 4 }, () => [0.2, 1]));
    for (const { path, headers, body } of taken) {
      expect([path, headers.authorization]).toEqual(["/v1/chat/completions", `Bearer ${key}`]);
      expect(JSON.parse(body)).toMatchObject({ model: "small" });
    }
    const episodes = await stored();
    expect(episodes).toHaveLength(4);
    for (const episode of episodes) {
      expect(episode).toMatchObject({ historyPolicy: "no-tokens", trajectory: { turns: [] } });
      expect(episode.messages).toEqual([
        { role: "user", content: episode.task.id },
        { role: "assistant", content: "Hello.", reasoning: null, toolCalls: [] },
      ]);
      expect(program(episode)).toMatchObject({ exitCode: 0, isTimedOut: false, reward: episode.reward, stderr: "" });
      const told = episode.events.find(({ type }) => type === "session");
      const line = told?.type === "session" ? told.session.get("task_line") : null;
      expect(JSON.parse(typeof line === "string" ? line : "{}")).toMatchObject({ id: episode.task.id });
    }
    const comparison = await compareRuns({ runs: ["run", "run"], cwd: root });
    expect(JSON.stringify(comparison)).toContain('"lost":0');
  });

  test("gives the key to the API alone", async () => {
    const options = await shared({ id: "shows", shows: true });
    await evaluate({ ...options, ...behindApi() });
    const [episode] = await stored();
    const stderr = program(episode)?.stderr ?? "";
    expect(stderr).toContain("OPENAI_BASE_URL");
    expect(stderr).not.toContain(key);
    for (const file of await readdir(join(root, "run"))) {
      expect(await readFile(join(root, "run", file), "utf8"), file).not.toContain(key);
    }
  });

  test("leaves the name of the model to the program where none is given", async () => {
    const options = await shared({ id: "one" });
    const { evaluation } = await evaluate({ ...options, agentUrl: url, agentApiKeyEnv: "REAL_KEY" });
    expect(evaluation.passRates[0]?.passHatK).toBe(1);
    expect(JSON.parse(taken[0]!.body)).toMatchObject({ model: "gpt-4o" });
    const manifest = JSON.parse(await readFile(join(root, "run", "run.json"), "utf8")) as { readonly agent: unknown };
    expect(manifest.agent).toMatchObject({ name: expect.stringContaining("127.0.0.1") as string });
  });

  test.each([
    ["401", [401], "unauthorized", 1],
    ["402", [402], "quota-exceeded", 1],
  ])(
    "an API that answers %s is the fault of the episode, whatever the program prints",
    async (_s, some, code, calls) => {
      const options = await shared({ id: "one", reward: 0 }, { id: "two", reward: 1 });
      statuses = [...some, ...some];
      const { evaluation, scores } = await evaluate({ ...options, ...behindApi(), concurrency: 1 });
      expect(taken).toHaveLength(2 * calls);
      expect(evaluation.passRates[0]?.passHatK ?? null).toBeNull();
      expect(scores.map(({ reward, ending, fault }) => [reward, ending, fault?.fault])).toEqual(
        Array.from({ length: 2 }, () => [null, `engine/${code}`, "infrastructure"]),
      );
      for (const file of ["episodes.jsonl", "results.json"]) {
        expect(await readFile(join(root, "run", file), "utf8"), file).not.toContain(key);
      }
    },
  );

  test("an API that is busy for a moment is called again", async () => {
    const options = await shared({ id: "one" });
    statuses = [429, 503];
    const { evaluation } = await evaluate({ ...options, ...behindApi() });
    expect([evaluation.passRates[0]?.passHatK, taken.length]).toEqual([1, 3]);
  });

  test("takes an agent that is given as a value", async () => {
    const options = await shared({ id: "one" });
    const usage = { modelCalls: 1, inputTokens: 3, outputTokens: 2, cost: 0.5 };
    const own: ChatAgent = {
      name: "own",
      reply: async ({ messages }) => {
        const content = `You said ${messages.at(-1)?.content}.`;
        const said = { reasoning: null, toolCalls: [], problems: [], isTerminated: true };
        return { action: { ...said, text: content, content }, usage, attempts: [] };
      },
    };
    const { evaluation } = await evaluate({ ...options, agentModel: own });
    expect(evaluation.passRates[0]?.passHatK).toBe(1);
    const [episode] = await stored();
    expect(episode?.messages.at(-1)).toMatchObject({ content: "You said one." });
  });
});

describe("evaluate() with a program that calls none of our models", { timeout: 60_000 }, () => {
  test("shows its task, its output, how it ended and its reward", async () => {
    const long = "x".repeat(9000);
    const options = await shared(
      { id: "a", asks: false, text: "Looking.", reward: 0.5 },
      { id: "b", asks: false, fails: true },
      { id: "c", asks: false, text: long },
      { id: "d", asks: false, silent: true },
    );
    const { scores } = await evaluate({ ...options, engine: "none" });
    expect(scores.map(({ taskId, reward, turns }) => [taskId, reward, turns])).toEqual([
      ["a", 0.5, 0],
      ["b", null, 0],
      ["c", 1, 0],
      ["d", null, 0],
    ]);
    const [a, b, c, d] = await stored();
    expect(program(a)).toMatchObject({ exitCode: 0, stdout: 'Looking.\n{"reward":0.5}\n', reward: 0.5 });
    expect(program(b)).toMatchObject({ exitCode: 3, stderr: "its world is gone\n", reward: null });
    expect(program(c)?.stdout).toHaveLength(4000);
    expect(program(c)?.stdout.endsWith('x\n{"reward":1}\n')).toBe(true);
    expect([b, d].map((episode) => episode?.failure?.code)).toEqual(["program-failed", "no-reward"]);
    expect(a).toMatchObject({ historyPolicy: "no-tokens", messages: [] });
  });

  test("tells a program that calls one nevertheless", async () => {
    const options = await shared({ id: "one" });
    await evaluate({ ...options, engine: "none" });
    const [episode] = await stored();
    expect(program(episode)?.stdout).toContain("this evaluation has no model (--engine none)");
  });
});

/** A program that calls tools of its world over MCP, as its task says. */
const player = `
const { index } = JSON.parse(process.env.TRAINABLE_AGENTS_TASK);
const plan = JSON.parse(process.env.PLAN ?? "{}")[index] ?? [];
let session = {};
let id = 0;
const rpc = async (method, params) => {
  const answer = await fetch(process.env.TRAINABLE_AGENTS_MCP_URL, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...session },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params }),
  });
  if (method === "initialize") session = { "mcp-session-id": answer.headers.get("mcp-session-id") };
  return (await answer.json()).result;
};
if (plan.length > 0) {
  const clientInfo = { name: "player", version: "1" };
  const { instructions } = await rpc("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
  console.log(instructions.split("\\n").at(-1));
}
for (const [name, given] of plan) console.log(JSON.stringify((await rpc("tools/call", { name, arguments: given })).content));
if (process.argv[2]) console.log(process.argv[2]);
`;

describe("a program with tasks of an environment", { timeout: 60_000 }, () => {
  const desk = defineEnvironment<{ renewed: boolean }>({
    name: "desk",
    guidelines: "Renew loans.",
    tools: {
      renew: {
        description: "Renews a loan.",
        parameters: { type: "object", properties: { loan: { type: "string" } }, required: ["loan"] },
        run: ({ loan }, state) => ((state.renewed = loan === "L-17"), "done"),
      },
    },
    tasks: { test: Array.from({ length: 4 }, () => ({ instruction: "Renew L-17.", state: { renewed: false } })) },
    grade: ({ state }) => (state.renewed ? 1 : 0),
  });

  test("calls the tools of its world, and is graded by it, whatever it prints", async () => {
    const { env: _, ...options } = await shared();
    await writeFile(join(root, "player.mjs"), player);
    const plan = { 0: [["renew", { loan: "L-17" }]], 1: [["renew", { loan: "L-1" }]] };
    const evaluated = async (printed: string, out: string) => {
      const command = `PLAN='${JSON.stringify(plan)}' "${process.execPath}" player.mjs '${printed}'`;
      const settings = { ...options, env: desk, user: "task", engine: "none", agentCommand: command, out } as const;
      const { scores } = await evaluate(settings);
      return scores.map(({ reward }) => reward);
    };
    // The first two episodes use their world, the others do not: the printed reward counts, or else
    // that of the final world.
    expect(await evaluated('{"reward": 0.25}', "prints")).toEqual([1, 0, 0.25, 0.25]);
    expect(await evaluated("nothing", "silent")).toEqual([1, 0, 0, 0]);
    const [first] = await stored("prints");
    expect(program(first)?.stdout).toMatch(/Renew L-17\..*\n.*done/s);
    expect(program(first)?.reward).toBe(0.25);
    // The instruction of a simulated user is withheld: the program hears it from the user.
    const told = async (user: string) => {
      const settings = { ...options, env: "bookshop", tasks: "0", user, engine: "none", out: user } as const;
      await evaluate({ ...settings, agentCommand: "echo $TRAINABLE_AGENTS_TASK" });
      const line = program((await stored(user))[0])?.stdout ?? "{}";
      return (JSON.parse(line) as { readonly instruction: string | null }).instruction;
    };
    expect([await told("agenda"), await told("task")]).toEqual([null, expect.stringContaining("You are")]);
  });
});

describe("a program whose model nobody names", { timeout: 60_000 }, () => {
  const refused = /no model is named to answer their calls; pass --agent-url .*--agent-model .*--url and --model/;

  test("is refused, whatever runs it", async () => {
    const options = await shared({ id: "one" });
    for (const env of ["tasks.jsonl", "bookshop"]) {
      await expect(evaluate({ ...options, env })).rejects.toThrow(refused);
      await expect(rollout({ ...options, env })).rejects.toThrow(refused);
      await expect(serve({ ...options, env, listen: "127.0.0.1:0" })).rejects.toThrow(refused);
    }
    const { agentCommand: _, agentTimeout: __, env: ___, ...rest } = options;
    await expect(gateway({ ...rest, listen: "127.0.0.1:0" })).rejects.toThrow(refused);
    await expect(gateway({ ...rest, env: "bookshop", listen: "127.0.0.1:0" })).rejects.toThrow(refused);
    expect(await readdir(root)).not.toContain("run");
  });

  test("has the expert where it is named, and the output says what that is", async () => {
    const options = await shared({ id: "0" });
    const events: RolloutEvent[] = [];
    const onEvent = (event: RolloutEvent): void => void events.push(event);
    await evaluate({ ...options, env: "bookshop", tasks: "0", engine: "expert", onEvent });
    const notices = events.flatMap((event) => (event.type === "notice" ? [event.message] : []));
    expect(notices.join("\n")).toContain('engine "expert" is a script that knows the bookshop');
    const start = events.find(({ type }) => type === "run-start");
    expect(start?.type === "run-start" ? start.run.policy : "").toContain("engine expert (a script, not a model)");
  });

  test.each([
    ["an engine beside the API", { engine: "embedded" }, "Cannot use --engine with --agent-model"],
    ["a server beside the API", { url: "http://127.0.0.1:1" }, "Cannot use --url with --agent-model"],
    ["an API that is not there", { agentUrl: "http://127.0.0.1:1/v1" }, "Cannot reach the server of the agent's model"],
    ["a model that it does not have", { agentModel: "large" }, "correct --agent-model"],
  ] as const)("is refused with %s", async (_what, more, message) => {
    const options = await shared({ id: "one" });
    statuses = [404];
    await expect(evaluate({ ...options, ...behindApi(), ...more })).rejects.toThrow(message);
  });

  test("is refused without a key, or the package, of a provider", async () => {
    const options = await shared({ id: "one" });
    const model = (agentModel: string) => evaluate({ ...options, agentModel });
    await expect(model("openai/gpt-4o")).rejects.toThrow("there is no key; set OPENAI_API_KEY");
    await expect(model("anthropic/claude-haiku-4-5")).rejects.toThrow("there is no key; set ANTHROPIC_API_KEY");
    await expect(model("nowhere/model")).rejects.toThrow("npm install ai@6 @ai-sdk/nowhere");
    await expect(evaluate({ ...options, engine: "none", agentCommand: null, env: "bookshop" })).rejects.toThrow(
      'Cannot use engine "none"',
    );
  });
});

describe("gateway() before a model behind an API", { timeout: 60_000 }, () => {
  test("records sessions of programs that others start", async () => {
    const { variables } = await shared();
    const running = await gateway({ ...behindApi(), cwd: root, variables, out: "run", listen: "127.0.0.1:0" });
    expect(running.policy).toBe('agent model "small"');
    const { id, key: session } = await running.open({ task: "greeting" });
    const answer = await fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${session}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Hi" }] }),
    });
    expect(await answer.json()).toMatchObject({ choices: [{ message: { content: "Hello." } }] });
    await running.reward(id, { reward: 1, metrics: {}, log: "", info: new Map() });
    expect(await running.end(id)).toMatchObject({ reward: 1, historyPolicy: "no-tokens" });
    await running.close();
    const { evaluation } = await evaluate({ from: "run", cwd: root, env: "bookshop" });
    expect(evaluation.passRates[0]?.passHatK).toBe(1);
    await expect(
      gateway({ ...behindApi(), clientSampling: "obey", cwd: root, variables, out: "other", listen: "127.0.0.1:0" }),
    ).rejects.toThrow("Cannot use --client-sampling");
  });
});
