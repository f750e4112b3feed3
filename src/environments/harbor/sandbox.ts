// The sandbox of one episode: bubblewrap with namespaces of its own and a root of its own in memory,
// in which only /usr and the files that belong to it are the machine's, read-only. Commands enter it
// one by one; their background processes stay until the episode ends, as in a container. Not a container of an
// image: it has no builds and no root user.
//
// Three properties are measured, and tested in `hostile.test.ts`. A process with all capabilities of
// the sandbox remounts /usr as writable, so they are dropped, also for commands that enter later. A
// process whose user is root outside writes the machine's /proc/sys without any capability, so the
// sandbox belongs to another user. Copying through the machine's view of the sandbox follows links of
// the policy, so files pass through the standard input of commands inside.

import { constants, accessSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { StdioOptions } from "node:child_process";
import type { Readable } from "node:stream";
import { ConfigurationError, faultAt } from "../../core/failure.ts";
import { systemClock } from "../../lib/clock.ts";
import { subscribeToAbort, withDeadline } from "../../lib/deadline.ts";
import { Program } from "../../programs/index.ts";
import { type ControlGroup, createGroup, type SandboxLimits } from "./cgroup.ts";

export type SandboxOptions = {
  readonly limits: SandboxLimits;
  /** Size of all files, in bytes. */
  readonly storageBytes: number;
  /** True: shares the machine's network. */
  readonly hasNetwork: boolean;
  /** Absolute working folder of commands. */
  readonly workdir: string;
  readonly variables: Readonly<Record<string, string>>;
};

export type SandboxCommand = {
  /** Program and arguments, as inside. */
  readonly run: readonly string[];
  /** @default /dev/null */
  readonly input?: Buffer | string;
  /** Added to the sandbox's variables. @default none */
  readonly variables?: Readonly<Record<string, string>>;
  /** @default the working folder */
  readonly cwd?: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /**
   * Bound on the kept output: its beginning and its end, half each; `all` beyond it is an error.
   * @default 60000
   */
  readonly keptBytes?: number;
};

export type SandboxResult = {
  /** Standard output and standard error, in the order of writing. */
  readonly output: string;
  /** `null` if the command was killed. */
  readonly exitCode: number | null;
  readonly end: "exit" | "timeout" | "output";
};

/** Output beyond this many bytes ends a command, because reading it takes this process's time. */
const mostOutput = 16 * 1024 * 1024;
/** Time for output that is in the pipe when a command ends; what it left running may hold the pipe. */
const drainMs = 100;
const openMs = 30_000;
/** A user and group without any file, for a sandbox that is started by root. */
const nobody = "65534";
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const needed = { bwrap: "bubblewrap", nsenter: "util-linux", setpriv: "util-linux", bash: "bash", tar: "tar" };

/** Throws a `ConfigurationError` with the command that installs what is missing. */
export function requirePrograms(): void {
  if (process.platform !== "linux") {
    throw new ConfigurationError("Cannot run Harbor tasks: their sandbox, bubblewrap, needs Linux; run them there.");
  }
  const missing = Object.keys(needed).filter((name) => !isInstalled(name));
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map((name) => needed[name as keyof typeof needed]))];
  throw new ConfigurationError(
    `Cannot run Harbor tasks without a sandbox: ${missing.join(", ")} not found; install it with "apt install ${packages.join(" ")}".`,
  );
}

