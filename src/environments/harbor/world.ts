// The world of one Harbor task: the policy works with three tools in a sandbox, then the task's tests
// run in it and leave the rewards. Tests and solution are not in the sandbox while the policy works.

import { createHash, type Hash } from "node:crypto";
import { join } from "node:path";
import type {
  Environment,
  EnvironmentCall,
  EnvironmentCallOptions,
  Grade,
  Task,
  ToolResult,
} from "../../core/environment.ts";
import { messageOf } from "../../core/failure.ts";
import { type Tool, toolFromDefinition } from "../../core/message.ts";
import { systemClock } from "../../lib/clock.ts";
import { fromPlain } from "../../python-semantics/json/plain.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";
import { copyInto, uploadFolder } from "./files.ts";
import { mainReward, readRewards, type RewardFile, verifierFault } from "./rewards.ts";
import { Sandbox, type SandboxResult } from "./sandbox.ts";
import type { HarborTask } from "./task-folder.ts";

/** Bounds of worlds; durations in milliseconds. */
export type WorldLimits = {
  /** Deadline of one command. */
  readonly commandMs: number;
  /** Deadline of grading as a whole. */
  readonly gradeMs: number;
};

const megabyte = 1024 * 1024;
/** Limits for tasks that name none. */
const defaults = { memoryMb: 2048, storageMb: 1024, processes: 512 };
const mostRewardBytes = 65_536;
const defaultLines = 2000;
/** Linux takes arguments of up to 131,072 bytes. */
const mostArgumentBytes = 100_000;

const object = (properties: Readonly<Record<string, unknown>>, required: readonly string[]) => ({
  type: "object",
  properties,
  required,
});

function toolOf(name: string, description: string, parameters: unknown): Tool {
  return toolFromDefinition(fromPlain({ type: "function", function: { name, description, parameters } }) as JsonObject);
}

const pathText = { type: "string", description: "Path of the file, absolute or relative to the working folder." };

function toolsOf(commandMs: number): readonly Tool[] {
  const seconds = Math.floor(commandMs / 1000);
  return [
    toolOf(
      "bash",
      "Runs a command with bash in the working folder; returns its output. Each command starts a new shell.",
      object(
        {
          command: { type: "string", description: "The command." },
          timeout: {
            type: "number",
            description: `Seconds after which the command is killed; at most ${seconds}, the default.`,
          },
        },
        ["command"],
      ),
    ),
    toolOf(
      "read",
      "Returns lines of a text file.",
      object(
        {
          path: pathText,
          offset: { type: "integer", minimum: 1, description: "Number of the first line, from 1. Default: 1." },
          limit: { type: "integer", minimum: 1, description: `Number of lines. Default: ${defaultLines}.` },
        },
        ["path"],
      ),
    ),
    toolOf(
      "write",
      "Writes a text file, and creates its folder; an existing file is replaced.",
      object(
        {
          path: pathText,
          content: { type: "string", description: "The whole content of the file." },
        },
        ["path", "content"],
      ),
    ),
  ];
}

const shellTools: Readonly<Record<"read" | "write", string>> = {
  read: '[ -f "$0" ] || { echo "There is no file $0."; exit 1; }; tail -n "+$1" -- "$0" | head -n "$2"',
  write: 'mkdir -p -- "$(dirname -- "$0")" && cat > "$0"',
};

/** Removes old rewards, and what the policy may have put in the places of tests and rewards. */
const prepareTests = `rm -rf /tests
for folder in /logs /logs/verifier; do
  if [ -L "$folder" ] || [ ! -d "$folder" ]; then rm -rf "$folder" && mkdir "$folder" || exit 1; fi
done
rm -rf /logs/verifier/reward.txt /logs/verifier/reward.json /logs/verifier/test-stdout.txt`;

/** Reports the first rewards file that exists, as Harbor looks for them. */
const findRewards = `exec 2> /dev/null
cd /logs/verifier || exit 0
for name in json txt; do
  if [ -f "reward.$name" ]; then echo "$name"; head -c ${mostRewardBytes + 1} "reward.$name"; exit 0; fi
done
echo none`;

export class HarborWorld implements Environment {
  readonly task: Task;
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  readonly info: JsonObject;
  readonly opening: string;
  readonly #harbor: HarborTask;
  readonly #sandbox: Sandbox;
  readonly #limits: WorldLimits;
  readonly #seen: Hash = createHash("sha256");
  /** Time at which the agent's time ends; `Infinity` without a limit. */
  readonly #agentEndMs: number;
  #grade: Promise<Grade> | null = null;

