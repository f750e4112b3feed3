// `npm run verify -- verifiers [--write]`: files that verifiers (from PyPI) writes, read by our
// code. Three releases, each the last with its file format, run one environment against an endpoint
// on
// 127.0.0.1 whose replies are fixed; their files are shown, scored and compared. `--write` keeps
// the files as the golden ones that `npm test` reads.

import { spawn, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { root } from "../run-command.mjs";
import { parsed } from "./metrics.mjs";
import { findUv, makeEnvironment, outputOf } from "./python.mjs";

const cli = join(root, "dist", "cli", "main.js");
const environments = join(root, "scripts", "verify", "python-packages", "sums");

/**
 * Releases, with their formats: columns of a data set; lines with timing and usage; episodes of
 * traces.
 */
const releases = ["0.1.9.post3", "0.3.1", "0.4.0"];

/** @param {{ write: boolean }} options @returns {Promise<number>} An exit code. */
export async function verifyVerifiers({ write }) {
  const work = mkdtempSync(join(tmpdir(), "trainable-agents-verifiers-"));
  const endpoint = await serveReplies();
  /** @type {string[]} */
  const failures = [];
  /** @type {(name: string, holds: boolean, found: unknown) => void} */
  const check = (name, holds, found) => {
    process.stdout.write(`${holds ? "ok    " : "FAILED"}  ${name}\n`);
    if (!holds) failures.push(`${name}: ${JSON.stringify(found)?.slice(0, 3000)}`);
  };
  const ours = (/** @type {string[]} */ ...argv) =>
    spawnSync(process.execPath, [cli, ...argv], { cwd: work, encoding: "utf8" });
  try {
    for (const release of releases) {
      const file = await evaluate(release, { work, url: endpoint.url });
      const name = `verifiers-${release}`;
      check(`verifiers ${release} writes a file`, file !== null, release);
      if (file === null) continue;
      mkdirSync(join(work, name));
      for (const one of [file, join(dirname(file), "metadata.json")])
        if (existsSync(one)) copyFileSync(one, join(work, name, one.slice(dirname(file).length + 1)));
      if (write) keep(join(work, name), join(root, "tests", "goldens", "foreign", name), work);
      const scored = ours("eval", "--from", name, "--json");
      const found = scored.status === 0 ? parsed(scored.stdout) : scored.stderr;
      check(`${release}: scored as verifiers scored it`, isAsExpected(found), found);
      const shown = ours("view", name, "--export", `${name}.html`);
      check(`${release}: shown`, shown.status === 0 && existsSync(join(work, `${name}.html`)), shown.stderr);
    }
    // A trace has verifiers' own hash of the task, rows have none: releases before 0.4 are compared
    // with each other.
    const [first = "", second = ""] = releases.map((release) => `verifiers-${release}`);
    const compared = ours("compare", first, second, "--json");
    const text = compared.status === 0 ? compared.stdout : '{"pairs": []}';
    const { pairs } = /** @type {{ pairs: { tasks: number, byId: number, reward: { mean: number } | null }[] }} */ (
      parsed(text)
    );
    const areSame = pairs.every(({ tasks, byId, reward }) => tasks === 2 && byId === 0 && reward?.mean === 0);
    check(`${first} and ${second} compared: the same tasks, none better`, pairs.length === 1 && areSame, compared);
    if (failures.length > 0) process.stdout.write(`\n${failures.join("\n\n")}\n`);
    return failures.length === 0 ? 0 : 1;
  } finally {
    endpoint.close();
    rmSync(work, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Two episodes per task: one task solved, one not, one whose requests are refused.
 *
 * @param {unknown} found
 */
function isAsExpected(found) {
  const { episodes, graded, successes, toolCalls, endings } = /** @type {Record<string, unknown>} */ (found);
  const { error } = /** @type {{ error?: number }} */ (endings ?? {});
  return episodes === 6 && graded === 4 && successes === 2 && toolCalls === 4 && error === 2;
}

/**
 * Path of the file that `vf-eval` wrote; `null` if none, after printing its last lines.
 *
 * @param {string} release @param {{ work: string, url: string }} options @returns {Promise<string | null>}
 */
async function evaluate(release, { work, url }) {
  const { bin } = makeEnvironment({ name: `verifiers-${release}`, packages: [`verifiers==${release}`], oldest: 11 });
  const packages = outputOf(bin("python"), "import sysconfig; print(sysconfig.get_path('purelib'))");
  writeFileSync(join(packages, "verify-environments.pth"), `${environments}\n`);
  const cwd = join(work, release);
  mkdirSync(cwd);
  const isLegacy = !release.startsWith("0.4.");
  const argv = isLegacy
    ? ["sums", "-m", "tiny", "-b", url, "-k", "VERIFY_KEY", "-n", "3", "-r", "2", "-s"]
    : ["sums_v1", "--model", "tiny", "--client.base-url", url, "--client.api-key-var", "VERIFY_KEY", "-r", "2", "--no-rich", "--no-push", "--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess", "--env.taskset.task.tools.runtime.type", "subprocess"]; // prettier-ignore
  // A harness of 0.4 is a script that uv runs; it has its own home, and no variables of this shell
  // except those for certificates.
  const certificates = process.env["SSL_CERT_FILE"] ?? process.env["PIP_CERT"];
  const env = {
    HOME: cwd,
    PATH: `${dirname(findUv())}:${process.env["PATH"] ?? ""}`,
    VERIFY_KEY: "none",
    DO_NOT_TRACK: "1",
    ...(certificates === undefined ? {} : { SSL_CERT_FILE: certificates }),
  };
  const child = spawn(bin("vf-eval"), argv, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said += String(text)));
  await new Promise((resolve) => child.once("close", resolve));
  const place = readdirSync(cwd, { recursive: true, encoding: "utf8" }).find((path) =>
    path.endsWith(isLegacy ? "results.jsonl" : "traces.jsonl"),
  );
  if (place === undefined) process.stdout.write(said.slice(-3000));
  return place === undefined ? null : join(cwd, place);
}

/**
 * Keeps files as golden files: without this machine's paths and its clone's commit.
 *
 * @param {string} from @param {string} to @param {string} work
 */
function keep(from, to, work) {
  mkdirSync(to, { recursive: true });
  for (const file of readdirSync(from)) {
    const text = readFileSync(join(from, file), "utf8").replaceAll(work, "/home/user");
    const shared = text.replace(/"vf_commit": "\w+"/, '"vf_commit": null');
    writeFileSync(join(to, file), file.endsWith(".json") ? `${JSON.stringify(parsed(shared), null, 2)}\n` : shared);
  }
}

/**
 * Chat completions, whole and streamed: one call of the first tool, then its sum; some requests are
 * refused on purpose.
 */
async function serveReplies() {
  const server = createServer((incoming, outgoing) => {
    let body = "";
    incoming.on("data", (text) => (body += String(text)));
    incoming.on("end", () => {
      const {
        messages = [],
        tools = [],
        stream = false,
      } = /** @type {{ messages?: { role: string }[], tools?: { function: { name: string } }[], stream?: boolean }} */ (
        parsed(body)
      );
      const send = (/** @type {number} */ status, /** @type {string} */ type, /** @type {string} */ text) =>
        outgoing.writeHead(status, { "content-type": type }).end(text);
      if (body.includes("broken"))
        return send(400, "application/json", '{"error": {"message": "the engine is broken"}}');
      const name = tools[0]?.function.name;
      const isCall = name !== undefined && messages.at(-1)?.role === "user";
      const call = { id: "call_1", type: "function", function: { name, arguments: '{"a": 2, "b": 3}' } };
      const message = {
        role: "assistant",
        ...(isCall ? { content: "", tool_calls: [call] } : { content: "It is 5." }),
      };
      const finish = isCall ? "tool_calls" : "stop";
      const usage = { prompt_tokens: 20, completion_tokens: 7, total_tokens: 27 };
      const common = { id: "c", created: 1, model: "tiny" };
      if (!stream) {
        const choices = [{ index: 0, message, finish_reason: finish }];
        return send(200, "application/json", JSON.stringify({ ...common, object: "chat.completion", choices, usage }));
      }
      const delta = isCall ? { ...message, tool_calls: [{ index: 0, ...call }] } : message;
      const chunks = [{ choices: [{ index: 0, delta, finish_reason: finish }] }, { choices: [], usage }];
      const lines = chunks.map((chunk) => JSON.stringify({ ...common, object: "chat.completion.chunk", ...chunk }));
      return send(200, "text/event-stream", [...lines, "[DONE]"].map((line) => `data: ${line}\n\n`).join(""));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${port}/v1`, close: () => server.close() };
}