function isInstalled(name: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Joins the control groups, and becomes the command. */
const wrapper = `ulimit -c 0
count=$1; shift
while [ "$count" -gt 0 ]; do echo $$ > "$1" || exit 125; shift; count=$((count - 1)); done
exec "$@"`;

/**
 * Begins a command inside. The limit of processes is set there: outside, it would count those of the
 * user as a whole, in other sandboxes too. An ordinary user's own limit may be lower, and stays.
 */
const entrance = 'ulimit -u "$1" 2> /dev/null; cd -- "$2" && shift 2 && exec "$@" 2>&1';

/**
 * Runs inside as process 1, which no signal from inside ends. It adopts what commands leave running,
 * and ends all of it, without starting a process, at each line that it receives.
 */
const firstProcess = `mkdir -p -- /tmp /root /logs/agent /logs/verifier /logs/artifacts "$1" &&
chmod 1777 /tmp &&
printf 'root:x:0:0:root:/root:/bin/bash\\n' > /etc/passwd &&
printf 'root:x:0:\\n' > /etc/group &&
printf '127.0.0.1 localhost task\\n' > /etc/hosts &&
echo ready &&
while read -r; do kill -9 -1; echo ended; done`;

const isRoot = (): boolean => process.getuid?.() === 0;

/** Parts of the machine's root that programs in /usr need, as arguments of bubblewrap. */
function systemArguments(hasNetwork: boolean): string[] {
  const found = ["--ro-bind", "/usr", "/usr"];
  for (const name of ["/bin", "/sbin", "/lib", "/lib32", "/lib64"]) {
    try {
      if (lstatSync(name).isSymbolicLink()) found.push("--symlink", readlinkSync(name), name);
      else found.push("--ro-bind", name, name);
    } catch {
      // This machine has no such folder.
    }
  }
  const files = ["/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"];
  if (hasNetwork) files.push("/etc/resolv.conf", "/etc/ssl", "/etc/ca-certificates");
  for (const file of files) found.push("--ro-bind-try", file, file);
  return found;
}

function bubblewrapArguments({ storageBytes, hasNetwork, workdir }: SandboxOptions): string[] {
  return [
    ...["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", ...(hasNetwork ? ["--share-net"] : [])],
    ...["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--uid", "0", "--gid", "0", "--hostname", "task"],
    ...["--size", String(storageBytes), "--tmpfs", "/", ...systemArguments(hasNetwork), "--dir", "/etc"],
    ...["--proc", "/proc", "--dev", "/dev", "--size", "67108864", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"],
    ...["--clearenv", "--setenv", "PATH", path, "--chdir", "/", "--info-fd", "3"],
    ...["--as-pid-1", "/bin/bash", "--norc", "-c", firstProcess, "sandbox", workdir],
  ];
}

/** Opens when the sandbox can take commands. Everything in it ends when it closes, or this process ends. */
export class Sandbox {
  readonly #options: SandboxOptions;
  readonly #group: ControlGroup | null;
  readonly #program: Program;
  readonly #ended: Promise<void>;
  readonly #running = new Set<Program>();
  /** Limit of all processes inside, for commands that start now. */
  #mostProcesses: number;
  #inner = "";
  #isClosed = false;

  private constructor(options: SandboxOptions) {
    this.#options = options;
    this.#mostProcesses = options.limits.processes;
    this.#group = createGroup({ ...options.limits, processes: options.limits.processes * 2 });
    const asNobody = ["setpriv", "--reuid", nobody, "--regid", nobody, "--clear-groups"];
    this.#program = this.#start(
      [...(isRoot() ? asNobody : []), ...bubblewrapArguments(options)],
      ["pipe", "pipe", "pipe", "pipe"],
    );
    this.#program.child.stdin!.on("error", () => undefined);
    this.#ended = new Promise((resolve) => {
      this.#program.child.once("close", () => resolve());
      this.#program.child.once("error", () => resolve());
    });
  }

  /** Rejects with a failure "sandbox-unavailable" if the machine does not allow the sandbox. */
  static async open(options: SandboxOptions, signal?: AbortSignal): Promise<Sandbox> {
    const sandbox = new Sandbox(options);
    try {
      await sandbox.#whenReady(signal);
      return sandbox;
    } catch (error) {
      await sandbox.close();
      throw error;
    }
  }

  /** True if memory and processes are limited by a control group. */
  get hasGroup(): boolean {
    return this.#group !== null;
  }

  #start(command: readonly string[], stdio: StdioOptions): Program {
    const joins = this.#group?.joins ?? [];
    // Without the option, bash reads ~/.bashrc where its input is a socket, as the pipes of Node are.
    const args = ["--norc", "-c", wrapper, "sandbox", String(joins.length), ...joins, ...command];
    return new Program({
      run: { file: "bash", args },
      cwd: "/",
      env: { PATH: process.env["PATH"] },
      stdio,
    });
  }

  async #whenReady(signal: AbortSignal | undefined): Promise<void> {
    const { child } = this.#program;
    const info = collect(child.stdio[3] as Readable, 10_000);
    const output = collect(child.stdout!, 10_000);
    const errors = collect(child.stderr!, 10_000);
    const failed = (problem: string, cause?: unknown) =>
      faultAt(
        "environment",
        "sandbox-unavailable",
        `Cannot open the sandbox: ${problem}; let this user create namespaces (kernel.unprivileged_userns_clone, user.max_user_namespaces, the rules of a container), or use another machine.`,
        { cause },
      );
    await new Promise<void>((resolve, reject) => {
      const cancel = systemClock.after(openMs, () => reject(failed(`it did not start within ${openMs / 1000} s`)));
      const unsubscribe = subscribeToAbort(signal, () => reject(signal!.reason as Error));
      const settle = (settled: () => void): void => {
        cancel();
        unsubscribe();
        settled();
      };
      const look = (): void => {
        const [, id] = /"child-pid":\s*(\d+)/.exec(info.text()) ?? [];
        if (id === undefined || !output.text().startsWith("ready\n")) return;
        this.#inner = id;
        settle(resolve);
      };
      child.stdio[3]!.on("data", look);
      child.stdout!.on("data", look);
      child.once("error", (error) => settle(() => reject(failed(error.message, error))));
      child.once("close", () => settle(() => reject(failed(errors.text().trim().slice(0, 500) || "it ended at once"))));
    });
  }

  /**
   * Runs a command as the sandbox's root, who has no capabilities. Resolves also when the command
   * fails, is killed by its deadline, or writes too much; rejects only if the sandbox itself has
   * ended, or the signal aborts.
   */
  async run(command: SandboxCommand): Promise<SandboxResult> {
    const { run, input, variables = {}, cwd = this.#options.workdir, timeoutMs, signal } = command;
    if (this.#isClosed) throw faultAt("environment", "sandbox-closed", "Cannot run a command: the sandbox is closed.");
    signal?.throwIfAborted();
    const all = { PATH: path, HOME: "/root", LANG: "C.UTF-8", ...this.#options.variables, ...variables };
    const program = this.#start(
      [
        ...[
          "nsenter",
          "--target",
          this.#inner,
          "--user",
          "--mount",
          "--pid",
          "--net",
          "--ipc",
          "--uts",
          "--cgroup",
          "--",
        ],
        ...["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"],
        ...["setsid", "env", "-i", ...Object.entries(all).map(([name, value]) => `${name}=${value}`)],
        ...["/bin/bash", "--norc", "-c", entrance, "sandbox", String(this.#mostProcesses), cwd, ...run],
      ],
      [input === undefined ? "ignore" : "pipe", "pipe", "ignore"],
    );
    this.#running.add(program);
    const { child } = program;
    let end: SandboxResult["end"] = "exit";
    const stop = (reason: SandboxResult["end"]): void => {
      end = reason;
      killSession(program);
      program.kill();
    };
    const output = collect(child.stdout!, command.keptBytes ?? 60_000, () => stop("output"));
    // A command may end without reading its input.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(input);
    const cancel = systemClock.after(timeoutMs, () => stop("timeout"));
    const unsubscribe = subscribeToAbort(signal, () => stop("timeout"));
    try {
      const exitCode = await endOf(program);
      signal?.throwIfAborted();
      // Only a command's own end says something about it: one that ended with its sandbox has none.
      if (this.#program.child.exitCode !== null || this.#program.child.signalCode !== null) {
        throw faultAt(
          "environment",
          "sandbox-lost",
          "Cannot run the command: the sandbox has ended; look for what killed it, such as a limit of memory.",
        );
      }
      return { output: output.text(), exitCode: end === "exit" ? exitCode : null, end };
    } finally {
      cancel();
      unsubscribe();
      this.#running.delete(program);
    }
  }

  /** True if commands have left so many processes running that others may not start. */
  get isCrowded(): boolean {
    const namespaceOf = (id: string): string | null => {
      try {
        return readlinkSync(`/proc/${id}/ns/pid`);
      } catch {
        return null;
      }
    };
    const own = namespaceOf(this.#inner);
    const inside = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && namespaceOf(name) === own);
    return inside.length > this.#options.limits.processes / 2;
  }

  /** Later commands may start as many processes again: those that run now cannot keep them from it. */
  openReserve(): void {
    this.#mostProcesses = this.#options.limits.processes * 2;
  }

  /**
   * Ends everything that commands have left running, also where no process can be started any more.
   * Rejects with a failure if that takes too long.
   */
  async endProcesses(): Promise<void> {
    const { stdin, stdout } = this.#program.child;
    const ended = new Promise<void>((resolve) => {
      stdout!.once("data", () => resolve());
      this.#program.child.once("close", () => resolve());
    });
    stdin!.write("\n");
    await withDeadline(() => ended, { timeoutMs: openMs });
  }

  /** Ends every process of the sandbox, and with them its files. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const program of this.#running) program.kill();
    this.#program.kill();
    await this.#ended;
    await this.#group?.remove();
  }
}

/**
 * Kills the session of a command, which is the child of the program that entered the sandbox. Without
 * /proc/<pid>/task/<pid>/children it runs until its sandbox ends.
 */
function killSession({ child: { pid } }: Program): void {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    for (const id of children.split(" ").filter((one) => one !== "")) process.kill(-Number(id), "SIGKILL");
  } catch {
    // The command has ended, or has not begun.
  }
}

/** Resolves with the exit code when the program has ended, and its output has been read. */
function endOf({ child }: Program): Promise<number | null> {
  return new Promise((resolve, reject) => {
    let cancel = (): void => undefined;
    child.once("error", (error) => reject(error));
    child.once("close", () => {
      cancel();
      resolve(child.exitCode);
    });
    child.once("exit", () => {
      cancel = systemClock.after(drainMs, () => child.stdout!.destroy());
    });
  });
}

/** Keeps the beginning and the end of a stream, and reports once if it is longer than the most. */
function collect(stream: Readable, keptBytes: number, onTooMuch?: () => void): { text(): string } {
  const half = Math.floor(keptBytes / 2);
  let head = Buffer.alloc(0);
  let tail = Buffer.alloc(0);
  let total = 0;
  stream.on("data", (chunk: Buffer) => {
    const before = total;
    total += chunk.length;
    if (before <= mostOutput && total > mostOutput) onTooMuch?.();
    if (total > mostOutput + 65_536) return;
    const room = Math.max(0, half - head.length);
    if (room > 0) head = Buffer.concat([head, chunk.subarray(0, room)]);
    tail = Buffer.concat([tail, chunk.subarray(room)]);
    if (tail.length > 2 * half + 65_536) tail = Buffer.from(tail.subarray(tail.length - half));
  });
  return {
    text: () => {
      const last = tail.length > half ? tail.subarray(tail.length - half) : tail;
      const omitted = total - head.length - last.length;
      const text = (part: Buffer): string => part.toString("utf8");
      if (omitted === 0) return text(Buffer.concat([head, last]));
      return `${text(head)}\n[${omitted} bytes of output omitted]\n${text(last)}`;
    },
  };
}
