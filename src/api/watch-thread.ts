// A thread that detects code of a user's module which never yields: then no timer fires and no
// Ctrl-C arrives in the main thread. It names the code and ends the process with exit code 70. Time
// counts only while this thread runs as well, so a suspended machine or a debugger does not accuse
// a module.

import { writeSync } from "node:fs";
import { type Debugger, Session } from "node:inspector";
import { fileURLToPath } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import { cell, labelStart, type WatchSetup } from "./watch-memory.ts";

const { memory, loopLimitMs, module, ownFiles, endExpression } = workerData as WatchSetup;
const cells = new Int32Array(memory);
const periodMs = Math.min(500, Math.max(20, loopLimitMs / 10));
/** The command that resumes the run; empty until there is a run to resume. */
let remedy = "";
parentPort?.on("message", (text: string) => {
  remedy = text;
});

let last = performance.now();
let sequence = 0;
let beat = 0;
let inCallMs = 0;
let silentMs = 0;
let isAsking = false;

setInterval(() => {
  const now = performance.now();
  // Bounds the elapsed time, so that a pause of the whole process hardly counts.
  const elapsed = Math.min(now - last, 2 * periodMs);
  last = now;
  const isSame = { call: cells[cell.sequence] === sequence, beat: cells[cell.heartbeat] === beat };
  sequence = cells[cell.sequence] ?? 0;
  beat = cells[cell.heartbeat] ?? 0;
  const isUsed = cells[cell.isDebugged] === 0 && !isAsking;
  inCallMs = isUsed && isSame.call && sequence % 2 === 1 ? inCallMs + elapsed : 0;
  silentMs = isUsed && isSame.beat ? silentMs + elapsed : 0;
  const limitMs = cells[cell.limitMs] ?? loopLimitMs;
  if (inCallMs > limitMs) accuse(label(), limitMs);
  else if (sequence % 2 === 0 && silentMs > loopLimitMs) accuse(null, loopLimitMs);
}, periodMs);

/** Name of the call in flight, which the main thread wrote before the call. */
function label(): string {
  // A copy, because text cannot be decoded from shared memory.
  return Buffer.from(new Uint8Array(memory, labelStart, cells[cell.labelLength])).toString("utf8");
}

/** `call`: the call that has not returned; `null` if the stack must show whether user code runs. */
function accuse(call: string | null, limitMs: number): void {
  isAsking = true;
  const urls = new Map<string, string>();
  const session = new Session();
  session.connectToMainThread();
  // Code that waits in the system, for example for a child process, cannot be paused.
  const giveUp = setTimeout(() => {
    if (call !== null) end(session, message(call, limitMs, null));
  }, 2000);
  session.on("Debugger.scriptParsed", ({ params }) => urls.set(params.scriptId, params.url));
  session.once("Debugger.paused", ({ params }) => {
    clearTimeout(giveUp);
    const place = placeOf(params.callFrames, urls);
    if (call !== null || place !== null) return end(session, message(call ?? "code", limitMs, place));
    // Long-running work of our own.
    session.post("Debugger.disable");
    session.disconnect();
    isAsking = false;
    silentMs = 0;
  });
  session.post("Debugger.enable");
  session.post("Debugger.pause");
}

/** The innermost place in a file outside this package. */
function placeOf(frames: readonly Debugger.CallFrame[], urls: ReadonlyMap<string, string>): string | null {
  for (const { functionName, location } of frames) {
    const url = urls.get(location.scriptId) ?? "";
    if (!url.startsWith("file:") || url.startsWith(ownFiles) || url.includes("/node_modules/")) continue;
    const place = `${fileURLToPath(url)}:${location.lineNumber + 1}:${(location.columnNumber ?? 0) + 1}`;
    return functionName === "" ? place : `${place} (${functionName})`;
  }
  return null;
}

function message(what: string, limitMs: number, place: string | null): string {
  const where = place === null ? "" : `, at ${place}`;
  return (
    `\nCannot continue: ${what} of environment "${module}" has not yielded for ${limitMs / 1000} seconds${where}. Nothing else can run ` +
    `meanwhile, so the program ends with exit code 70; finished episodes are kept. Fix the environment, or raise its time limit ` +
    `(--environment-timeout, --grading-timeout).${remedy}\n`
  );
}

function end(session: Session, text: string): void {
  // Standard error of this thread passes through the main thread, which is blocked.
  writeSync(2, text);
  session.post("Runtime.evaluate", { expression: endExpression });
  setTimeout(() => process.kill(process.pid, "SIGKILL"), 5000);
}
