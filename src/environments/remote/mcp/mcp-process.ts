// A server that runs as a child process and talks over its standard input and output: one JSON-RPC
// message per line. All processes that it started end with it, once, regardless of the cause: our
// request, its own exit, or the end of this process. Replaces the transport of the library, which
// ends only the first process and leaves its children running (npx starts two).

import { StringDecoder } from "node:string_decoder";
import { setTimeout as sleep } from "node:timers/promises";

import { ConfigurationError } from "../../../core/failure.ts";
import { hasHttpCredentials, hideSecrets } from "../../../lib/hidden-parts.ts";
import { jsonOf } from "../../../lib/text.ts";
import { Program } from "../../../programs/index.ts";
import type { McpMessage, McpTransport } from "./mcp-library.ts";

export type ProcessCommand = {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
};

export type ProcessLimits = {
  /** Maximum length of one message, in characters. */
  readonly maxMessageCharacters: number;
  /**
   * Time in milliseconds that a process has to end by itself before it is terminated, and again
   * before it is killed.
   */
  readonly graceMs: number;
};

/** Number of characters kept from the end of a server's standard error, for messages. */
const keptCharacters = 2_000;

export class McpProcess implements McpTransport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: McpMessage, extra?: unknown) => void) | undefined;
  readonly #command: ProcessCommand;
  readonly #limits: ProcessLimits;
  #program: Program | null = null;
  #ended: Promise<void> | null = null;
  #isOver = false;
  #buffered: string[] = [];
  #bufferedCharacters = 0;
  #standardError = "";

  constructor(command: ProcessCommand, limits: ProcessLimits) {
    this.#command = command;
    this.#limits = limits;
  }

  get isRunning(): boolean {
    return this.#program !== null && !this.#isOver;
  }

  get processId(): number | null {
    return this.#program?.child.pid ?? null;
  }

  /**
   * The library recognizes a transport over standard input and output by this field, and then takes
   * a silent server as an older one.
   */
  get pid(): number | null {
    return this.processId;
  }

  get stderr(): null {
    return null;
  }

  /** The end of the server's standard error. */
  get lastOutput(): string {
    return this.#standardError.trim();
  }

  start(): Promise<void> {
    const { file, args, env, cwd } = this.#command;
    const program = new Program({ run: { file, args }, cwd, env, stdio: "pipe" });
    const { child } = program;
    this.#program = program;
    const decoder = new StringDecoder("utf8");
    child.stdout?.on("data", (chunk: Buffer) => this.#read(decoder.write(chunk)));
    const errors = new StringDecoder("utf8");
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#standardError = (this.#standardError + errors.write(chunk)).slice(-keptCharacters);
    });
    // The process has ended or closed its input; its exit reports the rest.
    child.stdin?.on("error", () => undefined);
    // An idle server does not keep this process alive.
    for (const part of [child, child.stdin, child.stdout, child.stderr] as readonly ({ unref?(): void } | null)[])
      part?.unref?.();
    return new Promise<void>((resolve, reject) => {
      this.#ended = new Promise((end) => {
        child.once("spawn", resolve);
        child.once("error", (error) => {
          reject(error);
          this.#onEnd();
          end();
        });
        child.once("exit", () => {
          this.#onEnd();
          end();
        });
      });
    });
  }

  send(message: unknown): Promise<void> {
    return new Promise((resolve, reject) => {
      const input = this.#program?.child.stdin;
      if (this.#isOver || input === undefined || input === null || !input.writable) {
        reject(new Error("The process has ended."));
        return;
      }
      input.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
    });
  }

  /**
   * Closes the input of the process, then terminates it, then kills it; all processes that it
   * started end with it.
   */
  async close(): Promise<void> {
    const program = this.#program;
    if (program === null || this.#ended === null) return;
    if (!this.#isOver) {
      program.child.stdin?.end();
      if (!(await this.#endsWithin(this.#limits.graceMs))) {
        program.terminate();
        if (!(await this.#endsWithin(this.#limits.graceMs))) program.kill();
      }
    }
    await this.#ended;
  }

  /** Kills the process at once, without waiting. */
  kill(): void {
    if (!this.#isOver) this.#program?.kill();
  }

  async #endsWithin(ms: number): Promise<boolean> {
    await Promise.race([this.#ended, sleep(ms)]);
    return this.#isOver;
  }

  #onEnd(): void {
    if (this.#isOver) return;
    this.#program?.kill();
    this.#isOver = true;
    const { stdin, stdout, stderr } = this.#program?.child ?? {};
    for (const stream of [stdin, stdout, stderr]) stream?.destroy();
    this.onclose?.();
  }

  #read(text: string): void {
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      this.#buffered.push(text.slice(start, end));
      const line = this.#buffered.join("");
      this.#buffered = [];
      this.#bufferedCharacters = 0;
      start = end + 1;
      this.#take(line);
    }
    this.#buffered.push(text.slice(start));
    this.#bufferedCharacters += text.length - start;
    if (this.#bufferedCharacters > this.#limits.maxMessageCharacters) {
      this.#buffered = [];
      this.#refuse(`a message has more than ${this.#limits.maxMessageCharacters} characters`);
    }
  }

  /**
   * Servers print text for people on the same pipe, so a line that is not JSON is skipped, and so
   * is text before an answer on the same line. An incomplete message is refused, because its
   * request would wait forever.
   */
  #take(line: string): void {
    if (this.#isOver) return;
    const whole = jsonOf(line);
    const start = /\{\s*"jsonrpc"\s*:/.exec(line)?.index ?? -1;
    const found = whole ?? (start > 0 ? jsonOf(line.slice(start)) : undefined);
    if (found === undefined) {
      const text = line.trim();
      if (text.startsWith("{") && /"jsonrpc"\s*:/.test(text))
        this.#refuse(`a line is not JSON: ${JSON.stringify(text.slice(0, 200))}`);
      return;
    }
    for (const message of Array.isArray(found) ? (found as readonly unknown[]) : [found]) {
      if (typeof message !== "object" || message === null) continue;
      // Servers that log their input quote requests, so a quoted request is skipped; a quoted
      // answer is taken as the answer.
      if (whole === undefined && !("result" in message) && !("error" in message)) continue;
      this.onmessage?.(message as McpMessage);
    }
  }

  /** Later messages could not be attributed to a request. */
  #refuse(reason: string): void {
    this.onerror?.(new TypeError(reason));
    this.kill();
  }
}

// The command line of a server, as given in `--env mcp:<command>`: split as a shell splits it, but
// run without a shell. Variables refer to the environment by name, so that a secret is never stored
// in the settings of a run.

/** Placeholder for the episode's own folder in a command. */
export const folderMark = "{folder}";

export type McpCommand = {
  readonly file: string;
  readonly args: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
};

/** A reference to a variable. */
const reference = /\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})/y;

/** Variables that a program needs, none of them secret. */
const inherited = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "SYSTEMROOT", "PATHEXT"];

