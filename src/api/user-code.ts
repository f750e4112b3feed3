// Faults of a user's module beyond failing calls: code that never yields, code that ends the
// process, errors thrown where nothing awaits them. Only the program watches (`main.ts`); commands
// that run in tests or in other programs do not change their process.
//
//   never yields ─► a thread names it, exit code 70        ends the process ─► named, exit code 70
//   thrown or rejected outside of calls ─► named on standard error, and the run continues; in our code it ends

import { closeSync, writeSync } from "node:fs";
import { url as debuggerUrl } from "node:inspector";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { messageOf } from "../core/index.ts";

import { cell, labelStart, memorySize, type WatchSetup } from "./watch-memory.ts";
import { visible } from "../lib/text.ts";

/**
 * Exit code of a process that code of a user's module has blocked or ended: finished episodes are
 * kept and can be resumed.
 */
export const stuckExitCode = 70;

export type WatchLimits = { readonly environmentMs: number; readonly graderMs: number };

/** The same path from src/ and from dist/: threads always run the built program. */
const program = new URL("../../dist/api/watch-thread.js", import.meta.url);
const ownFiles = new URL("../", import.meta.url).href;
const shownStrays = 3;
const endName = "trainable-agents.end";

/** `null` if nothing is watched. */
let watch: { readonly redact: (text: string) => string } | null = null;
let module: string | null = null;
let memory: SharedArrayBuffer | null = null;
let thread: Worker | null = null;
let remedy = "";
let strays = 0;
let isEnded = false;

/** Watches this process from now on. `redact` removes secrets from messages. */
export function watchProcess(redact: (text: string) => string): void {
  watch = { redact };
  process.on("uncaughtException", onStray);
  const exit = process.exit.bind(process);
  process.exit = (code) => {
    const [, caller = ""] = framesOf(new Error("process.exit"));
    if (caller.startsWith(ownFiles)) isEnded = true;
    else if (caller !== "" && !isEnded) {
      isEnded = true;
      say(
        `Cannot continue: environment "${module ?? "?"}" called process.exit at ${shownPlace(caller)}. Finished episodes are kept.${remedy}`,
      );
      return exit(stuckExitCode);
    }
    return exit(code);
  };
  process.on("exit", () => {
    if (isEnded) return;
    say(
      `Cannot continue: the process was ended, and nothing of this program did it. Finished episodes are kept.${remedy}`,
    );
    process.exitCode = stuckExitCode;
  });
}

/** Called when the command has ended: from now on the process may end. */
export function endWatch(): void {
  isEnded = true;
  if (strays > shownStrays) say(`Environment "${module ?? "?"}" raised ${strays} errors outside of its calls.`);
}

/**
 * Sets the command that resumes the run; it is printed when the process ends in the middle of the
 * run.
 */
export function resumeWith(command: string | null): void {
  remedy = command === null ? "" : ` Resume with: ${command}`;
  thread?.postMessage(remedy, []);
}

/** Called before a module of the user's is loaded. */
export function startWatch(name: string, limits: WatchLimits): void {
  if (watch === null) return;
  module = name;
  startThread(name, limits.environmentMs);
}

/**
 * The environment with calls that the watching thread sees: two counts and a name are written for
 * each call.
 */
