// `npm run verify -- environments`: remote environments against the servers that others wrote: openenv-core's scaffold and worlds on its
// server, ors-sdk's server, the official servers of MCP. In each: episodes over a quiet line, over one that fails, and in a run that
// is killed again and again; every episode has one outcome, nothing that a fault ended is trained, all sessions are closed. And the
// other way: a server of ours, played by openenv-core's clients, and the conformance tool of MCP on both our sides.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { serveEnvironment } from "../../dist/index.js";
import { remoteSource } from "../../dist/environments/remote/index.js";
import { openEnvService, seedTasks } from "../../dist/environments/remote/openenv/index.js";
import { orsService } from "../../dist/environments/remote/ors/index.js";
import { lineFaults, startFaultProxy } from "./environments/fault-proxy.mjs";
import { playKilled } from "./environments/killed.mjs";
import { verifyMcp } from "./environments/mcp.mjs";
import { compared, play } from "./environments/play.mjs";
import { addUp, call, guess, observations, openBoxes, servePolicy } from "./environments/policy.mjs";
import { CannotVerify, makeEnvironment, versionOf } from "./python.mjs";
import { createReport } from "./report.mjs";
import { freePorts, startServer } from "./servers.mjs";

/** @import { Played } from "./environments/play.mjs" */

const packages = ["openenv-core==0.3.0", "ors-sdk==0.1.0"];
const here = fileURLToPath(new URL("environments", import.meta.url));

