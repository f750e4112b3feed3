// `npm run verify -- gateway`: real client libraries run bookshop tasks through the gateway, whole
// and streamed, with the scripted expert as the policy. Every prompt and action that the engine saw
// must occur in the rows, once; nothing is encoded again; every client's conversation is one
// append-only trajectory. Each client has its own folder and HOME and an emptied environment.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { gateway } from "../../dist/index.js";
import { bookshopSource, createExpertEngine } from "../../dist/environments/bookshop/index.js";
import { createScriptedEngine } from "../../dist/engines/scripted/index.js";
import { episodeSamples } from "../../dist/rollout/index.js";
import { fromPlain, toPlain } from "../../dist/python-semantics/json/index.js";
import { openRunFolder } from "../../dist/store/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";
import { turnPrompt } from "../../dist/trajectories/index.js";
import { agendaUser } from "../../dist/users/index.js";
import { root } from "../run-command.mjs";
import { verifyApiAgents } from "./api-agents.mjs";
import { installFrameworks } from "./gateway-frameworks.mjs";
import { acpPackages, verifyAcp } from "./gateway-acp.mjs";
import { verifyConstrained } from "./gateway-constrained.mjs";
import { verifyFields } from "./gateway-fields.mjs";
import { programPackages, verifyPrograms } from "./gateway-programs.mjs";
import { subAgentPackages, verifySubAgents } from "./gateway-sub-agents.mjs";
import { verifyTester } from "./gateway-tester.mjs";
import { installPackages } from "./npm.mjs";
import { runClient } from "./run-client.mjs";
import { makeEnvironment, versionOf } from "./python.mjs";

/** @import { Engine } from "../../dist/core/index.js" */
/** @import { JsonObject } from "../../dist/python-semantics/json/index.js" */

const packages = {
  openai: "7.57.0",
  "@openai/agents": "0.20.0",
  ai: "7.0.173",
  "@ai-sdk/openai": "4.0.118",
  "@ai-sdk/openai-compatible": "3.0.92",
  "@ai-sdk/anthropic": "4.0.105",
  "@ai-sdk/google": "4.0.121",
  "@anthropic-ai/sdk": "1.14.0",
  "@google/genai": "2.32.0",
  "@langchain/openai": "1.6.0",
  "@langchain/core": "1.4.0",
  zod: "4.6.7",
};
const pythonPackages = ["openai==3.57.0", "anthropic==2.14.0", "google-genai==3.6.1"];

/**
 * Name, program, and further arguments after address and mode.
 *
 * @type {readonly (readonly [string, string, ...string[]])[]}
 */
const clients = [
  ["openai, Chat", "openai-chat.mjs"],
  ["openai, Responses", "openai-responses.mjs"],
  ["openai, Responses by id", "openai-responses-by-id.mjs"],
  ["@anthropic-ai/sdk", "anthropic.mjs"],
  ["@google/genai", "google.mjs", "models"],
  ["@google/genai, Chat", "google.mjs", "chat"],
  ["@openai/agents, Responses", "agents.mjs", "responses"],
  ["@openai/agents, Chat", "agents.mjs", "chat"],
  ["ai, Responses", "ai-sdk.mjs", "responses"],
  ["ai, Chat", "ai-sdk.mjs", "chat"],
  ["ai, OpenAI-compatible", "ai-sdk.mjs", "compatible"],
  ["ai, Anthropic", "ai-sdk.mjs", "anthropic"],
  ["ai, Google", "ai-sdk.mjs", "google"],
  ["@langchain/openai", "langchain.mjs"],
  ["openai for Python", "openai_chat.py"],
  ["anthropic for Python", "anthropic_messages.py"],
  ["google-genai for Python", "google_genai.py"],
];

/** Time limit of one client program. */
const limitMs = 60_000;
/** Minimum number of tool calls; fewer would prove little. */
const leastCalls = 3;
const mostTasks = 4;

/**
 * @param {{ full: boolean }} options `full`: coding programs as well.
 * @returns {Promise<number>} An exit code.
 */
