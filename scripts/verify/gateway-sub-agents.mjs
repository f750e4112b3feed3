// Coding programs that start a sub-agent: the policy asks the program's own tool for one, the
// sub-agent runs a command, and its answer comes back. Each program must have exactly one main
// lineage and one sub-agent of it. With `record`, their requests become golden shapes: headers
// that carry ids, and bodies in which every text that is not ours is replaced by its number.

import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, request as openRequest } from "node:http";
import { join } from "node:path";

import { gateway } from "../../dist/index.js";
import { createScriptedEngine } from "../../dist/engines/scripted/index.js";
import { openRunFolder } from "../../dist/store/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";
import { root } from "../run-command.mjs";
import { runProgram, shells } from "./gateway-programs.mjs";
import { makeEnvironment } from "./python.mjs";

export const subAgentPackages = {
  "@anthropic-ai/claude-code": "2.1.197",
  "@openai/codex": "0.171.0",
  "opencode-ai": "1.18.33",
  "@qwen-code/qwen-code": "0.15.10",
  "@google/gemini-cli": "0.61.0",
};

const task = "Ask a helper to count the files of this folder, then tell me the number.";
const subTask = "Count the files in this folder and report the number.";
const subAnswer = "The helper counted: there are no files in this folder.";
const answer = "There are no files.";
const title = "Counting files";
const ours = [task, subTask, subAnswer, answer, title, "count files", "a step", "ls | wc -l"];

/** @typedef {{ readonly home: string, readonly cwd: string, readonly url: string, readonly key: string }} Place */
/** @typedef {{ readonly url: string, readonly headers: Record<string, string>, readonly body: unknown }} SentRequest */

