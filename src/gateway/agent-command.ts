// Runs an external agent program for one session: with URLs and the key in its environment, limited
// in time and output, and terminated together with everything that it started. The last line that
// it prints may be its reward.

import type { Failure, StopReason } from "../core/index.ts";
import { programError } from "../lib/program-error.ts";
import { Program } from "../programs/index.ts";

export type AgentCommandOptions = {
  /** Command line for the shell. */
  readonly command: string;
  readonly cwd: string;
  /** The whole environment of the program. */
  readonly env: Readonly<Record<string, string>>;
  /** Time limit in milliseconds; then the program is killed. */
  readonly timeoutMs: number;
  /**
   * Maximum size of standard output and of standard error, in bytes each; the excess is dropped.
   */
  readonly maxOutputBytes: number;
  readonly signal: AbortSignal;
};

export type AgentRun = {
  /** Exit code; `null` if the program was killed. */
  readonly exitCode: number | null;
  readonly isTimedOut: boolean;
  /** The reward in the last line of standard output, `{"reward": 1}`; `null` if there is none. */
  readonly reward: number | null;
  /** The end of its standard output, for people. */
  readonly stdout: string;
  readonly stderr: string;
  /**
   * Why the program did not finish, as a code and the end of a sentence about it; `null` if it did,
   * or if it was too late.
   */
  readonly problem: { readonly code: string; readonly state: string } | null;
  /** Failure of the user or the environment of an ACP agent; `null` for other programs. */
  readonly failure: Failure | null;
  /** Why the conversation with an ACP agent ended; `null` for other programs, and after a problem. */
  readonly stopReason: StopReason | null;
  /** True for an ACP agent. */
  readonly isPrompted: boolean;
};

/** Time between the request to terminate and the kill, in milliseconds. */
export const graceMs = 2000;

/** The end of a program in words, with the error from its output. */
export function exitState(exitCode: number | null, stderr: string): string {
  const end = exitCode === null ? "a signal" : `code ${exitCode}`;
  return `it ended with ${end}: ${programError(stderr) || "no error output"}`;
}

/**
 * Runs the program. Rejects only if the program cannot be started, never for what it does
 * afterwards.
 */
export function runAgentCommand(options: AgentCommandOptions): Promise<AgentRun> {
  const { command, cwd, env, timeoutMs, maxOutputBytes, signal } = options;
  return new Promise((resolve, reject) => {
    const program = new Program({ run: { shell: command }, cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    const { child } = program;
    let isTimedOut = false;
    let killTimer: NodeJS.Timeout | null = null;
    const stop = (): void => {
      program.terminate();
      killTimer ??= setTimeout(() => program.kill(), graceMs);
    };
    const timer = setTimeout(() => {
      isTimedOut = true;
      stop();
    }, timeoutMs);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    const outputs = { stdout: new Tail(maxOutputBytes), stderr: new Tail(maxOutputBytes) };
    child.stdout?.on("data", (bytes: Buffer) => outputs.stdout.take(bytes));
    child.stderr?.on("data", (bytes: Buffer) => outputs.stderr.take(bytes));
    const release = (): void => {
      clearTimeout(timer);
      if (killTimer !== null) clearTimeout(killTimer);
      signal.removeEventListener("abort", stop);
    };
    child.once("error", (error) => {
      release();
      reject(error);
    });
    child.once("exit", (exitCode) => {
      const finish = (): void => {
        clearTimeout(patience);
        release();
        const [stdout, stderr] = [outputs.stdout.text(), outputs.stderr.text()];
        const hasFailed = exitCode !== 0 && !isTimedOut;
        const problem = hasFailed ? { code: "program-failed", state: exitState(exitCode, stderr) } : null;
        resolve({
          exitCode,
          isTimedOut,
          reward: rewardIn(stdout),
          stdout,
          stderr,
          problem,
          failure: null,
          stopReason: null,
          isPrompted: false,
        });
      };
      // Processes that the command left running are killed, but may keep its output open for a
      // moment.
      const patience = setTimeout(finish, graceMs);
      child.once("close", finish);
    });
  });
}

export type SessionVariables = {
  readonly url: string;
  readonly key: string;
  /** True if the session has a world with tools. */
  readonly hasWorld: boolean;
  /** Description of the task for the program. */
  readonly line: string;
  /** Seed of the session. */
  readonly seed: number;
};

/**
 * Environment variables in which clients look for the URL and the key; they hold none of our
 * secrets.
 */
export function sessionVariables(
  variables: Readonly<Record<string, string | undefined>>,
  { url, key, hasWorld, line, seed }: SessionVariables,
): Readonly<Record<string, string>> {
  const kept = ["PATH", "HOME", "TMPDIR", "LANG", "NODE_OPTIONS", "PYTHONPATH", "VIRTUAL_ENV"].flatMap((name) => {
    const value = variables[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    ...Object.fromEntries(kept),
    TRAINABLE_AGENTS_BASE_URL: `${url}/v1`,
    TRAINABLE_AGENTS_SESSION: key,
    TRAINABLE_AGENTS_TASK: line,
    TRAINABLE_AGENTS_SEED: String(seed),
    ...(hasWorld ? { TRAINABLE_AGENTS_MCP_URL: `${url}/s/${key}/mcp` } : {}),
    OPENAI_BASE_URL: `${url}/v1`,
    OPENAI_API_KEY: key,
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: key,
    GOOGLE_GEMINI_BASE_URL: url,
    GEMINI_API_KEY: key,
  };
}

/** The last bytes of a stream. */
export class Tail {
  readonly #most: number;
  #bytes = Buffer.alloc(0);

  constructor(most: number) {
    this.#most = most;
  }

  take(bytes: Buffer): void {
    const all = Buffer.concat([this.#bytes, bytes]);
    this.#bytes = all.length > this.#most ? all.subarray(all.length - this.#most) : all;
  }

  text(): string {
    return this.#bytes.toString("utf8");
  }
}

function rewardIn(stdout: string): number | null {
  const line = stdout.trimEnd().split("\n").at(-1) ?? "";
  try {
    const value: unknown = JSON.parse(line);
    const reward = typeof value === "object" && value !== null && "reward" in value ? value.reward : null;
    return typeof reward === "number" && Number.isFinite(reward) ? reward : null;
  } catch {
    return null;
  }
}
