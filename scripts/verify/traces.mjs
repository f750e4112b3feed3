// `npm run verify -- traces`: spans of a rollout as shown by Phoenix: agents, models and tools with
// their tokens, and message contents only if requested. Phoenix from PyPI on 127.0.0.1, with its
// own home and no variables of this shell; the SDK is the program that docs/scale.md prints.
// Langfuse needs PostgreSQL and ClickHouse, and is not run.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

import { openRunFolder } from "../../dist/store/index.js";
import { turnPrompt } from "../../dist/trajectories/index.js";
import { root } from "../run-command.mjs";
import { freePort, serve, untilAnswers } from "./metrics.mjs";
import { installPackages } from "./npm.mjs";
import { makeEnvironment } from "./python.mjs";

/**
 * A span as Phoenix's API returns it, with its own names of attributes.
 *
 * @typedef {object} Span
 * @property {string} name
 * @property {string} span_kind
 * @property {string | null} parent_id
 * @property {string} start_time
 * @property {{ trace_id: string, span_id: string }} context
 * @property {Record<string, unknown>} attributes
 * @property {{ name: string, attributes: Record<string, unknown> }[]} events
 */

const packages = {
  "@opentelemetry/api": "1.9.1",
  "@opentelemetry/exporter-trace-otlp-proto": "0.223.1",
  "@opentelemetry/sdk-trace-node": "2.12.0",
};

