// A program of somebody else's that this process runs: it leads a process group and carries a mark, so that everything it starts ends
// with it: when it ends, when it is stopped, and when this process ends, however it does. What a killed process leaves is killed by the
// next one (`killOrphans`). What the program reads and writes is its owner's.

import { type ChildProcess, spawn, type StdioOptions } from "node:child_process";
import { killMarked, killOrphans, killOwn, markName, newMark, signalMarked } from "./marks.ts";

export type ProgramCommand = {
  /** A file with its arguments, or a command line for the shell. */
  readonly run: { readonly file: string; readonly args: readonly string[] } | { readonly shell: string };
  readonly cwd: string;
  /** The whole environment of the program, beside its mark. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdio: StdioOptions;
};

/** Programs that would outlive this process. */
const running = new Set<Program>();
let isWatching = false;

export class Program {
  readonly child: ChildProcess;
  readonly #mark: string;

  /** Starts it; `error` of the child says when that fails. */
  constructor({ run, cwd, env, stdio }: ProgramCommand) {
    watchExit();
    const { mark, variable } = newMark();
    this.#mark = mark;
    const options = {
      cwd,
      stdio,
      env: { ...env, [markName]: variable },
      // A group of its own, so that a signal reaches what it has started.
      detached: process.platform !== "win32",
    };
    this.child = "shell" in run ? spawn(run.shell, { ...options, shell: true }) : spawn(run.file, run.args, options);
    running.add(this);
    // What it has started does not end with the first process of the group.
    this.child.once("exit", () => this.kill());
    this.child.once("error", () => running.delete(this));
  }

  /** Asks it, and everything that it has started, to end. */
  terminate(): void {
    this.#signalGroup("SIGTERM");
    signalMarked(this.#mark, "SIGTERM");
  }

  /** Ends it, and everything that it has started, at once. */
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
      // Nothing of the group is left.
    }
  }

  static killAll(): void {
    for (const one of running) one.#signalGroup("SIGKILL");
    if (running.size > 0) killOwn();
    running.clear();
  }
}

/** At the first program: from now on none outlives this process, and those of processes that were killed are ended. */
function watchExit(): void {
  if (isWatching) return;
  isWatching = true;
  process.on("exit", () => Program.killAll());
  killOrphans();
}