/** @param {{ readonly full?: boolean }} [options] */
export async function verifyEnvironments({ full = false } = {}) {
  const { folder, bin } = makeEnvironment({ name: "environments", packages, oldest: 10 });
  const python = bin("python");
  const report = createReport(
    `Remote environments: openenv-core ${versionOf(python, "openenv-core")}, ors-sdk ${versionOf(python, "ors-sdk")}, node ${process.version}`,
  );
  const home = join(folder, "home");
  mkdirSync(home, { recursive: true });
  /**
   * @param {string} name
   * @param {readonly string[]} parameters
   * @param {{ readonly port: number, readonly cwd?: string, readonly readyPath?: string, readonly settings?: readonly string[] }} options
   */
  const serve = (name, parameters, { port, cwd = here, readyPath = "/health", settings = [] }) =>
    startServer({
      ...{ name, command: "env", url: `http://127.0.0.1:${port}`, readyPath, timeoutMs: 120_000 },
      log: join(folder, `${name}.log`),
      // Nothing of this process's environment, and a home of its own.
      parameters: [
        ...[
          "-i",
          "-C",
          cwd,
          `PATH=${process.env["PATH"] ?? ""}`,
          `HOME=${home}`,
          "PYTHONDONTWRITEBYTECODE=1",
          ...settings,
        ],
        ...[python, ...parameters],
      ],
    });
  const uvicorn = (/** @type {string} */ app, /** @type {number} */ port) => [
    ...["-m", "uvicorn", app, "--host", "127.0.0.1", "--port", String(port), "--log-level", "warning"],
  ];
  const ports = await freePorts(5);
  const [scaffoldPort = 0, guessPort = 0, narrowPort = 0, boxesPort = 0, orsPort = 0] = ports;
  const scaffold = makeScaffold(folder, bin("openenv"), home);
  const servers = await Promise.all([
    serve("scaffold", uvicorn("verify_play.server.app:app", scaffoldPort), { port: scaffoldPort, cwd: scaffold }),
    serve("guess", uvicorn("openenv_worlds:app", guessPort), {
      port: guessPort,
      settings: ["WORLD=guess", "SESSIONS=16"],
    }),
    serve("narrow", uvicorn("openenv_worlds:app", narrowPort), {
      port: narrowPort,
      settings: ["WORLD=guess", "SESSIONS=3"],
    }),
    serve("boxes", uvicorn("openenv_worlds:app", boxesPort), {
      port: boxesPort,
      settings: ["WORLD=boxes", "SESSIONS=16"],
    }),
    serve("ors", ["ors_worlds.py"], { port: orsPort, settings: [`PORT=${orsPort}`] }),
  ]);
  try {
    await report.check("the scaffolded server, which takes one session: 16 episodes at 16 at a time", async () => {
      const policy = await servePolicy((prompt) =>
        observations(prompt).length < 3 ? call("verify_play", { message: "again" }) : "Done.",
      );
      try {
        const wanted = {
          env: `openenv:ws://127.0.0.1:${scaffoldPort}`,
          envTasks: "seeds:8",
          policy: policy.url,
          tasks: 8,
        };
        const played = await play({ ...wanted, more: { environmentTimeout: 60 } });
        const rewards = new Set([...played.values()].map(({ outcome, reward }) => `${outcome} ${reward?.toFixed(3)}`));
        if (played.size !== 16 || [...rewards].join() !== "completed 1.500") throw new Error([...rewards].join(", "));
        return "16 completed, each with the rewards of its steps";
      } finally {
        await policy.close();
      }
    });
    const worlds = [
      { name: "OpenEnv, typed actions", scheme: "openenv", tasks: "seeds:32", port: guessPort, decide: guess },
      {
        name: "OpenEnv, typed actions, room for 3",
        scheme: "openenv",
        tasks: "seeds:32",
        port: narrowPort,
        decide: guess,
      },
      { name: "OpenEnv, MCP tools", scheme: "openenv", tasks: "seeds:32", port: boxesPort, decide: openBoxes },
      { name: "ORS", scheme: "ors", tasks: null, port: orsPort, decide: addUp },
    ];
    for (const { name, scheme, tasks, port, decide } of worlds) {
      const policy = await servePolicy(decide);
      const wanted = { envTasks: tasks, policy: policy.url, tasks: 32 };
      /** @type {Played | null} */
      let quiet = null;
      try {
        await report.check(`${name}: 64 episodes at 16 at a time`, async () => {
          quiet = await play({
            ...wanted,
            env: `${scheme}:http://127.0.0.1:${port}`,
            more: { environmentTimeout: 60 },
          });
          const total = [...quiet.values()].reduce((sum, { reward }) => sum + (reward ?? NaN), 0);
          return `${compared(quiet, quiet)}, rewards add up to ${total.toFixed(3)}; ${await allClosed(port)}`;
        });
        await report.check(`${name}: the same over a line that fails`, async () => {
          if (quiet === null) throw new Error("there is nothing to compare with");
          const draw = lineFaults(port === guessPort ? 1 : 2, scheme === "ors" ? 0.35 : 0.5);
          let isArmed = false;
          const calm = { fault: /** @type {const} */ ("none"), afterBytes: 0 };
          const proxy = await startFaultProxy(port, () => (isArmed ? draw() : calm));
          const url = `http://127.0.0.1:${proxy.port}`;
          const service =
            scheme === "ors"
              ? await orsService({ url })
              : await openEnvService({ url, tasks: { train: seedTasks(0, 31) } });
          const source = remoteSource(service, { limits: { callMs: 2000, openMs: 6000 } });
          isArmed = true;
          try {
            const played = await play({ ...wanted, env: source, envTasks: null, more: { environmentTimeout: 2 } });
            const { opened, closed, leftBehind, active } = source.sessions();
            if (active > 0 || opened !== closed + leftBehind) throw new Error(`${active} sessions of ours are open`);
            const counts = compared(played, quiet);
            const drawn = Object.entries(proxy.drawn).map(([fault, count]) => `${count} ${fault}`);
            return `${counts}; connections: ${drawn.join(", ")}; ${await allClosed(port, { unheard: scheme === "ors" ? 2 : 0 })}`;
          } finally {
            await source.close();
            proxy.close();
          }
        });
        if (name.includes("room for 3")) continue;
        // Each kill leaves at most two episodes ended.
        const [kills, groupSize] = full ? [50, 4] : [10, 2];
        await report.check(`${name}: a run that is killed ${kills} times`, async () => {
          if (quiet === null) throw new Error("there is nothing to compare with");
          const slow = await servePolicy(decide, { latencyMs: 60 });
          try {
            const { killed, played } = await playKilled({
              ...{ ...wanted, policy: slow.url, kills, groupSize },
              env: `${scheme}:http://127.0.0.1:${port}`,
            });
            return `${killed} kills, ${compared(played, repeated(quiet, groupSize))}; ${await allClosed(port, { unheard: scheme === "ors" ? Infinity : 0 })}`;
          } finally {
            await slow.close();
          }
        });
      } finally {
        await policy.close();
      }
    }
    await report.check("the bookshop on a server of ours, played by openenv-core's Python clients", async () => {
      const server = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0", variables: {} });
      try {
        const client = (/** @type {readonly string[]} */ ...given) =>
          runClient(python, given.map(String), { cwd: here, home });
        const figures = /** @type {{ episodes: number, tools: number, call_ms: number }} */ (
          JSON.parse(await client("openenv_client.py", server.url, "16", "500"))
        );
        const { opened, closed } = server.sessions();
        await delay(100);
        if (opened !== server.sessions().closed) throw new Error(`${opened - closed} sessions are open`);
        const theirs = await client(
          "openenv_cost.py",
          `http://127.0.0.1:${boxesPort}`,
          `http://127.0.0.1:${guessPort}`,
          "500",
        );
        const [mcp = NaN, typed = NaN] = theirs.trim().split("\n").map(Number);
        return (
          `${figures.episodes} episodes, ${figures.tools} tools; a call takes ${figures.call_ms.toFixed(2)} ms, on openenv-core's own server ` +
          `${mcp.toFixed(2)} ms as an MCP tool and ${typed.toFixed(2)} ms as a typed action`
        );
      } finally {
        await server.close();
      }
    });
  } finally {
    await Promise.all(servers.map((server) => server.kill()));
  }
  await verifyMcp(report, { kills: full ? 50 : 10 });
  return report.finish();
}