  private constructor(
    task: Task,
    parts: { readonly harbor: HarborTask; readonly sandbox: Sandbox; readonly limits: WorldLimits },
  ) {
    const { harbor, sandbox, limits } = parts;
    this.task = task;
    this.#harbor = harbor;
    this.#sandbox = sandbox;
    this.#limits = limits;
    this.opening = harbor.instruction;
    this.guidelines = `You work in a Linux sandbox with tools. The working folder is ${harbor.workingFolder}. When the task is done, reply without calling a tool.`;
    this.tools = toolsOf(limits.commandMs);
    this.info = new Map<string, never>();
    this.info.set("sandboxLimits", sandbox.hasGroup ? "cgroup" : "processes only");
    this.#agentEndMs = harbor.agentSeconds === null ? Infinity : systemClock.now() + harbor.agentSeconds * 1000;
  }

  /** Opens a sandbox with the files of the task's environment. Rejects with a failure. */
  static async open(
    task: Task,
    {
      harbor,
      limits,
      signal,
    }: { readonly harbor: HarborTask; readonly limits: WorldLimits; readonly signal?: AbortSignal | undefined },
  ): Promise<HarborWorld> {
    const sandbox = await Sandbox.open(
      {
        limits: {
          memoryBytes: Math.round((harbor.memoryMb ?? defaults.memoryMb) * megabyte),
          processes: defaults.processes,
          cpus: harbor.cpus,
        },
        storageBytes: Math.round((harbor.storageMb ?? defaults.storageMb) * megabyte),
        hasNetwork: harbor.hasNetwork,
        workdir: harbor.workingFolder,
        variables: harbor.variables.environment,
      },
      signal,
    );
    try {
      const environment = join(harbor.folder, "environment");
      for (const copy of harbor.copies) await copyInto(sandbox, copy, { environment, signal });
      return new HarborWorld(task, { harbor, sandbox, limits });
    } catch (error) {
      await sandbox.close();
      throw error;
    }
  }

  async call(call: EnvironmentCall, options?: EnvironmentCallOptions): Promise<ToolResult> {
    const remainingMs = this.#agentEndMs - systemClock.now();
    const timeUp = `The task's time of ${this.#harbor.agentSeconds} seconds is over.`;
    if (remainingMs <= 0)
      return this.#record(call, { text: timeUp, isError: true, endsEpisode: true, info: new Map() });
    const asked = this.#commandOf(call);
    if (asked === null) {
      const text = `There is no tool "${call.name}"; the tools are bash, read and write.`;
      return this.#record(call, { text, isError: true, endsEpisode: false, info: new Map() });
    }
    const { timeoutMs, ...command } = asked;
    if (command.run.some((word) => Buffer.byteLength(word) > mostArgumentBytes)) {
      const text = `The command is too long: at most ${mostArgumentBytes} bytes are possible; write a file first.`;
      return this.#record(call, { text, isError: true, endsEpisode: false, info: new Map() });
    }
    const isLast = remainingMs < timeoutMs;
    const limitMs = Math.min(timeoutMs, remainingMs);
    const result = await this.#sandbox.run({ ...command, timeoutMs: limitMs, signal: options?.signal });
    if (result.end !== "exit") await this.#endCrowd();
    const endsEpisode = isLast && result.end === "timeout";
    const text = `${textOf(result, limitMs)}${endsEpisode ? `\n${timeUp}` : ""}`;
    return this.#record(call, { text, isError: result.exitCode !== 0, endsEpisode, info: new Map() });
  }

  /** After a fork bomb no process could start. A few processes stay: they may be what the task asks for. */
  async #endCrowd(): Promise<void> {
    if (this.#sandbox.isCrowded) await this.#sandbox.endProcesses();
  }

