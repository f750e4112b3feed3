import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { watchSignals } from "./signals.ts";

/** A process that receives signals, and reports their effects. */
function watch(...argv: readonly string[]) {
  const listeners = new Map<string, () => void>();
  const exits: number[] = [];
  let stderr = "";
  const signals = watchSignals(argv, {
    on: (name, listener) => listeners.set(name, listener),
    stderr: { write: (text) => (stderr += text) },
    exit: (code) => void exits.push(code),
  });
  /** Sends a signal, by default long enough after the previous one. */
  const send = (name: "SIGINT" | "SIGTERM", afterMs = 1000): string => {
    vi.advanceTimersByTime(afterMs);
    listeners.get(name)?.();
    return [signals.drain.aborted && "drain", signals.cancel.aborted && "cancel", ...exits].filter(Boolean).join(" ");
  };
  return { send, exits, exitCode: (code: number) => signals.exitCode(code), stderr: () => stderr };
}

describe("watchSignals()", () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "performance"] }));
  afterEach(() => vi.useRealTimers());

  it("drains, cancels and ends at SIGINT", () => {
    const { send } = watch("rollout");
    expect([send("SIGINT"), send("SIGINT"), send("SIGINT")]).toEqual(["drain", "drain cancel", "drain cancel 130"]);
  });

  it("cancels and ends at SIGTERM", () => {
    for (const command of ["rollout", "eval", "train", "view", "env-server", "engine", "start"]) {
      const { send } = watch(command);
      expect([send("SIGTERM"), send("SIGTERM")]).toEqual(["drain cancel", "drain cancel 143"]);
    }
  });

  it("drains first at SIGTERM where others wait for answers", () => {
    for (const command of ["serve", "gateway", "worker"]) {
      const { send, exits } = watch(command);
      expect([send("SIGTERM"), send("SIGTERM")]).toEqual(["drain", "drain cancel"]);
      // A command that does not end by itself is ended.
      vi.advanceTimersByTime(5000);
      expect(exits).toEqual([143]);
      expect(send("SIGTERM")).toBe("drain cancel 143 143");
    }
  });

  it("ends a cancelled command that hangs, and gives one that was sent SIGTERM once its time", () => {
    const twice = watch("rollout");
    twice.send("SIGINT");
    twice.send("SIGINT");
    vi.advanceTimersByTime(5000);
    expect(twice.exits).toEqual([130]);
    const once = watch("rollout");
    once.send("SIGTERM");
    vi.advanceTimersByTime(60_000);
    expect(once.exits).toEqual([]);
  });

  it("takes what arrives twice for one", () => {
    const { send } = watch("rollout");
    expect([send("SIGINT"), send("SIGINT", 100)]).toEqual(["drain", "drain"]);
    const terms = watch("gateway");
    expect([terms.send("SIGTERM"), terms.send("SIGTERM", 20), terms.send("SIGTERM")]).toEqual([
      ...["drain", "drain"],
      "drain cancel",
    ]);
  });

  it("ends what only reads at once", () => {
    for (const argv of [["inspect", "runs/x"], ["doctor"], ["tokens"], ["eval", "--from", "x"], ["eval", "--from=x"]]) {
      const reading = watch(...argv);
      expect([reading.send("SIGINT"), reading.stderr()]).toEqual(["130", "Interrupted.\n"]);
    }
    expect(watch("tokens").send("SIGTERM")).toBe("143");
  });

  it("says with the exit code that a signal came twice", () => {
    const { send, exitCode } = watch("gateway");
    send("SIGTERM");
    expect([exitCode(0), exitCode(130), exitCode(1)]).toEqual([0, 130, 1]);
    send("SIGTERM");
    expect([exitCode(0), exitCode(130), exitCode(1)]).toEqual([143, 143, 1]);
  });
});