/**
 * Parses `API_KEY=$API_KEY npx -y server --root {folder} --url $URL`: assignments, the program, its
 * arguments. Quotes, backslashes and `$NAME` work as in a shell, so single quotes and a backslash
 * keep a `$`. Throws a `ConfigurationError`.
 */
export function parseMcpCommand(text: string, env: Readonly<Record<string, string | undefined>>): McpCommand {
  const shown = hideSecrets(text);
  const words = splitWords(text, {
    shown,
    valueOf: (name) => {
      const found = env[name];
      if (found !== undefined) return found;
      throw new ConfigurationError(
        `Cannot run "mcp:${shown}": there is no variable ${name}; set it, or correct --env.`,
      );
    },
  });
  const variables: Record<string, string> = {};
  for (const name of inherited) if (env[name] !== undefined) variables[name] = env[name];
  let start = 0;
  for (; start < words.length; start++) {
    const [, name = "", value = ""] = /^([A-Za-z_]\w*)=(.*)$/s.exec(words[start]!) ?? [];
    if (name === "") break;
    variables[name] = value;
  }
  const [file, ...args] = words.slice(start);
  if (file !== undefined && file !== "") return { file, args, variables };
  throw new ConfigurationError(`Cannot run "mcp:${shown}": it names no program; pass --env "mcp:<command or url>".`);
}