/** @returns {Promise<number>} An exit code. */
export async function verifyTraces() {
  const work = mkdtempSync(join(tmpdir(), "trainable-agents-traces-"));
  /** @type {import("node:child_process").ChildProcess[]} */
  const servers = [];
  /** @type {string[]} */
  const failures = [];
  /** @type {(name: string, holds: boolean, found: unknown) => void} */
  const check = (name, holds, found) => {
    process.stdout.write(`${holds ? "ok    " : "FAILED"}  ${name}\n`);
    if (!holds) failures.push(`${name}: ${JSON.stringify(found)?.slice(0, 3000)}`);
  };
  try {
    const sdk = await installPackages("verify-traces", packages);
    const [, program = ""] = /```js\n(\/\/ tracing\.mjs[^]*?)```/.exec(readFileSync(join(root, "docs", "scale.md"), "utf8")) ?? []; // prettier-ignore
    writeFileSync(join(sdk, "tracing.mjs"), program);
    const phoenix = makeEnvironment({ name: "phoenix", packages: ["arize-phoenix==20.26.1"], oldest: 11 });
    const [port, grpcPort] = [await freePort(), await freePort()];
    const url = `http://127.0.0.1:${port}`;
    const home = join(work, "home");
    mkdirSync(home);
    const env = { HOME: home, PATH: process.env["PATH"] ?? "", PYTHONUNBUFFERED: "1", PHOENIX_HOST: "127.0.0.1", PHOENIX_PORT: String(port), PHOENIX_GRPC_PORT: String(grpcPort), PHOENIX_WORKING_DIR: home, PHOENIX_TELEMETRY_ENABLED: "false" }; // prettier-ignore
    await serve(phoenix.bin("phoenix"), ["serve"], { env, servers, until: /Uvicorn running|Application startup complete|phoenix/i }); // prettier-ignore
    await untilAnswers(`${url}/healthz`);
    /** @type {Set<string>} */
    const known = new Set();
    for (const metrics of ["traces", "traces:messages"]) {
      const holdsMessages = metrics !== "traces";
      const folder = join(work, holdsMessages ? "with-messages" : "without-messages");
      const code = await rollout(folder, { metrics, sdk, url });
      check(`${metrics}: a rollout ends`, code === 0, code);
      const spans = await newSpans(url, known);
      await verifySpans(spans, { folder, holdsMessages, check: (name, ...found) => check(`${metrics}: ${name}`, ...found) }); // prettier-ignore
    }
    if (failures.length > 0) process.stdout.write(`\n${failures.join("\n\n")}\n`);
    return failures.length === 0 ? 0 : 1;
  } finally {
    for (const server of servers) server.kill("SIGTERM");
    rmSync(work, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Runs a rollout in a separate process, whose SDK sends to Phoenix.
 *
 * @param {string} folder @param {{ metrics: string, sdk: string, url: string }} options @returns {Promise<number | null>}
 */
function rollout(folder, { metrics, sdk, url }) {
  const flags = ["--engine", "embedded", "--model", "bookshop-nano", "--tasks", "0-3", "--group-size", "2", "--quiet"];
  const argv = ["rollout", ...flags, "--metrics", metrics, "--out", folder];
  const env = { PATH: process.env["PATH"] ?? "", OTEL_EXPORTER_OTLP_ENDPOINT: url };
  const tracing = ["--import", join(sdk, "tracing.mjs")];
  const child = spawn(process.execPath, [...tracing, join(root, "dist", "cli", "main.js"), ...argv], { env, stdio: "inherit" }); // prettier-ignore
  return new Promise((resolve) => child.once("close", resolve));
}

/**
 * Spans that are not yet in `known`, to which they are added.
 *
 * @param {string} url @param {Set<string>} known @returns {Promise<Span[]>}
 */
async function newSpans(url, known) {
  const agents = (/** @type {readonly Span[]} */ all) => all.filter(({ span_kind }) => span_kind === "AGENT").length;
  let spans = /** @type {Span[]} */ ([]);
  // Phoenix stores received spans with a short delay.
  for (let tries = 0; tries < 60; tries++) {
    const reply = await fetch(`${url}/v1/projects/default/spans?limit=1000`);
    const { data } = /** @type {{ data: Span[] }} */ (reply.ok ? await reply.json() : { data: [] });
    const found = data.filter(({ context }) => !known.has(context.span_id));
    if (agents(found) === 8 && found.length === spans.length) break;
    spans = found;
    await wait(1000);
  }
  for (const { context } of spans) known.add(context.span_id);
  return spans;
}

/**
 * Checks that the spans in Phoenix match the run folder.
 *
 * @param {readonly Span[]} spans
 * @param {{ folder: string, holdsMessages: boolean, check: (name: string, holds: boolean, found: unknown) => void }} options
 */
async function verifySpans(spans, { folder, holdsMessages, check }) {
  const ofKind = (/** @type {string} */ kind) => spans.filter(({ span_kind }) => span_kind === kind);
  const [agents, models, tools] = [ofKind("AGENT"), ofKind("LLM"), ofKind("TOOL")];
  const sumOf = (/** @type {string} */ name) =>
    models.reduce((sum, { attributes }) => sum + Number(attributes[name]), 0);
  let [episodes, turns, results, prompt, sampled] = [0, 0, 0, 0, 0];
  /** @type {Map<string, number>} */
  const rewards = new Map();
  for await (const episode of openRunFolder(folder).episodes()) {
    const { trajectory } = episode;
    episodes++;
    turns += trajectory.turns.length;
    results += episode.events.filter(({ type }) => type === "tool-result").length;
    for (const turn of trajectory.turns) {
      prompt += turnPrompt(trajectory, turn.index).length;
      sampled += turn.sampledTokens.length;
    }
    if (episode.reward !== null) rewards.set(episode.id, episode.reward);
  }
  const counted = [agents.length, models.length, tools.length];
  check(`${episodes} agents, ${turns} calls of the model, ${results} of tools`, String(counted) === String([episodes, turns, results]), counted); // prettier-ignore
  const tokens = [sumOf("llm.token_count.prompt"), sumOf("llm.token_count.completion")];
  check(`${prompt} prompt and ${sampled} sampled tokens`, String(tokens) === String([prompt, sampled]), tokens);
  const parents = new Map(agents.map(({ context, attributes }) => [context.span_id, attributes["session.id"]]));
  const others = spans.filter(({ span_kind }) => span_kind !== "AGENT");
  check(
    "every step below its episode",
    others.every(({ parent_id }) => parents.has(parent_id ?? "")),
    others[0],
  );
  check("models are named", models.every(({ name, attributes }) => name === `chat ${String(attributes["llm.model_name"])}`), models[0]); // prettier-ignore
  check("tools are named", tools.every(({ name, attributes }) => name === `execute_tool ${String(attributes["tool.name"])}`), tools[0]); // prettier-ignore
  const graded = spans.flatMap(({ parent_id, events }) =>
    events.flatMap(
      ({ name, attributes }) =>
      name === "gen_ai.evaluation.result" ? [[parents.get(parent_id ?? ""), attributes["gen_ai.evaluation.score.value"]]] : [], // prettier-ignore
    ),
  );
  const areSame = graded.every(([id, reward]) => rewards.get(String(id)) === reward);
  check(`${rewards.size} rewards`, graded.length === rewards.size && areSame, graded);
  const names = models.map(({ attributes }) => Object.keys(attributes).join(" "));
  const said = names.filter((text) => text.includes("llm.input_messages.0") && text.includes("llm.output_messages.0"));
  const answered = tools.filter(({ attributes }) => attributes["output.value"] !== undefined);
  const expected = holdsMessages ? [models.length, tools.length] : [0, 0];
  check(holdsMessages ? "with what was said and answered" : "without what was said", String([said.length, answered.length]) === String(expected), [said.length, answered.length, names.find((text) => !said.includes(text))]); // prettier-ignore
}