/** @type {Readonly<Record<string, { readonly package: keyof typeof subAgentPackages, readonly start: (place: Place) => { readonly parameters: readonly string[], readonly env: Record<string, string> } }>>} */
const programs = {
  claude: {
    package: "@anthropic-ai/claude-code",
    start: ({ url, key }) => ({
      parameters: ["-p", task, "--dangerously-skip-permissions", "--model", "policy"],
      env: {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: key,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        IS_SANDBOX: "1",
      },
    }),
  },
  codex: {
    package: "@openai/codex",
    start: ({ home, url, key }) => {
      const provider = `name = "t"\nbase_url = "${url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n`;
      const config = `model = "policy"\nmodel_provider = "t"\n[features]\nmulti_agent = true\n[model_providers.t]\n${provider}`;
      writeFileSync(join(home, "config.toml"), config);
      return {
        parameters: ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", task],
        env: { CODEX_HOME: home, OPENAI_API_KEY: key },
      };
    },
  },
  opencode: {
    package: "opencode-ai",
    start: ({ cwd, url, key }) => {
      const served = { name: "policy", limit: { context: 200_000, output: 8000 } };
      const options = { baseURL: `${url}/v1`, apiKey: key };
      const provider = { t: { npm: "@ai-sdk/openai-compatible", name: "t", options, models: { policy: served } } };
      const config = { provider, model: "t/policy", small_model: "t/policy", permission: "allow", autoupdate: false };
      writeFileSync(join(cwd, "opencode.json"), JSON.stringify(config));
      return {
        parameters: ["run", task],
        env: { OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1" },
      };
    },
  },
  qwen: {
    package: "@qwen-code/qwen-code",
    start: ({ url, key }) => ({
      parameters: ["--auth-type", "openai", "--yolo", "-p", task],
      env: { OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: "policy", OPENAI_API_KEY: key },
    }),
  },
  gemini: {
    package: "@google/gemini-cli",
    start: ({ home, url, key }) => {
      mkdirSync(join(home, ".gemini"), { recursive: true });
      const settings = { security: { auth: { selectedType: "gemini-api-key" } }, telemetry: { enabled: false } };
      writeFileSync(join(home, ".gemini", "settings.json"), JSON.stringify(settings));
      return {
        parameters: ["--yolo", "-m", "policy", "-p", task],
        env: { GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: key, GEMINI_CLI_TRUST_WORKSPACE: "true" },
      };
    },
  },
};

/** The tools that start a sub-agent, by name, with their arguments. */
const starters = {
  Agent: { description: "count files", prompt: subTask, subagent_type: "general-purpose" },
  task: { description: "count files", prompt: subTask, subagent_type: "general" },
  agent: { description: "count files", prompt: subTask, subagent_type: "general-purpose" },
  invoke_agent: { agent_name: "generalist", prompt: subTask },
  multi_agent_v1__spawn_agent: { message: subTask },
};

/**
 * @param {string} folder Where they are installed.
 * @param {string} work
 * @param {{ readonly record?: string }} [options] `record`: folder for the golden shapes.
 * @returns {Promise<number>} Number of failures.
 */
export async function verifySubAgents(folder, work, { record } = {}) {
  let failed = 0;
  for (const [name, { package: packageName, start }] of Object.entries(programs)) {
    const place = join(work, name);
    const [home, cwd, out] = ["home", "work", "run"].map((part) => join(place, part));
    for (const one of [home, cwd]) mkdirSync(one ?? "", { recursive: true });
    /** @type {string[]} */
    const answers = [];
    const running = await gateway({
      engine: scriptedPolicy(answers),
      model: "readable",
      maxContextTokens: 300_000,
      out: out ?? "",
      listen: "127.0.0.1:0",
    });
    const { id, key } = await running.open({ id: "s1" });
    const proxy = await recordingProxy(running.url);
    const { parameters, env } = start({ home: home ?? "", cwd: cwd ?? "", url: proxy.url, key });
    const run = await runProgram(join(folder, "node_modules", ".bin", name), parameters, {
      cwd: cwd ?? "",
      env: { PATH: process.env["PATH"] ?? "", HOME: home ?? "", ...env },
    });
    await running.reward(id, { reward: 1, metrics: {}, log: "", info: new Map() });
    await running.end(id);
    await running.close();
    proxy.close();
    const lineages = await lineagesIn(out ?? "");
    const places = nestedTrajectories(out ?? "", join(place, "atif.jsonl"));
    const kinds = lineages.map(({ kind, parent }) => (parent === null ? kind : `${kind} of ${parent}`)).join(", ");
    const main = lineages.find(({ kind }) => kind === "main")?.id;
    const subs = lineages.filter(({ kind, parent }) => kind === "sub-agent" && parent === main);
    const isRight =
      run.code === 0 &&
      run.output.includes(answer) &&
      main !== undefined &&
      subs.length === 1 &&
      places === String(lineages.length - 1);
    if (!isRight) failed++;
    process.stdout.write(
      `${isRight ? "ok    " : "FAILED"} ${name}: ${proxy.sent.length} requests; agents: ${kinds}; ${places} nested in ATIF\n`,
    );
    if (!isRight) process.stdout.write(`${run.output.trim().split("\n").slice(-8).join("\n")}\n`);
    if (record === undefined) continue;
    const version = `${packageName} ${subAgentPackages[packageName]}`;
    writeFileSync(
      join(record, `${name}.json`),
      `${JSON.stringify({ version, ...shapesOf(proxy.sent, answers, key) })}\n`,
    );
  }
  return failed;
}

const validate = `
import atif, json, sys
[row] = open(sys.argv[1])
print(len(atif.Trajectory.model_validate(json.loads(row)).subagent_trajectories or []), end="")
`;

/**
 * Number of trajectories within the one of the run's only episode, as the atif package reads it; its error if it does not.
 *
 * @param {string} run
 * @param {string} file
 */
function nestedTrajectories(run, file) {
  const command = [join(root, "dist", "cli", "main.js"), "export", run, "--format", "atif", "--out", file];
  const exported = spawnSync(process.execPath, command, { encoding: "utf8" });
  if (exported.status !== 0) return exported.stderr;
  const python = makeEnvironment({ name: "atif", packages: ["atif==1.8.0"] }).bin("python");
  const read = spawnSync(python, ["-c", validate, file], { encoding: "utf8" });
  return read.status === 0 ? read.stdout : read.stderr;
}

/** @param {string} out @returns {Promise<readonly import("../../dist/core/index.js").Lineage[]>} */
async function lineagesIn(out) {
  for await (const { events } of openRunFolder(out).episodes()) {
    for (const event of events) if (event.type === "lineages") return event.lineages;
  }
  return [];
}

/** @param {string[]} answers Gets what the policy says, call by call. */
function scriptedPolicy(answers) {
  const tokenizer = createReadableTokenizer();
  return createScriptedEngine({
    tokenizer,
    script: ({ prompt }) => {
      const said = policy(tokenizer.decode(prompt.view()));
      answers.push(said);
      return said;
    },
  });
}

/** @param {string} shown The prompt. */
function policy(shown) {
  /**
   * @template T
   * @param {Readonly<Record<string, T>>} tools
   */
  const among = (tools) => Object.entries(tools).find(([name]) => shown.includes(`"name": "${name}"`));
  const call = (/** @type {string} */ name, /** @type {object} */ parameters) =>
    `<tool_call>\n${JSON.stringify({ name, arguments: parameters })}\n</tool_call><|im_end|>`;
  const steps = shown.split("<tool_response>").length - 1;
  const isMain = shown.includes(task);
  const shell = among({ ...shells, Bash: (/** @type {string} */ command) => ({ command, description: "a step" }) });
  if (!isMain && shown.includes(subTask)) {
    return steps === 0 && shell !== undefined ? call(shell[0], shell[1]("ls | wc -l")) : `${subAnswer}<|im_end|>`;
  }
  const starter = among(starters);
  if (!isMain || starter === undefined) return `${title}<|im_end|>`;
  if (steps === 0) return call(...starter);
  const waiting = "multi_agent_v1__wait_agent";
  const started = /agent_id[\\": ]+([0-9a-f-]{36})/.exec(shown)?.[1];
  if (steps === 1 && shown.includes(`"${waiting}"`) && started !== undefined) {
    return call(waiting, { targets: [started], timeout_ms: 20_000 });
  }
  return `${answer}<|im_end|>`;
}

/**
 * Passes requests on, and keeps them.
 *
 * @param {string} target
 * @returns {Promise<{ url: string, sent: SentRequest[], close: () => void }>}
 */
async function recordingProxy(target) {
  /** @type {SentRequest[]} */
  const sent = [];
  const { hostname, port, host } = new URL(target);
  const server = createServer((incoming, outgoing) => {
    /** @type {Buffer[]} */
    const chunks = [];
    incoming.on("data", (/** @type {Buffer} */ chunk) => chunks.push(chunk));
    incoming.on("end", () => {
      const body = Buffer.concat(chunks);
      const { url = "", method = "", headers } = incoming;
      if (method === "POST") {
        const text = /** @type {Record<string, string>} */ (headers);
        /** @type {unknown} */
        const parsed = JSON.parse(body.toString());
        sent.push({ url, headers: text, body: parsed });
      }
      const options = { hostname, port, path: url, method, headers: { ...headers, host } };
      const onward = openRequest(options, (answered) => {
        outgoing.writeHead(answered.statusCode ?? 500, answered.headers);
        answered.pipe(outgoing);
      });
      onward.on("error", () => outgoing.destroy());
      onward.end(body);
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", () => ready(undefined)));
  const { port: own } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${own}`, sent, close: () => void server.close() };
}

/** Headers by which programs tell their agents apart. */
const idHeaders = [
  ...["user-agent", "x-claude-code-session-id", "x-claude-code-agent-id", "x-claude-code-parent-agent-id"],
  ...["thread-id", "x-codex-parent-thread-id", "x-session-id", "x-parent-session-id"],
];
/** Fields whose texts are names of the format. */
const formatFields = new Set([
  "role",
  "type",
  "name",
  "namespace",
  "id",
  "call_id",
  "tool_use_id",
  "tool_call_id",
  "model",
]);

/** Schemas of tools. */
const schemas = new Set(["parameters", "input_schema", "parametersJsonSchema"]);
/** Fields that say who the user is. */
const unshown = new Set(["metadata", "client_metadata", "prompt_cache_key"]);

/**
 * Requests without the texts of others, and with ids in place of random ones, and the answers to them.
 *
 * @param {readonly SentRequest[]} sent
 * @param {readonly string[]} answers
 * @param {string} key
 */
function shapesOf(sent, answers, key) {
  /** @type {Map<string, string>} */
  const texts = new Map();
  /** @type {Map<string, string>} */
  const ids = new Map();
  const nameOf = (
    /** @type {Map<string, string>} */ names,
    /** @type {string} */ kind,
    /** @type {string} */ value,
  ) => {
    const name = names.get(value) ?? `${kind} ${names.size + 1}`;
    names.set(value, name);
    return name;
  };
  const idOf = (/** @type {string} */ value) => nameOf(ids, "id", value).replace(" ", "-");
  const textOf = (/** @type {string} */ value) => {
    if (value.length < 40 && !/\s/.test(value)) return value;
    const kept = ours.filter((one) => value.includes(one));
    return kept.includes(value.trim()) ? value : [nameOf(texts, "text", value), ...kept].join(": ");
  };
  /** @param {unknown} value @param {string} field @returns {unknown} */
  const shapeOf = (value, field) => {
    if (typeof value === "string") {
      if (formatFields.has(field)) return value;
      return field === "arguments" ? JSON.stringify(shapeOf(JSON.parse(value), "")) : textOf(value);
    }
    if (Array.isArray(value)) return value.map((one) => shapeOf(one, field));
    if (typeof value !== "object" || value === null) return value;
    const isTool = ["parameters", "input_schema", "parametersJsonSchema", "tools"].some((name) => name in value);
    return Object.fromEntries(
      Object.entries(value).flatMap(([name, one]) => {
        if (isTool && name === "description") return [];
        return unshown.has(name) ? [] : [[name, schemas.has(name) ? { type: "object" } : shapeOf(one, name)]];
      }),
    );
  };
  const requests = sent.map(({ url, headers, body }) => {
    const shown = idHeaders.flatMap((name) => {
      const value = headers[name];
      return value === undefined ? [] : [[name, name === "user-agent" ? (value.split(" ")[0] ?? "") : idOf(value)]];
    });
    const named = /** @type {Record<string, string>} */ (Object.fromEntries(shown));
    return { url: url.replaceAll(key, "key"), headers: named, body: shapeOf(body, "") };
  });
  const text = JSON.stringify({ requests, answers });
  return /** @type {object} */ (JSON.parse(text.replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, idOf)));
}