export function watchedSource(source: unknown, limits: WatchLimits): unknown {
  if (memory === null) return source;
  const cells = new Int32Array(memory);
  const bytes = Buffer.from(memory, labelStart);
  const within = <T>(label: string, limitMs: number, call: () => T): T => {
    cells[cell.labelLength] = bytes.write(label);
    cells[cell.limitMs] = limitMs;
    cells[cell.sequence]!++;
    try {
      return call();
    } finally {
      cells[cell.sequence]!++;
    }
  };
  /** `of`: the task of an environment; empty for the source. */
  const watched = (value: unknown, of: string): unknown => {
    if (typeof value !== "object" || value === null) return value;
    if ("then" in value) return Promise.resolve(value).then((opened: unknown) => watched(opened, of));
    // The target is an empty object, because a proxy of a frozen object must return the object's
    // own functions.
    return new Proxy(Object.create(null) as object, {
      get: (_, key) => {
        const part: unknown = Reflect.get(value, key, value);
        if (typeof part !== "function") return part;
        return (...given: readonly unknown[]): unknown => {
          const [first] = given as readonly [{ readonly name?: unknown; readonly id?: unknown } | undefined];
          const what = key === "call" ? `tool "${String(first?.name)}"` : `"${String(key)}"`;
          const task = key === "open" ? ` in task "${String(first?.id)}"` : of;
          const limitMs = key === "grade" ? limits.graderMs : limits.environmentMs;
          const returned = within(`${what}${task}`, limitMs, () => Reflect.apply(part, value, given) as unknown);
          return key === "open" ? watched(returned, task) : returned;
        };
      },
    });
  };
  return watched(source, "");
}

function startThread(name: string, loopLimitMs: number): void {
  if (thread !== null || debuggerUrl() !== undefined) return;
  memory = new SharedArrayBuffer(memorySize);
  const cells = new Int32Array(memory);
  // The debugger evaluates expressions that see only globals. Closing standard error hides Node's
  // message about the debugger that disconnects.
  const end = (): void => {
    closeSync(2);
    // Exits without calling listeners, which may be stuck as well.
    (process as unknown as { reallyExit(code: number): void }).reallyExit(stuckExitCode);
  };
  Object.defineProperty(globalThis, Symbol.for(endName), { value: end });
  const endExpression = `globalThis[Symbol.for(${JSON.stringify(endName)})]()`;
  const setup: WatchSetup = { memory, loopLimitMs, module: name, ownFiles, endExpression };
  thread = new Worker(program, { workerData: setup });
  thread.on("error", (error) => say(`Environment "${name}" is no longer watched: ${messageOf(error)}`));
  thread.unref();
  thread.postMessage(remedy, []);
  const beat = (): void => {
    cells[cell.heartbeat]!++;
    cells[cell.isDebugged] = debuggerUrl() === undefined ? 0 : 1;
  };
  setInterval(beat, Math.min(500, loopLimitMs / 4)).unref();
}

/** Called for a rejected promise or a throwing timer that nothing awaits. */
function onStray(error: unknown): void {
  const [first = ""] = framesOf(error);
  if (module === null || first.startsWith(ownFiles)) {
    isEnded = true;
    say(`${stackOf(error)}\nThis should not happen. Finished episodes are kept.${remedy}`);
    process.exit(1);
  }
  strays++;
  if (strays > shownStrays) return;
  const place = first === "" ? "" : ` (${shownPlace(first)})`;
  const last = strays === shownStrays ? " Further errors are only counted." : "";
  say(
    `Warning: environment "${module}" raised an error outside of its calls: ${messageOf(error)}${place}. The run continues, and the error is attributed to no ` +
      `episode knows of it; await promises, and catch what timers throw.${last}`,
  );
}

/** Addresses of the frames in files, the innermost first, each with line and column. */
function framesOf(error: unknown): readonly string[] {
  return [...stackOf(error).matchAll(/(?<![^\s(])(file:\/\/(?:[^\s(]|\((?!file:))+:\d+:\d+)\)?$/gm)].map(
    ([, frame = ""]) => frame,
  );
}

function stackOf(error: unknown): string {
  try {
    return error instanceof Error && typeof error.stack === "string" ? error.stack : messageOf(error);
  } catch {
    return messageOf(error);
  }
}

function shownPlace(frame: string): string {
  const [, url = "", place = ""] = /^(.*?)((?::\d+){2})$/.exec(frame) ?? [];
  return `${fileURLToPath(url)}${place}`;
}

/** Writes at once, because the process may be about to end. */
function say(text: string): void {
  try {
    writeSync(2, `\n${visible(watch?.redact(text) ?? text)}\n`);
  } catch {
    // Standard error is closed.
  }
}