  #commandOf({ name, arguments: given }: EnvironmentCall): {
    readonly run: readonly string[];
    readonly input?: string;
    readonly timeoutMs: number;
  } | null {
    const { commandMs } = this.#limits;
    const text = (key: string): string => {
      const value = given.get(key);
      return typeof value === "string" ? value : "";
    };
    const count = (key: string, initial: number): string => {
      const value = given.get(key);
      return String(typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : initial);
    };
    // A system call takes no text with a zero byte.
    const word = (key: string): string => text(key).replaceAll("\0", "\uFFFD");
    switch (name) {
      case "bash":
        return { run: ["/bin/bash", "--norc", "-c", word("command")], timeoutMs: timeoutOf(given, commandMs) };
      case "read": {
        const run = [
          "/bin/bash",
          "--norc",
          "-c",
          shellTools.read,
          word("path"),
          count("offset", 1),
          count("limit", defaultLines),
        ];
        return { run, timeoutMs: commandMs };
      }
      case "write": {
        const run = ["/bin/bash", "--norc", "-c", shellTools.write, word("path")];
        return { run, input: text("content"), timeoutMs: commandMs };
      }
      default:
        return null;
    }
  }

  #record(call: EnvironmentCall, result: ToolResult): ToolResult {
    this.#seen.update(JSON.stringify([call.name, result.text, result.isError]));
    return result;
  }

  receiveUtterance(utterance: string): void {
    this.#seen.update(JSON.stringify(utterance));
  }

  /**
   * Runs the task's solution, as Harbor's agent "oracle" does, for checking a task. Its exit code
   * means nothing. Rejects with a plain error if the task has none.
   */
  async solve(options?: Partial<EnvironmentCallOptions>): Promise<string> {
    const { folder, hasSolution, variables, id } = this.#harbor;
    if (!hasSolution) throw new Error(`Cannot solve task "${id}": it has no solution/solve.sh.`);
    const signal = options?.signal;
    await uploadFolder(this.#sandbox, join(folder, "solution"), { to: "/solution", signal });
    const { output } = await this.#sandbox.run({
      run: ["/bin/bash", "--norc", "-c", "chmod +x /solution/solve.sh && /solution/solve.sh"],
      variables: { DEBIAN_FRONTEND: "noninteractive", ...variables.solution },
      timeoutMs: this.#agentEndMs - systemClock.now(),
      signal,
    });
    return output;
  }

  grade(_ending: unknown, options?: Partial<EnvironmentCallOptions>): Promise<Grade> {
    this.#grade ??= this.#runTests(options?.signal);
    return this.#grade;
  }

  async #runTests(signal: AbortSignal | undefined): Promise<Grade> {
    const { folder, variables, verifierSeconds } = this.#harbor;
    const limitMs = Math.min(verifierSeconds * 1000, this.#limits.gradeMs);
    const sandbox = this.#sandbox;
    const inside = (script: string, timeoutMs = 30_000): Promise<SandboxResult> =>
      sandbox.run({
        run: ["/bin/bash", "--norc", "-c", script],
        cwd: "/",
        timeoutMs,
        signal,
        keptBytes: 4 * mostRewardBytes,
      });
    const prepare = async (): Promise<void> => {
      const { exitCode, output } = await inside(prepareTests);
      if (exitCode !== 0) throw new Error(output.trim().slice(0, 500) || "no process could be started");
      await uploadFolder(sandbox, join(folder, "tests"), { to: "/tests", signal });
    };
    await this.#endCrowd();
    sandbox.openReserve();
    await prepare().catch((error: unknown) => {
      const problem = `the tests cannot be copied into the sandbox: ${messageOf(error)}`;
      throw verifierFault("AddTestsDirError", problem, { cause: error });
    });
    // A fork bomb may have begun just now, and would take the time of the tests.
    await this.#endCrowd();
    const { end } = await sandbox.run({
      run: [
        "/bin/bash",
        "--norc",
        "-c",
        "chmod +x /tests/test.sh && exec /tests/test.sh > /logs/verifier/test-stdout.txt 2>&1",
      ],
      variables: variables.verifier,
      timeoutMs: limitMs,
      signal,
    });
    if (end !== "exit") {
      throw verifierFault("VerifierTimeoutError", `the tests did not end within ${limitMs / 1000} s`);
    }
    const rewards = readRewards(rewardFile((await inside(findRewards)).output));
    const log = (
      await inside(
        "exec 2> /dev/null; if [ -f /logs/verifier/test-stdout.txt ]; then tail -c 20000 /logs/verifier/test-stdout.txt; fi",
      )
    ).output;
    return { reward: mainReward(rewards), metrics: rewards, log, info: new Map() };
  }

  digest(): string {
    return this.#seen.copy().digest("hex");
  }

  close(): Promise<void> {
    return this.#sandbox.close();
  }
}

function rewardFile(output: string): RewardFile | null {
  const [kind = ""] = output.split("\n", 1);
  const content = output.slice(kind.length + 1);
  if (kind !== "json" && kind !== "txt") return null;
  if (content.length > mostRewardBytes) {
    throw verifierFault("VerifierOutputParseError", `"reward.${kind}" has more than ${mostRewardBytes} bytes`);
  }
  return { type: kind === "json" ? "json" : "text", content };
}

function timeoutOf(given: JsonObject, mostMs: number): number {
  const value = given.get("timeout");
  const seconds = typeof value === "object" && value !== null && "value" in value ? value.value : value;
  return typeof seconds === "number" && seconds > 0 ? Math.min(seconds * 1000, mostMs) : mostMs;
}

function textOf({ output, exitCode, end }: SandboxResult, limitMs: number): string {
  const note = {
    exit: exitCode === 0 ? "" : exitCode === null ? "[killed]" : `[exit code ${exitCode}]`,
    timeout: `[killed after ${Number((limitMs / 1000).toFixed(1))} s]`,
    output: "[killed: too much output]",
  }[end];
  return output === "" || note === "" ? output + note : `${output}${output.endsWith("\n") ? "" : "\n"}${note}`;
}
