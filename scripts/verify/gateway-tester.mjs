// A third-party tester of OpenAI-compatible servers (a Go module, MIT), on the gateway with an
// obedient policy. Lists state which checks must pass, and which are refused by design: any other
// verdict fails, in either direction. Without Go, or if the module cannot be downloaded, it is
// skipped with one line. Part of `npm run verify -- gateway`.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { createScriptedEngine } from "../../dist/engines/scripted/index.js";
import { gateway } from "../../dist/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";
import { root } from "../run-command.mjs";

const testerModule = "github.com/avelrl/openai-compatible-tester";
const version = "v0.1.0";

const passes = [
  ...["sanity.models", "chat.basic", "chat.stream", "chat.tool_call", "chat.memory", "chat.error_shape"],
  ...[
    "responses.basic",
    "responses.stream",
    "responses.tool_call",
    "responses.memory.prev_id",
    "responses.error_shape",
  ],
];
const needsGrammar = "needs an engine with a grammar";
const endpoint = "answers are kept to be continued, and not to be read again";
/**
 * Checks that are refused by design, with the reason.
 *
 * @type {Readonly<Record<string, string>>}
 */
const byDesign = {
  "chat.tool_call.required": needsGrammar,
  "chat.structured.json_schema": needsGrammar,
  "chat.structured.json_object": needsGrammar,
  "responses.tool_call.required": needsGrammar,
  "responses.custom_tool": needsGrammar,
  "responses.custom_tool.grammar": needsGrammar,
  "responses.structured.json_schema": needsGrammar,
  "responses.structured.json_object": needsGrammar,
  "responses.store_get": endpoint,
  "responses.conversations": endpoint,
};

/** Settings in YAML, of which JSON is a subset. */
const settings = {
  "endpoints.yaml": {
    base_url: "http://127.0.0.1:1",
    api_key_env: "OPENAI_API_KEY",
    paths: {
      models: "/v1/models",
      chat: "/v1/chat/completions",
      responses: "/v1/responses",
      conversations: "/v1/conversations",
    },
  },
  "models.yaml": { profiles: [{ name: "policy", chat_model: "policy", responses_model: "policy" }] },
  "clients.yaml": {},
  "suite.yaml": {
    mode: "compat",
    passes: 1,
    parallelism: 1,
    timeout_seconds: 30,
    stream: { enabled: true },
    tool_calling: { enabled: true },
    structured_outputs: { enabled: true },
    conversations: { enabled: true },
    memory: { enabled: true },
    tests: {
      "chat.tool_call": { tool_choice_mode: "auto", max_tokens: 64 },
      "responses.tool_call": { tool_choice_mode: "auto", reasoning_effort: "omit" },
    },
  },
};

/** @param {string} work A folder for its output. @returns {Promise<number>} Number of unexpected verdicts. */
export async function verifyTester(work) {
  const tester = installTester();
  if (tester === null) return 0;
  const folder = join(work, "tester");
  mkdirSync(folder);
  for (const [file, content] of Object.entries(settings)) writeFileSync(join(folder, file), JSON.stringify(content));
  const running = await gateway({
    engine: obedientEngine(),
    model: "readable",
    listen: "127.0.0.1:0",
    out: join(folder, "run"),
  });
  try {
    const flags = Object.keys(settings).flatMap((file) => [`--${file.replace(".yaml", "")}`, file]);
    const own = ["--no-tui", "--json", "--no-analyze", "--out-dir", "reports", "--base-url", running.url];
    const env = { PATH: process.env["PATH"], HOME: folder, OPENAI_API_KEY: "tester", NO_PROXY: "127.0.0.1" };
    const child = spawn(tester, [...own, ...flags], { cwd: folder, env, timeout: 120_000, stdio: "ignore" });
    await new Promise((done) => child.on("close", done));
  } finally {
    await running.close();
  }
  return count(verdictsIn(join(folder, "reports")));
}

/** @param {ReadonlyMap<string, string>} verdicts */
function count(verdicts) {
  const wrong = [
    ...passes.filter((id) => verdicts.get(id) !== "pass").map((id) => `${id}: ${verdicts.get(id) ?? "not run"}`),
    ...[...verdicts].filter(([id, verdict]) => (verdict === "pass") === id in byDesign).map(([id]) => `${id}: ${verdicts.get(id)}`), // prettier-ignore
  ];
  const unexpected = [...new Set(wrong)];
  const refused = [...verdicts.keys()].filter((id) => id in byDesign);
  process.stdout.write(
    `${unexpected.length === 0 ? "ok    " : "FAILED"} openai-compatible-tester ${version}: ${passes.length - unexpected.length} of ${passes.length} pass, ` +
      `${refused.length} are refused by design\n`,
  );
  for (const one of unexpected) process.stdout.write(`         ${one}\n`);
  for (const id of refused) process.stdout.write(`         ${id}: ${byDesign[id]}\n`);
  return unexpected.length;
}

/** @param {string} reports @returns {ReadonlyMap<string, string>} */
function verdictsIn(reports) {
  const [run = ""] = existsSync(reports) ? readdirSync(reports) : [];
  const file = join(reports, run, "summary.json");
  if (!existsSync(file)) return new Map();
  const { results } =
    /** @type {{ results: readonly { readonly TestID: string, readonly CompatStatus: string }[] }} */ (
      JSON.parse(readFileSync(file, "utf8"))
    );
  return new Map(results.map(({ TestID, CompatStatus }) => [TestID, CompatStatus]));
}

/** Installs the program below build/; `null` after a line with the reason if that fails. */
function installTester() {
  const folder = join(root, "build", "verify-gateway-tester");
  const program = join(
    folder,
    process.platform === "win32" ? "openai-compatible-tester.exe" : "openai-compatible-tester",
  );
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const env = { ...process.env, GOBIN: folder };
  const { error, status, stderr } = spawnSync("go", ["install", `${testerModule}@${version}`], {
    env,
    encoding: "utf8",
  });
  if (status === 0 && existsSync(program)) return program;
  const why = error === undefined ? (stderr.trim().split("\n").at(-1) ?? "") : "Go is not installed";
  process.stdout.write(`left out: openai-compatible-tester ${version}: ${why.trim()}\n`);
  return null;
}

/** Repeats what the tester requests, adds numbers with its tool, and remembers codes. */
function obedientEngine() {
  const tokenizer = createReadableTokenizer();
  return createScriptedEngine({
    tokenizer,
    script: ({ prompt }) => {
      const shown = tokenizer.decode(prompt.view());
      const asked = shown.split("<|im_start|>").at(-2) ?? "";
      const code = /code ?= ?(\d+)/.exec(shown)?.[1];
      const sum = /<tool_response>\D*(\d+)/.exec(shown)?.[1];
      const [left, right] = [...asked.matchAll(/=(\d+)/g)].map(([, number]) => number);
      if (code !== undefined && asked.includes("code?")) return `${code}<|im_end|>`;
      if (sum !== undefined) return `${sum}<|im_end|>`;
      if (!shown.includes('"name": "add"')) return `${shown.includes("HELLO") ? "HELLO" : "OK"}<|im_end|>`;
      const call = `{"name": "add", "arguments": {"a": ${left}, "b": ${right}}}`;
      return `<tool_call>\n${call}\n</tool_call><|im_end|>`;
    },
  });
}
