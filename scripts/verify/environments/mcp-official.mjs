// MCP of both revisions (2025-11-25 and 2026-07-28) against the official packages of both
// languages: environments over their servers, by standard input and output and by HTTP, and their
// clients on our server.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

import { mcpEnvironment } from "../../../dist/environments/remote/mcp/index.js";
import { serveEnvironment } from "../../../dist/index.js";
import { root } from "../../run-command.mjs";
import { CannotVerify, makeEnvironment, versionOf } from "../python.mjs";
import { freePorts, startServer } from "../servers.mjs";
import { here, pythonServers, runClient } from "./python-servers.mjs";

/** @import { createReport } from "../report.mjs" */

const packages = { "@modelcontextprotocol/server": "2.4.0", zod: "4.6.7" };
const inPython = ["mcp==2.3.0"];

/** Arguments that the tools of the servers accept, and the text that a policy reads in reply. */
const calls = /** @type {const} */ ([
  ["add", { a: 1, b: 2 }, /^3$/, false],
  ["lines", {}, /^(1\n2|\[1,\s?2\])$/, false],
  ["record", {}, /^\{\s*"sum":\s?3\s*\}$/, false],
  ["fail", {}, /./, true],
  ["add", { a: "many" }, /./, true],
  ["none", {}, /none/i, true],
]);

/** @param {ReturnType<typeof createReport>} report */
export async function verifyOfficialMcp(report) {
  const { folder, bin } = makeEnvironment({ name: "mcp-python", packages: inPython, oldest: 10 });
  const node = install();
  const home = join(folder, "home");
  mkdirSync(home, { recursive: true });
  const python = bin("python");
  const { serve } = pythonServers({ folder, python, home });
  const [bothPort = 0, newestPort = 0, pythonPort = 0] = await freePorts(3);
  const program = fileURLToPath(new URL("mcp-official-server.mjs", import.meta.url));
  const onNode = (/** @type {number} */ port, /** @type {string} */ revisions) =>
    startServer({
      name: `mcp-${revisions}`,
      command: process.execPath,
      url: `http://127.0.0.1:${port}`,
      readyPath: "/mcp",
      readyStatus: 405,
      timeoutMs: 60_000,
      log: join(folder, `${revisions}.log`),
      parameters: [program, node, String(port), revisions],
    });
  const servers = await Promise.all([
    onNode(bothPort, "both"),
    onNode(newestPort, "newest"),
    // Ready when it answers a request without a session with 400.
    serve("mcp-python", ["mcp_official_server.py", String(pythonPort)], {
      port: pythonPort,
      readyPath: "/mcp",
      readyStatus: 400,
    }),
  ]);
  const client = `@modelcontextprotocol/client ${clientVersion()}`;
  const nodeServer = `@modelcontextprotocol/server ${packages["@modelcontextprotocol/server"]}`;
  const pythonPackage = `mcp ${versionOf(python, "mcp")} for Python`;
  const ofNode = (/** @type {string} */ revisions) => `${process.execPath} ${program} ${node} stdio ${revisions}`;
  const worlds = [
    [`${nodeServer}, both revisions, standard output`, ofNode("both")],
    [`${nodeServer}, 2026-07-28 only, standard output`, ofNode("newest")],
    [`${nodeServer}, both revisions, HTTP`, `http://127.0.0.1:${bothPort}/mcp`],
    [`${nodeServer}, 2026-07-28 only, HTTP`, `http://127.0.0.1:${newestPort}/mcp`],
    [`${pythonPackage}, standard output`, `${python} ${join(here, "mcp_official_server.py")} stdio`],
    [`${pythonPackage}, HTTP`, `http://127.0.0.1:${pythonPort}/mcp`],
  ];
  try {
    for (const [name = "", address = ""] of worlds)
      await report.check(`MCP, a world over ${name}`, () => playWorld(address));
    const server = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0", variables: {} });
    try {
      await report.check(`MCP, our server, played by ${client}`, () => playOurs(`${server.url}/mcp`));
      await report.check(`MCP, our server, played by ${pythonPackage}`, async () => {
        const said = await runClient(python, ["mcp_official_client.py", `${server.url}/mcp`], { cwd: here, home });
        const played = /** @type {{ revision: string, tools: number }[]} */ (JSON.parse(said));
        if (played.map(({ revision }) => revision).join() !== "2026-07-28,2025-11-25") throw new Error(said);
        return `${played.map(({ revision, tools }) => `${revision} with ${tools} tools`).join(", ")}, an episode each`;
      });
    } finally {
      await server.close();
    }
  } finally {
    await Promise.all(servers.map((one) => one.kill()));
  }
}

