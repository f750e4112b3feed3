// `npm run verify -- environments`: remote environments against servers by other authors:
// openenv-core's and openenv's scaffolds and worlds on their servers, ors-sdk's server, servers of
// the official packages of MCP. Each is run over a reliable connection, over a faulty one, and in a
// run that is killed again and again; every episode has one outcome, no episode that a fault ended
// is trained, all sessions are closed. The reverse direction: openenv-core's clients run against
// our server, and the conformance tool of MCP runs on both our sides.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { remoteSource } from "../../dist/environments/remote/index.js";
import { openEnvService, seedTasks } from "../../dist/environments/remote/openenv/index.js";
import { orsService } from "../../dist/environments/remote/ors/index.js";
import { lineFaults, startFaultProxy } from "./environments/fault-proxy.mjs";
import { playKilled } from "./environments/killed.mjs";
import { verifyMcp } from "./environments/mcp.mjs";
import { compared, play } from "./environments/play.mjs";
import { addUp, call, guess, observations, openBoxes, servePolicy } from "./environments/policy.mjs";
import { playWithPythonClients } from "./environments/python-clients.mjs";
import { allClosed, here, makeScaffold, pythonServers, runClient } from "./environments/python-servers.mjs";
import { verifyNewestOpenEnv } from "./environments/openenv-newest.mjs";
import { verifyOfficialMcp } from "./environments/mcp-official.mjs";
import { makeEnvironment, versionOf } from "./python.mjs";
import { createReport } from "./report.mjs";
import { freePorts } from "./servers.mjs";

/** @import { Played } from "./environments/play.mjs" */

const packages = ["openenv-core==0.3.0", "ors-sdk==0.1.0"];

/** @param {{ readonly full?: boolean }} [options] */
export async function verifyEnvironments({ full = false } = {}) {
  const { folder, bin } = makeEnvironment({ name: "environments", packages, oldest: 10 });
  const python = bin("python");
  const report = createReport(
    `Remote environments: openenv-core ${versionOf(python, "openenv-core")}, ors-sdk ${versionOf(python, "ors-sdk")}, node ${process.version}`,
  );
  const home = join(folder, "home");
  mkdirSync(home, { recursive: true });
  const { serve, uvicorn } = pythonServers({ folder, python, home });
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
            const { opened, closed, unclosed, active } = source.sessions();
            if (active > 0 || opened !== closed + unclosed) throw new Error(`${active} sessions of ours are open`);
            const counts = compared(played, quiet);
            const drawn = Object.entries(proxy.drawn).map(([fault, count]) => `${count} ${fault}`);
            return `${counts}; connections: ${drawn.join(", ")}; ${await allClosed(port, { unheard: scheme === "ors" ? 2 : 0 })}`;
          } finally {
            await source.close();
            proxy.close();
          }
        });
        if (name.includes("room for 3")) continue;
        // At most two episodes end between two kills.
        const [kills, groupSize] = full ? [50, 4] : [10, 2];
        await report.check(`${name}: a run that is killed ${kills} times`, async () => {
          if (quiet === null) throw new Error("there is nothing to compare with");
          const slow = await servePolicy(decide, { latencyMs: 60 });
          try {
            const { killed, played } = await playKilled({
              ...wanted,
              policy: slow.url,
              kills,
              groupSize,
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
    await report.check("the bookshop on our own server, played by openenv-core's Python clients", () => {
      const client = (/** @type {readonly string[]} */ ...given) => runClient(python, given, { cwd: here, home });
      return playWithPythonClients(client, [boxesPort, guessPort]);
    });
  } finally {
    await Promise.all(servers.map((server) => server.kill()));
  }
  await verifyNewestOpenEnv(report);
  await verifyOfficialMcp(report);
  await verifyMcp(report, { kills: full ? 50 : 10 });
  return report.finish();
}

/**
 * Expected results for groups of another size: the policy gives the same reply to the same prompt,
 * so all episodes of a task are equal.
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
