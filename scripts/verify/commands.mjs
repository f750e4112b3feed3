// `npm run verify -- commands`: the commands that README and docs print are run as printed. `npx
// trainable-agents` runs in a user's folder that has only the packed package, npm in a fresh clone.
// Commands that a page runs against SGLang or vLLM find our servers at the printed addresses; the
// folder of a downloaded model is the shipped one. Commands that cannot run here are listed with
// the reason.

import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { extractCommands } from "../checks/docs/extract.mjs";
import { packAndInstall } from "../checks/package.mjs";
import { root, runCommand } from "../run-command.mjs";

const limitMs = 600_000;
const model = join(root, "models", "bookshop-1m");

/**
 * Reasons why a printed command is not run; the first match counts.
 *
 * @type {readonly (readonly [RegExp, string])[]}
 */
const leftOut = [
  [/ eval --from runs\/2026/, ""],
  [/tau2?-bench|trainable_agents\.prepare|--data /, "needs the data of tau-bench"],
  [/--gguf|node-llama-cpp/, "needs a GGUF file and llama.cpp; see npm run verify -- llama-cpp"],
  [/sglang\.launch_server/, "SGLang itself; see npm run verify -- sglang"],
  [
    /^npm (?:run )?(?:test|check|conformance|bench|bar|verify|make-model)|^npx vitest/,
    "is a step of CI, or takes long",
  ],
  [
    /^npm (?:ci|install)|^pip|^python scripts/,
    "installs from a registry; the package is installed here from its tarball",
  ],
  [/ --agent-(?:command|model|url) /, "a program, or a key, of the reader's; see npm run verify -- gateway"],
  [/ trainable-agents gateway/, "serves programs of others; see npm run verify -- gateway"],
  [/^curl|^node /, "is part of a longer example"],
  [/ --env '?(?:openenv|ors|mcp):/, "needs a server of that protocol; see npm run verify -- environments"],
  [/nats:\/\//, "needs a broker; see npm run verify -- queue"],
  [/ merge /, "needs the shards of workers; see npm run verify -- queue"],
  [/ --format tau2/, "needs a run of τ²-bench; see npm run verify -- tau2"],
  [/ --env harbor:/, "needs bubblewrap and a model; see npx vitest run src/environments/harbor"],
  [/ --adapter | runs\/kept /, "needs a server with adapters or kept ids; see npm run verify -- sglang"],
  [
    /rubric\.json|trainer\.jsonl|tasks\.jsonl|(?:retail|results)\.json|\.\/expert\.ts|runs\/bar/,
    "needs a file of the reader's",
  ],
  [/ example 09 models\//, "is run in a clone; see npm run verify -- npm"],
];

/** @returns {Promise<number>} An exit code. */
export async function verifyCommands() {
  const work = mkdtempSync(join(tmpdir(), "trainable-agents-commands-"));
  /** @type {(() => void | Promise<unknown>)[]} */
  const closing = [() => rmSync(work, { recursive: true, force: true, maxRetries: 5 })];
  /** @type {string[]} */
  const failures = [];
  const check = async (/** @type {string} */ command, /** @type {string} */ cwd) => {
    const { code, output, seconds } = await shell(command, cwd);
    process.stdout.write(`${code === 0 ? "ok    " : "FAILED"} ${seconds.toFixed(0).padStart(4)} s  ${command}\n`);
    if (code === 0) return;
    process.stdout.write(`${output.split("\n").slice(-15).join("\n")}\n`);
    failures.push(`"${command}" ended with code ${code}.`);
  };
  const checkPage = async (/** @type {string} */ command, /** @type {string} */ cwd) => {
    const { said, interrupt } = await serve(command, cwd);
    const page = await fetch(said.trim());
    const code = page.status < 500 ? await interrupt() : page.status;
    process.stdout.write(`${code === 0 ? "ok    " : "FAILED"}         ${command}\n`);
    if (code !== 0) failures.push(`"${command}" ended with ${code}.`);
  };
  try {
    failures.push(...(await packAndInstall(work)));
    if (failures.length > 0) return tell(failures);
    cpSync(join(work, "node_modules", "trainable-agents", "examples"), join(work, "examples"), { recursive: true });
    for (const name of ["Qwen3-4B-Instruct-2507", "Qwen3-4B", "Acorn-7B"]) symlinkSync(model, join(work, name), "dir");
    cpSync(join(work, "examples", "01-an-environment.ts"), join(work, "my-env.ts"));
    cpSync(join(work, "examples", "conversation.json"), join(work, "my-conversation.json"));
    for (const [seed, run] of ["one", "two", "my-run"].entries())
      await check(
        `npx trainable-agents rollout --engine embedded --group-size 8 --seed ${seed} --out runs/${run}`,
        work,
      );

    const engine = await serve("npx trainable-agents engine", work);
    closing.unshift(() => engine.interrupt());
    const vllm = await vllmFront();
    closing.unshift(() => vllm.close());
    const { npx, npm } = printedCommands();
    for (const command of npx) {
      if (/ trainable-agents (?:serve|engine)/.test(command)) continue;
      if (/ (?:view(?= (?!.*--export)|$)|env-server )/.test(command)) await checkPage(command, work);
      else await check(command, work);
    }

    const service = await serve("npx trainable-agents serve --out runs/service", work);
    closing.unshift(() => service.interrupt());
    await check("python3 -m venv venv", work);
    await check("venv/bin/pip install --quiet ./node_modules/trainable-agents/python", work);
    await check("venv/bin/python examples/your-own-trainer.py http://127.0.0.1:8800", work);
    await check("venv/bin/python examples/asynchronous-trainer.py --training first", work);

    const clone = join(work, "clone");
    await check(`git clone --quiet ${JSON.stringify(root)} clone`, work);
    for (const command of npm) await check(command, clone);
    await check("../venv/bin/pip install --quiet ./python", clone);
    await check('test -z "$(git status --porcelain)"', clone);
    for (const [name, server] of Object.entries({ engine, serve: service })) {
      const code = await server.interrupt();
      if (code !== 0) failures.push(`"npx trainable-agents ${name}" ended with code ${code} at Ctrl-C.`);
    }
    return tell(failures);
  } finally {
    for (const close of closing) await close();
  }
}

/** @param {readonly string[]} failures */
function tell(failures) {
  process.stdout.write(`\n${failures.join("\n") || "Every printed command that can run here does what it says."}\n`);
  return failures.length === 0 ? 0 : 1;
}

/** Commands to run, each once, with our names in place of those that only the reader has. */
function printedCommands() {
  const files = ["README.md", ...readdirSync(join(root, "docs")).map((file) => `docs/${file}`)];
  /** @type {Set<string>} */
  const chosen = new Set();
  for (const file of files.filter((name) => name.endsWith(".md"))) {
    for (const { words, isWhole, place } of extractCommands(file, readFileSync(join(root, file), "utf8"))) {
      const command = words.map(quoted).join(" ");
      const isMentioned = /^npx trainable-agents (?:export|export-model|bench|rollout) /.test(command);
      if (!isWhole && !isMentioned) continue;
      const reason = leftOut.find(([pattern]) => pattern.test(command))?.[1] ?? "";
      if (reason === "") chosen.add(withOurNames(command));
      else process.stdout.write(`left out      ${place} ${command}: ${reason}\n`);
    }
  }
  const commands = [...chosen].filter((command) => !/ examples\/.*\.py/.test(command));
  return {
    npx: commands.filter((command) => command.startsWith("npx ")),
    npm: commands.filter((command) => command.startsWith("npm ")),
  };
}

/** @param {string} command */
function withOurNames(command) {
  return command
    .replaceAll(/'(?:runs\/)?<run(?: folder)?>'|runs\/20260101\S*/g, "runs/one")
    .replaceAll("http://router:30000", "http://127.0.0.1:30000");
}

/** @param {string} word */
function quoted(word) {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word}'`;
}

/**
 * @param {string} command
 * @param {string} cwd
 */
function shell(command, cwd) {
  return runCommand("timeout", ["--signal=INT", `${limitMs / 1000}`, "bash", "-c", command], {
    cwd,
    env: userEnvironment(),
  });
}

/** Environment without the variables of the npm that runs this. */
function userEnvironment() {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^npm_(?:lifecycle|package|command)|^INIT_CWD$/i.test(name),
  );
  return { ...Object.fromEntries(own), npm_config_loglevel: "error" };
}

/**
 * Starts a command that serves, and waits for its address (`said`); `interrupt` presses Ctrl-C as a
 * terminal does and resolves with the exit code.
 *
 * @param {string} command
 * @param {string} cwd
 * @returns {Promise<{ readonly said: string, readonly interrupt: () => Promise<number | null> }>}
 */
function serve(command, cwd) {
  const child = spawn("bash", ["-c", command], {
    cwd,
    env: userEnvironment(),
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let isOver = false;
  // If its command ends with 0, npm itself is ended by the signal.
  /** @type {Promise<number | null>} */
  const ended = new Promise((resolve) => {
    child.once("close", (code, signal) => {
      isOver = true;
      resolve(signal === "SIGINT" ? 0 : code);
    });
  });
  let said = "";
  return new Promise((resolve, reject) => {
    child.stderr.on("data", (text) => (said += text));
    child.stdout.on("data", (shown) =>
      resolve({
        said: String(shown),
        interrupt: () => {
          if (!isOver && child.pid !== undefined) process.kill(-child.pid, "SIGINT");
          return ended;
        },
      }),
    );
    void ended.then((code) => reject(new Error(`"${command}" ended with code ${code} before it served: ${said}`)));
  });
}

/**
 * Serves the shipped model over vLLM's protocol, at the address where the documentation expects a
 * server.
 */
async function vllmFront() {
  const { createVllmFront } = await import("../../dist/testing/index.js");
  const { loadEmbeddedEngine } = await import("../../dist/engines/embedded/index.js");
  const { loadTokenizer } = await import("../../dist/tokenizers/index.js");
  const engine = await loadEmbeddedEngine(model);
  const tokenizer = await loadTokenizer(model);
  const endTokenIds = [tokenizer.tokenId("<|im_end|>") ?? 0];
  const { contextLength, vocabularySize } = engine.config;
  const front = createVllmFront({ sampler: engine.sampler, tokenizer, endTokenIds, contextLength, vocabularySize });
  const listener = await front.listen({ port: 8000 });
  return {
    close: async () => {
      await listener.close();
      await engine.close();
    },
  };
}