export async function verifyGateway({ full }) {
  const folder = await installPackages("verify-gateway", packages);
  cpSync(join(root, "scripts", "verify", "gateway-clients"), folder, { recursive: true });
  const { bin } = makeEnvironment({ name: "gateway-clients", packages: pythonPackages });
  process.stdout.write(
    `Python: ${["openai", "anthropic", "google-genai"].map((name) => `${name} ${versionOf(bin("python"), name)}`).join(", ")}\n`,
  );
  let failed = verifyFields(folder);
  const work = mkdtempSync(join(tmpdir(), "trainable-agents-gateway-"));
  const { engine, sampled } = recordingEngine();
  const out = join(work, "run");
  const running = await gateway({ engine, model: "readable", out, listen: "127.0.0.1:0" });
  /** @type {Map<string, string>} */
  const names = new Map();
  try {
    let task = 0;
    const libraries = clients.map(([name, program, ...more]) => {
      const command = program.endsWith(".py") ? bin("python") : process.execPath;
      return { name, command, program, more, folder };
    });
    /** @type {readonly import("./gateway-frameworks.mjs").Client[]} */
    const all = [...libraries, ...(await installFrameworks())];
    const conversations = all.flatMap((client) => ["whole", "streamed"].map((mode) => ({ client, mode })));
    // A task that ends with fewer calls is followed by another.
    for (const { client, mode } of conversations) {
      for (let tries = 1; ; tries++) {
        const outcome = await playTask({ client, mode, index: task++ }, { running, names });
        const least = client.leastCalls ?? leastCalls;
        if (outcome.problems.length === 0 && outcome.calls < least && tries < mostTasks) continue;
        if (outcome.calls < least) outcome.problems.push(`only ${outcome.calls} tools were called`);
        if (outcome.problems.length > 0) failed++;
        process.stdout.write(`${outcome.problems.length === 0 ? "ok    " : "FAILED"} ${outcome.line}\n`);
        for (const problem of outcome.problems) process.stdout.write(`         ${problem}\n`);
        break;
      }
    }
  } finally {
    await running.close();
  }
  const shown = await runSnippets(folder, bin("python"), work);
  failed += shown + (await verifyConstrained(work)) + (await verifyTester(work)) + (await verifyApiAgents(work));
  if (full) {
    failed += await verifyPrograms(await installPackages("verify-gateway-programs", programPackages), work);
    const withSubAgents = await installPackages("verify-gateway-sub-agents", subAgentPackages);
    failed += await verifySubAgents(withSubAgents, join(work, "sub-agents"));
    failed += await verifyAcp(await installPackages("verify-gateway-acp", acpPackages), join(work, "acp"));
  }
  const violations = await rowViolations(out, sampled, names);
  for (const violation of violations) process.stdout.write(`FAILED ${violation}\n`);
  process.stdout.write(`${names.size} conversations, ${sampled.length} turns, ${failed + violations.length} failed\n`);
  rmSync(work, { recursive: true, force: true });
  return failed + violations.length === 0 ? 0 : 1;
}

/**
 * @param {{ client: import("./gateway-frameworks.mjs").Client, mode: string, index: number }} played
 * @param {{ running: import("../../dist/index.js").RunningGateway, names: Map<string, string> }} parts
 */
async function playTask({ client, mode, index }, { running, names }) {
  const { name, command, program, more, folder } = client;
  const world = await openWorld(index);
  const { id, key } = await running.open({ task: `${name}, ${mode}, ${index}` });
  names.set(id, `${name}, ${mode}`);
  const started = Date.now();
  const run = await runClient(command, [join(folder, program), world.url, mode, ...more], {
    limitMs,
    folder,
    key,
    url: running.url,
  });
  const { reward, calls } = await world.close();
  await running.reward(id, { reward, metrics: {}, log: "", info: new Map() });
  const counters = running.sessions.find((one) => one.id === id)?.counters;
  await running.end(id);
  const said = run.output.trim().split("\n").slice(-6).join(" | ");
  const problems = [
    ...(run.code === 0 ? [] : [`the program ended with ${run.code}: ${said}`]),
    ...(Object.keys(counters?.branched ?? {}).length === 0 ? [] : [`branches: ${JSON.stringify(counters?.branched)}`]),
    ...(counters?.reencoded === 0 ? [] : [`${counters?.reencoded} prompts were encoded again`]),
  ];
  const seconds = ((Date.now() - started) / 1000).toFixed(1).padStart(5);
  return {
    problems,
    calls,
    line: `${seconds} s  ${name}, ${mode}: ${counters?.calls} turns, ${calls} tools called, reward ${reward}`,
  };
}

/**
 * Runs the programs of docs/gateway.md, with a policy that checks the weather once if it has a tool
 * for that.
 *
 * @param {string} folder @param {string} python @param {string} work
 */