/** Throws a `ConfigurationError` if the command has an HTTP address with a user name or a password. */
export function refuseCommandCredentials(text: string): void {
  if (!hasHttpCredentials(text)) return;
  throw new ConfigurationError(
    `Cannot run "mcp:${hideSecrets(text)}": an address in it contains a user name or password, which every record of the run would show; put the address in a variable, and write its name: $NAME.`,
  );
}

function splitWords(
  text: string,
  { shown, valueOf }: { readonly shown: string; readonly valueOf: (variable: string) => string },
): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!;
    reference.lastIndex = at;
    const [written = "", bare, braced] = quote === "'" ? [] : (reference.exec(text) ?? []);
    if (written !== "") {
      word = (word ?? "") + valueOf(bare ?? braced ?? "");
      at += written.length - 1;
    } else if (letter === "\\" && quote !== "'" && at + 1 < text.length) word = (word ?? "") + text[++at]!;
    else if (letter === quote) quote = "";
    else if (quote === "" && (letter === '"' || letter === "'")) {
      quote = letter;
      word ??= "";
    } else if (quote === "" && /\s/.test(letter)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + letter;
  }
  if (quote !== "")
    throw new ConfigurationError(`Cannot run "mcp:${shown}": a quote (${quote}) is not closed; correct --env.`);
  return word === null ? words : [...words, word];
}

// Server processes that are initialized before an episode needs them, because starting one takes
// longer than the calls of an episode. Each serves one episode. A process that ended while idle is
// dropped; a failed start is reported to the episode that needs the process.

type Warm = { readonly isOpen: boolean; close(): Promise<void> };

/** Time in milliseconds that the pool keeps idle processes. */
const idleMs = 30_000;

export class WarmPool<T extends Warm> {
  readonly #size: number;
  readonly #make: (signal: AbortSignal) => Promise<T>;
  readonly #ready: T[] = [];
  readonly #closing = new Set<Promise<unknown>>();
  #starting = 0;
  #stop = new AbortController();
  #takes = 0;
  /** Number of episodes that found a process ready. */
  hits = 0;

  constructor(size: number, make: (signal: AbortSignal) => Promise<T>) {
    this.#size = size;
    this.#make = make;
  }

  /** Acquires a process for one episode: a ready one, or a new one. */
  async take(signal: AbortSignal): Promise<T> {
    let taken: T | undefined;
    while ((taken = this.#ready.shift()) !== undefined && !taken.isOpen) this.#drop(taken);
    this.#refill();
    void this.#closeWhenIdle(++this.#takes);
    if (taken === undefined) return this.#make(signal);
    this.hits++;
    return taken;
  }

  /** Ends all processes that are ready or starting. The pool stays usable. */
  async close(): Promise<void> {
    this.#stop.abort(new Error("The pool is closed."));
    this.#stop = new AbortController();
    for (const ready of this.#ready.splice(0)) this.#drop(ready);
    await Promise.all(this.#closing);
  }

  async #closeWhenIdle(takes: number): Promise<void> {
    await sleep(idleMs, undefined, { ref: false });
    if (takes === this.#takes) await this.close();
  }

  #drop(one: T): void {
    const closing = one.close().catch(() => undefined);
    this.#closing.add(closing);
    void closing.then(() => this.#closing.delete(closing));
  }

  #refill(): void {
    const { signal } = this.#stop;
    while (this.#ready.length + this.#starting < this.#size) {
      this.#starting++;
      const made = this.#start(signal);
      this.#closing.add(made);
      void made.then(() => this.#closing.delete(made));
    }
  }

  async #start(signal: AbortSignal): Promise<void> {
    try {
      const one = await this.#make(signal);
      if (signal.aborted) this.#drop(one);
      else this.#ready.push(one);
    } catch {
      // The episode that needs a process starts it itself and reports the failure.
    } finally {
      this.#starting--;
    }
  }
}