/**
 * Two episodes: the first negotiates the revision, the second already knows it.
 *
 * @param {string} address
 */
async function playWorld(address) {
  const task = {
    id: "probe",
    split: "test",
    instruction: "Use the tools.",
    agenda: null,
    guidelines: null,
    files: {},
    data: null,
    contentHash: "0",
    grader: () => 1,
  };
  /** @type {string[]} */
  const notices = [];
  const onNotice = (/** @type {string} */ message) => void notices.push(message);
  const source = await mcpEnvironment({ address, tasks: [task], warm: 0, onNotice });
  try {
    let done = 0;
    for (let episode = 0; episode < 2; episode++) {
      const world = await source.open(source.taskset("test").task(0), {
        signal: new AbortController().signal,
        seed: 0,
      });
      if (world.guidelines !== "Add up.") throw new Error(`guidelines are ${JSON.stringify(world.guidelines)}`);
      for (const [name, args, expected, isError] of calls) {
        const result = await world.call({ name, arguments: new Map(Object.entries(args)) });
        if (!expected.test(result.text) || result.isError !== isError)
          throw new Error(`${name} ${JSON.stringify(args)}: ${JSON.stringify(result.text)}, ${result.isError}`);
        done++;
      }
      await world.close?.();
    }
    if (notices.length > 0) throw new Error(notices.join(" "));
    return `2 episodes, ${done} calls as expected`;
  } finally {
    await source.close();
  }
}

function clientVersion() {
  const manifest = readFileSync(join(root, "node_modules", "@modelcontextprotocol", "client", "package.json"), "utf8");
  return /** @type {{ version: string }} */ (JSON.parse(manifest)).version;
}

/** @param {string} url */
async function playOurs(url) {
  const played = [];
  for (const [seed, mode] of /** @type {const} */ ([
    [10, "auto"],
    [11, { pin: "2026-07-28" }],
    [12, "legacy"],
  ])) {
    const client = new Client({ name: "verify", version: "1" }, { versionNegotiation: { mode } });
    const transport = new StreamableHTTPClientTransport(new URL(`${url}?task=1&seed=${seed}`));
    await client.connect(transport);
    const { tools } = await client.listTools();
    const said = await client.callTool({ name: "respond", arguments: { message: "Who are you?" } });
    const last = await client.callTool({ name: "finish", arguments: {} });
    const [first] = said.content;
    const { reward } = /** @type {{ reward?: unknown }} */ (last.structuredContent ?? {});
    if (first?.type !== "text" || first.text === "" || typeof reward !== "number")
      throw new Error(JSON.stringify([said, last]));
    played.push(`${client.getNegotiatedProtocolVersion()} with ${tools.length} tools`);
    await transport.terminateSession();
    await client.close();
    await delay(10);
  }
  return `${played.join(", ")}, an episode each`;
}

/** Installs the packages into build/. */
function install() {
  const folder = join(root, "build", "verify", "mcp-official");
  const manifest = JSON.stringify({ private: true, dependencies: packages }, null, 2);
  const stamp = join(folder, "installed.json");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === manifest) return folder;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), manifest);
  const flags = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", flags, { cwd: folder, stdio: "inherit", shell: process.platform === "win32" });
  if (status !== 0)
    throw new CannotVerify(`Cannot install the packages of MCP from npm: it ended with code ${status}.`);
  writeFileSync(stamp, manifest);
  return folder;
}