async function runSnippets(folder, python, work) {
  const page = readFileSync(join(root, "docs", "gateway.md"), "utf8");
  const all = [...page.matchAll(/^```(js|python)\n([^]*?)^```$/gm)];
  // A snippet that runs in the gateway's own process is only a part of a program.
  const snippets = all
    .map(([, language = "", code = ""]) => ({ language, code }))
    .filter(({ code }) => !code.includes('from "trainable-agents'));
  const tokenizer = createReadableTokenizer();
  const call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>';
  const engine = createScriptedEngine({
    tokenizer,
    script: ({ prompt }) => {
      const shown = tokenizer.decode(prompt.view());
      const looks = shown.includes("get_weather") && !shown.includes("<tool_response>");
      return `${looks ? call : "It is sunny in Rome."}<|im_end|>`;
    },
  });
  const running = await gateway({ engine, model: "readable", out: join(work, "snippets"), listen: "127.0.0.1:0" });
  let failed = 0;
  for (const [place, { language, code }] of snippets.entries()) {
    const file = join(folder, `snippet-${place}.${language === "js" ? "mjs" : "py"}`);
    writeFileSync(file, code);
    const { id, key } = await running.open();
    const run = await runClient(language === "js" ? process.execPath : python, [file], {
      limitMs,
      folder,
      key,
      url: running.url,
    });
    await running.end(id);
    const isRight = run.code === 0 && run.output.includes("It is sunny in Rome.");
    if (!isRight) failed++;
    process.stdout.write(
      `${isRight ? "ok    " : "FAILED"} program ${place + 1} of docs/gateway.md\n${isRight ? "" : run.output}`,
    );
  }
  await running.close();
  if (snippets.length === 7) return failed;
  process.stdout.write(`FAILED docs/gateway.md has ${snippets.length} programs, expected 7\n`);
  return failed + 1;
}

/** The expert's engine, which records every prompt and action. */
function recordingEngine() {
  const expert = createExpertEngine({ tokenizer: createReadableTokenizer(), noise: 0 });
  /** @type {{ prompt: string, action: string }[]} */
  const sampled = [];
  /** @type {Engine} */
  const engine = {
    name: "expert",
    sample: async (request, options) => {
      const prompt = request.prompt.view().join(" ");
      const result = await expert.sample(request, options);
      sampled.push({ prompt, action: result.sampledTokens.join(" ") });
      return result;
    },
    close: () => expert.close(),
  };
  return { engine, sampled };
}

/** Opens one bookshop task over HTTP. @param {number} index */
async function openWorld(index) {
  const source = bookshopSource();
  const task = source.taskset("validation").task(index);
  const environment = source.open(task);
  const user = agendaUser().create(task, { seed: index });
  let calls = 0;
  /** @type {Readonly<Record<string, (body: { name: string, arguments: unknown, text: string }) => Promise<unknown>>>} */
  const answers = {
    "/start": async () => ({
      guidelines: environment.guidelines,
      tools: environment.tools.map(({ definition }) => toPlain(definition.get("function") ?? null)),
      utterance: (await user.open()).text,
    }),
    "/call": async ({ name, arguments: given }) => {
      calls++;
      const call = { name, arguments: /** @type {JsonObject} */ (fromPlain(given)) };
      return { text: (await environment.call(call)).text };
    },
    "/say": async ({ text }) => {
      await environment.receiveUtterance?.(text);
      const line = await user.reply(text);
      return { text: line.type === "hang-up" ? null : line.text };
    },
  };
  /** @param {import("node:http").IncomingMessage} incoming */
  const respond = async (incoming) => {
    /** @type {Buffer[]} */
    const parts = [];
    for await (const part of incoming) parts.push(/** @type {Buffer} */ (part));
    const body = /** @type {{ name: string, arguments: unknown, text: string }} */ (
      JSON.parse(Buffer.concat(parts).toString())
    );
    return JSON.stringify(await answers[incoming.url ?? ""]?.(body));
  };
  const server = createServer((incoming, outgoing) => {
    respond(incoming).then(
      (answer) => outgoing.end(answer),
      (/** @type {unknown} */ error) => outgoing.writeHead(500).end(String(error)),
    );
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", () => done(null)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      const { reward } = await environment.grade({ outcome: "completed" });
      return { reward, calls };
    },
  };
}

/**
 * @param {string} folder
 * @param {readonly { prompt: string, action: string }[]} sampled
 * @param {ReadonlyMap<string, string>} names
 */
async function rowViolations(folder, sampled, names) {
  /** @type {Map<string, number>} */
  const left = new Map();
  for (const { prompt, action } of sampled) {
    const key = `${prompt} | ${action}`;
    left.set(key, (left.get(key) ?? 0) + 1);
  }
  const violations = [];
  for await (const episode of openRunFolder(folder).episodes()) {
    const name = names.get(episode.id) ?? episode.id;
    const { trajectory } = episode;
    for (const { index, sampledTokens } of trajectory.turns) {
      const key = `${turnPrompt(trajectory, index).join(" ")} | ${sampledTokens.join(" ")}`;
      const times = left.get(key) ?? 0;
      if (times === 0) violations.push(`${name}: turn ${index} is not what the engine saw and sampled.`);
      left.set(key, times - 1);
    }
    // Throws if a token would be lost or trained twice.
    const { samples } = episodeSamples(episode);
    if (samples.length !== 1) violations.push(`${name}: ${samples.length} rows, expected one.`);
  }
  const lost = [...left.values()].reduce((sum, times) => sum + Math.max(0, times), 0);
  if (lost > 0) violations.push(`${lost} turns that the engine sampled are in no row.`);
  return violations;
}
