// An external program that this process runs: it leads a process group and carries a mark, so that
// all its descendants end with it: when it ends, when it is stopped, and when this process ends in
// any way. The leftovers of a killed process are killed by the next one (`killOrphans`). The caller
// handles the program's input and output.

import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { killMarked, killOrphans, killOwn, markName, newMark, signalMarked } from "./marks.ts";

export type ProgramCommand = {
  /** A file with its arguments, or a command line for the shell. */
  readonly run: { readonly file: string; readonly args: readonly string[] } | { readonly shell: string };
  readonly cwd: string;
  /** The whole environment of the program, except its mark. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdio: StdioOptions;
};

/** Programs that would outlive this process. */
const running = new Set<Program>();
let isWatching = false;

export class Program {
  readonly child: ChildProcess;
  readonly #mark: string;

  /** Starts the program; the child emits `error` if that fails. */
  constructor({ run, cwd, env, stdio }: ProgramCommand) {
    watchExit();
    const { mark, variable } = newMark();
    this.#mark = mark;
    const options = {
      cwd,
      stdio,
      env: { ...env, [markName]: variable },
      // Its own process group, so that a signal also reaches its descendants.
      detached: process.platform !== "win32",
    };
    this.child = "shell" in run ? spawn(run.shell, { ...options, shell: true }) : spawn(run.file, run.args, options);
    running.add(this);
    // Descendants do not end with the first process of the group.
    this.child.once("exit", () => this.kill());
    this.child.once("error", () => running.delete(this));
  }

  /** Asks the program and all its descendants to end. */
  terminate(): void {
    this.#signalGroup("SIGTERM");
    signalMarked(this.#mark, "SIGTERM");
  }

  /** Kills the program and all its descendants at once. */
  kill(): void {
    if (!running.delete(this)) return;
    this.#signalGroup("SIGKILL");
    killMarked(this.#mark);
  }

  #signalGroup(signal: NodeJS.Signals): void {
    const { pid } = this.child;
    if (pid === undefined) return;
    try {
      process.kill(process.platform === "win32" ? pid : -pid, signal);
    } catch {
      // The group has no processes left.
    }
  }

  static killAll(): void {
    for (const one of running) one.#signalGroup("SIGKILL");
    if (running.size > 0) killOwn();
    running.clear();
  }
}

/**
 * Runs at the first program: from now on no program outlives this process, and leftovers of killed
 * processes are killed.
 */
function watchExit(): void {
  if (isWatching) return;
  isWatching = true;
  process.on("exit", () => Program.killAll());
  killOrphans();
}
