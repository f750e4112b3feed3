// Coding agents over ACP against a simulated user: each plays a task of a small environment in which
// the user asks twice, with a HOME of its own and an empty working folder. The policy is a script
// that calls the environment's tool, under the name that the program gives it, and then answers.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { freeUsage } from "../../dist/core/index.js";
import { createScriptedEngine } from "../../dist/engines/scripted/index.js";
import { defineEnvironment } from "../../dist/environments/index.js";
import { rollout } from "../../dist/index.js";
import { openRunFolder } from "../../dist/store/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";

export const acpPackages = {
  "@agentclientprotocol/sdk": "2.4.0",
  "@qwen-code/qwen-code": "0.15.10",
  "@google/gemini-cli": "0.61.0",
  "opencode-ai": "1.18.33",
};

/** Command lines below the folder of the packages, with the variables that each needs besides those of every program. */
const programs = {
  qwen: { command: "qwen --acp --auth-type openai", env: { OPENAI_MODEL: "policy" } },
  gemini: { command: "gemini --acp --skip-trust --model policy", env: {} },
  opencode: {
    command: "opencode acp",
    env: { OPENCODE_CONFIG: "opencode.json", OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1" },
  },
};

/** opencode names its provider in a file. */
const opencodeConfig = {
  model: "gateway/policy",
  provider: {
    gateway: {
      npm: "@ai-sdk/openai-compatible",
      options: { baseURL: "{env:OPENAI_BASE_URL}", apiKey: "{env:OPENAI_API_KEY}" },
      models: { policy: { name: "policy", limit: { context: 65_536, output: 4096 } } },
    },
  },
};

const switches = defineEnvironment({
  name: "switches",
  guidelines:
    "You work at a switchboard. Flip the switches that you are asked to flip, one at a time, and say which one you flipped.",
  tools: {
    flip: {
      description: "Flips a switch.",
      parameters: { type: "object", properties: { number: { type: "integer" } }, required: ["number"] },
      run: ({ number }, state) => {
        state.flipped.push(number);
        return `Switch ${String(number)} is on.`;
      },
    },
  },
  tasks: { train: [{ state: { flipped: /** @type {unknown[]} */ ([]) } }] },
  grade: ({ state, said }) => (state.flipped.join() === "3,5" && said.join().includes("5") ? 1 : 0),
});

/** @type {import("../../dist/core/index.js").UserSource} */
const user = {
  name: "asks-twice",
  create: () => {
    const lines = ["Hello. Please flip switch 3.", "Now switch 5, please."];
    let at = 0;
    /** @returns {Promise<import("../../dist/core/index.js").UserLine>} */
    const next = async () => {
      const text = lines[at++];
      if (text === undefined) return { type: "hang-up", text: "Thank you.", usage: freeUsage };
      return { type: "utterance", text, usage: freeUsage };
    };
    return { open: next, reply: next };
  },
};

/**
 * @param {string} folder Where the packages are installed.
 * @param {string} work
 * @returns {Promise<number>} Number of failures.
 */
export async function verifyAcp(folder, work) {
  let failed = 0;
  for (const [name, { command, env }] of Object.entries(programs)) {
    const home = join(work, name, "home");
    const cwd = join(work, name, "work");
    const out = join(work, name, "run");
    for (const one of [home, cwd]) mkdirSync(one, { recursive: true });
    writeFileSync(join(cwd, "opencode.json"), JSON.stringify(opencodeConfig));
    const settings = Object.entries(env).map(([key, value]) => `${key}=${value}`);
    const agentAcp = ["env", `HOME=${home}`, ...settings, join(folder, "node_modules", ".bin", command)].join(" ");
    await rollout({
      env: switches,
      user,
      engine: policy(),
      model: "readable",
      maxContextTokens: 65_536,
      agentAcp,
      agentTimeout: 120,
      groupSize: 1,
      tasks: "0",
      cwd,
      out,
    });
    for await (const episode of openRunFolder(out).episodes()) {
      const { outcome, reward, failure, trajectory, events } = episode;
      const isRight = outcome === "completed" && reward === 1;
      if (!isRight) failed++;
      const state = failure === null ? `reward ${reward}` : failure.message;
      process.stdout.write(`${isRight ? "ok    " : "FAILED"} ${name}: ${trajectory.turns.length} turns, ${state}\n`);
      const program = events.find((event) => event.type === "program");
      if (!isRight) process.stdout.write(`${program?.stdout ?? ""}\n${program?.stderr.slice(-2000) ?? ""}\n`);
    }
  }
  return failed;
}

function policy() {
  const tokenizer = createReadableTokenizer();
  return createScriptedEngine({
    tokenizer,
    script: ({ prompt }) => {
      const shown = tokenizer.decode(prompt.view());
      const wanted = [...shown.matchAll(/switch (\d)/g)].at(-1)?.[1] ?? "0";
      if (shown.lastIndexOf(`Switch ${wanted} is on.`) > shown.lastIndexOf(`switch ${wanted}`)) {
        return `Switch ${wanted} is flipped.<|im_end|>`;
      }
      const tool = /"name": ?"(\w*flip)"/.exec(shown)?.[1];
      // Qwen Code shows tools of MCP servers only to a model that searches for them.
      const call = JSON.stringify(
        tool === undefined
          ? { name: "tool_search", arguments: { query: "flip" } }
          : { name: tool, arguments: { number: Number(wanted) } },
      );
      return `<tool_call>\n${call}\n</tool_call><|im_end|>`;
    },
  });
}
