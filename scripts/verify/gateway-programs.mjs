// External coding programs against the gateway: headless, with their own HOME and environment, in
// an empty folder, with a policy that calls three of the program's own tools and then says that it
// is done. A context of 65,536 tokens.

import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { gateway } from "../../dist/index.js";
import { createScriptedEngine } from "../../dist/engines/scripted/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";

/** @typedef {{ home: string, url: string, key: string }} Place */

export const programPackages = {
  "@openai/codex": "0.169.0",
  "@qwen-code/qwen-code": "0.15.10",
  "@earendil-works/pi-coding-agent": "0.74.2",
};

const task = "Write three files.";
const limitMs = 120_000;

/** @type {Readonly<Record<string, (place: Place) => { parameters: readonly string[], env: Record<string, string> }>>} */
const programs = {
  codex: ({ home, url, key }) => {
    const provider = `name = "t"\nbase_url = "${url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n`;
    writeFileSync(
      join(home, "config.toml"),
      `model = "policy"\nmodel_provider = "t"\n[model_providers.t]\n${provider}`,
    );
    return {
      parameters: ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", task],
      env: { CODEX_HOME: home, OPENAI_API_KEY: key },
    };
  },
  qwen: ({ url, key }) => ({
    parameters: ["--auth-type", "openai", "--yolo", "-p", task],
    env: { OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: "policy", OPENAI_API_KEY: key },
  }),
  pi: ({ home, url, key }) => {
    mkdirSync(join(home, ".pi", "agent"), { recursive: true });
    const provider = { baseUrl: `${url}/v1`, api: "openai-completions", apiKey: key, models: [{ id: "policy" }] };
    writeFileSync(join(home, ".pi", "agent", "models.json"), JSON.stringify({ providers: { x: provider } }));
    return { parameters: ["--provider", "x", "--model", "policy", "-p", task], env: {} };
  },
};

/** The tool that each program uses to run a command, and its arguments. */
export const shells = {
  exec_command: (/** @type {string} */ cmd) => ({ cmd }),
  run_shell_command: (/** @type {string} */ command) => ({ command, description: "a step", is_background: false }),
  bash: (/** @type {string} */ command) => ({ command }),
};

/**
 * @param {string} folder Where they are installed.
 * @param {string} work
 * @returns {Promise<number>} Number of failures.
 */
export async function verifyPrograms(folder, work) {
  const running = await gateway({
    engine: codingPolicy(),
    model: "readable",
    maxContextTokens: 65_536,
    out: join(work, "programs"),
    listen: "127.0.0.1:0",
  });
  let failed = 0;
  for (const [name, make] of Object.entries(programs)) {
    const { id, key } = await running.open({ id: name });
    const home = join(work, name, "home");
    const cwd = join(work, name, "work");
    for (const one of [home, cwd]) mkdirSync(one, { recursive: true });
    const { parameters, env } = make({ home, url: running.url, key });
    const program = join(folder, "node_modules", ".bin", name);
    const run = await runProgram(program, parameters, {
      cwd,
      env: { PATH: process.env["PATH"] ?? "", HOME: home, ...env },
    });
    const counters = running.sessions.find((one) => one.id === id)?.counters;
    await running.end(id);
    const files = readdirSync(cwd).toSorted().join(" ");
    const isRight =
      run.code === 0 && files === "step0.txt step1.txt step2.txt" && Object.keys(counters?.branched ?? {}).length === 0;
    if (!isRight) failed++;
    process.stdout.write(
      `${isRight ? "ok    " : "FAILED"} ${name}: ${counters?.calls} turns, files ${files || "none"}, branches ${JSON.stringify(counters?.branched)}\n`,
    );
    if (!isRight) process.stdout.write(`${run.output.trim().split("\n").slice(-8).join("\n")}\n`);
  }
  await running.close();
  return failed;
}

function codingPolicy() {
  const tokenizer = createReadableTokenizer();
  return createScriptedEngine({
    tokenizer,
    script: ({ prompt }) => {
      const shown = tokenizer.decode(prompt.view());
      const step = shown.split("<tool_response>").length - 1;
      const shell = Object.entries(shells).find(([name]) => shown.includes(`"${name}"`));
      if (shell === undefined || step >= 3) return "All three are done.<|im_end|>";
      const [name, write] = shell;
      const call = JSON.stringify({ name, arguments: write(`echo ${step} > step${step}.txt`) });
      return `Step ${step}.\n<tool_call>\n${call}\n</tool_call><|im_end|>`;
    },
  });
}

/**
 * Runs a program until it ends, or is killed after two minutes.
 *
 * @param {string} program
 * @param {readonly string[]} parameters
 * @param {{ cwd: string, env: Record<string, string> }} options
 * @returns {Promise<{ code: number | null, output: string }>}
 */
export function runProgram(program, parameters, { cwd, env }) {
  return new Promise((done, fail) => {
    const child = spawn(program, parameters, {
      cwd,
      env,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: limitMs,
      killSignal: "SIGKILL",
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += String(data)));
    child.on("error", fail);
    child.on("close", (code) => done({ code, output }));
  });
}
