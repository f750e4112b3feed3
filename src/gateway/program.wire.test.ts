// Every process that a program starts ends with it, however the process detached itself and however
// the program ends. Processes are found in /proc, so these tests run only on Linux; on other
// systems only the process group is known.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as rest } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { runAgentCommand } from "./agent-command.ts";
import { killOrphans, Program } from "../programs/index.ts";

let root = "";
const owners: ChildProcess[] = [];
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "programs-"));
  await writeFile(join(root, "beat.cjs"), beat);
});
afterEach(() => {
  for (const owner of owners.splice(0)) owner.kill("SIGKILL");
});
afterAll(() => rm(root, { recursive: true }));

/** Writes its number, then a line from time to time, forever. */
const beat = `
const { appendFileSync, writeFileSync } = require("node:fs");
process.on("SIGTERM", () => undefined);
process.on("SIGHUP", () => undefined);
writeFileSync(process.argv[2], String(process.pid));
setInterval(() => appendFileSync(process.argv[2] + ".beats", "."), 10);
`;

/**
 * Shell commands that start a process without waiting for it. `BEAT`: the command of the process.
 */
const escapes: Readonly<Record<string, string>> = {
  "in the background": "BEAT &",
  "with setsid": "setsid BEAT &",
  "with setsid, forked": "setsid --fork BEAT",
  "forked twice": "(setsid sh -c 'BEAT &' &)",
  "in a group of its own": "set -m; BEAT & set +m",
  "without hang-ups": "nohup BEAT >/dev/null 2>&1 &",
  "by a shell of its own that ends": "sh -c 'setsid BEAT & sleep 0.05'",
  "by Node, detached":
    "NODE -e 'const [, file, ...args] = process.argv; require(`node:child_process`).spawn(file, args, { detached: true, stdio: `ignore` }).unref()' BEAT",
};

async function started(file: string): Promise<void> {
  for (let waited = 0; !existsSync(`${file}.beats`) && waited < 20_000; waited += 20) await rest(20);
  expect(existsSync(`${file}.beats`)).toBe(true);
}

async function isOver(file: string): Promise<boolean> {
  const count = async (): Promise<number> => (await readFile(`${file}.beats`)).length;
  const before = await count();
  await rest(60);
  return (await count()) === before;
}

describe.skipIf(process.platform !== "linux")("what a program starts (Linux: found in /proc)", () => {
  const shellFor = (escape: string, file: string): string => {
    const node = `"${process.execPath}"`;
    return escape.replaceAll("BEAT", `${node} ${join(root, "beat.cjs")} ${file}`).replaceAll("NODE", node);
  };
  const untilStarted = (file: string): string => `while [ ! -e ${file}.beats ]; do sleep 0.05; done`;
  const run = (command: string, options: { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {}) => {
    const { timeoutMs = 30_000, signal = new AbortController().signal } = options;
    const env = { PATH: process.env["PATH"] ?? "" };
    return runAgentCommand({ command, cwd: root, env, timeoutMs, maxOutputBytes: 10_000, signal });
  };

  test.concurrent.each(Object.entries(escapes))(
    "%s: ends with it, whether it ends, times out or is cancelled",
    async (name, escape) => {
      const file = (how: string): string => join(root, `${name.replaceAll(/\W/g, "-")}-${how}`);
      const ended = await run(`${shellFor(escape, file("ends"))}\n${untilStarted(file("ends"))}; echo '{"reward": 1}'`);
      expect(ended).toMatchObject({ exitCode: 0, reward: 1 });
      await started(file("ends"));
      expect(await isOver(file("ends"))).toBe(true);

      const late = await run(`${shellFor(escape, file("late"))}\nsleep 60`, { timeoutMs: 5000 });
      expect(late.isTimedOut).toBe(true);
      await started(file("late"));
      expect(await isOver(file("late"))).toBe(true);

      const controller = new AbortController();
      const cancelled = run(`${shellFor(escape, file("cancelled"))}\nsleep 60`, { signal: controller.signal });
      await started(file("cancelled"));
      controller.abort();
      await cancelled;
      expect(await isOver(file("cancelled"))).toBe(true);
    },
    60_000,
  );

  test("other programs go on", async () => {
    const [one, other] = [join(root, "one"), join(root, "other")];
    const controller = new AbortController();
    const waiting = run(`${shellFor("setsid BEAT &", other)}\nsleep 60`, { signal: controller.signal });
    await started(other);
    await run(`${shellFor("setsid BEAT &", one)}\n${untilStarted(one)}`);
    expect([await isOver(one), await isOver(other)]).toEqual([true, false]);
    controller.abort();
    await waiting;
    expect(await isOver(other)).toBe(true);
  });

  /**
   * A process that runs a program, from its own file, because the test's process does
   * not orphan its programs.
   */
  const owner = async (file: string, ending: string): Promise<ChildProcess> => {
    const source = `
      import { Program } from ${JSON.stringify(new URL("../../dist/programs/index.js", import.meta.url).href)};
      new Program({ run: { shell: ${JSON.stringify(`${shellFor("setsid BEAT &", file)}\nsleep 60`)} }, cwd: "/", env: { PATH: process.env.PATH }, stdio: "ignore" });
      process.on("SIGTERM", () => process.exit(143));
      ${ending}
      setInterval(() => undefined, 1000);
    `;
    await writeFile(join(root, "owner.mjs"), source);
    const child = spawn(process.execPath, [join(root, "owner.mjs")], { stdio: "ignore" });
    owners.push(child);
    return child;
  };

  test.each(["SIGTERM", "an error that nobody catches"])("it ends with this process, which ends by %s", async (how) => {
    const file = join(root, how.replaceAll(/\W/g, "-"));
    const later = "setTimeout(() => { throw new Error('no'); }, 500);";
    const child = await owner(file, how === "SIGTERM" ? "" : later);
    await started(file);
    if (how === "SIGTERM") child.kill("SIGTERM");
    if (child.exitCode === null) await once(child, "exit");
    expect(await isOver(file)).toBe(true);
  });

  test("what a killed process has left is ended by the next one, and nothing else", async () => {
    const [mine, theirs] = [join(root, "mine"), join(root, "theirs")];
    const child = await owner(theirs, "");
    await started(theirs);
    const own = new Program({
      run: { shell: `${shellFor("setsid BEAT &", mine)}\nsleep 60` },
      cwd: root,
      env: { PATH: process.env["PATH"] },
      stdio: "ignore",
    });
    await started(mine);
    killOrphans();
    expect([await isOver(theirs), await isOver(mine)]).toEqual([false, false]);
    child.kill("SIGKILL");
    await once(child, "exit");
    // Any other process that starts a program, such as a test beside this one, may end them first.
    killOrphans();
    expect([await isOver(theirs), await isOver(mine)]).toEqual([true, false]);
    own.kill();
    expect(await isOver(mine)).toBe(true);
  });
});
