// MCP, against programs by other authors: the conformance tool of the protocol on our client and on
// our server, and episodes over the official servers, over a reliable connection and over a faulty
// one.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { defineEnvironment } from "../../../dist/environments/index.js";
import { serveEnvironment } from "../../../dist/index.js";
import { root, runCommand } from "../../run-command.mjs";
import { CannotVerify } from "../python.mjs";
import { freePorts, startServer } from "../servers.mjs";
import { lineFaults, startFaultProxy } from "./fault-proxy.mjs";
import { playKilled } from "./killed.mjs";
import { compared, play } from "./play.mjs";
import { call, observations, servePolicy } from "./policy.mjs";

/** @import { createReport } from "../report.mjs" */
/** @import { Played } from "./play.mjs" */

const packages = {
  "@modelcontextprotocol/conformance": "0.1.16",
  "@modelcontextprotocol/server-everything": "2026.8.31",
  "@modelcontextprotocol/server-filesystem": "2026.8.31",
  // The conformance tool needs a newer Node than we do.
  node: "22",
};

const clientScenarios = ["initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"];

/** Scenarios for a server that has tools and a prompt, and does not stream. */
const serverScenarios = [
  ...["server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "json-schema-2020-12"],
  ...["prompts-list", "dns-rebinding-protection"],
];

const pipe = fileURLToPath(new URL("mcp-fault-pipe.mjs", import.meta.url));
const probe = fileURLToPath(new URL("mcp-probe.mjs", import.meta.url));

/** @param {ReturnType<typeof createReport>} report @param {{ readonly kills: number }} options */
export async function verifyMcp(report, { kills }) {
  const folder = install();
  await verifyConformance(report, folder);
  await verifyFilesystem(report, folder, kills);
  await verifyEverything(report, folder);
}

/** @param {ReturnType<typeof createReport>} report @param {string} folder */
async function verifyConformance(report, folder) {
  const node = join(folder, "node_modules", "node", "bin", process.platform === "win32" ? "node.exe" : "node");
  const tool = join(folder, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js");
  const { output: version } = await runCommand(node, ["--version"]);
  /** @param {string} scenario @param {readonly string[]} parameters */
  const run = async (scenario, parameters) => {
    const { output } = await runCommand(node, [tool, ...parameters, "--scenario", scenario], { cwd: folder });
    const [, passed = "0", all = "-1"] = /Passed: (\d+)\/(\d+), 0 failed, 0 warnings/.exec(output) ?? [];
    if (passed !== all) throw new Error(`${scenario}: ${output.slice(-600)}`);
    return `${scenario} ${passed} of ${all}`;
  };
  await report.check(
    `MCP conformance ${packages["@modelcontextprotocol/conformance"]} on Node ${version}, our client`,
    async () => {
      const held = [];
      for (const one of clientScenarios)
        held.push(await run(one, ["client", "--command", `${process.execPath} ${probe}`]));
      return held.join(", ");
    },
  );
  await report.check("the same, our server", async () => {
    const server = await serveEnvironment({ env: conformanceWorld(), user: "task", listen: "127.0.0.1:0" });
    try {
      const held = [];
      for (const one of serverScenarios) held.push(await run(one, ["server", "--url", `${server.url}/mcp`]));
      return held.join(", ");
    } finally {
      await server.close();
    }
  });
}

/** The tools that the scenarios call. */
function conformanceWorld() {
  const none = { type: "object", properties: {} };
  const address = { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } };
  return defineEnvironment({
    name: "conformance",
    guidelines: "Use the tools.",
    tools: {
      test_simple_text: {
        description: "Says something.",
        parameters: none,
        run: () => "This is a simple text response for testing.",
      },
      test_error_handling: {
        description: "Fails.",
        parameters: none,
        run: () => {
          throw new Error("This tool intentionally returns an error for testing");
        },
      },
      json_schema_2020_12_tool: {
        description: "Has a schema with definitions.",
        parameters: {
          $schema: "https://json-schema.org/draft/2020-12/schema",
          type: "object",
          $defs: { address },
          properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
          additionalProperties: false,
        },
        run: () => "ok",
      },
    },
    tasks: { test: [{ instruction: "Use the tools.", state: {} }] },
    grade: () => 1,
  });
}

const taskCount = 32;

/** @param {ReturnType<typeof createReport>} report @param {string} folder @param {number} kills */
async function verifyFilesystem(report, folder, kills) {
  const work = mkdtempSync(join(tmpdir(), "verify-mcp-"));
  const envTasks = join(work, "files.jsonl");
  const tasks = Array.from({ length: taskCount }, (_, index) => ({
    id: `sum-${index}`,
    instruction: "Read in/a.txt, and write what it says to out.txt.",
    grader: "./grade.mjs",
    files: { "in/a.txt": `number ${index}` },
  }));
  writeFileSync(envTasks, tasks.map((task) => JSON.stringify(task)).join("\n"));
  writeFileSync(
    join(work, "grade.mjs"),
    `export default async ({ task, callTool }) => {
      const { text, isError } = await callTool("read_text_file", { path: "out.txt" });
      return !isError && text === task.files["in/a.txt"] ? 1 : 0;
    };`,
  );
  const server = join(folder, "node_modules", "@modelcontextprotocol", "server-filesystem", "dist", "index.js");
  const log = join(work, "log.txt");
  const env = (/** @type {number} */ share) =>
    `mcp:sh -c "cd {folder} && exec ${process.execPath} ${pipe} ${log} ${share} ${process.execPath} ${server} ."`;
  const policy = await servePolicy((prompt) => {
    const seen = observations(prompt);
    const read = /number \d+/.exec(seen[1] ?? "")?.[0] ?? "nothing";
    const steps = [
      call("read_text_file", { path: 5 }),
      call("read_text_file", { path: "in/a.txt" }),
      call("write_file", { path: "out.txt", content: read }),
      call("list_directory", { path: "in" }),
    ];
    return steps[seen.length] ?? "Done.";
  });
  try {
    const wanted = { envTasks, policy: policy.url, tasks: taskCount };
    /** @type {Played | null} */
    let quiet = null;
    await report.check(
      `MCP, server-filesystem ${packages["@modelcontextprotocol/server-filesystem"]}: 64 episodes at 16 at a time`,
      async () => {
        writeFileSync(log, "");
        quiet = await play({ ...wanted, env: env(0), more: { environmentTimeout: 60, mcpWarm: 4 } });
        const total = [...quiet.values()].reduce((sum, { reward }) => sum + (reward ?? NaN), 0);
        if (total !== 64) throw new Error(`rewards add up to ${total}`);
        return `${compared(quiet, quiet)}, each with reward 1; ${await allEnded(log)}`;
      },
    );
    await report.check("the same over pipes that fail", async () => {
      if (quiet === null) throw new Error("there is nothing to compare with");
      writeFileSync(log, "");
      const played = await play({
        ...wanted,
        env: env(0.5),
        more: { environmentTimeout: 5, openTimeout: 20, mcpWarm: 4 },
      });
      const faults = [...readFileSync(log, "utf8").matchAll(/^fault (\w+)/gm)].map(([, fault]) => fault ?? "");
      return `${compared(played, quiet)}; processes: ${counted(faults)}; ${await allEnded(log)}`;
    });
    await report.check(`a run over it that is killed ${kills} times`, async () => {
      if (quiet === null) throw new Error("there is nothing to compare with");
      writeFileSync(log, "");
      // At most two episodes end between two kills.
      const groupSize = kills > 20 ? 4 : 2;
      const { killed, played } = await playKilled({ ...wanted, groupSize, env: env(0), kills });
      const whole =
        groupSize === 2
          ? quiet
          : await play({ ...wanted, groupSize, env: env(0), more: { environmentTimeout: 60, mcpWarm: 4 } });
      return `${killed} kills, ${compared(played, whole)}; ${await allEnded(log)}`;
    });
  } finally {
    await policy.close();
    rmSync(work, { recursive: true, force: true });
  }
}

/** @param {readonly string[]} names */
function counted(names) {
  const counts = new Map(names.map((name) => [name, names.filter((other) => other === name).length]));
  return [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
}

/** Waits until the pool has ended the servers that no episode used. @param {string} log */
async function allEnded(log) {
  const pids = [...readFileSync(log, "utf8").matchAll(/^(\d+) (\d+)$/gm)].flatMap(([, one, other]) => [
    Number(one),
    Number(other),
  ]);
  let alive = pids;
  for (let waited = 0; waited < 350 && alive.length > 0; waited++) {
    alive = alive.filter(
      (pid) => existsSync(`/proc/${pid}`) && !readFileSync(`/proc/${pid}/status`, "utf8").includes("State:\tZ"),
    );
    if (alive.length > 0) await delay(100);
  }
  if (alive.length > 0) throw new Error(`${alive.length} of ${pids.length} processes are running`);
  return `${pids.length / 2} servers, all ended`;
}

/** @param {ReturnType<typeof createReport>} report @param {string} folder */
async function verifyEverything(report, folder) {
  const work = mkdtempSync(join(tmpdir(), "verify-mcp-"));
  const envTasks = join(work, "everything.jsonl");
  const tasks = Array.from({ length: taskCount }, (_, index) => ({
    id: `sum-${index}`,
    instruction: `Add ${index} and 7.`,
    grader: "./grade.mjs",
    data: { sum: index + 7 },
  }));
  writeFileSync(envTasks, tasks.map((task) => JSON.stringify(task)).join("\n"));
  writeFileSync(
    join(work, "grade.mjs"),
    `export default async ({ task, calls, callTool }) => {
      const echo = await callTool("echo", { message: "here" });
      const isAdded = calls.some(({ name, text }) => name === "get-sum" && text.includes(" is " + task.data.sum + "."));
      return { reward: isAdded && echo.text === "Echo: here" ? 1 : 0, metrics: { calls: calls.length } };
    };`,
  );
  const [port = 0] = await freePorts(1);
  const program = join(folder, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js");
  // The server would listen on all network interfaces.
  const onlyHere = `import net from "node:net";
    const { listen } = net.Server.prototype;
    net.Server.prototype.listen = function (port, ...rest) { return listen.call(this, Number(port), "127.0.0.1", ...rest); };`;
  const log = join(work, "server.log");
  const server = await startServer({
    name: "server-everything",
    command: "env",
    url: `http://127.0.0.1:${port}`,
    readyPath: "/mcp",
    timeoutMs: 60_000,
    log,
    // Ready when it answers a request without a session with 400.
    readyStatus: 400,
    parameters: [
      ...["-i", `PATH=${process.env["PATH"] ?? ""}`, `HOME=${work}`, `PORT=${port}`, process.execPath],
      ...["--import", `data:text/javascript,${encodeURIComponent(onlyHere)}`, program, "streamableHttp"],
    ],
  });
  const policy = await servePolicy((prompt) => {
    const [, left = "0"] = /Add (\d+) and 7\./.exec(prompt) ?? [];
    const steps = [
      call("get-sum", { a: "many", b: 7 }),
      call("get-sum", { a: Number(left), b: 7 }),
      call("get-tiny-image", {}),
      call("get-structured-content", { location: "Chicago" }),
      call("get-annotated-message", { messageType: "success", includeImage: true }),
    ];
    return steps[observations(prompt).length] ?? "Done.";
  });
  try {
    const wanted = { envTasks, policy: policy.url, tasks: taskCount };
    /** @type {Played | null} */
    let quiet = null;
    await report.check(
      `MCP, server-everything ${packages["@modelcontextprotocol/server-everything"]} over HTTP: 64 episodes at 16 at a time`,
      async () => {
        quiet = await play({ ...wanted, env: `mcp:http://127.0.0.1:${port}/mcp`, more: { environmentTimeout: 60 } });
        const total = [...quiet.values()].reduce((sum, { reward }) => sum + (reward ?? NaN), 0);
        if (total !== 64) throw new Error(`rewards add up to ${total}`);
        return `${compared(quiet, quiet)}, each with reward 1; ${sessionsOf(log, 0)}`;
      },
    );
    await report.check("the same over a line that fails", async () => {
      if (quiet === null) throw new Error("there is nothing to compare with");
      const proxy = await startFaultProxy(port, lineFaults(3, 0.3));
      try {
        const played = await play({
          ...wanted,
          env: `mcp:http://127.0.0.1:${proxy.port}/mcp`,
          more: { environmentTimeout: 5, openTimeout: 20 },
        });
        const drawn = Object.entries(proxy.drawn).map(([fault, count]) => `${count} ${fault}`);
        await delay(1_000);
        return `${compared(played, quiet)}; connections: ${drawn.join(", ")}; ${sessionsOf(log, 64)}`;
      } finally {
        proxy.close();
      }
    });
  } finally {
    await policy.close();
    await server.kill();
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * The server's own count. Over a faulty connection, a session may stay open because the reply to
 * its opening or its closing request was lost.
 *
 * @param {string} log
 * @param {number} unheard
 */
function sessionsOf(log, unheard) {
  const text = readFileSync(log, "utf8");
  const opened = new Set([...text.matchAll(/^Session initialized with ID: (\S+)$/gm)].map(([, id]) => id));
  const closed = new Set([...text.matchAll(/^Transport closed for session ([^,\s]+)/gm)].map(([, id]) => id));
  const open = [...opened].filter((id) => !closed.has(id)).length;
  if (open > unheard) throw new Error(`${open} of ${opened.size} sessions are open on the server`);
  return `${opened.size} sessions of the server by now, ${open} whose beginning or end it was never told`;
}

/** Installs the packages into build/. */
function install() {
  const folder = join(root, "build", "verify", "mcp");
  const manifest = JSON.stringify({ private: true, dependencies: packages }, null, 2);
  const stamp = join(folder, "installed.json");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === manifest) return folder;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), manifest);
  const flags = ["install", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", flags, { cwd: folder, stdio: "inherit", shell: process.platform === "win32" });
  if (status !== 0)
    throw new CannotVerify(`Cannot install the servers of others from npm: it ended with code ${status}.`);
  writeFileSync(stamp, manifest);
  return folder;
}
