import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { humanUser } from "./human-user.ts";
import { testTask } from "./test-task.test-helper.ts";

/** A terminal at which a person has typed `typed` so far. */
function terminal(typed: string) {
  const input = new PassThrough();
  const output = new PassThrough({ encoding: "utf8" });
  input.write(typed);
  return { input, output, shown: () => String(output.read() ?? "") };
}

describe("humanUser()", () => {
  it("shows the instruction and the agent's words, and answers with what is typed", async () => {
    const desk = terminal("hello\nmy id is 7\n");
    const user = humanUser(desk).create(testTask(), { seed: 1 });
    expect((await user.open()).text).toBe("hello");
    expect(desk.shown()).toContain("Your instruction: Cancel my order.");
    expect((await user.reply("Who are you?")).text).toBe("my id is 7");
    expect(desk.shown()).toContain("agent (test/desk:test:0): Who are you?");
  });

  it("asks again for an empty line", async () => {
    const desk = terminal("\n   \nhello\n");
    const line = await humanUser(desk).create(testTask(), { seed: 1 }).open();
    expect(line.text).toBe("hello");
    expect(desk.shown().split("you (test/desk:test:0)> ").length - 1).toBe(3);
  });

  it("hangs up at /quit, at the stop marker and at the end of input", async () => {
    const quit = humanUser(terminal("/quit\n")).create(testTask(), { seed: 1 });
    expect(await quit.open()).toMatchObject({ type: "hang-up", text: "" });
    const marked = humanUser(terminal("thanks ###STOP###\n")).create(testTask(), { seed: 1 });
    expect(await marked.open()).toMatchObject({ type: "hang-up", text: "thanks ###STOP###" });
    const desk = terminal("last words");
    desk.input.end();
    const ended = humanUser(desk).create(testTask(), { seed: 1 });
    expect(await ended.open()).toMatchObject({ type: "utterance", text: "last words" });
    expect(await ended.reply("and?")).toMatchObject({ type: "hang-up", text: "" });
  });

  it("lets two episodes take turns without mixing their lines", async () => {
    const desk = terminal("one\ntwo\n");
    const source = humanUser(desk);
    const first = source.create(testTask({ id: "a" }), { seed: 1 });
    const second = source.create(testTask({ id: "b" }), { seed: 1 });
    const lines = await Promise.all([first.open(), second.open()]);
    expect(lines.map((line) => line.text)).toEqual(["one", "two"]);
    expect(desk.shown()).toMatch(/Task a[^]*you \(a\)> [^]*Task b[^]*you \(b\)> /);
  });

  it("gives up its question when cancelled, and the next one gets the line", async () => {
    const desk = terminal("");
    const source = humanUser(desk);
    const controller = new AbortController();
    const cancelled = source.create(testTask({ id: "a" }), { seed: 1 }).open({ signal: controller.signal });
    const refused = expect(cancelled).rejects.toMatchObject({ failure: { boundary: "user", code: "cancelled" } });
    controller.abort(new Error("over"));
    await refused;
    const next = source.create(testTask({ id: "b" }), { seed: 1 }).open();
    desk.input.write("for b\n");
    expect((await next).text).toBe("for b");
  });

  it.skipIf(process.stdin.isTTY)(
    "refuses a stdin that is not a terminal (skipped at a terminal: there it is one)",
    () => {
      expect(() => humanUser()).toThrow(ConfigurationError);
      expect(() => humanUser()).toThrow("stdin is not a terminal");
    },
  );
});
