// `openenv`, the successor of openenv-core: its scaffold; worlds on its server, with their own
// tasks and without a reward; and its clients on our server.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { auditEnvironment } from "../../../dist/index.js";
import { makeEnvironment, versionOf } from "../python.mjs";
import { freePorts } from "../servers.mjs";
import { compared, play } from "./play.mjs";
import { call, guess, observations, openBoxes, servePolicy } from "./policy.mjs";
import { playWithPythonClients } from "./python-clients.mjs";
import { allClosed, here, makeScaffold, pythonServers, runClient } from "./python-servers.mjs";

/** @import { createReport } from "../report.mjs" */

const packages = ["openenv==0.10.0"];

/** @param {ReturnType<typeof createReport>} report */
export async function verifyNewestOpenEnv(report) {
  const { folder, bin } = makeEnvironment({ name: "openenv", packages, oldest: 10 });
  const python = bin("python");
  const title = `openenv ${versionOf(python, "openenv")}`;
  const home = join(folder, "home");
  mkdirSync(home, { recursive: true });
  const { serve, uvicorn } = pythonServers({ folder, python, home });
  const ports = await freePorts(5);
  const [scaffoldPort = 0, guessPort = 0, boxesPort = 0, tasksPort = 0, silentPort = 0] = ports;
  const scaffold = makeScaffold(folder, bin("openenv"), home);
  const world = (/** @type {string} */ name, /** @type {number} */ port) =>
    serve(name, uvicorn("openenv_worlds:app", port), { port, settings: [`WORLD=${name}`, "SESSIONS=16"] });
  const servers = await Promise.all([
    serve("scaffold", uvicorn("verify_play.server.app:app", scaffoldPort), { port: scaffoldPort, cwd: scaffold }),
    ...[world("guess", guessPort), world("boxes", boxesPort), world("tasks", tasksPort), world("silent", silentPort)],
  ]);
  const at = (/** @type {number} */ port) => `openenv:http://127.0.0.1:${port}`;
  const more = { environmentTimeout: 60 };
  /** @param {(prompt: string) => string} decide @param {Omit<Parameters<typeof play>[0], "policy">} wanted */
  const playWith = async (decide, wanted) => {
    const policy = await servePolicy(decide);
    try {
      return await play({ ...wanted, policy: policy.url, more: { ...more, ...wanted.more } });
    } finally {
      await policy.close();
    }
  };
  try {
    await report.check(`${title}, the scaffolded server: 16 episodes at 16 at a time`, async () => {
      const decide = (/** @type {string} */ prompt) =>
        observations(prompt).length < 3 ? call("verify_play", { message: "again" }) : "Done.";
      const played = await playWith(decide, { env: at(scaffoldPort), envTasks: "seeds:8", tasks: 8 });
      const rewards = new Set([...played.values()].map(({ outcome, reward }) => `${outcome} ${reward?.toFixed(3)}`));
      if (played.size !== 16 || [...rewards].join() !== "completed 1.500") throw new Error([...rewards].join(", "));
      return "16 completed, each with the rewards of its steps";
    });
    for (const [name, port, decide] of /** @type {const} */ ([
      ["typed actions", guessPort, guess],
      ["MCP tools", boxesPort, openBoxes],
    ])) {
      await report.check(`${title}, ${name}: 64 episodes at 16 at a time`, async () => {
        const played = await playWith(decide, { env: at(port), envTasks: "seeds:32", tasks: 32 });
        const total = [...played.values()].reduce((sum, { reward }) => sum + (reward ?? NaN), 0);
        return `${compared(played, played)}, rewards add up to ${total.toFixed(3)}; ${await allClosed(port)}`;
      });
    }
    await report.check(
      `${title}, splits and tasks of its Task API, and metadata where they are asked for`,
      async () => {
        /** @type {string[]} */
        const prompts = [];
        const seen = (/** @type {string} */ prompt) => {
          prompts.push(prompt);
          return guess(prompt);
        };
        const test = { envTasks: null, tasks: 8, more: { split: "test" } };
        const played = await playWith(seen, { ...test, env: at(tasksPort) });
        if (prompts.some((prompt) => /Off by|Task test-|metadata/.test(prompt))) throw new Error("metadata are shown");
        const total = [...played.values()].reduce((sum, { reward }) => sum + (reward ?? NaN), 0);
        prompts.length = 0;
        const byNotes = (/** @type {string} */ prompt) => {
          prompts.push(prompt);
          return observations(prompt).length === 0 ? call("guess", { guess: 1 }) : "Done.";
        };
        await playWith(byNotes, { ...test, env: `${at(tasksPort)}?text=metadata.message` });
        if (!prompts.some((prompt) => prompt.includes("Task test-3.") && /Off by \d/.test(prompt)))
          throw new Error("?text=metadata.message shows none");
        const { splits } = await auditEnvironment({ env: at(tasksPort), taskCount: 1, callCount: 2, variables: {} });
        if (JSON.stringify(splits) !== '{"train":24,"test":8}') throw new Error(JSON.stringify(splits));
        return `train 24, test 8; ${compared(played, played)}, rewards add up to ${total.toFixed(3)}; ${await allClosed(tasksPort)}`;
      },
    );
    await report.check(`${title}, a world that never rewards`, async () => {
      const wanted = { envTasks: "seeds:8", tasks: 8 };
      const played = await playWith(guess, { ...wanted, env: at(silentPort) });
      const codes = new Set([...played.values()].map(({ code, reward }) => `${code} ${reward}`));
      if ([...codes].join() !== "remote-unrewarded null") throw new Error([...codes].join(", "));
      const zero = await playWith(guess, { ...wanted, env: `${at(silentPort)}?unrewarded=zero` });
      if (![...zero.values()].every(({ outcome, reward }) => outcome === "completed" && reward === 0))
        throw new Error("?unrewarded=zero does not make it 0");
      const { findings } = await auditEnvironment({
        env: at(silentPort),
        envTasks: "seeds:4",
        taskCount: 1,
        variables: {},
      });
      const found = findings.find(({ result, text }) => result === "fault" && text.includes("reward absent"));
      if (found === undefined) throw new Error("doctor environment does not say so");
      return `16 failed with remote-unrewarded, 16 completed with ?unrewarded=zero; doctor environment: ${found.check}`;
    });
    await report.check(`the bookshop on our own server, played by ${title}'s Python clients`, () => {
      const client = (/** @type {readonly string[]} */ ...given) => runClient(python, given, { cwd: here, home });
      return playWithPythonClients(client, [boxesPort, guessPort]);
    });
  } finally {
    await Promise.all(servers.map((server) => server.kill()));
  }
}