/**
 * The server's own count of its sessions. `unheard`: how many may be open because no farewell could reach the server: those of killed
 * processes, or of a line that failed each time. A server of HTTP takes them away when they have been silent for 15 minutes.
 *
 * @param {number} port
 */
async function allClosed(port, { unheard = 0 } = {}) {
  let [made, closed] = [0, -1];
  for (let waited = 0; waited < 50 && made !== closed; waited++) {
    if (waited > 0) await delay(100);
    const answer = await fetch(`http://127.0.0.1:${port}/verify`);
    ({ made, closed } = /** @type {{ made: number, closed: number }} */ (await answer.json()));
  }
  const open = made - closed - (leased.get(port) ?? 0);
  if (open > unheard) throw new Error(`${open} of ${made} sessions are open on the server`);
  leased.set(port, made - closed);
  return open === 0
    ? `${made} sessions of the server, all closed`
    : `${made} sessions of the server, ${open} left to its lease`;
}

/**
 * What a program in Python prints, with a home of its own and nothing of this process's environment.
 *
 * @param {string} python
 * @param {readonly string[]} parameters
 * @param {{ readonly cwd: string, readonly home: string }} options
 * @returns {Promise<string>}
 */
function runClient(python, parameters, { cwd, home }) {
  const env = { PATH: process.env["PATH"], HOME: home, PYTHONDONTWRITEBYTECODE: "1" };
  const child = spawn(python, parameters, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: 120_000 });
  let [out, words] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (words += text));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code === 0) resolve(out);
      else reject(new Error(`${parameters[0]} ended with ${code}: ${words.slice(-800)}`));
    });
  });
}

/**
 * What groups of another size give: of a policy that is the same for the same prompt, all episodes of a task are equal.
 *
 * @param {Played} quiet
 * @param {number} groupSize
 * @returns {Played}
 */
function repeated(quiet, groupSize) {
  const first = [...quiet].filter(([id]) => id.endsWith("#0"));
  return new Map(
    first.flatMap(([id, played]) =>
      Array.from({ length: groupSize }, (_, index) => /** @type {const} */ ([id.replace(/0$/, String(index)), played])),
    ),
  );
}

/** Sessions of earlier checks, by port. @type {Map<number, number>} */
const leased = new Map();

/** What `openenv init` writes. @param {string} folder @param {string} openenv @param {string} home */
function makeScaffold(folder, openenv, home) {
  const work = join(folder, "scaffold");
  const app = join(work, "verify_play", "server", "app.py");
  if (existsSync(app)) return work;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const { status, stderr } = spawnSync(openenv, ["init", "verify_play"], {
    ...{ cwd: work, encoding: "utf8", env: { PATH: process.env["PATH"], HOME: home } },
  });
  if (status !== 0 || !existsSync(app)) throw new CannotVerify(`Cannot verify: "openenv init" failed: ${stderr}`);
  return work;
}
